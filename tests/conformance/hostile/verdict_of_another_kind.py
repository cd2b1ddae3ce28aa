# expect: bad_verdict
def handle(payload):
    return 42
