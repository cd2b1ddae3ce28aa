"""Runs the steps of a conformance case with the SDK of Python alone.

The steps are in the header `script`, separated by `; `; `tests/conformance/README.md` describes each.

Invariant: echo-rust, echo-go, echo-as and echo-js log the same text for every step.
"""

import json
import time

from duebox import Error, drop, job, log, nack, random, result, snooze

payload = "bytes"


def handle(body):
    script = job.headers.get("script")
    for line in script.split("; ") if script is not None else ():
        step, _, rest = line.partition(" ")
        verdict = verdict_of(step, rest) or read(body, step, rest)
        if verdict is not None:
            return verdict


def verdict_of(step, rest):
    """Runs the steps that end the attempt."""
    first, _, reason = rest.partition(" ")
    match step:
        case "ack":
            return "ack"
        case "nack":
            return nack(rest)
        case "drop":
            return drop(rest)
        case "retry":
            return nack(reason, retry_after=int(first) / 1000)
        case "snooze":
            return snooze(int(first) / 1000, reason)
        case "error" | "panic":
            raise RuntimeError(rest)


def read(body, step, rest):
    """Runs the steps that read something and log it; a verdict ends the attempt."""
    match step:
        case "payload":
            log.info(f"payload {len(body)} {body.hex()}")
        case "part":
            offset, length = map(int, rest.split(" "))
            part = body[offset : offset + length]
            log.info(f"part {len(part)} {part.hex()}")
        case "sum":
            log.info(f"sum {len(body)} {checksum(body)}")
        case "text":
            return text(body)
        case "syntax":
            log.info(f"syntax {'true' if parse(body) is not None else 'false'}")
        case "json":
            return read_json(parse(body))
        case "meta":
            log.info(
                f"meta id={job.id} topic={job.topic} attempt={job.attempt} max_attempts={job.max_attempts} "
                f"last={written(job.is_last_attempt)} due_at={round(job.due_at.timestamp() * 1000)}"
            )
        case "times":
            times()
        case "headers":
            for name, value in sorted(job.headers.items()):
                if name != "script":
                    log.info(f"header {name}={value}")
        case "header":
            show("header", rest, job.headers.get(rest))
        case "config":
            show("config", rest, job.config(rest, None))
        case "int" | "float" | "bool":
            return read_config(step, rest, job.config(rest, None))
        case "result":
            return keep(rest)
        case "result-size":
            return keep("x" * int(rest))
        case "log":
            return write(*rest.partition(" ")[::2])
        case "random":
            log.info(f"random differs={written(random(16) != random(16))}")
        case _:
            return drop(f'unknown step "{step}"')


def text(body):
    try:
        log.info(f"text {body.decode()}")
    except UnicodeDecodeError:
        return drop("the payload is not UTF-8")


def refuse(name):
    raise ValueError(f"{name} is not JSON")


def parse(body):
    """The value of the payload in a list; None if it is not JSON."""
    try:
        return [json.loads(body.decode(), parse_constant=refuse)]
    except (ValueError, RecursionError):
        return None


def read_json(parsed):
    if parsed is None:
        return drop("the payload is not JSON")
    item = parsed[0] if isinstance(parsed[0], dict) else {}
    name, count, price, on, tags = (item.get(key) for key in ("name", "count", "price", "on", "tags"))
    fits = (
        isinstance(name, str)
        and type(count) is int
        and type(price) in (int, float)
        and isinstance(on, bool)
        and isinstance(tags, list)
        and all(isinstance(tag, str) for tag in tags)
    )
    if not fits:
        return drop("a field is missing or has another type")
    log.info(f"json name={name} count={count} price={price} on={written(on)} tags={'|'.join(tags)}")


def times():
    due, now, deadline = job.due_at.timestamp(), time.time(), job.deadline.timestamp()
    left = job.time_left > 0 and now + job.time_left <= deadline + 1
    log.info(f"times ordered={written(due <= now <= deadline)} left={written(left)}")


def read_config(step, name, value):
    if value is None:
        return show(step, name, None)
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    kinds = {"int": (int,), "float": (int, float), "bool": (bool,)}[step]
    if type(parsed) not in kinds:
        return nack(f'the configuration value "{name}" cannot be used')
    show(step, name, written(parsed))


def keep(value):
    """Keeps a result, or nacks with the reason why it is refused."""
    try:
        result(value)
    except Error as error:
        return nack(str(error))


def write(level, line):
    write_line = getattr(log, level, None)
    if write_line is None:
        return drop(f'unknown level "{level}"')
    write_line(line)


def show(step, name, value):
    log.info(f"{step} {name} absent" if value is None else f"{step} {name}={value}")


def written(value):
    """A value as JSON writes it."""
    return json.dumps(value)


def checksum(body):
    """A checksum that depends on every byte and on their order."""
    total = 0
    for byte in body:
        total = (total * 31 + byte) & 0xFFFF_FFFF
    return total
