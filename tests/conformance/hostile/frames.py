# expect: ack
import sys


def handle(payload):
    frame = sys._getframe()
    while frame is not None:
        frame.f_globals.clear() if frame.f_globals.get("__name__") == "__main__" else None
        frame = frame.f_back
