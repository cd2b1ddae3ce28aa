#!/usr/bin/env bash
# Checks the types that the SDKs of source handlers have for editors: tsc and mypy read the types, the examples, the
# templates, and a handler with what must be refused; stubtest compares the stubs of Python with the SDK itself.
#
# The compilers are installed into .tools/types. Needs npm, and python3 with venv.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$here")")
tools=$root/.tools/types
fail() { printf 'tests/types/check.sh: %s\n' "$*" >&2; exit 1; }

# is_installed FILE: whether the compilers are those that this file lists.
is_installed() { cmp -s "$here/$1" "$tools/installed-$1"; }

install_typescript() {
  is_installed package.json && return
  mkdir -p "$tools"
  cp "$here/package.json" "$tools/"
  (cd "$tools" && npm install --no-audit --no-fund --loglevel=error >/dev/null) || fail "npm could not install what package.json lists"
  cp "$here/package.json" "$tools/installed-package.json"
}

install_mypy() {
  is_installed requirements.txt && return
  mkdir -p "$tools"
  python3 -m venv --clear "$tools/venv" || fail "python3 with venv is needed (apt-get install python3-venv)"
  "$tools/venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" \
    || fail "pip could not install what requirements.txt lists"
  cp "$here/requirements.txt" "$tools/installed-requirements.txt"
}

# mypy_in FOLDER ARGUMENTS…: with the stubs of the SDK.
mypy_in() (
  cd "$1"
  shift
  MYPYPATH=$root/sdk/python/types:. "$tools/venv/bin/mypy" --cache-dir "$tools/cache" "$@" >&2
)

install_typescript
install_mypy
cd "$root"
for project in tests/types examples/typescript sdk/javascript/template; do
  "$tools/node_modules/.bin/tsc" --noEmit --project "$project" >&2 || fail "tsc refuses $project"
done
mypy_in tests/types --strict handler.py || fail "mypy refuses tests/types/handler.py"
mypy_in . --strict sdk/python/types/duebox.pyi || fail "mypy refuses sdk/python/types/duebox.pyi"
mypy_in sdk/python/template handler.py || fail "mypy refuses sdk/python/template"
mypy_in examples/python --explicit-package-bases handlers lib || fail "mypy refuses examples/python"

# The SDK as the wheel has it.
sdk=$(mktemp -d)
trap 'rm -rf "$sdk"' EXIT
cp sdk/python/engine/src/python/duebox.py sdk/python/engine/src/python/_duebox_http.py sdk/python/package/_duebox.py "$sdk"
PYTHONPATH=$sdk PYTHONDONTWRITEBYTECODE=1 MYPYPATH=sdk/python/types "$tools/venv/bin/python" -m mypy.stubtest duebox >&2 \
  || fail "the stubs of Python differ from the SDK"
