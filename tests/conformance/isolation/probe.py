"""Leaves a word wherever a program can leave something, and looks at everything that a program can reach.

The payload is "look WORD", "leave WORD" or "leave WORD grow". The result describes what was seen, after leaving.
"""

import asyncio
import builtins
import contextvars
import decimal
import functools
import hashlib
import json
import logging
import random
import re
import sys
import types
import warnings

import duebox
from duebox import result

payload = "text"


class Own:
    items = []
    count = 0


@functools.lru_cache
def cached(word):
    return word


def with_default(word=None, words=[]):
    words.append(word)
    return words


variable = contextvars.ContextVar("variable", default=None)


def leave(word):
    for place in (builtins, sys, json, duebox, logging, re, Own, with_default, cached, asyncio, types, sys.modules[__name__]):
        place.left = word
    sys.modules[word] = types.ModuleType(word)
    sys.path.append(word)
    sys.meta_path.append(Own)
    sys.setrecursionlimit(900)
    sys.stdout = word
    logging.getLogger(word).addHandler(logging.NullHandler())
    logging.root.setLevel(logging.CRITICAL)
    logging.addLevelName(77, word)
    warnings.filters.append(word)
    decimal.getcontext().prec = 5
    random.seed(1)
    re.compile(word)
    cached(word)
    with_default(word)
    variable.set(word)
    loop = asyncio.new_event_loop()
    loop.left = word
    asyncio.set_event_loop(loop)
    Own.items.append(word)
    Own.count += 1
    builtins.ascii = lambda value: word
    del json.dumps


PLAIN = (str, bytes, int, float, complex, bool, type(None))


def inside(value):
    """What is in a value, by name. No code of the value runs."""
    kind = type(value)
    if kind is dict:
        yield from ((repr(key) if type(key) in PLAIN else type(key).__name__, of) for key, of in dict.items(value))
    elif kind in (list, tuple, set, frozenset):
        yield from ((str(at), of) for at, of in enumerate(value))
    elif kind is types.FunctionType:
        yield from (("defaults", value.__defaults__), ("keywords", value.__kwdefaults__), ("fields", value.__dict__))
        for at, cell in enumerate(value.__closure__ or ()):
            yield f"cell {at}", getattr(cell, "cell_contents", None)
    else:
        try:
            fields = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if isinstance(fields, (dict, types.MappingProxyType)):
            yield from ((f".{name}", of) for name, of in list(fields.items()) if name != "__builtins__")


def reached():
    """A line for each value that can be reached."""
    seen = {}
    found = [("modules", sys.modules), ("recursion", sys.getrecursionlimit()), ("precision", decimal.getcontext().prec)]
    found.append(("variable", variable.get()))
    found.append(("cached", cached.cache_info().currsize))
    for path, value in found:
        if type(value) in PLAIN:
            yield f"{path}={value!r}"
            continue
        yield f"{path}:{type(value).__name__}>{seen.get(id(value), '')}"
        if id(value) in seen:
            continue
        seen[id(value)] = path
        found.extend((f"{path}/{name}", of) for name, of in inside(value))


def look(word):
    digest, count, leaks = hashlib.sha256(), 0, []
    for line in reached():
        count += 1
        if word in line:
            leaks.append(line[:80])
        digest.update(line.encode("utf-8", "replace"))
    return {"digest": digest.hexdigest(), "count": count, "leaks": leaks[:100]}


_to_json = json.dumps


def handle(text):
    what, word, *grow = text.split(" ")
    if what == "leave":
        leave(word)
    if grow:
        bytes(range(256)) * (8 << 12)
    result(_to_json(look(word)))
