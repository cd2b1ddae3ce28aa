# expect: out_of_memory
# The body of the class is executed in a namespace that never says that a name is missing.
class Endless(dict):
    def __missing__(self, name):
        return "x" * (1 << 20)

    def __setitem__(self, name, value):
        super().__setitem__(name, [value] * 8)
        for at in range(1 << 20):
            super().__setitem__(at, [self["missing"] + str(at)])


class Meta(type):
    @classmethod
    def __prepare__(meta, name, bases):
        return Endless()


def handle(payload):
    class Odd(metaclass=Meta):
        held = missing
