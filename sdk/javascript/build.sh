#!/usr/bin/env bash
# Builds the two modules that the daemon embeds to serve JavaScript and TypeScript:
#
#   sdk/javascript/build.sh [--check-tools]
#
# sdk/javascript/build/engine.wasm is QuickJS, which runs the programs; reader.wasm finds imports and types in
# their files. A missing tool is installed, or one line says what to install and why. --check-tools does only that.
#
# Invariant: a module appears complete, and only if it differs from the existing one.
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../engine-abi/build.sh
. "$folder/../engine-abi/build.sh"

[ "${1:-}" != --help ] || { usage; exit 0; }
need_tools
[ "${1:-}" != --check-tools ] || exit 0
only_build
built=$(digest engine reader)
if is_built "$built" reader; then
  exit 0
fi
build
# Every copy of the daemon contains it.
at_most engine 1500000
place engine
place reader
printf '%s\n' "$built" >"$folder/build/.digest"
