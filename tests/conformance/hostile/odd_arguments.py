# expect: ack
from duebox import http, kv, log, nack, push, result, snooze


def handle(payload):
    odd = [None, -1, float("nan"), float("inf"), 1 << 100, "\ud800", b"\xff", object(), [], {"a": 1}, "a\nb: c"]
    calls = [http.get, kv.get, kv.add, push, snooze, log.info, lambda value: nack(retry_after=value)]
    calls += [lambda value: kv.set("a", "b", ttl=value), lambda value: push("a", delay=value, headers={"a": value})]
    calls += [lambda value: http.get("http://127.0.0.1", timeout=value, headers={"a": value})]
    for call in calls:
        for value in odd:
            try:
                call(value)
            except Exception:
                pass
