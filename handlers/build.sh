#!/usr/bin/env bash
# Builds handlers into handlers/build/<name>.wasm: all that are here, or those named. A name with a
# slash in it is the folder of a handler that lives elsewhere.
#
#   handlers/build.sh [--check-tools] [NAME | FOLDER]…
#
# The names of functions stay in every module, so that a trap's trace can be read.
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

folder() { case $1 in */*) echo "$1" ;; *) echo "$here/$1" ;; esac; }

language() {
  local folder
  folder=$(folder "$1")
  if [ -f "$folder/Cargo.toml" ]; then echo rust
  elif [ -f "$folder/go.mod" ]; then echo go
  elif [ -f "$folder/asconfig.json" ]; then echo assemblyscript
  fi
}

every_handler() {
  local folder
  for folder in "$here"/*/; do
    [ -z "$(language "$folder")" ] || basename "$folder"
  done
}

# The temporary file stands in the folder of the modules, so that moving it is one step, and its name
# begins with a dot and does not end in .wasm, so that nobody loads it.
temporary() { echo "$out/.$(basename "$1").$$.new"; }

# place NAME: gives the temporary file its name, unless the same module has it.
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

# build_rust FOLDER ARGUMENTS…: by cargo, in a folder whose .cargo/config.toml names the stack.
build_rust() (
  cd "$1"
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET
  quietly env "${rust_env[@]}" cargo build --quiet --release --target "$target" \
    --target-dir "$here/target" "${rust_flags[@]}" "${@:2}"
)

place_rust() {
  local crate
  crate=$(sed -n 's/^name = "\(.*\)"/\1/p' "$(folder "$1")/Cargo.toml" | head -n 1)
  cp "$here/target/$target/release/${crate//-/_}.wasm" "$(temporary "$1")"
  place "$1"
}

# The handlers here are one workspace and one run of cargo; those elsewhere are one each.
build_all_rust() {
  local name packages=()
  for name in "$@"; do
    case $name in */*) build_rust "$name" ;; *) packages+=(-p "$name") ;; esac
  done
  [ ${#packages[@]} -eq 0 ] || build_rust "$here" --locked "${packages[@]}"
  for name in "$@"; do place_rust "$name"; done
}

build_go() {
  (
    cd "$(folder "$1")"
    quietly env GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWORK=off GOTOOLCHAIN=local "$go" build \
      -buildmode=c-shared -trimpath -ldflags=-w -o "$(temporary "$1")" .
  )
  place "$1"
}

# The compiler is always the one that is installed here; --path is where it finds the SDK.
build_assemblyscript() {
  (
    cd "$(folder "$1")"
    quietly "$node" "$here/node_modules/assemblyscript/bin/asc.js" assembly/index.ts --target release \
      --path "$here/node_modules" --outFile "$(temporary "$1").wasm"
  )
  mv -f "$(temporary "$1").wasm" "$(temporary "$1")"
  place "$1"
}

check_only=false
names=()
for argument in "$@"; do
  case $argument in
    --check-tools) check_only=true ;;
    -h | --help) usage; exit 0 ;;
    -*) fail "unknown option $argument; --help shows what there is" ;;
    */*) argument=$(cd "$argument" 2>/dev/null && pwd) && [ -n "$(language "$argument")" ] \
           || fail "there is no handler in that folder: no Cargo.toml, go.mod or asconfig.json"
         names+=("$argument") ;;
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
out=$(cd "$out" && pwd)
trap 'rm -f "$out"/.*."$$".new "$out"/.*."$$".new.wasm' EXIT
one_at_a_time
[ ${#rust[@]} -eq 0 ] || need_rust
[ ${#golang[@]} -eq 0 ] || need_go
[ ${#assemblyscript[@]} -eq 0 ] || need_assemblyscript
if $check_only; then exit 0; fi
[ ${#rust[@]} -eq 0 ] || build_all_rust "${rust[@]}"
for name in ${golang[@]+"${golang[@]}"}; do build_go "$name"; done
for name in ${assemblyscript[@]+"${assemblyscript[@]}"}; do build_assemblyscript "$name"; done
