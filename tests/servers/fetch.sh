#!/usr/bin/env bash
# fetch.sh NAME: unpacks a server of another Debian release with its own libraries into .tools/servers/NAME,
# and prints the folder of its programs. Nothing is installed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { printf 'servers: %s\n' "$*" >&2; exit 1; }

name=${1:-}
case $name in
  redis-7.0) suite=bookworm program=redis ;;
  redis-8) suite=trixie program=redis ;;
  redis-8.6) suite=experimental program=redis ;;
  valkey-8) suite=trixie program=valkey ;;
  valkey-9) suite=sid program=valkey ;;
  *) fail "unknown server \"$name\"; choose one of: redis-7.0, redis-8, redis-8.6, valkey-8, valkey-9" ;;
esac
[ "$(uname -s)" = Linux ] && command -v apt-get >/dev/null || fail "needs Linux and apt-get"

folder=$root/.tools/servers/$name
if [ -x "$folder/bin/$program-server" ]; then
  printf '%s\n' "$folder/bin"
  exit
fi
rm -rf "$folder"
mkdir -p "$folder"/{state/lists/partial,cache/archives/partial,etc/preferences.d,debs,root,bin}
touch "$folder/state/status"
# Packages of experimental are built on the libraries of unstable.
suites=$suite
[ "$suite" != experimental ] || suites="experimental sid"
for from in $suites; do
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n' "$from"
done >"$folder/etc/sources.list"

# apt with lists and a cache of its own, which knows no installed package.
own_apt() {
  local command=$1
  shift
  "$command" -q -o APT::Default-Release="$suite" -o Dir::Etc="$folder/etc" -o Dir::Etc::sourcelist="$folder/etc/sources.list" \
    -o Dir::Etc::sourceparts=- -o Dir::State="$folder/state" -o Dir::State::status="$folder/state/status" \
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none "$@"
}
own_apt apt-get update >&2

# The server, its tools, and every library below them.
wanted="$program-server $program-tools" seen=
while [ -n "$wanted" ]; do
  seen="$seen $wanted"
  # shellcheck disable=SC2086
  wanted=$(own_apt apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances $wanted | sed -n 's/^[ |]*\(Pre\)\{0,1\}Depends: \(lib[^<>]*\)$/\2/p' | sort -u \
    | while read -r package; do
      case " $(printf '%s' "$seen" | tr '\n' ' ') " in *" $package "*) ;; *) printf '%s ' "$package" ;; esac
    done)
done
# shellcheck disable=SC2086
(cd "$folder/debs" && own_apt apt-get download $seen >&2)
for deb in "$folder"/debs/*.deb; do
  dpkg-deb -x "$deb" "$folder/root"
done

# Each program runs on the loader and the libraries of its own release.
loader=$(find "$folder/root" -name 'ld-linux-*.so.*' | head -n1)
[ -n "$loader" ] || fail "no loader among the libraries of $suite"
libraries=$(find "$folder/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
for tool in server cli; do
  real=$(find "$folder/root/usr/bin" -name "$program-$tool" | head -n1)
  # A server may be a link to its checker, which looks at the name it is called by.
  cat >"$folder/bin/$program-$tool" <<SCRIPT
#!/bin/sh
exec "$loader" --library-path "$libraries" --argv0 "$program-$tool" "$(readlink -f "$real")" "\$@"
SCRIPT
  chmod +x "$folder/bin/$program-$tool"
done
rm -rf "$folder/debs" "$folder/cache" "$folder/state"
"$folder/bin/$program-server" --version >&2
printf '%s\n' "$folder/bin"
