#!/usr/bin/env bash
# Builds the Debian package with cargo-deb, which is installed under .tools if it is missing.
#
#   packaging/debian/build.sh FOLDER BINARY    writes duebox_VERSION_ARCH.deb to the folder
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
fail() { printf 'debian: %s\n' "$*" >&2; exit 1; }
[ $# -eq 2 ] || fail "usage: packaging/debian/build.sh FOLDER BINARY"
out=$1 binary=$2
[ -x "$binary" ] || fail "$binary is missing; run: cargo build --release -p duebox"
[ -s sdk/python/build/engine.wasm ] || fail "the engine of Python handlers is missing; run: sdk/python/build.sh"
command -v dpkg-shlibdeps >/dev/null || fail "dpkg-shlibdeps is missing (apt-get install dpkg-dev); it finds the needed libraries"

PATH=$root/.tools/cargo-deb/bin:$PATH
command -v cargo-deb >/dev/null \
  || env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --quiet --locked --version 3.8.0 --root .tools/cargo-deb cargo-deb \
  || fail "cargo-deb could not be installed from crates.io"

rm -rf target/debian
mkdir -p target/debian
strip -o target/debian/duebox "$binary"
"$binary" manual target/debian/manual
"$binary" completions bash >target/debian/duebox.bash
"$binary" completions fish >target/debian/duebox.fish
"$binary" completions zsh >target/debian/_duebox
mkdir -p "$out"
# By the system's xz: cargo-deb is not optimized.
cargo deb --quiet --no-build --no-strip --compress-system --package duebox --output "$out/"
