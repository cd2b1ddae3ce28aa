# shellcheck shell=bash
# What the builds of the engines share: sdk/javascript/build.sh and sdk/python/build.sh read this file. It expects
# $folder, the engine's folder in sdk/.

root=$(dirname "$(dirname "$folder")")
here=$root/handlers
tools=$root/.tools
target=wasm32-unknown-unknown

# shellcheck source=../../handlers/tools.sh
. "$here/tools.sh"

# usage: prints the comment at the head of the script.
usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; }

# need_tools: finds or installs what a build needs.
need_tools() {
  mkdir -p "$tools" "$folder/build"
  one_at_a_time tools 15
  need_rust
  need_clang
}

# only_build: waits for another build of this engine. It can take half an hour, in which other scripts install their tools.
only_build() { one_at_a_time "$(basename "$folder")-engine" 90; }

# digest FOLDERS…: the sources in a stable order, with the version of the compiler.
digest() {
  { (cd "$folder" && find Cargo.toml Cargo.lock .cargo "$@" ../engine-abi/Cargo.toml ../engine-abi/src -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
    (cd "$here" && rustc --version); } | sha256sum
}

# is_built DIGEST MODULE: whether the last build had these sources.
is_built() { [ "$1" = "$(cat "$folder/build/.digest" 2>/dev/null)" ] && [ -s "$folder/build/$2.wasm" ]; }

# build ARGUMENTS…: with cargo, in the folder with .cargo/config.toml.
build() (
  cd "$folder"
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET
  unset CARGO_PROFILE_RELEASE_OPT_LEVEL CARGO_PROFILE_RELEASE_DEBUG CARGO_PROFILE_RELEASE_LTO RUSTC_WORKSPACE_WRAPPER
  quietly env "${rust_env[@]}" "CC_wasm32_unknown_unknown=$clang" cargo build --quiet --release --locked \
    --target "$target" --target-dir "$folder/target" "${rust_flags[@]}" "$@"
)

# built_module MODULE: the file that cargo has built.
built_module() { printf '%s\n' "$folder/target/$target/release/duebox_$(basename "$folder")_$1.wasm"; }

# at_most MODULE BYTES: fails if the module that was built is larger.
at_most() {
  local bytes
  bytes=$(wc -c <"$(built_module "$1")")
  [ "$bytes" -le "$2" ] || fail "the module $1 has $bytes bytes and may have $2; make it smaller (sdk/$(basename "$folder")/Cargo.toml)"
}

# place MODULE: renames the new module, unless the existing one is the same.
place() {
  local new=$folder/build/.$1.$$.new
  cp "$(built_module "$1")" "$new"
  if cmp -s "$new" "$folder/build/$1.wasm"; then rm "$new"; else mv "$new" "$folder/build/$1.wasm"; fi
  say "$(basename "$folder")/$1 ($(($(wc -c <"$folder/build/$1.wasm") / 1000)) kB)"
}
