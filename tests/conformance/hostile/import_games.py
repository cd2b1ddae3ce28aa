# expect: drop
# Every way to a module of the system: each ends in an ImportError, or in a module whose functions refuse by name.
# The program drops its job if none of them reached anything.
import builtins
import importlib
import importlib.machinery
import importlib.util
import sys

reached = []


def attempt(name, call):
    try:
        reached.append((name, call()))
    except (ImportError, OSError, AttributeError, NotImplementedError, TypeError, ValueError, RuntimeError, KeyError):
        pass


def functions():
    import os
    import posix
    import subprocess

    yield "os.system", lambda: os.system("id")
    yield "os.popen", lambda: os.popen("id").read()
    yield "os.fork", lambda: os.fork()
    yield "os.open", lambda: os.open("/etc/passwd", 0)
    yield "os.listdir", lambda: os.listdir("/")
    yield "os.environ", lambda: os.environ["PATH"]
    yield "posix.open", lambda: posix.open("/etc/passwd", 0)
    yield "posix.execv", lambda: posix.execv("/bin/sh", ["sh"])
    yield "subprocess.run", lambda: subprocess.run(["id"])
    yield "open", lambda: open("/etc/passwd").read()
    yield "io.FileIO", lambda: __import__("io").FileIO("/etc/passwd").read()
    yield "socket", lambda: __import__("socket").socket().connect(("127.0.0.1", 6379))


def handle(payload):
    for name in ("ctypes", "_ctypes", "fcntl", "mmap", "resource", "pwd", "_posixsubprocess", "_winapi", "nt", "readline"):
        attempt(f"import {name}", lambda: importlib.import_module(name))
        attempt(f"__import__ {name}", lambda: builtins.__import__(name))
        attempt(f"reload {name}", lambda: importlib.reload(sys.modules[name]))
    for name, call in functions():
        attempt(name, call)
    # Finders and loaders of the program's own find what they bring along, and nothing else.
    spec = importlib.machinery.ModuleSpec("_ctypes", None, origin="/usr/lib/python3/_ctypes.so")
    attempt("spec", lambda: importlib.util.module_from_spec(spec).CDLL)
    attempt("dynamic", lambda: importlib.machinery.ExtensionFileLoader("_ctypes", "/usr/lib/python3/_ctypes.so").load_module())
    attempt("source", lambda: importlib.machinery.SourceFileLoader("passwd", "/etc/passwd").get_data("/etc/passwd"))
    attempt("path", lambda: importlib.machinery.PathFinder.find_spec("os", ["/usr/lib/python3"]).loader.load_module())
    sys.modules["duebox"] = sys.modules.pop("json")
    if reached:
        raise RuntimeError(f"reached {reached}")
    return "drop"
