"""The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
names one, and keeps it as the job's result.

What a handler can use: https://github.com/duebox/duebox/blob/main/docs/guide/python.md
"""

from duebox import drop, http, job, log, result


def handle(greeting):
    """The payload is parsed as JSON. One that is not JSON is dropped before this is called."""
    if not isinstance(greeting, dict) or not isinstance(greeting.get("name"), str):
        return drop("the payload has no name")  # no retry can help: the job is dead at once
    text = f"{job.config('greeting', 'Hello')}, {greeting['name']}!"
    api = job.config("api", None)
    if api:
        # An API that cannot be reached is an exception, and so a nack: tried again after the backoff.
        response = http.post(api, json={"text": text})
        if not response.ok:
            return response.verdict()  # busy (429, 5xx): a nack until its Retry-After; another 4xx: a drop
    log.info(f"{text} (attempt {job.attempt} of {job.max_attempts})")
    result(text)
    # To return nothing is an ack: the job is done.
