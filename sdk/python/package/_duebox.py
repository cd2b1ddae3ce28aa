"""The host of a handler in a unit test: what the daemon would do for a job, in memory.

In the sandbox the module of this name is part of the engine. A call that is refused returns a number, as
docs/reference/abi.md has it.
"""

import os
import time

_NOT_FOUND, _DENIED, _INVALID, _TOO_LARGE, _CONFLICT = -1, -2, -3, -4, -7
_REFUSALS = {"denied": _DENIED, "invalid": _INVALID, "timeout": -5, "unavailable": -6}
_LEVELS = ("error", "warn", "info", "debug", "trace")
_RESULT_MAX = 64 << 10

current = None
"""The job that runs, a `duebox_testing.Report` with what the test gives it."""


def _fields(lines):
    pairs = (line.partition(": ") for line in lines if line)
    return {name: value for name, _, value in pairs}


def meta(key):
    return current._meta.get(key)


def number(key):
    if key == 9:
        return max(0, current._meta[6] - time.time_ns() // 1_000_000)
    return current._meta[key]


def config(name):
    value = current._config.get(name.decode())
    return None if value is None else str(value).encode()


def random(length):
    return os.urandom(length)


def retry_after(ms):
    current.retry_after = ms / 1000


def snooze(ms):
    current.snooze = ms / 1000


def reason(text):
    current.reason = text.decode()


def result(value):
    if len(value) > _RESULT_MAX:
        return _TOO_LARGE
    current.result = value.decode("utf-8", "replace")
    return 0


def log(level, line):
    if current is not None:
        current.log.append((_LEVELS[level], line.decode()))


def send(head, body, timeout_ms):
    line, *lines = head.decode().split("\n")
    method, url = line.split(" ", 1)
    request = {"method": method, "url": url, "headers": _fields(lines), "body": bytes(body), "timeout": timeout_ms / 1000}
    current.requests.append(request)
    if current._http is None:
        current._response = (b"", b"", b"the test gives no http")
        return _DENIED
    answer = current._http(request)
    if isinstance(answer, str):
        current._response = (b"", b"", answer.encode())
        return _REFUSALS.get(answer, -6)
    status, content, headers = answer if isinstance(answer, tuple) else (answer, b"", {})
    head = "".join(f"{name}: {value}\n" for name, value in headers.items())
    current._response = (head.encode(), content.encode() if isinstance(content, str) else content, b"")
    return status


def response(part):
    return current._response[part]


def kv_get(key):
    found = current.kv.get(key.decode())
    current._seen[key] = found
    if found is None:
        return _NOT_FOUND
    return found if isinstance(found, bytes) else str(found).encode()


def kv_set(key, value, ttl_ms, mode):
    name = key.decode()
    if mode == 1 and name in current.kv or mode == 2 and current.kv.get(name) != current._seen.get(key):
        return _CONFLICT
    current.kv[name] = current._seen[key] = bytes(value)
    return 0


def kv_delete(key):
    return _NOT_FOUND if current.kv.pop(key.decode(), None) is None else 0


def kv_add(key, delta):
    try:
        total = int(current.kv.get(key.decode(), 0)) + delta
    except ValueError:
        return _INVALID, 0
    current.kv[key.decode()] = str(total).encode()
    return 0, total


def push(head, body):
    options = _fields(head.decode().split("\n"))
    current.pushed.append((options.pop("topic"), bytes(body).decode("utf-8", "replace"), options))
    return 0


def sleep(ms):
    time.sleep(ms / 1000)


def clock(which):
    return time.time_ns() if which == 0 else time.monotonic_ns()
