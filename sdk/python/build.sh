#!/usr/bin/env bash
# Builds the module that runs Python handlers:
#
#   sdk/python/build.sh [--check-tools]
#
# sdk/python/build/engine.wasm is RustPython with its standard library. A missing tool is installed, or one line says
# what to install and why. --check-tools does only that.
#
# Invariant: the module appears complete, and only if it differs from the existing one.
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../engine-abi/build.sh
. "$folder/../engine-abi/build.sh"

[ "${1:-}" != --help ] || { usage; exit 0; }
need_tools
[ "${1:-}" != --check-tools ] || exit 0
only_build
built=$(digest engine integers)
if is_built "$built" engine; then
  exit 0
fi
say "building the Python engine (the first build takes some minutes)"
# The parser's crates declare a newer compiler than they need.
build --ignore-rust-version
place engine
printf '%s\n' "$built" >"$folder/build/.digest"
