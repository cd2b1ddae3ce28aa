# expect: timeout
import itertools


def handle(payload):
    for _ in itertools.count():
        pass
