# expect: nack
import _duebox
import duebox
import _duebox_start


def handle(payload):
    duebox.Verdict = duebox._host = duebox._begin_job = None
    _duebox_start.describe = _duebox_start._text = None
    for name in dir(_duebox):
        setattr(_duebox, name, None)
    raise ValueError
