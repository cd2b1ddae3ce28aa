# expect: bad_verdict
from duebox import Verdict


class Mine(Verdict):
    kind = property(lambda self: 1 / 0)

    def __init__(self):
        pass


def handle(payload):
    return Mine()
