#!/usr/bin/env bash
# Makes the npm packages of the binary: @duebox/TARGET contains it, and duebox, which `npx duebox` runs, has those of all
# platforms as optional dependencies; npm installs the one that fits. The engine of Python handlers is next to the binary.
#
#   packaging/npm/build.sh BINARY ENGINE VERSION TARGET FOLDER
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$1 engine=$2 version=$3 target=$4 out=$(realpath "$5")
fail() { printf 'npm: %s\n' "$*" >&2; exit 1; }
case $target in
  x86_64-unknown-linux-gnu) platform=linux-x64 ;;
  aarch64-unknown-linux-gnu) platform=linux-arm64 ;;
  *) fail "no npm platform is known for $target" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/platform/bin" "$work/duebox"
install -m 0755 "$binary" "$work/platform/bin/duebox"
install -D -m 0644 "$engine" "$work/platform/bin/languages/python.wasm"
cat >"$work/platform/package.json" <<JSON
{
  "name": "@duebox/$platform",
  "version": "$version",
  "description": "The duebox binary for $platform",
  "license": "MIT OR Apache-2.0",
  "repository": { "type": "git", "url": "git+https://github.com/duebox/duebox.git" },
  "os": ["${platform%-*}"],
  "cpu": ["${platform#*-}"],
  "libc": ["glibc"],
  "files": ["bin"]
}
JSON
install -m 0755 "$here/duebox.js" "$work/duebox/duebox.js"
cp "$here/../../README.md" "$here/../../LICENSE-MIT" "$here/../../LICENSE-APACHE" "$work/duebox/"
cat >"$work/duebox/package.json" <<JSON
{
  "name": "duebox",
  "version": "$version",
  "description": "Runs background jobs in WebAssembly sandboxes, with Redis as its only dependency",
  "license": "MIT OR Apache-2.0",
  "repository": { "type": "git", "url": "git+https://github.com/duebox/duebox.git" },
  "bin": { "duebox": "duebox.js" },
  "engines": { "node": ">=18" },
  "files": ["duebox.js", "LICENSE-MIT", "LICENSE-APACHE"],
  "optionalDependencies": { "@duebox/linux-x64": "$version", "@duebox/linux-arm64": "$version" }
}
JSON
for package in platform duebox; do
  (cd "$work/$package" && npm pack --silent --pack-destination "$out" >/dev/null) || fail "npm pack fails for $package"
done
