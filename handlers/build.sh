#!/usr/bin/env bash
# Builds the handlers into handlers/build/<name>.wasm: all of them, or those named.
#
#   handlers/build.sh [--check-tools] [NAME…]
#
# A folder with a Cargo.toml is a handler in Rust, with a go.mod in Go, with an asconfig.json in
# AssemblyScript. A missing tool is installed into .tools/ of the repository (the Rust target through
# rustup), or one line says what to install and why. --check-tools does only that.
#
# Invariant: a module appears under its name whole or not at all, and only if it differs from the one
# that is there; so a daemon that watches the folder never reads half a module.
#
#   DUEBOX_HANDLERS_OUT    the folder for the modules, instead of handlers/build
#   DUEBOX_WASM_TOOLCHAIN  rustup | debian: where Rust's wasm32 target comes from; default: whichever works
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=$(dirname "$here")/.tools
out=${DUEBOX_HANDLERS_OUT:-$here/build}
target=wasm32-unknown-unknown

# shellcheck source-path=SCRIPTDIR
. "$here/tools.sh"

usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

language() {
  if [ -f "$here/$1/Cargo.toml" ]; then echo rust
  elif [ -f "$here/$1/go.mod" ]; then echo go
  elif [ -f "$here/$1/asconfig.json" ]; then echo assemblyscript
  fi
}

every_handler() {
  local folder
  for folder in "$here"/*/; do
    [ -z "$(language "$(basename "$folder")")" ] || basename "$folder"
  done
}

# place NAME FILE: moves a built module to its name, unless the same one is there.
place() {
  if cmp -s "$2" "$out/$1.wasm"; then
    rm -f "$2"
  else
    mv -f "$2" "$out/$1.wasm"
  fi
  say "$1 ($(language "$1"), $(($(wc -c <"$out/$1.wasm") / 1000)) kB)"
}

# The temporary file stands in the folder of the modules, so that moving it is one step, and its name
# begins with a dot and does not end in .wasm, so that nobody loads it.
temporary() { echo "$out/.$1.$$.new"; }

build_rust() {
  local name packages=()
  for name in "$@"; do packages+=(-p "$name"); done
  (
    cd "$here" # its .cargo/config.toml names the target and the stack; RUSTFLAGS would hide the stack
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET
    quietly env "${rust_env[@]}" cargo build --quiet --release --locked --target "$target" \
      "${rust_flags[@]}" "${packages[@]}"
  )
  for name in "$@"; do
    cp "$here/target/$target/release/${name//-/_}.wasm" "$(temporary "$name")"
    place "$name" "$(temporary "$name")"
  done
}

build_go() {
  local name
  for name in "$@"; do
    (
      cd "$here/$name"
      quietly env GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWORK=off GOTOOLCHAIN=local "$go" build \
        -buildmode=c-shared -trimpath -ldflags="-s -w" -o "$(temporary "$name")" .
    )
    place "$name" "$(temporary "$name")"
  done
}

build_assemblyscript() {
  local name
  for name in "$@"; do
    (
      cd "$here/$name"
      quietly "$node" "$here/node_modules/assemblyscript/bin/asc.js" assembly/index.ts --target release \
        --outFile "$(temporary "$name").wasm"
    )
    mv -f "$(temporary "$name").wasm" "$(temporary "$name")"
    place "$name" "$(temporary "$name")"
  done
}

check_only=false
names=()
for argument in "$@"; do
  case $argument in
    --check-tools) check_only=true ;;
    -h | --help) usage; exit 0 ;;
    -*) fail "unknown option $argument; --help shows what there is" ;;
    *) [ -n "$(language "$argument")" ] \
         || fail "no handler is named $argument; there are: $(every_handler | paste -sd ' ')"
       names+=("$argument") ;;
  esac
done
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(every_handler)

rust=() golang=() assemblyscript=()
for name in "${names[@]}"; do
  case $(language "$name") in
    rust) rust+=("$name") ;;
    go) golang+=("$name") ;;
    assemblyscript) assemblyscript+=("$name") ;;
  esac
done

mkdir -p "$tools" "$out"
trap 'rm -f "$out"/.*."$$".new "$out"/.*."$$".new.wasm' EXIT
one_at_a_time
[ ${#rust[@]} -eq 0 ] || need_rust
[ ${#golang[@]} -eq 0 ] || need_go
[ ${#assemblyscript[@]} -eq 0 ] || need_assemblyscript
if $check_only; then exit 0; fi
[ ${#rust[@]} -eq 0 ] || build_rust "${rust[@]}"
[ ${#golang[@]} -eq 0 ] || build_go "${golang[@]}"
[ ${#assemblyscript[@]} -eq 0 ] || build_assemblyscript "${assemblyscript[@]}"
