# expect: out_of_memory
def handle(payload):
    found = b"a"
    while True:
        found += found
