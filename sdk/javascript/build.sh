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
root=$(dirname "$(dirname "$folder")")
here=$root/handlers
tools=$root/.tools
target=wasm32-unknown-unknown

# shellcheck source=../../handlers/tools.sh
. "$here/tools.sh"

[ "${1:-}" != --help ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0; }

# Files of the sources, in a stable order, with the version of the compiler.
digest() {
  { (cd "$folder" && find Cargo.toml Cargo.lock .cargo engine reader ../engine-abi/Cargo.toml ../engine-abi/src -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
    (cd "$here" && rustc --version); } | sha256sum
}

place() {
  local new=$folder/build/.$1.$$.new
  cp "$folder/target/$target/release/duebox_javascript_$1.wasm" "$new"
  if cmp -s "$new" "$folder/build/$1.wasm"; then rm "$new"; else mv "$new" "$folder/build/$1.wasm"; fi
  say "javascript/$1 ($(($(wc -c <"$folder/build/$1.wasm") / 1000)) kB)"
}

mkdir -p "$tools" "$folder/build"
one_at_a_time
need_rust
need_clang
[ "${1:-}" != --check-tools ] || exit 0
built=$(digest)
if [ "$built" = "$(cat "$folder/build/.digest" 2>/dev/null)" ] && [ -s "$folder/build/reader.wasm" ]; then
  exit 0
fi
(
  cd "$folder"
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET
  unset CARGO_PROFILE_RELEASE_OPT_LEVEL CARGO_PROFILE_RELEASE_DEBUG
  quietly env "${rust_env[@]}" "CC_wasm32_unknown_unknown=$clang" cargo build --quiet --release --locked \
    --target "$target" --target-dir "$folder/target" "${rust_flags[@]}"
)
place engine
place reader
printf '%s\n' "$built" >"$folder/build/.digest"
