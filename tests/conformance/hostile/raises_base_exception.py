# expect: nack
def handle(payload):
    raise BaseException
