"""What `./dev bench languages` computes, in the engine as a handler and in CPython. See compute.mjs."""

import hashlib
import json
import re

_state = 1


def draw():
    global _state
    _state = _state * 16807 % 2147483647
    return _state


PEOPLE = [
    {"id": id, "name": f"Zoë {draw()}", "price": draw() / 64, "tags": ["a", "b"], "on": id % 2 == 0}
    for id in range(1250)
]
JSON = json.dumps(PEOPLE, ensure_ascii=False, separators=(",", ":"))
LETTER = " ".join([f"word {draw()} ada{draw() % 100}@mail.com" for _ in range(4000)])[:100_000]
NUMBERS = [draw() for _ in range(20_000)]
MEGABYTE = bytes(at % 251 for at in range(1_000_000))
ADDRESS = re.compile(r"(\w+)@(\w+)\.com")


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def loop():
    total = 0
    for at in range(300_000):
        total = (total + at * at) % 1_000_003
    return total


def strings():
    text = ""
    for at in range(20_000):
        text += f"{at},"
    return len(text)


WORKS = {
    "fib(24), recursive": (lambda: fib(24), 46368),
    "loop of 300,000 sums": (loop, 266000),
    "JSON of 100 kB, parsed": (lambda: len(json.loads(JSON)), 1250),
    "JSON of 100 kB, written": (
        lambda: len(json.dumps(PEOPLE, ensure_ascii=False, separators=(",", ":"))),
        len(JSON),
    ),
    "regular expression over 100 kB": (lambda: sum(1 for _ in ADDRESS.finditer(LETTER)), 3290),
    "20,000 numbers, sorted": (lambda: sorted(NUMBERS)[10_000], 1070616409),
    "string of 20,000 parts": (strings, 108890),
    "SHA-256 of 1 MB": (lambda: hashlib.sha256(MEGABYTE).digest()[0], 44),
}


def handle(job):
    """Does a work several times."""
    run, wanted = WORKS[job["work"]]
    for _ in range(job["times"]):
        found = run()
        if found != wanted:
            raise ValueError(f"{job['work']}: {found} and not {wanted}")
