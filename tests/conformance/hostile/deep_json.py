# expect: stack_overflow
import json


def handle(payload):
    json.loads("[" * 100_000)
