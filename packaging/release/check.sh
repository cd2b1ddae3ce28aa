#!/usr/bin/env bash
# Uses each part of a release in dist/ from its packed form, as its users would: outside of the repository.
#
#   packaging/release/check.sh [PART…]    archive cross debian wheel npm image helm crates rust go assemblyscript sums bump; all without PART
set -Eeuo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dist=$root/dist
work=$(mktemp -d)
pids=()
say() { printf '%-14s %s\n' "$1" "$2"; }
fail() { printf 'release check: %s\n' "$*" >&2; exit 1; }
registered= library=
# Seconds for a first job.
patience=60
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  [ -z "$registered" ] || echo -1 >"$registered" || true
  [ -z "$library" ] || rm -f "$library"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'printf "release check: %s fails at line %s\n" "${part:-}" "$LINENO" >&2' ERR
# Nothing of the checkout is found by accident.
unset DUEBOX_MANIFEST DUEBOX_REDIS_URL CARGO_TARGET_DIR
cd "$work"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
machine=$(uname -m)
one() { local found=("$dist"/$1); [ -e "${found[0]}" ] && [ ${#found[@]} -eq 1 ] || fail "there is not exactly one $1 in dist"; printf '%s\n' "${found[0]}"; }

# first_job NAME COMMAND…: the first ten minutes with this program: a project, a daemon, an acked job, a drain.
first_job() {
  local name=$1 end=$((SECONDS + patience)) pid state=0
  shift
  "$@" version --verbose >"$name.version" || fail "$name does not run"
  "$@" init "$name-project" >/dev/null
  (cd "$name-project" && DUEBOX_LISTEN=127.0.0.1:0 exec "$@" run >run.log 2>&1) &
  pid=$!
  pids+=("$pid")
  until grep -q '"job done"' "$name-project/run.log" 2>/dev/null; do
    [ $SECONDS -lt $end ] || fail "$name has run no job within $patience s: $(tail -n 3 "$name-project/run.log")"
    sleep 0.2
  done
  kill -TERM "$pid"
  wait "$pid" || state=$?
  [ "$state" = 0 ] || fail "$name ended with exit code $state on SIGTERM: $(tail -n 3 "$name-project/run.log")"
  grep -q '"drained"' "$name-project/run.log" || fail "$name did not drain"
  say "$name" "a new project ran a job and drained, exit code 0"
}

# python_job NAME PROGRAM: a handler in Python, with the engine of the package.
python_job() {
  printf 'def handle(payload): print("Hello,", payload["name"])\n' >"$1.py"
  "$2" invoke "$1.py" --payload '{"name":"Ada"}' >"$1.invoke" || fail "a handler in Python fails: $(cat "$1.invoke")"
  grep -q 'Hello, Ada' "$1.invoke" || fail "a handler in Python greets nobody: $(cat "$1.invoke")"
  say "$1" "a handler in Python runs"
}

# provenance BINARY TEXT: what `version --verbose` printed names the commit of this checkout (DUEBOX_COMMIT: of the build), and the binary runs with Debian 12's glibc.
provenance() {
  local commit newest
  commit=${DUEBOX_COMMIT:-$(git -C "$root" rev-parse HEAD)}
  grep -Eq "^commit +$commit(-modified)?\$" "$2" || fail "the binary is not of commit $commit: $(grep ^commit "$2")"
  newest=$(readelf --version-info "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
  [ "$(printf '%s\n' GLIBC_2.36 "$newest" | sort -V | tail -n 1)" = GLIBC_2.36 ] || fail "$1 needs $newest, newer than Debian 12's 2.36"
  ! readelf --sections --wide "$1" | grep ' \.symtab ' >/dev/null || fail "$1 is not stripped"
  say provenance "commit ${commit:0:12}, $newest, $(($(stat -c %s "$1") / 1000000)) MB"
}

archive() {
  local folder=$work/duebox-$version-$machine-unknown-linux-gnu
  tar -xzf "$(one "duebox-$version-$machine-unknown-linux-gnu.tar.gz")"
  first_job archive "$folder/duebox"
  provenance "$folder/duebox" archive.version
  python_job archive "$folder/duebox"
}

# The kernel starts programs for aarch64 with qemu, as the package of Debian registers it where systemd runs: the daemon starts
# itself, without its environment, to compile a module. So qemu must find the cross compiler's C library where it looks by itself.
emulate() {
  local entry=/proc/sys/fs/binfmt_misc/qemu-aarch64
  if [ ! -e /etc/qemu-binfmt/aarch64 ]; then
    mkdir -p /etc/qemu-binfmt && ln -s /usr/aarch64-linux-gnu /etc/qemu-binfmt/aarch64 || return 1
    library=/etc/qemu-binfmt/aarch64
  fi
  [ ! -e "$entry" ] || return 0
  [ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || return 1
  printf '%s' "$(cat /usr/lib/binfmt.d/qemu-aarch64.conf)" >/proc/sys/fs/binfmt_misc/register || return 1
  registered=$entry
}

# The binary for aarch64, on x86_64: it is emulated, with the cross compiler's C library.
cross() {
  local folder=$work/duebox-$version-aarch64-unknown-linux-gnu
  if [ ! -e "$dist/$(basename "$folder").tar.gz" ] || [ "$machine" = aarch64 ]; then
    say cross "left out: this dist has no binary for another platform"
    return
  fi
  tar -xzf "$dist/$(basename "$folder").tar.gz"
  emulate || fail "qemu cannot be registered as the interpreter of programs for aarch64: run this as root"
  # An emulated compiler takes a minute and more.
  patience=600 first_job cross "$folder/duebox"
  grep -Eq '^target +aarch64-unknown-linux-gnu$' cross.version || fail "the binary is of another target: $(grep ^target cross.version)"
  provenance "$folder/duebox" cross.version
  (cd cross-project && "$folder/duebox" check >../cross.check) || fail "duebox check fails on aarch64: $(cat cross.check)"
  # It asks for the address and is refused, on both with the same words.
  local call=(invoke "$root/handlers/build/webhook.wasm" --allow-http http://127.0.0.1:9 --config url=http://127.0.0.1:9/ --payload '{}')
  duebox "${call[@]}" >native.invoke || true
  "$folder/duebox" "${call[@]}" >cross.invoke || true
  grep -q '^reason .*is not public' cross.invoke || fail "a module ends otherwise on aarch64: $(cat cross.invoke)"
  [ "$(grep '^reason\|^memory' cross.invoke)" = "$(grep '^reason\|^memory' native.invoke)" ] \
    || fail "a module ends otherwise on aarch64: $(cat cross.invoke)"
  python_job cross "$folder/duebox"
}

debian() { "$root/packaging/debian/check.sh" "$(one "duebox_$version-*.deb")"; }

wheel() {
  python3 -m venv venv
  venv/bin/pip install --quiet --no-index "$(one "duebox-$version-*_$machine.whl")"
  first_job wheel "$work/venv/bin/duebox"
  python_job wheel "$work/venv/bin/duebox"
  venv/bin/pip install --quiet --no-index "$(one "duebox_sdk-$version-*.whl")"
  printf 'from duebox import nack\nfrom duebox_testing import run\nassert run(lambda payload: nack(payload["name"]), {"name": "Ada"}).reason == "Ada"\n' >unit.py
  venv/bin/python unit.py || fail "the wheel duebox-sdk does not run a handler"
  say wheel "a handler is tested in CPython"
}

npm_package() {
  mkdir npm
  npm install --silent --no-audit --no-fund --offline --prefix npm "$(one "duebox-linux-$(case $machine in x86_64) echo x64 ;; *) echo arm64 ;; esac)-$version.tgz")" "$(one "duebox-$version.tgz")" >/dev/null
  first_job npm "$work/npm/node_modules/.bin/duebox"
  python_job npm "$work/npm/node_modules/.bin/duebox"
  npm install --silent --no-audit --no-fund --offline --prefix npm "$(one "duebox-sdk-$version.tgz")" >/dev/null
  cat >npm/unit.test.mjs <<'JAVASCRIPT'
import { nack } from "duebox";
import { run } from "@duebox/sdk/testing";
const { reason } = await run(({ name }) => nack(name), { name: "Ada" });
if (reason !== "Ada") throw new Error(reason);
JAVASCRIPT
  (cd npm && node --import @duebox/sdk/register unit.test.mjs) || fail "@duebox/sdk does not run a handler"
  say npm "a handler is tested in Node"
}

image() {
  local kind
  for kind in image image-python image-all-in-one; do
    gunzip -c "$(one "duebox-$version-$kind.tar.gz")" >"$kind.tar"
    buildah pull --quiet "docker-archive:$kind.tar" >/dev/null
  done
  # The names that the check of the images uses.
  buildah tag "docker.io/library/duebox:$version" localhost/duebox:local
  for kind in python all-in-one; do buildah tag "docker.io/library/duebox:$version-$kind" "localhost/duebox:$kind"; done
  "$root/packaging/image/check.sh"
}

# The chart as it is packed is the one of the checkout, which the check renders.
helm() {
  mkdir chart
  tar -xzf "$(one "duebox-helm-$version.tgz")" -C chart
  diff -r chart/duebox "$root/packaging/helm/duebox" || fail "the packed chart differs from the checkout's"
  "$root/packaging/helm/check.sh" "$root/target/dist/duebox"
}

# The example of the queue, on crates as crates.io would give them out.
crates() {
  local crate
  mkdir -p crates
  for crate in job queue; do tar -xzf "$dist/duebox-$crate-$version.crate" -C crates; done
  mkdir -p embed
  cp -r "$root/examples/embed/src" embed/
  cat >embed/Cargo.toml <<TOML
[package]
name = "duebox-embed-example"
version = "0.0.0"
edition = "2024"
[dependencies]
anyhow = "1"
duebox-queue = "$version"
tokio = { version = "1", features = ["macros", "rt", "time"] }
[patch.crates-io]
duebox-job = { path = "../crates/duebox-job-$version" }
duebox-queue = { path = "../crates/duebox-queue-$version" }
[profile.dev]
debug = false
TOML
  redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" >/dev/null &
  pids+=($!)
  (cd embed && cargo run --quiet -- "unix://$work/redis.sock") >embed.out || fail "the queue crate does not work from its package"
  grep -q 'left: 0 pending' embed.out || fail "the example ended otherwise: $(cat embed.out)"
  say crates "the queue's example runs on the packed crates"
}

# invoked NAME MODULE: runs the handler of a template with what the template's manifest grants.
invoked() {
  duebox invoke "$2" --manifest "$root/sdk/$1/template/duebox.toml" --topic hello --payload '{"name":"Ada"}' >"$1.invoke" || fail "the handler of the $1 SDK fails: $(cat "$1.invoke")"
  grep -q 'Hello, Ada' "$1.invoke" || fail "the handler of the $1 SDK greets nobody"
  say "$1" "its template is built with the packed SDK, and runs"
}
duebox() { "$root/target/dist/duebox" "$@"; }

rust() {
  cp -r "$root/sdk/rust/template" rust
  tar -xzf "$dist/duebox-sdk-$version.crate"
  sed -i "s|path = \"..\"|path = \"../duebox-sdk-$version\"|" rust/Cargo.toml
  (cd rust && cargo build --quiet --release --target wasm32-unknown-unknown)
  invoked rust rust/target/wasm32-unknown-unknown/release/handler.wasm
}

# The Go module by a proxy of files, which has what the tag sdk/go/vVERSION would give the real one.
go_module() {
  local path
  path=$(sed -n 's/^module //p' "$root/sdk/go/go.mod")
  mkdir -p "proxy/$path/@v"
  cp "$root/sdk/go/go.mod" "proxy/$path/@v/v$version.mod"
  printf '{"Version":"v%s"}' "$version" >"proxy/$path/@v/v$version.info"
  (cd "$root/sdk/go" && git ls-files -z --cached --others --exclude-standard | grep -zv '^template/') |
    python3 -c "
import sys, zipfile
with zipfile.ZipFile('proxy/$path/@v/v$version.zip', 'w', zipfile.ZIP_DEFLATED) as out:
    for name in sys.stdin.read().split('\0')[:-1]:
        out.write('$root/sdk/go/' + name, '$path@v$version/' + name)
"
  mkdir go
  cp "$root"/sdk/go/template/main.go go/
  printf 'module hello\n\ngo 1.24\n\nrequire %s v%s\n' "$path" "$version" >go/go.mod
  (
    cd go
    export GOPROXY="file://$work/proxy" GONOSUMDB='*' GONOSUMCHECK=1 GOFLAGS=-mod=mod GOWORK=off GOTOOLCHAIN=local GOMODCACHE="$work/gomod"
    GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o hello.wasm .
    chmod -R u+w "$work/gomod"
  )
  invoked go go/hello.wasm
}

assemblyscript() {
  cp -r "$root/sdk/assemblyscript/template" assemblyscript
  (
    cd assemblyscript
    sed -i "s|file:\.\.|file:$dist/duebox-as-$version.tgz|" package.json
    npm install --silent --no-audit --no-fund >/dev/null
    npm run --silent build
  )
  invoked assemblyscript assemblyscript/build/handler.wasm
}

sums() {
  (cd "$dist" && sha256sum --quiet --check SHA256SUMS) || fail "SHA256SUMS does not match"
  [ "$(find "$dist" -maxdepth 1 -type f | wc -l)" -eq $(($(wc -l <"$dist/SHA256SUMS") + 1)) ] || fail "SHA256SUMS misses a file"
  python3 - "$dist"/duebox-"$version"-*.cdx.json <<'PYTHON' || fail "the SBOM misses wasmtime or redis, or lists tools of tests"
import json, sys
for path in sys.argv[1:]:
    names = {component["name"] for component in json.load(open(path))["components"]}
    if not {"wasmtime", "redis", "tokio"} <= names or "proptest" in names:
        sys.exit(1)
PYTHON
  say sums "all files have their digests, and the SBOM lists the crates"
}

# The next version, set in a copy.
bump() {
  mkdir bump
  (cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference -t "$work/bump")
  ! bump/packaging/release/bump.sh "$version" 2>bump.log || fail "a version that is not new is accepted"
  ! bump/packaging/release/bump.sh 99.0.0 2>bump.log || fail "a version without a changelog is accepted"
  grep -q 'has no section' bump.log || fail "the changelog is not named: $(cat bump.log)"
  (cd "$root" && git ls-files -z | xargs -0 sha256sum 2>/dev/null) >before
  (cd bump && sha256sum --quiet --check ../before) || fail "a refused version changes files"
  sed -i "0,/^## \[/s//## [99.0.0] - 2099-01-01\n\n### Added\n- All\n\n&/" bump/CHANGELOG.md
  printf '[99.0.0]: https://github.com/duebox/duebox/releases/tag/v99.0.0\n' >>bump/CHANGELOG.md
  bump/packaging/release/bump.sh 99.0.0 >/dev/null
  (cd bump && cargo metadata --quiet --offline --locked --no-deps --format-version 1 >/dev/null) || fail "Cargo.lock does not fit the new version"
  for file in Cargo.toml Cargo.lock sdk/rust/Cargo.toml sdk/assemblyscript/package.json sdk/javascript/types/package.json examples/sidecar/k8s/shop.yaml packaging/helm/duebox/Chart.yaml README.md; do
    grep -q '99\.0\.0' "bump/$file" || fail "$file keeps its version"
  done
  say bump "the next version is set everywhere, and only with a changelog"
}

parts=("$@")
[ $# -gt 0 ] || parts=(bump sums archive cross wheel npm helm debian image crates rust go assemblyscript)
for part in "${parts[@]}"; do
  case $part in
    npm) npm_package ;;
    go) go_module ;;
    archive | assemblyscript | bump | crates | cross | debian | helm | image | rust | sums | wheel) "$part" ;;
    *) fail "unknown part $part" ;;
  esac
done
