"""The SDK of Python handlers: the job, its verdict, and what its topic grants.

Times are in seconds, as in the standard library; a `timedelta` works too.
"""

import json as _json
from datetime import datetime as _datetime
from datetime import timedelta as _timedelta
from datetime import timezone as _timezone

import _duebox as _host

__all__ = [
    "Error", "Verdict", "ack", "drop", "http", "job", "kv", "log", "nack", "push", "random", "result", "snooze",
]

_CODES = {
    -1: "not_found", -2: "denied", -3: "invalid", -4: "too_large", -5: "timeout", -6: "unavailable", -7: "conflict",
}

_has_job = False


def _begin_job():
    global _has_job
    _has_job = True


def _call(function, *arguments):
    """Calls the host. There is no job while the handler is loaded."""
    if not _has_job:
        raise RuntimeError("there is no job while the handler is loaded; do this in the handler")
    return function(*arguments)


class Error(Exception):
    """A call that the host refused. `code` is for programs, the message for people."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _refuse(code, messages):
    name = _CODES.get(code, "unknown")
    raise Error(name, messages.get(code, name))


def _text(value):
    return str(value).encode("utf-8", "replace")


def _body(value):
    """Bytes and text as they are, None as nothing, other values as JSON."""
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return _to_json(value)


def _to_json(value):
    return _json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


_MILLISECONDS_MAX = 1 << 62


def _milliseconds(name, seconds):
    if isinstance(seconds, _timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise ValueError(f"{name} takes seconds, 0 or more, not {seconds!r}")
    return int(min(seconds * 1000 + 0.5, _MILLISECONDS_MAX))


# --- verdicts ---


class Verdict:
    """What `ack`, `nack`, `drop` and `snooze` return."""

    __slots__ = ("kind", "reason", "wait")

    def __init__(self, kind, reason="", wait=None):
        self.kind = kind
        self.reason = str(reason)
        self.wait = wait

    def __repr__(self):
        return f"{self.kind}({self.reason!r})"


def ack():
    """Done."""
    return Verdict("ack")


def nack(reason="", *, retry_after=None):
    """Failed; tried again after `retry_after`, or else after the backoff, while attempts are left."""
    return Verdict("nack", reason, None if retry_after is None else _milliseconds("retry_after", retry_after))


def drop(reason=""):
    """Dead at once."""
    return Verdict("drop", reason)


def snooze(wait, reason=""):
    """Not a failure: the job comes back after the wait, and no attempt is spent."""
    return Verdict("snooze", reason, _milliseconds("snooze", wait))


# --- the job ---


def _pairs(block):
    """Lines `name: value` as pairs."""
    lines = block.decode("utf-8", "replace").split("\n")
    return [(name, value) for name, colon, value in (line.partition(": ") for line in lines) if colon]


def _time(key):
    return _datetime.fromtimestamp(_call(_host.number, key) / 1000, _timezone.utc)


_REQUIRED = object()


def _meta(key):
    return (_call(_host.meta, key) or b"").decode("utf-8", "replace")


class _Job:
    """The job that runs."""

    __slots__ = ()

    id = property(lambda self: _meta(1))
    topic = property(lambda self: _meta(2))
    attempt = property(lambda self: _call(_host.number, 3), doc="From 1.")
    max_attempts = property(lambda self: _call(_host.number, 4))
    is_last_attempt = property(lambda self: self.attempt >= self.max_attempts)
    due_at = property(lambda self: _time(5))
    deadline = property(lambda self: _time(6), doc="When this attempt ends.")
    time_left = property(lambda self: _call(_host.number, 9) / 1000, doc="Seconds until then.")
    headers = property(lambda self: dict(_pairs(_call(_host.meta, 7) or b"")))

    def config(self, name, default=_REQUIRED):
        """A value of `sandbox.config` or `sandbox.secrets`, as text."""
        value = _call(_host.config, _text(name))
        if value is not None:
            return value.decode("utf-8", "replace")
        if default is not _REQUIRED:
            return default
        raise KeyError(f"config {name!r} is not set; add it to sandbox.config or sandbox.secrets of the topic")

    secret = config

    def push(self, topic, payload=None, **options):
        push(topic, payload, **options)

    def result(self, value):
        result(value)


job = _Job()


def result(value):
    """Keeps a result with the acked job, at most 64 KiB."""
    code = _call(_host.result, _body(value))
    if code != 0:
        _refuse(code, {-4: "the result is longer than 64 KiB"})


_PUSH_ERRORS = {
    -2: "the handler may not push to this topic; sandbox.push grants it",
    -3: "the follow-up has an invalid name or value",
    -4: "there are over 100 follow-ups, over 4 MiB of them, or one has a head over 16 KiB",
}


def _line(name, value):
    """One line of a head. A line break or a separator in it could add another option."""
    line = f"{name}: {value}"
    if ": " in str(name) or any(letter < " " or letter == "\x7f" for letter in line):
        _refuse(-3, _PUSH_ERRORS)
    return line + "\n"


def _due_at(value):
    return round(value.timestamp() * 1000) if isinstance(value, _datetime) else round(value * 1000)


def push(
    topic, payload=None, *, id=None, delay=None, due_at=None, ttr=None, max_attempts=None, ttl=None, priority=None,
    key=None, headers=None,
):
    """Pushes a follow-up job with the ack of this job, or not at all."""
    lines = [_line("topic", topic)]
    for name, value in (("delay", delay), ("ttr", ttr), ("ttl", ttl)):
        if value is not None:
            lines.append(_line(f"{name}-ms", _milliseconds(name, value)))
    if due_at is not None:
        lines.append(_line("due-at-ms", _due_at(due_at)))
    for name, value in (("id", id), ("max-attempts", max_attempts), ("priority", priority), ("key", key)):
        if value is not None:
            lines.append(_line(name, value))
    for name, value in ({} if headers is None else headers).items():
        lines.append(_line(f"h.{name}", value))
    code = _call(_host.push, _text("".join(lines)), _body(payload))
    if code != 0:
        _refuse(code, _PUSH_ERRORS)


def random(length):
    """Random bytes."""
    return _host.random(length)


# --- log ---


def _writer(level, name):
    def write(*values):
        _host.log(level, _text(" ".join(map(str, values))))

    write.__name__ = name
    return staticmethod(write)


class _Log:
    """Lines of the job's log by level."""

    __slots__ = ()

    error = _writer(0, "error")
    warn = warning = _writer(1, "warn")
    info = _writer(2, "info")
    debug = _writer(3, "debug")
    trace = _writer(4, "trace")


