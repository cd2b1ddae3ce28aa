"""Runs a handler in CPython, as a unit test does.

    from duebox_testing import run
    import report

    def test_a_busy_server_is_tried_again():
        ran = run(report, {"id": 7}, config={"reports": "https://reports.example"}, http=lambda request: 429)
        assert (ran.verdict, ran.reason) == ("nack", "busy")

What runs is CPython with its library: limits, grants and what the engine lacks show in `duebox invoke`.
"""

import asyncio
import inspect
import json
import time

import _duebox
import duebox

__all__ = ["Report", "run"]

_TIME_MS = 60_000


class Report:
    """How a run ended, and what the handler did."""

    def __init__(self, config, http, kv, job):
        self.verdict = "nack"
        """"ack", "nack", "drop", "snooze"; "bad_verdict" if the handler returned what is not a verdict."""
        self.reason = ""
        self.retry_after = self.snooze = self.result = self.error = None
        self.pushed = []
        """Topic, payload and options of each follow-up."""
        self.log = []
        """Level and text of each line."""
        self.requests = []
        self.kv = {} if kv is None else kv
        self._config, self._http = config or {}, http
        self._seen, self._response = {}, (b"", b"", b"")
        self._meta = _meta(**(job or {}))

    def __repr__(self):
        return f"<Report {self.verdict} {self.reason!r}>"


def _meta(id="1", topic="test", attempt=1, max_attempts=8, due_at=None, headers=None):
    now = time.time_ns() // 1_000_000
    lines = "".join(f"{name}: {value}\n" for name, value in (headers or {}).items())
    due = now if due_at is None else round(due_at.timestamp() * 1000)
    return {
        1: id.encode(), 2: topic.encode(), 3: attempt, 4: max_attempts, 5: due, 6: now + _TIME_MS, 7: lines.encode(),
    }


def run(handler, payload=None, *, config=None, http=None, kv=None, job=None):
    """Runs a handler, or the module of one, on a payload.

    `config` has what `sandbox.config` and `sandbox.secrets` would have. `http` gets each request as a dictionary
    (`method`, `url`, `headers`, `body`, `timeout`) and returns a status; status, body and headers; or the code of a
    refusal: "denied", "invalid", "timeout", "unavailable". Without it requests are denied. `kv` is a dictionary, which
    the run changes. `job` may have `id`, `topic`, `attempt`, `max_attempts`, `due_at` and `headers`.
    """
    if _duebox.current is not None:
        raise RuntimeError("a handler runs already; one run follows the other")
    handle = handler if callable(handler) else handler.handle
    kind = "json" if callable(handler) else getattr(handler, "payload", "json")
    report = Report(config, http, kv, job)
    _duebox.current, duebox._has_job = report, True
    try:
        returned = handle(_payload(payload, kind))
        if inspect.iscoroutine(returned):
            returned = asyncio.run(returned)
        _conclude(report, returned)
    except Exception as error:
        report.error, report.reason = error, f"{type(error).__name__}: {error}"
    finally:
        _duebox.current, duebox._has_job = None, False
    if report.verdict != "ack":
        # What an attempt that fails would have pushed or returned is not kept.
        report.pushed, report.result = [], None
    return report


def _payload(payload, kind):
    """The payload as the daemon gives it."""
    if kind == "text":
        return payload if isinstance(payload, str) else json.dumps(payload)
    if kind == "bytes":
        return payload if isinstance(payload, bytes) else str(payload).encode()
    return None if payload is None else json.loads(json.dumps(payload))


def _conclude(report, returned):
    if returned is None or returned in ("ack", "drop"):
        report.verdict = returned or "ack"
    elif isinstance(returned, duebox.Verdict):
        report.verdict, report.reason = returned.kind, returned.reason
        wait = None if returned.wait is None else returned.wait / 1000
        if returned.kind == "snooze":
            report.snooze = wait
        else:
            report.retry_after = wait
    else:
        report.verdict = "bad_verdict"
        report.reason = f"the handler returned {returned!r}"
