#!/usr/bin/env bash
# Sets the version of everything that is released. The changelog must describe it already. Nothing is committed or tagged.
#
#   packaging/release/bump.sh VERSION
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
fail() { printf 'release: %s\n' "$*" >&2; exit 1; }
new=${1:-}
[[ $new =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$ ]] || fail "name a version, for example: ./dev release 0.2.0"
old=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[ "$new" != "$old" ] && [ "$(printf '%s\n' "$old" "$new" | sort -V | tail -n 1)" = "$new" ] || fail "$new is not above the current version $old"

# The changelog first: nothing is changed if it is refused.
section=$(awk -v head="## [$new] - " 'index($0, head) == 1 { on = 1; print; next } on && /^## |^\[/ { exit } on' CHANGELOG.md)
[ -n "$section" ] || fail "CHANGELOG.md has no section \"## [$new] - YYYY-MM-DD\""
head -n 1 <<<"$section" | grep -Eq ' - [0-9]{4}-[0-9]{2}-[0-9]{2}$' || fail "the section $new of CHANGELOG.md has no date: $(head -n 1 <<<"$section")"
grep -q '^- ' <<<"$section" || fail "the section $new of CHANGELOG.md is empty"
grep -Fq "[$new]: https://github.com/duebox/duebox/releases/tag/v$new" CHANGELOG.md || fail "CHANGELOG.md has no link for [$new]"

quoted=${old//./\\.}
# The first version of a Cargo.toml is its own; the workspace's dependencies on its crates have it too.
for manifest in Cargo.toml sdk/rust/Cargo.toml sdk/javascript/Cargo.toml sdk/python/Cargo.toml sdk/engine-abi/Cargo.toml; do
  sed -i "0,/^version = \"$quoted\"/s//version = \"$new\"/" "$manifest"
done
sed -i "/^duebox-/s/version = \"$quoted\"/version = \"$new\"/" Cargo.toml
sed -i "s/\"version\": \"$quoted\"/\"version\": \"$new\"/" sdk/assemblyscript/package.json sdk/javascript/types/package.json
sed -i "s|duebox:$quoted\$|duebox:$new|" examples/sidecar/k8s/shop.yaml
sed -i "s/^version: $quoted\$/version: $new/; s/^appVersion: \"$quoted\"/appVersion: \"$new\"/" packaging/helm/duebox/Chart.yaml
sed -i "s/^Version $quoted (/Version $new (/" README.md
for workspace in . fuzz handlers sdk/rust sdk/javascript sdk/python; do
  [ ! -f "$workspace/Cargo.lock" ] || (cd "$workspace" && cargo update --quiet --workspace)
done
printf 'the version is %s now. Next: ./dev release --check, commit, and tag v%s and sdk/go/v%s\n' "$new" "$new" "$new"
