# expect: nack
import importlib


def handle(payload):
    for name in ("os", "posix", "_signal", "socket", "subprocess", "ctypes", "_ctypes", "sys"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    import os
    import subprocess

    try:
        subprocess.run(["id"])
    except Exception:
        pass
    os.system("id")
