#!/usr/bin/env bash
# Puts what a release consists of into dist/: the stripped binary with the engine of Python handlers as an archive, a
# Debian package, a wheel and npm packages, the container images, the Helm chart, the SDKs and library crates as their
# registries take them, a list of all crates in the binary (SBOM), and the digests of all files. All forms contain the same binary.
# A binary for another platform becomes an archive, a wheel, an npm package and an SBOM: the others are built on such a machine.
# Nothing is uploaded.
#
#   packaging/release/build.sh [CROSS_TARGET]    after cargo build --profile dist -p duebox, and the same with --target CROSS_TARGET
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
built=target/dist/duebox
cross=${1:-}
fail() { printf 'release: %s\n' "$*" >&2; exit 1; }
step() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
for program in buildah dpkg-shlibdeps npm readelf python3 strip; do
  command -v "$program" >/dev/null || fail "$program is missing"
done
for file in "$built" ${cross:+"target/$cross/dist/duebox"}; do
  [ -x "$file" ] || fail "$file is missing; run: cargo build --profile dist -p duebox${cross:+ [--target $cross]}"
done
engine=sdk/python/build/engine.wasm
[ -s "$engine" ] || fail "$engine is missing; run: sdk/python/build.sh"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[ "$("$built" --version)" = "duebox $version" ] || fail "$built is $("$built" --version), not version $version"
target=$("$built" version --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["target"])')
# The same sources give the same archives.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
staging=target/staging
rm -rf dist "$staging"
mkdir -p dist "$staging"
binary=$staging/duebox
strip -o "$binary" "$built"

# pack TARGET BINARY: the forms that need no program of the platform. Manual and completions are the same on each.
pack() {
  local name=duebox-$version-$1 folder shell
  folder=$staging/$name
  step "archive, wheel, npm package and SBOM for $1"
  mkdir -p "$folder"
  install -m 0755 "$2" "$folder/duebox"
  cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder/"
  # Where the program looks for it.
  install -D -m 0644 "$engine" "$folder/languages/python.wasm"
  install -m 0644 sdk/python/LICENSE-PYTHON "$folder/languages/"
  "$binary" manual "$folder/manual"
  for shell in bash fish zsh; do "$binary" completions "$shell" >"$folder/duebox.$shell"; done
  tar -C "$staging" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
  python3 packaging/pypi/wheel.py "$2" "$engine" "$version" "$1" dist
  packaging/npm/build.sh "$2" "$engine" "$version" "$1" dist
  packaging/release/sbom.sh "dist/$name.cdx.json" "$1"
}
pack "$target" "$binary"
if [ -n "$cross" ]; then
  # The prefix of the cross compiler's programs, as Debian names them.
  "${cross%%-*}-linux-gnu-strip" -o "$staging/duebox-$cross" "target/$cross/dist/duebox"
  pack "$cross" "$staging/duebox-$cross"
fi

step "Debian package"
packaging/debian/build.sh dist "$binary"

step "wheel of the SDK"
python3 packaging/pypi/wheel.py --sdk "$version" dist

step "crates, and the SDKs for npm"
# The three crates together, since they depend on each other.
cargo package --quiet --allow-dirty --no-verify -p duebox-job -p duebox-queue -p duebox-sandbox
(cd sdk/rust && cargo package --quiet --allow-dirty --no-verify)
cp "${CARGO_TARGET_DIR:-target}"/package/duebox-{job,queue,sandbox}-"$version".crate dist/
cp "${CARGO_TARGET_DIR:-sdk/rust/target}/package/duebox-sdk-$version.crate" dist/
for package in sdk/assemblyscript sdk/javascript/types; do npm pack --silent --pack-destination dist "./$package" >/dev/null; done

step "Helm chart"
tar -C packaging/helm --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - duebox | gzip -9n >"dist/duebox-helm-$version.tgz"

step "images"
packaging/image/build.sh "$binary"
buildah push --quiet localhost/duebox:local "docker-archive:dist/duebox-$version-image.tar:duebox:$version"
for kind in python all-in-one; do
  buildah push --quiet "localhost/duebox:$kind" "docker-archive:dist/duebox-$version-image-$kind.tar:duebox:$version-$kind"
done
gzip -9n dist/*.tar

(cd dist && sha256sum -- * >"../$staging/SHA256SUMS" && mv "../$staging/SHA256SUMS" .)
ls -l dist | awk 'NR > 1 { printf "%9.1f MB  %s\n", $5 / 1e6, $9 }'
