#!/usr/bin/env bash
# Draws the panels of dashboard.json into docs/images/dashboard-*.png, in six minutes: a Redis, two runners with
# the manifest of picture/, four minutes of jobs and incidents, a Prometheus, and Grafana's component libraries
# in Chromium. It is not Grafana: only its components draw. All runs on loopback, and ends with the script.
#
#   ./dev dashboard    installs what is missing, builds the program and runs this
#
# DUEBOX is the binary, by default target/release/duebox. With PICTURE_KEEP=DIR the data of the queries is kept
# there, and drawn again without a new load while it is there.
set -euo pipefail
# Bounds the whole: ten minutes.
[ -n "${PICTURE_BOUNDED:-}" ] || PICTURE_BOUNDED=yes exec timeout --kill-after=60 600 bash "$0" "$@"
# They would lead the load to another Redis.
unset DUEBOX_MANIFEST DUEBOX_REDIS_URL DUEBOX_LISTEN DUEBOX_LOG DUEBOX_LOG_FORMAT

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
tool=$here/picture
duebox=$(realpath "${DUEBOX:-$root/target/release/duebox}")
seconds=240
step() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
fail() { printf 'picture.sh: %s\n' "$*" >&2; exit 1; }
[ -x "$duebox" ] || fail "no binary $duebox; run: cargo build --release, or set DUEBOX"

work=$(mktemp -d)
declare -A pids
ended() {
  local name
  # A stopped process takes no other signal.
  for name in "${!pids[@]}"; do { kill -CONT "${pids[$name]}" && kill "${pids[$name]}"; } 2>/dev/null || true; done
  for name in "${!pids[@]}"; do
    timeout 10 tail --pid="${pids[$name]}" -f /dev/null || kill -KILL "${pids[$name]}" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap ended EXIT
trap 'exit 1' INT TERM

# start NAME COMMAND…: runs it in the background, with a log of its name.
start() {
  local name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  pids[$name]=$!
}
# answers URL: waits up to 20 s.
answers() {
  curl -sfS --retry 100 --retry-all-errors --retry-delay 0 --retry-max-time 20 --max-time 2 "$1" >/dev/null 2>&1 \
    || { tail -n 5 "$work"/*.log >&2; fail "no answer from $1"; }
}
# runner N: starts runner N of two. Each has ports of its own and the manifest in common.
runner() {
  PICTURE_API=${ports[$1 - 1]} PICTURE_PROBES=${ports[$1 + 1]} start "runner-$1" "$duebox" run --manifest "$work/duebox.toml"
  answers "http://127.0.0.1:${ports[$1 + 1]}/readyz"
}
# deploy HANDLER FILE: replaces a file of the daemons in one step by a handler. Each release differs by a comment.
releases=0
deploy() {
  releases=$((releases + 1))
  { cat "$tool/handlers/$1.wat"; echo ";; Release $releases"; } >"$work/new"
  mv "$work/new" "$work/$2.wat"
}
# at SECOND: waits until that second of the load.
at() {
  local wait=$((begun + $1 - $(date +%s)))
  [ "$wait" -le 0 ] || sleep "$wait"
}

for program in redis-server chromium curl node npm; do
  command -v "$program" >/dev/null || fail "$program is not installed; run: ./dev dashboard"
done
prometheus=$(command -v prometheus || echo "$root/.tools/prometheus/usr/bin/prometheus")
[ -x "$prometheus" ] || fail "prometheus is not installed; run: ./dev dashboard"
[ "$tool/node_modules/.package-lock.json" -nt "$tool/package-lock.json" ] \
  || (cd "$tool" && npm ci --silent --no-audit --no-fund --ignore-scripts)

data=$work/data.json
[ -z "${PICTURE_KEEP:-}" ] || { mkdir -p "$PICTURE_KEEP"; data=$(realpath "$PICTURE_KEEP")/data.json; }
if [ ! -s "$data" ]; then
  step "$seconds seconds of jobs"
  cp "$tool"/handlers/*.wat "$tool/duebox.toml" "$work/"
  deploy mail mail-next
  export PICTURE_DIR=$work
  read -ra ports < <(node -e 'const all = [1, 2, 3, 4, 5].map(() => require("net").createServer().listen(0, "127.0.0.1"));
    setTimeout(() => { console.log(...all.map((one) => one.address().port)); process.exit(); }, 100);')
  start redis redis-server --port 0 --unixsocket "$work/redis.sock" --dir "$work" --save '' --maxmemory 64mb
  # The rules of alerts.yml are evaluated as well; the script names at the end which alerts they raised.
  sed -e 's/\(_interval\): 15s/\1: 4s/' -e '/static_configs/,$d' "$here/prometheus.yml" >"$work/prometheus.yml"
  cat >>"$work/prometheus.yml" <<YAML
    static_configs:
      - { targets: ["127.0.0.1:${ports[2]}"], labels: { instance: runner-1 } }
      - { targets: ["127.0.0.1:${ports[3]}"], labels: { instance: runner-2 } }
YAML
  cp "$here/alerts.yml" "$work/"
  start prometheus "$prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prometheus" \
    --web.listen-address="127.0.0.1:${ports[4]}" --log.level=warn
  answers "http://127.0.0.1:${ports[4]}/-/ready"
  runner 1
  runner 2
  sleep 8
  # The graphs begin and end in the middle of a minute: labels of whole minutes are cut at the edges.
  while second=$(date +%-S); [ "$second" -lt 15 ] || [ "$second" -gt 45 ]; do sleep 1; done
  begun=$(date +%s)
  start load node "$tool/load.mjs" "127.0.0.1:${ports[0]}" "$seconds"
  cli() { PICTURE_API=0 PICTURE_PROBES=0 "$duebox" "$@" --manifest "$work/duebox.toml" >/dev/null; }
  at 20
  cli pause order.close
  at 85
  cli resume order.close
  at 100
  # A broken release of a handler, which the daemons roll back, and its correction.
  deploy rows-broken rows
  at 125
  deploy rows rows
  at 140
  # Redis stands still for longer than the leases last.
  kill -STOP "${pids[redis]}"
  sleep 8
  kill -CONT "${pids[redis]}"
  at 165
  # A runner dies with its jobs, and is back ten seconds later.
  seq 12 | cli push report.build --lines
  sleep 0.5
  kill -KILL "${pids[runner-2]}"
  wait "${pids[runner-2]}" 2>/dev/null || true
  sleep 10
  runner 2
  at "$seconds"
  wait "${pids[load]}" || fail "the load: $(tail -n 1 "$work/load.log")"
  unset 'pids[load]'
  step "queries"
  node "$tool/query.mjs" "$here/dashboard.json" "http://127.0.0.1:${ports[4]}" "$seconds" >"$data.new"
  mv "$data.new" "$data"
fi

step "pictures"
node "$tool/draw.mjs" "$data" "$root/docs/images"
