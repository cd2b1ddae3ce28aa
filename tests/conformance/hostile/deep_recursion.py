# expect: stack_overflow
def deep(n):
    return deep(n + 1) + 1


def handle(payload):
    deep(0)
