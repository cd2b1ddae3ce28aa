#!/usr/bin/env bash
# Stands before rustc (RUSTC_WRAPPER): compiles our own crates so that libFuzzer sees which of their branches
# an input takes. The compiler of wasm is left as fast as it is, and what the macros of its build are made
# of must be: with coverage rustc cannot load them.
set -euo pipefail
crate=
for ((i = 1; i < $#; i++)); do
  if [ "${!i}" = --crate-name ]; then
    next=$((i + 1))
    crate=${!next}
  fi
done
case $crate in
  duebox_sandbox | duebox_job | duebox_fuzz | load | abi) ;;
  *) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
