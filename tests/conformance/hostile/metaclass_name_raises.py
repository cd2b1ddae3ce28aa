# expect: nack
# The name of the exception's type raises: nothing of it can be shown.
class Meta(type):
    @property
    def __name__(cls):
        raise cls()


class Odd(Exception, metaclass=Meta):
    pass


def handle(payload):
    raise Odd()