log = _Log()

# --- key-value store ---

_KV_ERRORS = {
    -2: "the store is not granted; set `kv = true` in the topic's sandbox",
    -3: "a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is a 64-bit integer",
    -4: "the value is over 64 KiB, or the topic's store is full",
    -6: "the topic's store cannot be reached",
}

_KV_MODES = {None: 0, "absent": 1, "unchanged": 2}


class _Store:
    """The store that all jobs of the topic share."""

    __slots__ = ()

    def get_bytes(self, key, default=None):
        found = _call(_host.kv_get, _text(key))
        if type(found) is bytes:
            return found
        return default if found == -1 else _refuse(found, _KV_ERRORS)

    def get(self, key, default=None):
        found = self.get_bytes(key)
        return default if found is None else found.decode("utf-8", "replace")

    def get_json(self, key, default=None):
        found = self.get_bytes(key)
        return default if found is None else _json.loads(found)

    def set(self, key, value, *, ttl=None, only_if=None):
        """Returns whether it was written: only_if="absent" and only_if="unchanged" may forbid it."""
        if only_if not in _KV_MODES:
            raise ValueError('kv.set: only_if can be "absent" or "unchanged"')
        wait = 0 if ttl is None else _milliseconds("ttl", ttl)
        code = _call(_host.kv_set, _text(key), _body(value), wait, _KV_MODES[only_if])
        return code == 0 or (code != -7 and _refuse(code, _KV_ERRORS))

    def delete(self, key):
        """Returns whether there was a value."""
        code = _call(_host.kv_delete, _text(key))
        return code == 0 or (code != -1 and _refuse(code, _KV_ERRORS))

    def add(self, key, delta=1):
        """Adds to a number, 0 if there is none, and returns the sum."""
        if not isinstance(delta, int) or not -(1 << 63) <= delta < 1 << 63:
            _refuse(-3, _KV_ERRORS)
        code, total = _call(_host.kv_add, _text(key), delta)
        return total if code == 0 else _refuse(code, _KV_ERRORS)


kv = _Store()

from _duebox_http import http  # noqa: E402: it needs what is above
