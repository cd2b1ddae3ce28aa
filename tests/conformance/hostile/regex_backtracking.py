# expect: timeout
import re


def handle(payload):
    re.match(r"(a+)+$", "a" * 60 + "b")
