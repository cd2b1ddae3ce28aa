#!/usr/bin/env bash
# RUSTC_WRAPPER: compiles our own crates with coverage, so that libFuzzer sees which branches an input
# takes. The wasm compiler is compiled without coverage for speed. Procedural macros and build scripts must
# be too, because rustc cannot load them with coverage.
set -euo pipefail
crate=
for ((i = 1; i < $#; i++)); do
  if [ "${!i}" = --crate-name ]; then
    next=$((i + 1))
    crate=${!next}
  fi
done
case $crate in
  duebox | duebox_job | duebox_queue | duebox_sandbox | duebox_sdk | duebox_fuzz) ;;
  load | abi | manifest | requests | replies | stored | printable | sdk) ;;
  *) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
