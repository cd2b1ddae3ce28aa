"""Makes a wheel with the binary as its script, as `maturin build --bindings bin` would, from a binary that is built already,
and with the engine of Python handlers where the binary looks for it.

    python3 packaging/pypi/wheel.py BINARY ENGINE VERSION TARGET FOLDER
    python3 packaging/pypi/wheel.py --sdk VERSION FOLDER

The second form makes the wheel of the SDK, which is pure Python: the modules of the engine, with a host for unit tests.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

SUMMARY = "Runs background jobs in WebAssembly sandboxes, with Redis as its only dependency"
SDK_SUMMARY = "Types and unit tests for Duebox handlers in Python"
# From sdk/python, and the name in the wheel.
SDK_FILES = (
    ("engine/src/python/duebox.py", "duebox.py"),
    ("engine/src/python/_duebox_http.py", "_duebox_http.py"),
    ("package/_duebox.py", "_duebox.py"),
    ("package/duebox_testing.py", "duebox_testing.py"),
    ("types/duebox.pyi", "duebox-stubs/__init__.pyi"),
)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MACHINES = {"x86_64-unknown-linux-gnu": "x86_64", "aarch64-unknown-linux-gnu": "aarch64"}


def glibc(binary):
    """The newest version of glibc whose symbols the binary needs."""
    symbols = subprocess.run(["readelf", "--version-info", binary], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    return max(versions)


def metadata(name, version, summary, requires, readme):
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {summary}",
        "Keywords: jobs,queue,redis,webassembly",
        "Home-page: https://github.com/duebox/duebox",
        "License-Expression: MIT OR Apache-2.0",
        f"Requires-Python: >={requires}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


def add(wheel, record, name, content, mode):
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    entry = zipfile.ZipInfo(name, date_time=moment)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, info, metadata, tag, is_pure, files):
    """Makes a wheel of files: name, content and mode of each."""
    record = []
    kind = f"Wheel-Version: 1.0\nGenerator: duebox\nRoot-Is-Purelib: {str(is_pure).lower()}\nTag: {tag}\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content, mode in files:
            add(wheel, record, name, content, mode)
        add(wheel, record, f"{info}/METADATA", metadata.encode(), 0o644)
        add(wheel, record, f"{info}/WHEEL", kind.encode(), 0o644)
        record.append(f"{info}/RECORD,,")
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")


def sdk(version, folder):
    sources = os.path.join(ROOT, "sdk/python")
    files = [(name, read(os.path.join(sources, path)), 0o644) for path, name in SDK_FILES]
    readme = read(os.path.join(sources, "package/README.md")).decode()
    path = os.path.join(folder, f"duebox_sdk-{version}-py3-none-any.whl")
    about = metadata("duebox-sdk", version, SDK_SUMMARY, "3.10", readme)
    write(path, f"duebox_sdk-{version}.dist-info", about, "py3-none-any", True, files)


def program(binary, engine, version, target, folder):
    if target not in MACHINES:
        sys.exit(f"wheel: no platform tag is known for {target}; add it to MACHINES")
    major, minor = glibc(binary)
    tag = f"py3-none-manylinux_{major}_{minor}_{MACHINES[target]}"
    # The engine goes to PREFIX/lib/duebox, for PREFIX/bin/duebox.
    files = [
        (f"duebox-{version}.data/scripts/duebox", read(binary), 0o755),
        (f"duebox-{version}.data/data/lib/duebox/python.wasm", read(engine), 0o644),
    ]
    about = metadata("duebox", version, SUMMARY, "3.8", read(os.path.join(ROOT, "README.md")).decode())
    path = os.path.join(folder, f"duebox-{version}-{tag}.whl")
    write(path, f"duebox-{version}.dist-info", about, tag, False, files)


if sys.argv[1] == "--sdk":
    sdk(*sys.argv[2:])
else:
    program(*sys.argv[1:])
