"""What the standard library expects of a system: clock, random numbers, output, time zones, an event loop.

`install` runs before any module of the handler. Modules that few handlers import are changed when they are imported.

Invariant: what was random while the program was loaded is drawn anew for each job (`begin_job`).
"""

import builtins
import io
import sys
import time
from _frozen_importlib import FrozenImporter

import _duebox as host

# --- clock ---

_REALTIME, _MONOTONIC = 0, 1
_NANOSECONDS = 1_000_000_000


class _ClockInfo:
    """What `time.get_clock_info` returns."""

    def __init__(self, adjustable, monotonic):
        self.implementation = "clock_time_get"
        self.adjustable = adjustable
        self.monotonic = monotonic
        self.resolution = 1e-6


def _clock(name, clock):
    """Sets the functions `name` and `name_ns` of the module `time`."""

    def nanoseconds():
        return host.clock(clock)

    def seconds():
        return host.clock(clock) / _NANOSECONDS

    setattr(time, name, seconds)
    setattr(time, f"{name}_ns", nanoseconds)


def _now_by_default(name):
    function = getattr(time, name)

    def call(seconds=None, /):
        return function(time.time() if seconds is None else seconds)

    setattr(time, name, call)


def _install_clock():
    _clock("time", _REALTIME)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        _clock(name, _MONOTONIC)
    for name in ("gmtime", "localtime", "ctime"):
        _now_by_default(name)
    strftime, asctime = time.strftime, time.asctime
    time.strftime = lambda format, value=None, /: strftime(format, time.localtime() if value is None else value)
    time.asctime = lambda value=None, /: asctime(time.localtime() if value is None else value)
    time.timezone = time.altzone = time.daylight = 0
    time.tzname = ("UTC", "UTC")
    time.tzset = lambda: None
    time.get_clock_info = lambda name, /: _ClockInfo(name == "time", name != "time")

    def sleep(seconds, /):
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        host.sleep(-int(-seconds * 1000 // 1))

    time.sleep = sleep


def _install_datetime():
    import _datetime

    def now(cls, tz=None):
        return cls.fromtimestamp(host.clock(_REALTIME) // 1000 / 1_000_000, tz)

    def utcnow(cls):
        return now(cls, _datetime.timezone.utc).replace(tzinfo=None)

    for function in (now, utcnow):
        host.set_class_attribute(_datetime.datetime, function.__name__, classmethod(function))


# --- numbers of errors ---

_ERRORS = """
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE
""".split()
_LATER_ERRORS = {
    "ENAMETOOLONG": 36, "ENOSYS": 38, "ENOTEMPTY": 39, "ELOOP": 40, "EPROTO": 71, "EOVERFLOW": 75, "ENOTSOCK": 88,
    "EDESTADDRREQ": 89, "EMSGSIZE": 90, "EPROTOTYPE": 91, "ENOPROTOOPT": 92, "EPROTONOSUPPORT": 93, "EOPNOTSUPP": 95,
    "ENOTSUP": 95, "EAFNOSUPPORT": 97, "EADDRINUSE": 98, "EADDRNOTAVAIL": 99, "ENETDOWN": 100, "ENETUNREACH": 101,
    "ECONNABORTED": 103, "ECONNRESET": 104, "ENOBUFS": 105, "EISCONN": 106, "ENOTCONN": 107, "ESHUTDOWN": 108,
    "ETIMEDOUT": 110, "ECONNREFUSED": 111, "EHOSTDOWN": 112, "EHOSTUNREACH": 113, "EALREADY": 114, "EINPROGRESS": 115,
    "ECANCELED": 125,
}


def _install_errors():
    """The numbers of Linux, which modules of the standard library name."""
    import errno

    for name, number in [*zip(_ERRORS, range(1, 100)), *_LATER_ERRORS.items()]:
        setattr(errno, name, number)
        errno.errorcode.setdefault(number, name)
    errno.EWOULDBLOCK = errno.EAGAIN


# --- output ---


class _Lines(io.TextIOBase):
    """Writes each line to the log of the job."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, level):
        self._level = level
        self._part = ""

    def writable(self):
        return True

    def write(self, text, /):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if "\n" in text:
            *lines, self._part = (self._part + text).split("\n")
            for line in lines:
                host.log(self._level, line.encode("utf-8", "replace"))
        else:
            self._part += text
        return len(text)

    def end(self):
        """Writes what was not ended by a line break."""
        if self._part:
            part, self._part = self._part, ""
            host.log(self._level, part.encode("utf-8", "replace"))


def _no_files(file, *arguments, **options):
    raise OSError(f"open({file!r}): a Duebox handler has no files")


# --- modules that are changed when they are imported ---

_generators = []
"""Weak references to the generators of random numbers that nothing but the system has seeded."""


def _change_random(module):
    from _weakref import ref

    seed_with = module.Random.seed

    def seed(self, a=None, version=2):
        known = [of for of in _generators if of() is not None and of() is not self]
        if a is None:
            known.append(ref(self))
            a = int.from_bytes(host.random(32))
        _generators[:] = known
        seed_with(self, a, version)

    module.Random.seed = seed
    module._inst.seed()
    module.seed = module._inst.seed


def _change_time_zones(module):
    def load_tzdata(key):
        file = host.time_zone(key.encode("utf-8", "replace"))
        if file is None:
            raise module.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(file)

    module.load_tzdata = load_tzdata


def _change_time_zone_paths(module):
    module.find_tzfile = lambda key: None
    module.available_timezones = lambda: set(host.time_zones())


def _change_logging(module):
    class JobHandler(module.Handler):
        """Writes records to the log of the job."""

        def emit(self, record):
            try:
                level = 0 if record.levelno >= 40 else 1 if record.levelno >= 30 else 2 if record.levelno >= 20 else 3
                host.log(level, self.format(record).encode("utf-8", "replace"))
            except RecursionError:
                raise
            except Exception:
                self.handleError(record)

    handler = JobHandler()
    module.root.addHandler(handler)
    module.root.setLevel(module.INFO)
    configure = module.basicConfig

    def basicConfig(**options):
        """As ever, but records go to the log of the job unless a stream, a file or handlers are named."""
        if {"stream", "filename", "handlers"} & options.keys():
            return configure(**options)
        if options.get("level") is not None:
            module.root.setLevel(options["level"])
        if "format" in options or "datefmt" in options:
            style = options.get("style", "%")
            handler.setFormatter(module.Formatter(options.get("format"), options.get("datefmt"), style))

    module.basicConfig = basicConfig


def _change_asyncio(module):
    class Waits:
        """Waits as a selector does, but only for the next timer."""

        def select(self, timeout):
            if timeout is None:
                raise RuntimeError("the handler awaits what nothing ends: no timer and no callback is left")
            if timeout > 0:
                time.sleep(timeout)
            return ()

        def close(self):
            pass

    class EventLoop(module.base_events.BaseEventLoop):
        """Timers and callbacks, without files and sockets."""

        def __init__(self):
            super().__init__()
            self._selector = Waits()

        def _process_events(self, events):
            pass

        def _write_to_self(self):
            pass

    module.new_event_loop = module.events.new_event_loop = EventLoop
    module.EventLoop = EventLoop


_CHANGES = {
    "asyncio": _change_asyncio,
    "logging": _change_logging,
    "random": _change_random,
    "zoneinfo._common": _change_time_zones,
    "zoneinfo._tzpath": _change_time_zone_paths,
}


class _Changing:
    """Loads a module as another loader does, and changes it."""

    def __init__(self, loader, change):
        self._loader = loader
        self._change = change

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        self._change(module)


class _Changes:
    """Finds the modules that are changed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        change = _CHANGES.get(name)
        spec = None if change is None else FrozenImporter.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _Changing(spec.loader, change)
        return spec


# --- the life of a program ---


def _install_platform():
    """The platform of Python that is most like this one. Its settings are looked for under its name."""
    import _sysconfigdata

    sys.platform = "wasi"
    multiarch = getattr(sys.implementation, "_multiarch", "")
    sys.modules[f"_sysconfigdata_{sys.abiflags}_{sys.platform}_{multiarch}"] = _sysconfigdata


def install():
    _install_platform()
    sys.builtin_module_names = (*sys.builtin_module_names, "posix")
    sys.argv = [""]
    sys.path[:] = []
    sys.meta_path.insert(0, _Changes)
    _install_errors()
    _install_clock()
    _install_datetime()
    sys.stdout = sys.__stdout__ = _Lines(2)
    sys.stderr = sys.__stderr__ = _Lines(1)
    builtins.open = io.open = _no_files


def begin_job():
    for generator in _generators.copy():
        found = generator()
        if found is not None:
            found.seed()


def end_job():
    sys.stdout.end() if type(sys.stdout) is _Lines else None
    sys.stderr.end() if type(sys.stderr) is _Lines else None
