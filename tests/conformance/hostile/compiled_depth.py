# expect: nack
def handle(payload):
    eval("(" * 100_000 + ")" * 100_000)
