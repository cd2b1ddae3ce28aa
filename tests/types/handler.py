"""What the stubs of the SDK allow, and what they refuse: an expected error that does not come is an error."""

from datetime import datetime, timedelta

from duebox import Error, Verdict, ack, drop, http, job, kv, log, nack, push, random, result, snooze


def handle(order: dict[str, int]) -> Verdict | str | None:
    secret: str | None = job.secret("key", None)
    everything: str = job.config("all") + job.config("none", "") + (secret or "")
    response = http.get(job.config("shop"), {"id": order["id"]}, timeout=(3, 10))
    wait: float | None = response.retry_after
    log.info(response.status, response.headers["etag"], wait)
    counted: int = kv.add("a")
    read: str | None = kv.get("a")
    written: bool = kv.set("a", {"b": 1}, ttl=timedelta(minutes=1), only_if="absent")
    push("mail", {"all": everything, "read": read}, id="a", delay=5, priority="high", due_at=datetime.now())
    result(random(counted))
    try:
        http.post("http://shop", json=[written], auth=("a", "b"), allow_redirects=False).raise_for_status()
    except Error as error:
        return nack(error.code, retry_after=response.retry_after)
    if response.status == 409:
        return "drop"
    return response.verdict() if response.ok else snooze(timedelta(hours=1)) if wait else drop() if read else ack()


def refused() -> None:
    number: int = job.config("shop")  # type: ignore[assignment]
    push("mail", number, delayed=5)  # type: ignore[call-arg]
    nack("no", retry_after="5s")  # type: ignore[arg-type]
    job.id = "other"  # type: ignore[misc]
    text: str = kv.get_bytes("a")  # type: ignore[assignment]
    kv.set("a", text, only_if="never")  # type: ignore[arg-type]
    http.head("http://shop", {"a": 1})  # type: ignore[call-arg]
