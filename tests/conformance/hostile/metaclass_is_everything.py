# expect: bad_verdict
# Its instances say that they are of any type, and equal to all.
class Meta(type):
    def __instancecheck__(cls, instance):
        return True

    def __subclasscheck__(cls, subclass):
        return True

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(str)


class Odd(metaclass=Meta):
    __class__ = property(lambda self: dict)

    def __eq__(self, other):
        return True


def handle(payload):
    return Odd()
