#!/usr/bin/env bash
# Builds the peers that ./dev bench --peers compares with Duebox, each into .tools/peers/NAME, from its
# language's registry in the versions of its lock file.
#
#   bench/peers/build.sh [NAME…]
#
# If a peer cannot be downloaded or built, the others are still built: .tools/peers/NAME.missing then
# contains the reason, which the bench shows in its table.
set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$peers")")
here=$root/handlers tools=$root/.tools target=wasm32-unknown-unknown
out=$tools/peers
mkdir -p "$out"

# shellcheck source-path=SCRIPTDIR/../../handlers
. "$here/tools.sh"

build_go() {
  need_go >&2
  (cd "$peers/$1" && GOFLAGS='' GOWORK=off GOTOOLCHAIN=local timeout 600 "$go" build -o "$out/$1.new" .) \
    && mv -f "$out/$1.new" "$out/$1"
}

build_asynq() { build_go asynq; }
build_delayqueue() { build_go delayqueue; }

build_bullmq() {
  need_assemblyscript >&2
  # Not npm ci: it requires the optional packages of every platform, and some registries lack them.
  (cd "$peers/bullmq" && timeout 600 npm install --no-save --no-audit --no-fund --loglevel=error) || return 1
  printf '#!/bin/sh\nexec "%s" "%s/bullmq/main.mjs" "$@"\n' "$node" "$peers" >"$out/bullmq.new"
  chmod +x "$out/bullmq.new"
  mv -f "$out/bullmq.new" "$out/bullmq"
}

build_apalis() {
  timeout 1200 cargo build --release --locked --manifest-path "$peers/apalis/Cargo.toml" \
    --target-dir "$out/target" && cp "$out/target/release/duebox-peer-apalis" "$out/apalis"
}

# build_python NAME: into a virtual environment, with the versions that requirements.txt locks.
build_python() {
  local venv=$out/venv-$1
  has python3 || { echo "python3 is missing"; return 1; }
  timeout 120 python3 -m venv --clear "$venv" \
    && timeout 600 "$venv/bin/pip" install --quiet --no-deps --requirement "$peers/$1/requirements.txt" || return 1
  printf '#!/bin/sh\nPYTHONPATH="%s/pyprotocol" PYTHONDONTWRITEBYTECODE=1 exec "%s/bin/python" "%s/%s/main.py" "$@"\n' \
    "$peers" "$venv" "$peers" "$1" >"$out/$1.new"
  chmod +x "$out/$1.new"
  mv -f "$out/$1.new" "$out/$1"
}

build_arq() { build_python arq; }
build_dramatiq() { build_python dramatiq; }

[ $# -gt 0 ] || set -- asynq bullmq apalis delayqueue arq dramatiq
for name in "$@"; do
  say "building the peer $name"
  rm -f "$out/$name" "$out/$name.missing"
  if ! (set +e; "build_$name") >"$out/$name.log" 2>&1; then
    grep -v '^[[:space:]]*$' "$out/$name.log" | tail -n 2 | tr -s '[:space:]' ' ' >"$out/$name.missing"
    say "$name cannot be built here: $(cat "$out/$name.missing") (full log: .tools/peers/$name.log)"
  fi
done
