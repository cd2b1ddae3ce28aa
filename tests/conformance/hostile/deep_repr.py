# expect: stack_overflow
class Deep:
    def __repr__(self):
        return repr([self, Deep()])


def handle(payload):
    repr(Deep())
