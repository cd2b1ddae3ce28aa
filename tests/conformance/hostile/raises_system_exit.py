# expect: nack
import sys


def handle(payload):
    sys.exit(0)
