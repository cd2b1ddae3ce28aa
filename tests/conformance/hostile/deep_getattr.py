# expect: stack_overflow
class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "a")


def handle(payload):
    Deep().a
