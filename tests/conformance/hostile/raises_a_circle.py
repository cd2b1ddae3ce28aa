# expect: nack
def handle(payload):
    error = ValueError("a")
    error.__cause__ = error
    raise error
