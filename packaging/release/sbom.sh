#!/usr/bin/env bash
# Writes the crates of the daemon as CycloneDX. cargo-cyclonedx, which is installed under .tools if it is missing, writes next to
# each manifest, so it works on a copy of the sources.
#
#   packaging/release/sbom.sh FILE TARGET    TARGET: of the binary, as rustc names it
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
[ $# -eq 2 ] || { echo "usage: packaging/release/sbom.sh FILE TARGET" >&2; exit 1; }
out=$(realpath -m "$1")
PATH=$root/.tools/cargo-cyclonedx/bin:$PATH
command -v cargo-cyclonedx >/dev/null \
  || CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --quiet --locked --version 0.5.9 --root .tools/cargo-cyclonedx cargo-cyclonedx \
  || { echo "sbom: cargo-cyclonedx could not be installed from crates.io" >&2; exit 1; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z -- Cargo.toml Cargo.lock runner tests bench examples | xargs -0 cp --parents -t "$copy"
cargo cyclonedx --quiet --manifest-path "$copy/Cargo.toml" --format json --spec-version 1.5 --target "$2"
cp "$copy/runner/duebox.cdx.json" "$out"
