# expect: ack
def handle(payload):
    for _ in range(20_000):
        print("x" * 100)
