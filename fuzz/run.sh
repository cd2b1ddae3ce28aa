#!/usr/bin/env bash
# Builds the fuzz targets and runs each for the given seconds, 0 for none: fuzz/run.sh SECONDS [TARGET…]. It needs a C++
# compiler and no cargo-fuzz. load and abi take minutes to build, because they link wasmtime, and those of the daemon's own
# crate (manifest, requests, printable) take longer: without names these do not run. Crashes are written to fuzz/artifacts, the corpus to fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET…]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(load abi replies stored sdk)
[[ $seconds =~ ^(0|[1-9][0-9]*)$ ]] || { echo "fuzz: $seconds is not a number of seconds" >&2; exit 2; }
command -v "${CXX:-c++}" >/dev/null || {
  echo "fuzz: libFuzzer needs a C++ compiler; install g++, or run: ./dev fuzz $seconds" >&2
  exit 1
}

# seeds TARGET: the folders with the inputs that a target starts from.
seeds() {
  case $1 in
    load) echo corpus/modules ;;
    manifest) echo ../tests/manifests ;;
    abi) ;;
    *) echo "seeds/$1" ;;
  esac
}

export CARGO_TARGET_DIR=${FUZZ_TARGET_DIR:-$PWD/target} RUSTC_WRAPPER=$PWD/rustc.sh
unset RUSTC_WORKSPACE_WRAPPER
features=()
case " ${targets[*]} " in
  *" manifest "* | *" requests "* | *" printable "*) features=(--features daemon) ;;
  *" load "* | *" abi "*) features=(--features sandbox) ;;
esac
cargo build --release --locked "${features[@]}"
[ "$seconds" -gt 0 ] || exit 0
built=$CARGO_TARGET_DIR/release
for target in "${targets[@]}"; do
  printf '\033[1m==> fuzzing %s for %s s\033[0m\n' "$target" "$seconds" >&2
  mkdir -p "corpus/$target" "artifacts/$target"
  [ "$target" != load ] || "$built/seed" corpus/modules
  read -ra from <<<"$(seeds "$target")"
  # Short texts take every path of the escapes, and a longer one takes longer for each.
  longest=8192
  [ "$target" != printable ] || longest=512
  "$built/$target" "corpus/$target" "${from[@]}" -artifact_prefix="artifacts/$target/" -max_total_time="$seconds" \
    -timeout=20 -rss_limit_mb=2048 -max_len="$longest" -len_control=0 -print_final_stats=1 2>&1 \
    | grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|RELOAD|pulse)|NEW_FUNC|# Uses: [0-9]+$|^######'
done
