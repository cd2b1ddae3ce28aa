"""The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.

What a handler can use: https://github.com/duebox/duebox/blob/main/docs/guide/python.md
"""

from duebox import drop, job, log, nack, result


def handle(greeting):
    """The payload is parsed as JSON. One that is not JSON is dropped before this is called."""
    if not isinstance(greeting, dict) or not isinstance(greeting.get("name"), str):
        return drop("the payload has no name")  # no retry can help: the job is dead at once
    if greeting.get("asleep"):
        return nack("asleep", retry_after=60)  # try again in a minute; an exception is a nack too
    text = f"{job.config('greeting', 'Hello')}, {greeting['name']}!"
    log.info(f"{text} (attempt {job.attempt} of {job.max_attempts})")
    result(text)
    # To return nothing is an ack: the job is done.
