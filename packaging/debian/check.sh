#!/usr/bin/env bash
# Installs the Debian package into a fresh system (debootstrap), boots it with its own systemd (systemd-nspawn), and
# uses the service as an administrator would: a job, a reload, a watchdog that fires, an invalid manifest, a purge.
#
#   packaging/debian/check.sh PACKAGE.deb    as root; keeps nothing
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
package=${1:?usage: packaging/debian/check.sh PACKAGE.deb}
work=$(mktemp -d)
system=$work/system
container=
say() { printf '%-10s %s\n' "$1" "$2"; }
fail() {
  printf 'debian check: %s\n' "$*" >&2
  [ -z "$container" ] || box journalctl -u duebox --no-pager -n 30 >&2 || true
  exit 1
}
cleanup() {
  if [ -n "$container" ]; then
    kill -KILL "$leader" 2>/dev/null || true
    wait "$container" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
[ "$(id -u)" -eq 0 ] || fail "run it as root: it makes a system and boots it"
for program in debootstrap systemd-nspawn nsenter dpkg-deb; do
  command -v "$program" >/dev/null || fail "$program is missing (apt-get install debootstrap systemd-container util-linux)"
done

# eventually WHAT COMMAND…: waits until the command succeeds, 60 s at most.
eventually() {
  local what=$1 end=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what: not within 60 s"
    sleep 0.2
  done
}
box() { nsenter --target "$leader" --all "$@"; }
logged() { box journalctl -u duebox --no-pager -o cat | grep "$1" >/dev/null; }
property() { box systemctl show --property "$1" --value duebox; }

debootstrap --variant=minbase --include=adduser,systemd,systemd-sysv,redis-server,ca-certificates \
  "${DEBIAN_SUITE:-bookworm}" "$system" >"$work/debootstrap.log" 2>&1 || fail "debootstrap: $(tail -n 3 "$work/debootstrap.log")"
cp "$package" "$system/root/duebox.deb"
# No service starts before the system is booted.
printf '#!/bin/sh\nexit 101\n' >"$system/usr/sbin/policy-rc.d"
chmod +x "$system/usr/sbin/policy-rc.d"
chroot "$system" apt-get install -qq -y --no-install-recommends /root/duebox.deb >"$work/apt.log" 2>&1 \
  || fail "the package cannot be installed: $(tail -n 5 "$work/apt.log")"
rm "$system/usr/sbin/policy-rc.d" "$system/root/duebox.deb"
# A minimal Debian leaves documentation out of what it installs, so the package itself is asked for it.
dpkg-deb --contents "$package" >"$work/contents"
for file in usr/share/man/man1/duebox.1 usr/share/man/man1/duebox-run.1 usr/share/bash-completion/completions/duebox \
  usr/share/fish/vendor_completions.d/duebox.fish usr/share/zsh/vendor-completions/_duebox lib/systemd/system/duebox.service; do
  grep -Eq " \./(usr/)?${file//./\\.}(\.gz)?\$" "$work/contents" || fail "the package lacks $file"
done
chroot "$system" bash -c '. /usr/share/bash-completion/completions/duebox && complete -p duebox' >/dev/null || fail "the completions of bash cannot be read"
# The text of the manual, without a pager: this system has none.
dpkg-deb --fsys-tarfile "$package" | tar -xO --wildcards '*/man1/duebox-run.1*' | zcat -f | grep '^\.SH' >/dev/null || fail "the manual of duebox run is not a manual page"
say install "$(du -h "$package" | cut -f1), $(chroot "$system" duebox --version); manual, completions and unit are in it"

systemd-nspawn --quiet --directory "$system" --boot --register=no --keep-unit --private-network --console=pipe \
  </dev/null >"$work/boot.log" 2>&1 &
container=$!
leader=
started() { leader=$(pgrep -P "$container" | head -n 1) && [ -n "$leader" ] && box systemctl --quiet is-active duebox; }
eventually "the service starts with the system" started
say boot "the service is active as $(box systemctl show --property User --value duebox)"

box sh -c 'cat >/etc/duebox/hello.ts' <"$root/runner/src/cli/init/hello.ts"
box sh -c 'cat >>/etc/duebox/duebox.toml' <<'TOML'
[topics.hello]
handler = "hello.ts"
TOML
box systemctl reload duebox
eventually "the topic is served after a reload" logged '"serving","topic":"hello"'
box setpriv --reuid nobody --clear-groups duebox push --manifest /etc/duebox/duebox.toml hello Ada >/dev/null
eventually "a job of another user runs" logged '"Hello, Ada"'
say job "a TypeScript handler was read and ran in the hardened service"
box sh -c 'printf "def handle(payload): print(\"Hello from Python\")\n" >/etc/duebox/hello.py'
box duebox invoke /etc/duebox/hello.py --payload '{}' | grep 'Hello from Python' >/dev/null || fail "a handler in Python does not run"
say python "a handler in Python runs"
exposure=$(box systemd-analyze security duebox --no-pager | sed -n 's/.*Overall exposure level.*: \([0-9.]*\).*/\1/p')
[ "$(printf '%s\n' "$exposure" 2.0 | sort -V | head -n 1)" = "$exposure" ] || fail "systemd rates the exposure $exposure, above 2.0"
say hardening "systemd rates the exposure $exposure of 10"

box mkdir -p /run/systemd/system/duebox.service.d
box sh -c 'printf "[Service]\nWatchdogSec=3s\n" >/run/systemd/system/duebox.service.d/watchdog.conf'
box systemctl daemon-reload
box systemctl restart duebox
box sh -c "kill -STOP $(property MainPID)"
restarted() { [ "$(property NRestarts)" -ge 1 ] && box systemctl --quiet is-active duebox; }
eventually "the watchdog restarts a daemon that hangs" restarted
say watchdog "a stopped daemon was replaced"

box sh -c 'echo "nonsense = 1" >>/etc/duebox/duebox.toml'
eventually "the invalid manifest is refused while it runs" logged 'manifest.*refused'
box systemctl restart duebox 2>/dev/null && fail "the service starts with an invalid manifest"
[ "$(property ExecMainStatus)" = 2 ] && [ "$(property ActiveState)" = failed ] || fail "an invalid manifest is tried again"
say manifest "exit code 2 is not restarted"

box apt-get purge -qq -y duebox >/dev/null 2>&1 || fail "the package cannot be purged"
for left in /etc/duebox/duebox.toml /var/cache/duebox /var/lib/duebox /usr/bin/duebox; do
  [ ! -e "$system$left" ] || fail "a purge leaves $left"
done
say purge "no file is left"
