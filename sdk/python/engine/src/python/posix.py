"""The module `posix` of a system without files, processes and environment. `os` is built on it.

Invariant: what needs such a system raises an OSError that names the function; nothing is left out silently.
"""

import errno as _errno

import _duebox as _host

error = OSError
environ = {}
_have_functions = []


def _missing(name):
    def refuse(*arguments, **options):
        raise OSError(_errno.ENOSYS, f"os.{name} does not work in a Duebox handler, which has no files and no processes")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


for _name in """
    access chdir chmod chown close closerange copy_file_range device_encoding dup dup2 fchdir fchmod fchown fdatasync
    fpathconf fstat fstatvfs fsync ftruncate get_inheritable get_terminal_size isatty kill lchown link listdir lockf
    lseek lstat mkdir mkfifo mknod open pathconf pipe posix_fallocate pread pwrite read readlink readv remove rename
    replace rmdir scandir sendfile set_blocking set_inheritable stat statvfs symlink sync sysconf system truncate
    ttyname umask unlink utime waitpid waitstatus_to_exitcode write writev
""".split():
    globals()[_name] = _missing(_name)
del _name

O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NONBLOCK = 0, 1, 2, 64, 128, 512, 1024, 2048
F_OK, X_OK, W_OK, R_OK = 0, 1, 2, 4
WNOHANG = 1
EX_OK = 0


class stat_result(tuple):
    """What os.stat would return."""


class statvfs_result(tuple):
    """What os.statvfs would return."""


class DirEntry:
    """What os.scandir would return."""


class terminal_size(tuple):
    """What os.get_terminal_size would return."""

    columns = property(lambda self: self[0])
    lines = property(lambda self: self[1])


def urandom(size, /):
    if size < 0:
        raise ValueError("negative argument not allowed")
    return _host.random(size)


def getpid():
    return 1


def getppid():
    return 0


def getuid():
    return 0


getgid = geteuid = getegid = getuid


def getcwd():
    return "/"


def getcwdb():
    return b"/"


def cpu_count():
    return 1


def putenv(name, value, /):
    """`os.environ` is a dictionary that nothing else reads."""


def unsetenv(name, /):
    """See `putenv`."""


def strerror(code, /):
    return f"error {code}"


def get_blocking(fd, /):
    return True


def abort():
    raise SystemExit("os.abort")


def _exit(status):
    raise SystemExit(status)
