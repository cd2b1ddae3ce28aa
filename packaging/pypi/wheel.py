"""Makes a wheel with the binary as its script, as `maturin build --bindings bin` would, from a binary that is built already,
and with the engine of Python handlers where the binary looks for it.

    python3 packaging/pypi/wheel.py BINARY ENGINE VERSION TARGET FOLDER
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
MACHINES = {"x86_64-unknown-linux-gnu": "x86_64", "aarch64-unknown-linux-gnu": "aarch64"}


def glibc(binary):
    """The newest version of glibc whose symbols the binary needs."""
    symbols = subprocess.run(["objdump", "-T", binary], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    return max(versions)


def metadata(version, readme):
    lines = [
        "Metadata-Version: 2.4",
        "Name: duebox",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        "Keywords: jobs,queue,redis,webassembly",
        "Home-page: https://github.com/duebox/duebox",
        "License-Expression: MIT OR Apache-2.0",
        "Requires-Python: >=3.8",
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


def main():
    binary, engine, version, target, folder = sys.argv[1:]
    if target not in MACHINES:
        sys.exit(f"wheel: no platform tag is known for {target}; add it to MACHINES")
    major, minor = glibc(binary)
    tag = f"py3-none-manylinux_{major}_{minor}_{MACHINES[target]}"
    path = os.path.join(folder, f"duebox-{version}-{tag}.whl")
    info, record = f"duebox-{version}.dist-info", []
    with open(binary, "rb") as file:
        program = file.read()
    with open(engine, "rb") as file:
        languages = file.read()
    with open("README.md", encoding="utf-8") as file:
        readme = file.read()
    with zipfile.ZipFile(path, "w") as wheel:
        add(wheel, record, f"duebox-{version}.data/scripts/duebox", program, 0o755)
        # PREFIX/lib/duebox for PREFIX/bin/duebox.
        add(wheel, record, f"duebox-{version}.data/data/lib/duebox/python.wasm", languages, 0o644)
        add(wheel, record, f"{info}/METADATA", metadata(version, readme).encode(), 0o644)
        kind = f"Wheel-Version: 1.0\nGenerator: duebox\nRoot-Is-Purelib: false\nTag: {tag}\n"
        add(wheel, record, f"{info}/WHEEL", kind.encode(), 0o644)
        record.append(f"{info}/RECORD,,")
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")


main()
