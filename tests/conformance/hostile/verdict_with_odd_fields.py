# expect: nack
from duebox import nack


def handle(payload):
    verdict = nack("a")
    verdict.wait = "soon"
    verdict.reason = object()
    return verdict
