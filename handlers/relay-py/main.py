"""Pushes follow-ups as a conformance case asks, with the SDK of Python alone.

The steps are in the header `script`, as for echo-py; `tests/conformance/README.md` describes each.

Invariant: relay-rust, relay-go, relay-as and relay-js log the same text for every step.
"""

from duebox import Error, drop, job, log, nack, push, snooze

payload = "text"


def handle(body):
    script = job.headers.get("script")
    for line in script.split("; ") if script is not None else ():
        step, _, rest = line.partition(" ")
        if step == "push":
            refused = refusal(follow_up(body, rest))
            log.info("pushed" if refused is None else f"refused: {refused}")
        elif step == "must":
            refused = refusal(follow_up(body, rest))
            if refused is not None:
                return nack(refused)
        elif step == "push-many":
            count, _, options = rest.partition(" ")
            push_many(int(count), follow_up(body, options))
        else:
            return verdict_of(step, rest)


def verdict_of(step, rest):
    """Runs the steps that end the attempt."""
    match step:
        case "ack":
            return "ack"
        case "nack":
            return nack(rest)
        case "drop":
            return drop(rest)
        case "snooze":
            return snooze(int(rest) / 1000)
        case "panic":
            raise RuntimeError(rest)
        case _:
            return drop(f'unknown step "{step}"')


def refusal(follow_up):
    """Pushes it and returns why it is refused, if it is."""
    topic, body, options = follow_up
    try:
        push(topic, body, **options)
    except (Error, ValueError) as error:
        return str(error)


def push_many(count, pushed):
    """Pushes the same follow-up `count` times, and logs how many were accepted and why the last one was refused."""
    refusals = [why for why in (refusal(pushed) for _ in range(count)) if why is not None]
    why = f": {refusals[-1]}" if refusals else ""
    log.info(f"pushed {count - len(refusals)} of {count}{why}")


SECONDS = {"delay": "delay", "ttr": "ttr", "ttl": "ttl", "at": "due_at"}
OTHERS = {"id": "id", "attempts": "max_attempts", "priority": "priority", "key": "key"}


def follow_up(text, rest):
    """Parses `topic=T|name=value|…`. The value `$` stands for the payload."""
    topic, body, headers, options = "", "", {}, {}
    for pair in rest.split("|"):
        name, _, value = pair.partition("=")
        value = text if value == "$" else value
        if name == "topic":
            topic = value
        elif name == "payload":
            body = value
        elif name == "size":
            body = "x" * int(value)
        elif name in SECONDS:
            options[SECONDS[name]] = int(value) / 1000
        elif name in OTHERS:
            options[OTHERS[name]] = value
        else:
            headers[name[2:]] = value
    return topic, body, {**options, "headers": headers}
