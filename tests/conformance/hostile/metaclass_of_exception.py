# expect: nack
# An exception whose type denies that it is one, and whose traceback and cause are computed.
class Meta(type):
    def __instancecheck__(cls, instance):
        raise RuntimeError("asked")

    __subclasscheck__ = __instancecheck__

    def __getattribute__(cls, name):
        raise AttributeError(name)


class Odd(BaseException, metaclass=Meta):
    __cause__ = property(lambda self: self)
    __context__ = property(lambda self: self)
    __traceback__ = property(lambda self: self)

    def __str__(self):
        return 7


def handle(payload):
    raise Odd()
