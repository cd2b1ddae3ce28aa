# expect: timeout
import threading


def handle(payload):
    def run():
        while True:
            pass

    threading.Thread(target=run, daemon=True).start()
