#!/usr/bin/env bash
# Runs the images as people would run them. duebox:all-in-one by its one command: a job of its first topic runs. duebox:local as a
# Kubernetes sidecar: in one network namespace with an application and a Redis, which are containers too, read-only, without
# capabilities, as user 65532, with limits on memory and CPU. It is probed, pushed to over loopback, calls the application back,
# follows a ConfigMap's symlink swap, drains on SIGTERM while callbacks are in progress, and is killed with jobs in flight.
#
#   packaging/image/check.sh    after packaging/image/build.sh; as root
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
name=duebox-check-$$
say() { printf '%-10s %s\n' "$1" "$2"; }
fail() {
  printf 'image check: %s\n' "$*" >&2
  podman logs "$name" 2>/dev/null | tail -n 20 >&2 || true
  exit 1
}
cleanup() {
  local container
  # The namespace's owner last.
  for container in "$name" "$name-app" "$name-new" "$name-trial" "$name-redis"; do
    podman rm -f -t 0 "$container" >/dev/null 2>&1 || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
for program in buildah podman runc nsenter redis-cli curl /usr/bin/python3; do
  command -v "$program" >/dev/null || fail "$program is missing"
done

# eventually WHAT COMMAND…: waits until the command succeeds, 60 s at most.
eventually() {
  local what=$1 end=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what: not within 60 s"
    sleep 0.1
  done
}

# container OPTION… IMAGE…: without a network of this machine, so that nothing on it is reachable and no port is taken. Where no systemd
# runs, podman complains that it cannot repeat the health check; it is run by hand below.
container() {
  podman --runtime runc run --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" 2>>"$work/podman.log" \
    || fail "podman: $(tail -n 3 "$work/podman.log")"
}
hardened=(--read-only --cap-drop ALL --security-opt no-new-privileges)

check_size() {
  local size
  size=$(podman image inspect --format '{{.Size}}' localhost/duebox:local)
  [ "$size" -le 45000000 ] || fail "the image has $size bytes, more than 45 MB"
  say image "$((size / 1000000)) MB"
}

check_python() {
  printf 'def handle(payload): print("Hello,", payload["name"])\n' >"$work/hello.py"
  chmod -R a+rX "$work"
  container --rm --network none "${hardened[@]}" --tmpfs /var/cache:mode=1777 -v "$work:/handlers:ro" localhost/duebox:python \
    invoke /handlers/hello.py --payload '{"name":"Ada"}' | grep 'Hello, Ada' >/dev/null || fail "the image for Python runs no handler in Python"
  say python "$(($(podman image inspect --format '{{.Size}}' localhost/duebox:python) / 1000000)) MB; a handler in Python ran"
}

# The one command of docs/guide/operations.md, apart from the port.
check_all_in_one() {
  container -d --name "$name-trial" --network none localhost/duebox:all-in-one >/dev/null
  local trial=(podman exec "$name-trial")
  eventually "all-in-one is ready" "${trial[@]}" duebox health --probe ready
  "${trial[@]}" duebox push hello Ada --id first >/dev/null || fail "all-in-one takes no job"
  ran() { podman logs "$name-trial" 2>&1 | grep '"job done"' | grep '"job_id":"first".*"verdict":"ack"'; }
  eventually "all-in-one has run and acked a job" ran
  podman logs "$name-trial" 2>&1 | grep 'Hello, Ada' >/dev/null || fail "the handler of all-in-one greets nobody"
  podman stop -t 30 "$name-trial" >/dev/null 2>>"$work/podman.log"
  [ "$(podman inspect --format '{{.State.ExitCode}}' "$name-trial")" = 0 ] || fail "all-in-one did not drain"
  say all-in-one "$(($(podman image inspect --format '{{.Size}}' localhost/duebox:all-in-one) / 1000000)) MB; a job was pushed and acked, exit code 0"
}

# An image of nothing but the names of folders, over which this machine's programs are mounted.
host_image() {
  mkdir -p "$work"/host/{usr,work,examples}
  local link
  for link in bin lib lib64; do ln -s "usr/$link" "$work/host/$link"; done
  printf 'FROM scratch\nCOPY host/ /\n' >"$work/Dockerfile"
  buildah bud --quiet --pull-never --isolation chroot --format docker -f "$work/Dockerfile" -t duebox-check:host "$work" >/dev/null
}

# application NAME PORT
application() {
  container -d --name "$1" --network "container:$name-redis" "${hardened[@]}" --user 65532:65532 \
    -v /usr:/usr:ro -v "$work/application:/app:ro" localhost/duebox-check:host \
    /usr/bin/python3 -u /app/application.py /app/app.py /app/delay "$2" >/dev/null
}

# config VERSION PORT: a ConfigMap as kubelet mounts it. Files are links into ..data, which is swapped as a whole.
config() {
  mkdir -p "$work/config/$1"
  sed "s/127.0.0.1:8080/127.0.0.1:$2/" "$root/examples/sidecar/config/duebox.toml" >"$work/config/$1/duebox.toml"
  chmod -R a+rX "$work/config"
  ln -s "$1" "$work/config/..data_tmp"
  mv -T "$work/config/..data_tmp" "$work/config/..data"
}

# slow SECONDS: how long a callback takes from now on.
slow() { echo "$1" >"$work/application/delay.new" && chmod a+r "$work/application/delay.new" && mv "$work/application/delay.new" "$work/application/delay"; }

prepare_pod() {
  chmod a+rX "$work"
  mkdir "$work/application" "$work/handlers" "$work/config"
  cp "$root/packaging/image/application.py" "$root/examples/sidecar/app.py" "$work/application/"
  cp "$root/handlers/build/webhook.wasm" "$work/handlers/"
  slow 0
  chmod -R a+rX "$work"
  config ..v1 8080
  ln -s ..data/duebox.toml "$work/config/duebox.toml"
  host_image
  container -d --name "$name-redis" --network none --no-healthcheck "${hardened[@]}" --tmpfs /tmp:mode=1777 \
    --entrypoint '["/usr/local/bin/redis-server", "--port", "6379", "--save", "", "--dir", "/tmp"]' localhost/duebox:all-in-one >/dev/null
  pod=$(podman inspect --format '{{.State.Pid}}' "$name-redis")
  application "$name-app" 8080
  application "$name-new" 8081
}
pod() { nsenter --target "$pod" --net "$@"; }
redis() { pod redis-cli "$@"; }

sidecar() {
  container -d --name "$name" --network "container:$name-redis" "${hardened[@]}" --memory 256m --cpus 0.5 --tmpfs /var/cache:mode=1777 \
    -v "$work/config:/etc/duebox:ro" -v "$work/handlers:/opt/handlers:ro" \
    -e REDIS_URL=redis://127.0.0.1:6379/0 localhost/duebox:local >/dev/null
  eventually "the sidecar is ready" probe 'readyz?exclude=manifest&exclude=modules'
}
probe() { pod curl -sf --max-time 2 "http://127.0.0.1:7281/$1"; }

# orders FIRST LAST DUE: places orders in one connection.
orders() {
  local id args=()
  for id in $(seq "$1" "$2"); do
    args+=(--next -sf --max-time 5 -d "{\"order\": $id, \"close_in\": \"$3\"}" http://127.0.0.1:8080/orders)
  done
  pod curl "${args[@]:1}"
}
# closed APPLICATION FIRST LAST: the numbers of the closed orders, one line for each callback.
closed() { podman logs "$1" 2>/dev/null | sed -n 's/^order \([0-9]*\) is closed.*/\1/p' | awk -v first="$2" -v last="$3" '$1 >= first && $1 <= last'; }
all_closed() { [ "$(closed "$@" | sort -u | wc -l)" -eq $(($3 - $2 + 1)) ]; }
unack() { redis --raw ZCARD 'duebox:{order.close}:unack'; }
# Callbacks are in progress: orders are closed at the application, and leased by the daemon.
in_flight() { [ -n "$(closed "$@")" ] && [ "$(unack)" -gt 0 ]; }
empty() { [ "$(redis --raw EXISTS 'duebox:{order.close}:jobs')" = 0 ]; }

check_confinement() {
  local process status
  process=$(podman inspect --format '{{.State.Pid}}' "$name")
  status=$(cat "/proc/$process/status")
  grep -q $'^Uid:\t65532\t65532\t65532\t65532$' <<<"$status" || fail "the daemon runs as another user: $(grep ^Uid <<<"$status")"
  grep -q '^CapEff:.0000000000000000$' <<<"$status" || fail "the daemon has capabilities"
  grep -q '^NoNewPrivs:.1$' <<<"$status" || fail "the daemon may gain privileges"
  probe metrics >"$work/metrics"
  grep -qx 'duebox_cpu_quota_cores 0.5' "$work/metrics" || fail "the daemon does not see its CPU quota of half a core: $(grep quota "$work/metrics")"
  say confined "user 65532, no capability; the daemon sees half a core"
}

# The health check as the image has it: it fails while Redis hangs.
healthy() { podman healthcheck run "$name"; }
unhealthy() { ! healthy; }
check_probes() {
  local name_of_probe
  for name_of_probe in livez startupz readyz; do
    probe "$name_of_probe" >/dev/null || fail "/$name_of_probe does not answer 200"
  done
  eventually "the HEALTHCHECK of the image succeeds" healthy
  podman pause "$name-redis" >/dev/null
  eventually "the HEALTHCHECK fails without Redis" unhealthy
  probe livez >/dev/null || fail "/livez fails when Redis hangs, so kubelet would restart a daemon that is well"
  podman unpause "$name-redis" >/dev/null
  eventually "the HEALTHCHECK succeeds with Redis again" healthy
  say probes "livez, startupz, readyz; the HEALTHCHECK succeeds, and fails while Redis hangs"
}

check_reload() {
  orders 1 1 1s || fail "order 1 is not taken"
  eventually "order 1 is closed" all_closed "$name-app" 1 1
  say callback "an order was closed over loopback"
  config ..v2 8081
  # A swap takes a moment: orders are placed until the new application gets one.
  local next=2
  moved() { orders "$next" "$next" 0s && next=$((next + 1)) && [ -n "$(closed "$name-new" 2 99)" ]; }
  eventually "a swapped manifest sends callbacks to another port" moved
  say reload "a symlink swap moved the callbacks to another port"
  eventually "no order is left" empty
}

check_drain() {
  local begin
  slow 3
  orders 100 199 1s || fail "orders are not taken"
  eventually "callbacks are in progress" in_flight "$name-new" 100 199
  begin=$SECONDS
  podman stop -t 30 "$name" >/dev/null 2>>"$work/podman.log"
  # A daemon that outlives the grace period is killed: 137.
  [ "$(podman inspect --format '{{.State.ExitCode}}' "$name")" = 0 ] || fail "SIGTERM did not end in a drain within 30 s"
  [ "$(unack)" = 0 ] || fail "a drained daemon has left $(unack) leases"
  say drain "$((SECONDS - begin)) s with callbacks of 3 s in progress, exit code 0, no lease left"
  podman rm "$name" >/dev/null 2>&1
  slow 0
  sidecar
  eventually "orders 100 to 199 are closed" all_closed "$name-new" 100 199
  eventually "no order is left" empty
  [ "$(closed "$name-new" 100 199 | wc -l)" = 100 ] || fail "an order was closed twice, though the daemon drained"
  say restart "100 of 100 orders were closed, each once"
}

check_kill() {
  slow 3
  orders 200 299 1s || fail "orders are not taken"
  eventually "callbacks are in progress" in_flight "$name-new" 200 299
  podman kill -s KILL "$name" >/dev/null 2>>"$work/podman.log"
  podman rm -f "$name" >/dev/null 2>&1
  local left
  left=$(unack)
  [ "$left" -gt 0 ] || fail "no job was in flight at the kill"
  slow 0
  sidecar
  eventually "orders 200 to 299 are closed" all_closed "$name-new" 200 299
  eventually "no order is left" empty
  say kill "100 of 100 orders were closed after kill -9 with $left leased"
}

check_size
check_python
check_all_in_one
prepare_pod
sidecar
check_confinement
check_probes
check_reload
check_drain
check_kill
