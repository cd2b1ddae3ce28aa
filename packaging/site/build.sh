#!/usr/bin/env bash
# Builds the documentation as one site into dist/docs, and checks its links.
#
#   packaging/site/build.sh
#
# mdBook is installed into .tools in the version below; that compiles for some minutes, once.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$here")")
cd "$root"
unset CARGO_TARGET_DIR

version=0.5.4
mdbook=.tools/bin/mdbook
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
  printf 'installing mdbook %s (some minutes)\n' "$version" >&2
  CARGO_PROFILE_DEV_DEBUG=0 cargo install mdbook --locked --version "$version" --no-default-features --features search \
    --debug --quiet --root .tools
fi

book=target/docs-book
mkdir -p "$book"
python3 "$here/stage.py" . "$book/src"
cp "$here/book.toml" "$here/site.css" "$book/"
rm -rf dist/docs
"$mdbook" build --dest-dir "$root/dist/docs" "$book"
python3 "$here/check.py" . dist/docs
