# expect: timeout
def handle(payload):
    exec("while True: pass")
