# expect: out_of_memory
def handle(payload):
    "a" * (1 << 30)
