# expect: nack
import builtins
import json


def handle(payload):
    for name in ("len", "isinstance", "str", "type", "print", "callable", "__import__"):
        setattr(builtins, name, None)
    json.loads = json.dumps = None
