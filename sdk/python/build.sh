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
root=$(dirname "$(dirname "$folder")")
here=$root/handlers
tools=$root/.tools
target=wasm32-unknown-unknown

# shellcheck source=../../handlers/tools.sh
. "$here/tools.sh"

[ "${1:-}" != --help ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0; }

# Files of the sources, in a stable order, with the version of the compiler.
digest() {
  { (cd "$folder" && find .cargo Cargo.toml Cargo.lock engine integers ../engine-abi/Cargo.toml ../engine-abi/src -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
    (cd "$here" && rustc --version); } | sha256sum
}

mkdir -p "$tools" "$folder/build"
one_at_a_time
need_rust
need_clang
[ "${1:-}" != --check-tools ] || exit 0
built=$(digest)
if [ "$built" = "$(cat "$folder/build/.digest" 2>/dev/null)" ] && [ -s "$folder/build/engine.wasm" ]; then
  exit 0
fi
say "building the Python engine (the first build takes some minutes)"
(
  # Here is .cargo/config.toml.
  cd "$folder"
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET
  unset CARGO_PROFILE_RELEASE_OPT_LEVEL CARGO_PROFILE_RELEASE_DEBUG
  # The parser's crates declare a newer compiler than they need.
  quietly env "${rust_env[@]}" "CC_wasm32_unknown_unknown=$clang" cargo build --quiet --release --locked \
    --ignore-rust-version --target "$target" --target-dir "$folder/target" "${rust_flags[@]}"
)
new=$folder/build/.engine.$$.new
cp "$folder/target/$target/release/duebox_python_engine.wasm" "$new"
if cmp -s "$new" "$folder/build/engine.wasm"; then rm "$new"; else mv "$new" "$folder/build/engine.wasm"; fi
say "python/engine ($(($(wc -c <"$folder/build/engine.wasm") / 1000)) kB)"
printf '%s\n' "$built" >"$folder/build/.digest"
