"""Calls a service of the host with what the payload names, and returns what came back."""

from datetime import datetime, timezone

from duebox import http, job, kv, push, result


def exchange(url, method, headers, body):
    response = http.request(method, url, headers=headers, data=None if body is None else bytes(body))
    return {
        "status": response.status,
        "retryAfter": response.retry_after,
        "verdict": response.verdict().kind,
        "headers": response.headers.items(),
        "content": list(response.content),
    }


def store(key, value):
    written = kv.set(key, bytes(value))
    text = kv.get(key)
    return {
        "written": written,
        "value": list(kv.get_bytes(key)),
        "text": text,
        "gone": kv.delete(key) and kv.get_bytes(key) is None,
    }


def settings(names):
    return [job.config(name) for name in names]


def push_job(topic, payload, options):
    options["max_attempts"] = options.pop("maxAttempts", None)
    if "dueAt" in options:
        options["due_at"] = datetime.fromtimestamp(options.pop("dueAt") / 1000, timezone.utc)
    for name in ("delay", "ttr", "ttl"):
        if name in options:
            options[name] /= 1000
    push(topic, payload, **options)


TASKS = {"exchange": exchange, "store": store, "settings": settings, "headers": lambda: job.headers, "push": push_job}


def handle(payload):
    task = TASKS[payload.pop("task")]
    result(task(**payload))
