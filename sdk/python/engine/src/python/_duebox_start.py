"""Loads the modules of a handler, and runs its jobs.

The engine calls `start`, which returns the function that runs a job, or the text of an error.

Invariant: no exception of the handler leaves `start` or `run`.
"""

import _duebox_system

_duebox_system.install()

import gc
import sys
from _frozen_importlib import BuiltinImporter, FrozenImporter, ModuleSpec, module_from_spec
from json import JSONDecoder

import _duebox as host
import duebox
from _duebox_errors import SOURCES, describe

_ACK, _NACK, _DROP, _BAD_VERDICT, _OUT_OF_MEMORY, _STACK_OVERFLOW = 0, 1, 2, 3, 100, 101


class _Modules:
    """Finds and loads the modules of the handler. A module of the standard library of the same name comes first."""

    def __init__(self, modules):
        self._modules = {name: (file, is_package, source) for name, file, is_package, source in modules}

    def find_spec(self, name, path=None, target=None):
        found = self._modules.get(name)
        if found is None:
            return None
        file, is_package, _ = found
        return ModuleSpec(name, self, origin=file, is_package=is_package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file, _, source = self._modules[module.__name__]
        # A spec with a location would need the part of importlib that reads files.
        module.__file__ = file
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)

    def load(self, entry):
        """The handler's own module. It replaces no module of the standard library, whatever its name."""
        name = entry
        while name in sys.modules or BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
            name += "_"
        self._modules[name] = self._modules[entry]
        spec = self.find_spec(name)
        module = sys.modules[name] = module_from_spec(spec)
        self.exec_module(module)
        return module

    def get_source(self, name):
        return self._modules[name][2]

    def is_package(self, name):
        return self._modules[name][1]


def start(entry, modules):
    try:
        for _, file, _, source in modules:
            SOURCES[file] = source.splitlines()
        finder = _Modules(modules)
        sys.meta_path.append(finder)
        run = _runner(finder.load(entry))
        gc.collect()
        gc.freeze()
        return run
    except BaseException as error:
        return describe(error)


def _refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


_decode = JSONDecoder(parse_constant=_refuse_constant).decode


def _json(payload):
    text = payload.decode()
    return _decode(text) if text else None


_PAYLOADS = {"json": _json, "text": bytes.decode, "bytes": bytes}


def _runner(module):
    handle = getattr(module, "handle", None)
    if not callable(handle):
        raise TypeError("the handler defines no function handle; write `def handle(payload): …`")
    kind = getattr(module, "payload", "json")
    if not isinstance(kind, str) or kind not in _PAYLOADS:
        kind = "json" if callable(kind) else _refuse_kind(kind)
    read = _PAYLOADS[kind]

    def run(payload):
        duebox._begin_job()
        _duebox_system.begin_job()
        try:
            try:
                value = read(payload)
            except ValueError as error:
                host.reason(_text(f"the payload is not valid {'JSON' if kind == 'json' else 'text'}: {error}"))
                return _DROP
            returned = handle(value)
            if type(returned) is _Coroutine:
                returned = _finish(returned)
            return 0 if returned is None else _verdict_of(returned)
        except BaseException as error:
            return _failure_of(error)
        finally:
            _duebox_system.end_job()

    return run


def _refuse_kind(kind):
    raise TypeError(f'payload is {kind!r}; it can be "json", "text" or "bytes"')


async def _coroutine():
    pass


_sample = _coroutine()
_Coroutine = type(_sample)
_sample.close()


def _finish(coroutine):
    """Runs a coroutine to its end: in an event loop if the program uses asyncio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        return asyncio.run(coroutine)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the handler awaits an object that is none of asyncio")


def _text(text):
    return text.encode("utf-8", "replace")


def _verdict_of(returned):
    if isinstance(returned, str) and returned == "ack":
        return _ACK
    if isinstance(returned, str) and returned == "drop":
        return _DROP
    if type(returned) is not duebox.Verdict:
        shown = f"an object of type {type(returned).__name__}"
        if isinstance(returned, (str, int, float, bool)):
            shown = repr(returned)[:200]
        advice = 'return nothing, "ack", "drop", nack(…), drop(…) or snooze(…)'
        host.reason(_text(f"the handler returned {shown}; {advice}"))
        return _BAD_VERDICT
    if returned.kind == "ack":
        return _ACK
    if returned.reason:
        host.reason(_text(returned.reason))
    if returned.kind == "drop":
        return _DROP
    if returned.kind == "snooze":
        host.snooze(returned.wait)
    elif returned.wait is not None:
        host.retry_after(returned.wait)
    return _NACK


def _failure_of(error):
    if isinstance(error, MemoryError):
        return _OUT_OF_MEMORY
    host.reason(_text(describe(error)))
    return _STACK_OVERFLOW if isinstance(error, RecursionError) else _NACK
