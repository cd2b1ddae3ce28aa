#!/usr/bin/env bash
# Begins a handler of your own: copies a language's template into a new folder and tells it where
# this SDK is.
#
#   sdk/new.sh rust | go | assemblyscript FOLDER
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "new: $*" >&2; exit 2; }

[ $# -eq 2 ] || fail "usage: sdk/new.sh rust | go | assemblyscript FOLDER"
language=$1 folder=$2
case $language in rust | go | assemblyscript) ;; *) fail "there is no SDK for $language; there are rust, go and assemblyscript" ;; esac
[ ! -e "$folder" ] || fail "$folder is there already; name a new folder"
name=$(basename "$folder")
[[ $name =~ ^[a-z][a-z0-9-]*$ ]] || fail "$name is no name for a handler; use small letters, digits and -, such as order-close"

mkdir -p "$(dirname "$folder")"
staging=$(mktemp -d "$(dirname "$folder")/.new.XXXXXX")
trap 'rm -rf "$staging"' EXIT
# Only what git knows of, or would: no build output of the template itself.
(cd "$here/$language/template" && tar -c --exclude=./target --exclude=./build --exclude=./node_modules --exclude='*.lock' .) | tar -x -C "$staging"
case $language in
  rust) sed -i "s|path = \"..\"|path = \"$here/rust\"|; s|^name = \"template\"|name = \"$name\"|" "$staging/Cargo.toml" ;;
  go) sed -i "s|=> ..$|=> $here/go|; s|^module .*|module $name|" "$staging/go.mod" ;;
  assemblyscript) sed -i "s|file:\.\.|file:$here/assemblyscript|; s|\"name\": \"template\"|\"name\": \"$name\"|" "$staging/package.json" ;;
esac
chmod 755 "$staging"
mv "$staging" "$folder"
trap - EXIT
echo "$folder is a handler now; build it: $(dirname "$here")/handlers/build.sh $folder/"
