# expect: out_of_memory
def handle(payload):
    found = []
    while True:
        found.append([1] * 1000)
