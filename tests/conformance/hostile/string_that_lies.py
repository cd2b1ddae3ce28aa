# expect: bad_verdict
class Odd(str):
    def __eq__(self, other):
        raise ValueError

    __hash__ = str.__hash__

    def __repr__(self):
        return "odd"


class Meta(type):
    __name__ = property(lambda self: 1 / 0)


class Odder(metaclass=Meta):
    pass


def handle(payload):
    return [Odd("ack")]
