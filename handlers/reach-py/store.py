"""The steps that use the topic's store."""

from duebox import Error, kv, log


def store_step(payload, step, rest):
    """Runs a step that uses the store; returns False for any other step."""
    first, _, more = rest.partition(" ")
    given, _, ttl = more.partition(" ")
    key = payload.decode("utf-8", "replace") if first == "$" else first
    value = "x" * int(given[1:]) if given.startswith("*") else given
    options = {"ttl": int(ttl) / 1000} if ttl else {}
    steps = {
        "get": lambda: shown(key, kv.get(key)),
        "set": lambda: written(kv.set(key, value, **options)),
        "absent": lambda: written(kv.set(key, value, **options, only_if="absent")),
        "unchanged": lambda: written(kv.set(key, value, **options, only_if="unchanged")),
        "append": lambda: append(key, given, options),
        "delete": lambda: "deleted" if kv.delete(key) else "not there",
        "add": lambda: f"{key}={kv.add(key, int(given))}",
    }
    run = steps.get(step)
    if run is None:
        return False
    try:
        log.info(run())
    except (Error, ValueError) as error:
        log.info(f"refused: {error}")
    return True


def shown(key, value):
    if value is None:
        return f"{key} absent"
    return f"{key} has {len(value.encode())} bytes" if len(value) > 99 else f"{key}={value}"


def written(done):
    return "written" if done else "not written"


def append(key, text, options):
    """Appends a text to a value, again while other jobs write it meanwhile."""
    for _ in range(10):
        longer = (kv.get(key) or "") + text
        if kv.set(key, longer, **options, only_if="unchanged"):
            return longer
    raise ValueError("other jobs kept changing the key")
