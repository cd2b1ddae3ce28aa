#!/usr/bin/env bash
# Builds the handlers of this folder into handlers/build/<name>.wasm: all of them, or the named ones.
# A handler elsewhere is built by `duebox build`, in its own folder.
#
#   handlers/build.sh [--check-tools] [NAME]…
#
# Every module keeps the names of its functions, so that the trace of a trap is readable.
#
# A folder with a Cargo.toml is a Rust handler, with a go.mod a Go handler, with an asconfig.json an
# AssemblyScript handler, with a handler.c a C handler. A missing tool is installed into .tools/ of the repository (the Rust target
# through rustup); if that fails, one line says what to install and why. --check-tools does only that.
#
# Invariant: a module appears under its name complete, and only if it differs from the existing one, so a
# daemon that watches the folder never reads half a module.
#
#   DUEBOX_HANDLERS_OUT    the folder for the modules, instead of handlers/build
#   DUEBOX_WASM_TOOLCHAIN  rustup | debian: the source of Rust's wasm32 target; default: the first that works
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=$(dirname "$here")/.tools
out=${DUEBOX_HANDLERS_OUT:-$here/build}
target=wasm32-unknown-unknown

# shellcheck source-path=SCRIPTDIR
. "$here/tools.sh"

usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

language() {
  local folder=$here/$1
  if [ -f "$folder/Cargo.toml" ]; then echo rust
  elif [ -f "$folder/go.mod" ]; then echo go
  elif [ -f "$folder/asconfig.json" ]; then echo assemblyscript
  elif [ -f "$folder/handler.c" ]; then echo c
  fi
}

every_handler() {
  local folder
  for folder in "$here"/*/; do
    folder=$(basename "$folder")
    [ -z "$(language "$folder")" ] || echo "$folder"
  done
}

# The temporary file is in the output folder, so that the rename is atomic. Its name begins with a dot and
# does not end in .wasm, so that no daemon loads it.
temporary() { echo "$out/.$(basename "$1").$$.new"; }

# place NAME: renames the temporary file, unless the existing module is the same.
place() {
  local module
  module=$out/$(basename "$1").wasm
  if cmp -s "$(temporary "$1")" "$module"; then
    rm -f "$(temporary "$1")"
  else
    mv -f "$(temporary "$1")" "$module"
  fi
  say "$(basename "$1") ($(language "$1"), $(($(wc -c <"$module") / 1000)) kB)"
}

# build_rust ARGUMENTS…: with cargo, in this folder, whose .cargo/config.toml sets the stack size.
build_rust() (
  cd "$here"
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET
  unset CARGO_PROFILE_RELEASE_OPT_LEVEL CARGO_PROFILE_RELEASE_DEBUG CARGO_PROFILE_RELEASE_LTO RUSTC_WORKSPACE_WRAPPER
  quietly env "${rust_env[@]}" cargo build --quiet --release --target "$target" \
    --target-dir "$here/target" "${rust_flags[@]}" "$@"
)

place_rust() {
  local crate
  crate=$(sed -n 's/^name = "\(.*\)"/\1/p' "$here/$1/Cargo.toml" | head -n 1)
  cp "$here/target/$target/release/${crate//-/_}.wasm" "$(temporary "$1")"
  place "$1"
}

# They are one workspace and one cargo run.
build_all_rust() {
  local name packages=()
  for name in "$@"; do packages+=(-p "$name"); done
  build_rust --locked "${packages[@]}"
  for name in "$@"; do place_rust "$name"; done
}

build_go() {
  (
    cd "$here/$1"
    quietly env GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWORK=off GOTOOLCHAIN=local "$go" build \
      -buildmode=c-shared -trimpath -ldflags=-w -o "$(temporary "$1")" .
  )
  place "$1"
}

# The compiler is always the one installed here; --path tells it where the SDK is.
build_assemblyscript() {
  (
    cd "$here/$1"
    quietly "$node" "$here/node_modules/assemblyscript/bin/asc.js" assembly/index.ts --target release \
      --path "$here/node_modules" --outFile "$(temporary "$1").wasm"
  )
  mv -f "$(temporary "$1").wasm" "$(temporary "$1")"
  place "$1"
}

build_c() {
  quietly "$clang" --target=wasm32 -O2 -ffreestanding -nostdlib -mbulk-memory -Wall -Wextra -Werror \
    "-fuse-ld=$wasm_linker" -Wl,--no-entry -Wl,-z,stack-size=65536 -I"$(dirname "$here")/sdk/c" \
    -o "$(temporary "$1")" "$here/$1"/*.c
  place "$1"
}

check_only=false
names=()
for argument in "$@"; do
  case $argument in
    --check-tools) check_only=true ;;
    -h | --help) usage; exit 0 ;;
    -*) fail "unknown option $argument; see --help" ;;
    */*) fail "$argument is a folder; build a handler of your own with: duebox build $argument" ;;
    *) [ -n "$(language "$argument")" ] \
         || fail "unknown handler $argument; known are: $(every_handler | paste -sd ' ')"
       names+=("$argument") ;;
  esac
done
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(every_handler)
[ ${#names[@]} -gt 0 ] || fail "there are no handlers in $here"

rust=() golang=() assemblyscript=() c=()
for name in "${names[@]}"; do
  case $(language "$name") in
    rust) rust+=("$name") ;;
    go) golang+=("$name") ;;
    assemblyscript) assemblyscript+=("$name") ;;
    c) c+=("$name") ;;
  esac
done

mkdir -p "$tools" "$out"
out=$(cd "$out" && pwd)
trap 'rm -f "$out"/.*."$$".new "$out"/.*."$$".new.wasm' EXIT
one_at_a_time tools 15
[ ${#rust[@]} -eq 0 ] || need_rust
[ ${#golang[@]} -eq 0 ] || need_go
[ ${#assemblyscript[@]} -eq 0 ] || need_assemblyscript
[ ${#c[@]} -eq 0 ] || need_c
if $check_only; then exit 0; fi
one_at_a_time handlers 15
[ ${#rust[@]} -eq 0 ] || build_all_rust "${rust[@]}"
for name in ${golang[@]+"${golang[@]}"}; do build_go "$name"; done
for name in ${assemblyscript[@]+"${assemblyscript[@]}"}; do build_assemblyscript "$name"; done
for name in ${c[@]+"${c[@]}"}; do build_c "$name"; done
