#!/usr/bin/env bash
# Builds handlers into handlers/build/<name>.wasm: all handlers of this folder, or the named ones. A name
# with a slash is the folder of a handler elsewhere.
#
#   handlers/build.sh [--check-tools] [NAME | FOLDER]…
#
# Every module keeps the names of its functions, so that the trace of a trap is readable.
#
# A folder with a Cargo.toml is a Rust handler, with a go.mod a Go handler, with an asconfig.json an
# AssemblyScript handler. A missing tool is installed into .tools/ of the repository (the Rust target
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

# build_rust FOLDER ARGUMENTS…: with cargo, in a folder whose .cargo/config.toml sets the stack size.
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

# The handlers of this folder are one workspace and one cargo run; each handler elsewhere is one run.
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

# The compiler is always the one installed here; --path tells it where the SDK is.
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
    -*) fail "unknown option $argument; see --help" ;;
    */*) argument=$(cd "$argument" 2>/dev/null && pwd) && [ -n "$(language "$argument")" ] \
           || fail "the folder has no handler: no Cargo.toml, go.mod or asconfig.json"
         names+=("$argument") ;;
    *) [ -n "$(language "$argument")" ] \
         || fail "unknown handler $argument; known are: $(every_handler | paste -sd ' ')"
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
