#!/usr/bin/env bash
# Runs the image as a Kubernetes sidecar would run: next to an application in one network namespace, read-only,
# without capabilities, as user 65532, with limits on memory and CPU. It is probed, pushed to over loopback, calls the
# application back, reloads from a ConfigMap's symlink swap, drains on SIGTERM, and is killed without losing a job.
#
#   packaging/image/check.sh    after packaging/image/build.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
name=duebox-check-$$
pids=()
say() { printf '%-10s %s\n' "$1" "$2"; }
fail() {
  printf 'image check: %s\n' "$*" >&2
  podman logs "$name" 2>/dev/null | tail -n 20 >&2 || true
  exit 1
}
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  podman rm -f -t 0 "$name" >/dev/null 2>&1 || true
  podman rm -f -t 0 "$name-pod" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
for program in podman runc nsenter redis-server curl python3; do
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

# Without --network host, so that nothing on this machine is reachable and no port is taken.
limits=(--ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
container() { podman --runtime runc run --no-healthcheck "${limits[@]}" "$@"; }

size=$(podman image inspect --format '{{.Size}}' localhost/duebox:local)
[ "$size" -le 45000000 ] || fail "the image has $size bytes, more than 45 MB"
say image "$((size / 1000000)) MB"
printf 'def handle(payload): print("Hello,", payload["name"])\n' >"$work/hello.py"
chmod -R a+rX "$work"
container --rm --network none --read-only --tmpfs /var/cache:mode=1777 -v "$work:/handlers:ro" localhost/duebox:python \
  invoke /handlers/hello.py --payload '{"name":"Ada"}' | grep -q 'Hello, Ada' || fail "the image for Python runs no handler in Python"
say python "$(($(podman image inspect --format '{{.Size}}' localhost/duebox:python) / 1000000)) MB; a handler in Python ran"

# The pod: a container that keeps the network namespace, with Redis and the application in it.
container -d --name "$name-pod" --network none --entrypoint '["/usr/local/bin/duebox", "run"]' localhost/duebox:all-in-one >/dev/null
pid=$(podman inspect --format '{{.State.Pid}}' "$name-pod")
pod() { nsenter --target "$pid" --net "$@"; }
pod redis-server --port 6379 --save '' --appendonly no --dir "$work" >"$work/redis.log" &
pids+=($!)
pod python3 -u "$root/examples/sidecar/app.py" 8080 http://127.0.0.1:7380 >"$work/app.log" &
pids+=($!)

# A ConfigMap: files are links into ..data, which is swapped as a whole.
config() {
  mkdir -p "$work/config/$1"
  sed -e 's/127.0.0.1:7280/127.0.0.1:7380/' -e 's/0.0.0.0:7281/0.0.0.0:7381/' -e "s/max_attempts = 5/max_attempts = $2/" \
    "$root/examples/sidecar/config/duebox.toml" >"$work/config/$1/duebox.toml"
  ln -s "$1" "$work/config/..data_tmp"
  mv -T "$work/config/..data_tmp" "$work/config/..data"
}
config ..v1 5
ln -s ..data/duebox.toml "$work/config/duebox.toml"
mkdir "$work/handlers"
cp "$root/handlers/build/webhook.wasm" "$work/handlers/"
chmod -R a+rX "$work"

sidecar() {
  container -d --name "$name" --network "container:$name-pod" --read-only --cap-drop ALL --security-opt no-new-privileges \
    --memory 256m --cpus 0.5 --tmpfs /var/cache:mode=1777 \
    -v "$work/config:/etc/duebox:ro" -v "$work/handlers:/opt/handlers:ro" \
    -e REDIS_URL=redis://127.0.0.1:6379/0 localhost/duebox:local >/dev/null
}
ready() { pod curl -sf --max-time 2 'http://127.0.0.1:7381/readyz?exclude=manifest&exclude=modules'; }
# orders FIRST LAST DUE in one connection.
orders() {
  local id args=()
  for id in $(seq "$1" "$2"); do
    args+=(--next -sf --max-time 5 -d "{\"order\": $id, \"close_in\": \"$3\"}" http://127.0.0.1:8080/orders)
  done
  pod curl "${args[@]:1}"
}
closed() { grep -q "^order $1 is closed" "$work/app.log"; }

sidecar
eventually "the sidecar is ready" ready
say user "$(podman top "$name" user | tail -n 1)"
podman exec "$name" duebox health --probe ready >/dev/null || fail "the health check of the image fails"
orders 1 1 1s
eventually "order 1 is closed" closed 1
say callback "an order was closed over loopback"

config ..v2 7
applied() { podman logs "$name" 2>&1 | grep -q 'the manifest is reloaded'; }
eventually "the swapped manifest is applied" applied
say reload "a symlink swap was applied"

orders 100 199 2s
begin=$SECONDS
podman stop -t 30 "$name" >/dev/null
[ "$(podman inspect --format '{{.State.ExitCode}}' "$name")" = 0 ] || fail "SIGTERM did not end in a drain"
say drain "$((SECONDS - begin)) s, exit code 0"
podman rm "$name" >/dev/null
sidecar
for id in $(seq 100 199); do eventually "order $id is closed" closed "$id"; done
say restart "100 of 100 orders were closed"

orders 200 299 1s
podman kill -s KILL "$name" >/dev/null
podman rm -f "$name" >/dev/null
sidecar
for id in $(seq 200 299); do eventually "order $id is closed" closed "$id"; done
say kill "100 of 100 orders were closed after kill -9"
