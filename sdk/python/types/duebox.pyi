"""Types of the module that the daemon provides to Python handlers. Times are in seconds; a `timedelta` works too."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, overload

__all__ = [
    "Error", "Verdict", "ack", "drop", "http", "job", "kv", "log", "nack", "push", "random", "result", "snooze",
]

_Seconds = float | timedelta
_Pairs = Mapping[str, Any] | Sequence[tuple[str, Any]]
_Fallback = TypeVar("_Fallback")

class Error(Exception):
    """A call that the host refused. `code` is for programs, the message for people."""

    code: Literal["not_found", "denied", "invalid", "too_large", "timeout", "unavailable", "conflict", "status", "unknown"]
    def __init__(self, code: str, message: str) -> None: ...

class Verdict:
    """What `ack`, `nack`, `drop` and `snooze` return."""

    kind: Literal["ack", "nack", "drop", "snooze"]
    reason: str
    wait: int | None
    def __init__(self, kind: str, reason: object = "", wait: int | None = None) -> None: ...

def ack() -> Verdict:
    """Done."""

def nack(reason: object = "", *, retry_after: _Seconds | None = None) -> Verdict:
    """Failed; tried again after `retry_after`, or else after the backoff, while attempts are left."""

def drop(reason: object = "") -> Verdict:
    """Dead at once."""

def snooze(wait: _Seconds, reason: object = "") -> Verdict:
    """Not a failure: the job comes back after the wait, and no attempt is spent."""

def push(
    topic: str,
    payload: Any = None,
    *,
    id: str | None = None,
    delay: _Seconds | None = None,
    due_at: datetime | float | None = None,
    ttr: _Seconds | None = None,
    max_attempts: int | None = None,
    ttl: _Seconds | None = None,
    priority: Literal["high", "normal", "low"] | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Pushes a follow-up job with the ack of this job, or not at all. Grant: `sandbox.push`."""

def result(value: Any) -> None:
    """Keeps a result with the acked job, at most 64 KiB."""

def random(length: int) -> bytes:
    """Random bytes."""

class _Job:
    @property
    def id(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def attempt(self) -> int:
        """From 1."""
    @property
    def max_attempts(self) -> int: ...
    @property
    def is_last_attempt(self) -> bool: ...
    @property
    def due_at(self) -> datetime: ...
    @property
    def deadline(self) -> datetime:
        """When this attempt ends."""
    @property
    def time_left(self) -> float:
        """Seconds until then."""
    @property
    def headers(self) -> dict[str, str]: ...
    @overload
    def config(self, name: str) -> str:
        """A value of `sandbox.config` or `sandbox.secrets`, as text; KeyError if there is none."""
    @overload
    def config(self, name: str, default: _Fallback) -> str | _Fallback: ...
    @overload
    def secret(self, name: str) -> str: ...
    @overload
    def secret(self, name: str, default: _Fallback) -> str | _Fallback: ...
    def push(self, topic: str, payload: Any = None, **options: Any) -> None: ...
    def result(self, value: Any) -> None: ...

job: _Job

class _Log:
    @staticmethod
    def error(*values: object) -> None: ...
    @staticmethod
    def warn(*values: object) -> None: ...
    @staticmethod
    def warning(*values: object) -> None: ...
    @staticmethod
    def info(*values: object) -> None: ...
    @staticmethod
    def debug(*values: object) -> None: ...
    @staticmethod
    def trace(*values: object) -> None: ...

log: _Log

class _Store:
    """The store that all jobs of the topic share. Grant: `kv = true`."""

    @overload
    def get(self, key: str) -> str | None: ...
    @overload
    def get(self, key: str, default: _Fallback) -> str | _Fallback: ...
    @overload
    def get_bytes(self, key: str) -> bytes | None: ...
    @overload
    def get_bytes(self, key: str, default: _Fallback) -> bytes | _Fallback: ...
    def get_json(self, key: str, default: Any = None) -> Any: ...
    def set(
        self, key: str, value: Any, *, ttl: _Seconds | None = None, only_if: Literal["absent", "unchanged"] | None = None
    ) -> bool:
        """Returns whether it was written: only_if="absent" and only_if="unchanged" may forbid it."""
    def delete(self, key: str) -> bool:
        """Returns whether there was a value."""
    def add(self, key: str, delta: int = 1) -> int:
        """Adds to a number, 0 if there is none, and returns the sum."""

kv: _Store

class _Headers:
    """Headers by name, in any case."""

    def get_all(self, name: str) -> list[str]: ...
    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: _Fallback) -> str | _Fallback: ...
    def items(self) -> list[tuple[str, str]]: ...
    def __getitem__(self, name: str) -> str: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class _Response:
    """The response of a server."""

    status: int
    status_code: int
    headers: _Headers
    content: bytes
    url: str
    @property
    def ok(self) -> bool:
        """Whether it is 2xx."""
    @property
    def text(self) -> str: ...
    def json(self) -> Any: ...
    def raise_for_status(self) -> None: ...
    @property
    def retry_after(self) -> float | None:
        """The seconds that the server asks to wait; None if it asks for nothing."""
    def verdict(self) -> Verdict:
        """2xx is an ack; 408, 429 and 5xx a nack with `retry_after`; another 4xx a drop; the rest a nack."""

class _HTTPError(Error):
    """What `raise_for_status` raises."""

    response: _Response

class _Http:
    """Requests to the origins that `sandbox.http` grants. They wait one after the other.

    All methods take the options of `request`.
    """

    Headers: type[_Headers]
    HTTPError: type[_HTTPError]
    Response: type[_Response]

    def get(self, url: str, params: _Pairs | str | None = None, **options: Any) -> _Response: ...
    def head(self, url: str, **options: Any) -> _Response: ...
    def delete(self, url: str, **options: Any) -> _Response: ...
    def options(self, url: str, **options: Any) -> _Response: ...
    def post(self, url: str, data: Any = None, json: Any = None, **options: Any) -> _Response: ...
    def put(self, url: str, data: Any = None, json: Any = None, **options: Any) -> _Response: ...
    def patch(self, url: str, data: Any = None, json: Any = None, **options: Any) -> _Response: ...
    def request(
        self,
        method: str,
        url: str,
        *,
        params: _Pairs | str | None = None,
        data: Any = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: _Seconds | tuple[_Seconds | None, _Seconds | None] | None = None,
        allow_redirects: bool = True,
        max_redirects: int | None = None,
    ) -> _Response: ...

http: _Http
