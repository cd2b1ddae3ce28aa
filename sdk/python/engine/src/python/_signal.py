"""The module `_signal` of a system without signals, for the modules of the standard library that import it."""

SIGINT, SIGABRT, SIGFPE, SIGKILL, SIGSEGV, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD = 2, 6, 8, 9, 11, 13, 14, 15, 17
SIG_DFL, SIG_IGN = 0, 1
NSIG = 65


def signal(number, handler, /):
    raise OSError("a Duebox handler has no signals")


def getsignal(number, /):
    return SIG_DFL


def raise_signal(number, /):
    raise OSError("a Duebox handler has no signals")


def default_int_handler(number, frame, /):
    raise KeyboardInterrupt


def set_wakeup_fd(fd, /, *, warn_on_full_buffer=True):
    return -1


def siginterrupt(number, flag, /):
    """There are no system calls to interrupt."""


def strsignal(number, /):
    return None


def valid_signals():
    return {SIGINT, SIGTERM}
