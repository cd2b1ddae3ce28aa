# expect: timeout
def handle(payload):
    while True:
        pass
