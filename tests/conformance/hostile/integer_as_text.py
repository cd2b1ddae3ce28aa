# expect: nack
def handle(payload):
    str(10 ** 10_000)
