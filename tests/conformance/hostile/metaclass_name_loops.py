# expect: timeout
# The name of the returned object's type is computed by the program, and never comes.
class Meta(type):
    @property
    def __name__(cls):
        while True:
            pass


class Odd(metaclass=Meta):
    pass


def handle(payload):
    return Odd()
