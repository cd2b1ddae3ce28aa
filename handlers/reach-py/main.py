"""Sends requests and keeps values as a conformance case asks, with the SDK of Python alone.

The steps are in the header `script`, as for echo-py; `tests/conformance/README.md` describes each.

Invariant: reach-rust, reach-go, reach-as and reach-js log the same text for every step.
"""

import json

from duebox import Error, drop, http, job, log, nack
from store import store_step

payload = "bytes"


def handle(body):
    last = None
    script = job.headers.get("script")
    for line in script.split("; ") if script is not None else ():
        step, _, rest = line.partition(" ")
        if step in ("send", "must"):
            try:
                last = send(body, rest)
                log.info(f"answered {last.status}, {len(last.content)} bytes")
            except (Error, ValueError) as error:
                if step == "must":
                    return nack(str(error))
                log.info(f"failed {name_of(error)}")
        elif last is not None and step == "verdict":
            return last.verdict()
        elif last is not None and read_response(last, step, rest):
            continue
        elif not store_step(body, step, rest):
            if step == "ack":
                return "ack"
            return nack(rest) if step == "nack" else drop(f'unknown step "{step}"')


def read_response(response, step, rest):
    """Runs a step that reads the last response; returns False for any other step."""
    match step:
        case "header":
            value = response.headers.get(rest)
            log.info(f"header {rest} absent" if value is None else f"header {rest}={value}")
        case "names":
            log.info(f"names {len(response.headers.get_all(rest))}")
        case "body":
            text = text_of(response.content)
            log.info("the body is not UTF-8" if text is None else f"body {text}")
        case "hex":
            log.info(f"hex {response.content.hex()}")
        case "sum":
            total = 0
            for byte in response.content:
                total = (total * 31 + byte) & 0xFFFF_FFFF
            log.info(f"sum {total}")
        case "json":
            read_json(response)
        case "url":
            log.info(f"url {response.url}")
        case _:
            return False
    return True


def read_json(response):
    try:
        found = json.loads(response.content)
        name, count = found["name"], found["count"]
        if not isinstance(name, str) or type(count) is not int:
            raise TypeError("another type")
        log.info(f"json name={name} count={count}")
    except (ValueError, KeyError, TypeError):
        log.info("the body is not the expected JSON")


def text_of(content):
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def name_of(error):
    """The kind of an error. A request that is not even sent is a ValueError."""
    return error.code.replace("_", " ") if isinstance(error, Error) else "invalid"


def send(body, rest):
    """Sends `METHOD URL|name=value|…`. The value `$` stands for the payload."""
    target, *pairs = rest.split("|")
    method, _, url = target.partition(" ")
    headers, options = {}, {"allow_redirects": False}
    for pair in pairs:
        name, _, written = pair.partition("=")
        value = (text_of(body) or "") if written == "$" else written
        if name == "body":
            options["data"] = body if written == "$" else value
        elif name == "size":
            options["data"] = "x" * int(value)
        elif name == "timeout":
            options["timeout"] = int(value) / 1000
        elif name == "follow":
            options.update(allow_redirects=True, max_redirects=int(value))
        else:
            headers[name[2:]] = value
    return http.request(method, url, headers=headers, **options)
