# expect: trap
import _duebox


def handle(payload):
    _duebox.random(4_000_000_000)
