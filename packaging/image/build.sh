#!/usr/bin/env bash
# Builds the images of the Dockerfile without Docker and without a registry: buildah runs its last stages over what
# the first stage would have built, laid out here.
#
#   packaging/image/build.sh [BINARY]    target/dist/duebox by default; tags duebox:local, duebox:python and duebox:all-in-one
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary=${1:-$root/target/dist/duebox}
fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
command -v buildah >/dev/null || fail "buildah is missing (apt-get install buildah)"
[ -x "$binary" ] || fail "$binary is missing; run: cargo build --profile dist -p duebox"

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
install -d -m 0700 "$context/cache/duebox" "$context/data/duebox"
"$root/packaging/image/layout.sh" "$context/image" "$binary"
"$root/packaging/image/layout.sh" "$context/python" --python "$binary"
"$root/packaging/image/layout.sh" "$context/all-in-one" --python "$binary" "$(command -v redis-server)"

# The formats of Docker: only they have a HEALTHCHECK.
build() {
  buildah bud --quiet --pull-never --isolation chroot --format docker --build-context build="$context" "$@" "$root" >/dev/null
}
build -t duebox:local
build -t duebox:python --target python
build -t duebox:all-in-one --target all-in-one
buildah images --format '{{.Name}}:{{.Tag}} {{.Size}}' | grep '^localhost/duebox:'
