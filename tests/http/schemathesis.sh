#!/usr/bin/env bash
# Checks the HTTP API against its OpenAPI document: schemathesis generates requests from the document that a
# real daemon serves, with its own Redis. A response must not be a 5xx, must have a status and a form that
# the document lists, and must arrive.
#
#   tests/http/schemathesis.sh [DUEBOX]    DUEBOX is the binary; target/release/duebox by default
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
duebox=${1:-$root/target/release/duebox}
seconds=${DUEBOX_SCHEMATHESIS_SECONDS:-60}
tool=$root/.tools/schemathesis
fail() { printf 'schemathesis.sh: %s\n' "$*" >&2; exit 1; }

[ -x "$duebox" ] || fail "no binary at $duebox; run: cargo build --release -p duebox"
command -v redis-server >/dev/null || fail "redis-server is not installed; run: ./dev setup"
if [ ! -x "$tool/bin/schemathesis" ]; then
  python3 -m venv "$tool" || fail "python3 with venv is needed (apt-get install python3-venv)"
  "$tool/bin/pip" install -q 'schemathesis>=4,<5' || fail "schemathesis could not be installed from PyPI"
fi

work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait || true
  rm -rf "$work"
}
trap cleanup EXIT

# wait_for WHAT COMMAND…: waits until the command succeeds, at most 30 s.
wait_for() {
  local what=$1 tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || fail "timed out waiting for $what; see above"
    sleep 0.1
  done
}

redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" >"$work/redis.log" &
pids+=($!)
wait_for "Redis" redis-cli -s "$work/redis.sock" ping >/dev/null 2>&1

cat >"$work/duebox.toml" <<TOML
[redis]
url = "unix://$work/redis.sock"
[server]
listen = "127.0.0.1:0"
[topics.mail]
max_attempts = 2
done_retention = "1m"
[topics."order.close"]
unique_for = "1m"
[[schedules]]
name = "nightly"
topic = "mail"
cron = "0 3 * * *"
payload = "{}"
TOML
DUEBOX_LOG_FORMAT=json "$duebox" run --manifest "$work/duebox.toml" 2>"$work/duebox.log" &
pids+=($!)
wait_for "the daemon" grep -q 'HTTP is served' "$work/duebox.log"
address=$(sed -n 's/.*"address":"\([0-9.:]*\)".*HTTP is served.*/\1/p; s/.*HTTP is served.*"address":"\([0-9.:]*\)".*/\1/p' "$work/duebox.log" | head -n1)

status=0
timeout "$((seconds * 3))" "$tool/bin/schemathesis" run "http://$address/openapi.json" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --phases examples,coverage,fuzzing,stateful --max-examples "${DUEBOX_SCHEMATHESIS_EXAMPLES:-15}" --request-timeout 15 \
  --generation-database none --continue-on-failure || status=$?
if [ "$status" -ne 0 ]; then
  tail -n 20 "$work/duebox.log" >&2
  fail "the API violates its contract (exit $status)"
fi
kill -0 "${pids[1]}" || fail "the daemon has exited"
if grep -q '"level":"WARN".*"status":5' "$work/duebox.log"; then
  grep '"status":5' "$work/duebox.log" | tail -n 5 >&2
  fail "the daemon answered with a 5xx"
fi
