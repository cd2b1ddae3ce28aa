# expect: nack
class Odd(Exception):
    def __str__(self):
        raise self


def handle(payload):
    raise Odd
