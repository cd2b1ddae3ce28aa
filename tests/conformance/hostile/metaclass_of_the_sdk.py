# expect: ack
# The types of the SDK get another metaclass, base or attributes, as far as Python allows: a nack says that it is an ack.
# It is the verdict of this job only.
import duebox


class Meta(type):
    def __call__(cls, *arguments):
        return "ack"


def handle(payload):
    for kind in (duebox.Verdict, duebox.Error, type(duebox.http), type(duebox.kv), type(duebox.job)):
        for change in (
            lambda: setattr(kind, "__class__", Meta),
            lambda: setattr(kind, "__bases__", (Meta,)),
            lambda: setattr(kind, "kind", "ack"),
            lambda: type.__setattr__(kind, "__new__", lambda *arguments: "ack"),
        ):
            try:
                change()
            except (TypeError, AttributeError):
                pass
    return duebox.nack("no")
