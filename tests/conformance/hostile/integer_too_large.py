# expect: timeout
def handle(payload):
    n = 3
    while True:
        n = n * n % (1 << 2_000_000)
