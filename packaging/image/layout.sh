#!/usr/bin/env bash
# Lays out the root of a container image: programs, stripped, with the libraries that they are linked against,
# certificates, a user, the engine of Python handlers if it is asked for, and nothing else. The Dockerfile and ./dev image use it, so both build the same image.
#
#   packaging/image/layout.sh ROOT [--python] PROGRAM…
set -euo pipefail

fail() { printf 'layout: %s\n' "$*" >&2; exit 1; }
[ $# -ge 2 ] || fail "usage: packaging/image/layout.sh ROOT [--python] PROGRAM…"
root=$1
shift
certificates=/etc/ssl/certs/ca-certificates.crt
engine=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/sdk/python/build/engine.wasm
if [ "$1" = --python ]; then
  shift
  [ -s "$engine" ] || fail "$engine is missing; run: sdk/python/build.sh"
  # Where the program looks for it.
  install -D -m 0644 "$engine" "$root/usr/local/lib/duebox/python.wasm"
fi
[ -s "$certificates" ] || fail "$certificates is missing; install ca-certificates"

for program in "$@"; do
  [ -x "$program" ] || fail "$program is not a program"
  name=$(basename "$program")
  install -D -m 0755 "$program" "$root/usr/local/bin/$name"
  strip "$root/usr/local/bin/$name"
  # Libraries stand where the loader of this system looks for them.
  ldd "$program" | awk '$2 == "=>" && $3 ~ "^/" { print $3 } $1 ~ "^/" { print $1 }' | while read -r library; do
    install -D -m 0755 "$(readlink -f "$library")" "$root$library"
  done
done

install -d -m 0755 "$root/etc/duebox" "$root/var/cache"
install -d -m 1777 "$root/tmp"
install -D -m 0644 "$certificates" "$root$certificates"
printf 'root:x:0:0:root:/:/sbin/nologin\nduebox:x:65532:65532:duebox:/:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nduebox:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
