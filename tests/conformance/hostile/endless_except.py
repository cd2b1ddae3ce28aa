# expect: timeout
def handle(payload):
    while True:
        try:
            raise ValueError
        except BaseException:
            pass
