#!/usr/bin/env bash
# Checks the deployment files that Duebox ships with public validators, without a cluster or a container
# engine: the Kubernetes manifests against Kubernetes' schemas, the compose file against its specification,
# the Dockerfile with Docker's language server, the rules and configuration of Prometheus with promtool.
# Each validator must first reject an invalid file, so that one that checks nothing is noticed.
#
#   ./dev files    installs promtool first; the other validators are installed here, into .tools/files, once
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/.tools/files
bin=$tools/bin
fail() { printf 'check.sh: %s\n' "$*" >&2; exit 1; }

# judged NAME BAD COMMAND… -- FILE…: the command must accept the files and reject BAD.
judged() {
  local name=$1 bad=$2 command=()
  shift 2
  while [ "$1" != -- ]; do command+=("$1"); shift; done
  shift
  ! "${command[@]}" "$bad" >/dev/null 2>&1 || fail "$name accepts an invalid file, so it checks nothing"
  "${command[@]}" "$@" || fail "$name rejects the files above"
  printf '%-12s good: %s\n' "$name" "$*"
}

mkdir -p "$tools"
if [ ! -x "$bin/kubernetes-validate" ] || [ ! -x "$bin/check-jsonschema" ]; then
  python3 -m venv "$tools" || fail "python3 with venv is needed (apt-get install python3-venv)"
  "$bin/pip" install -q kubernetes-validate==1.33.1 check-jsonschema==0.39.0 \
    || fail "the validators could not be installed from PyPI"
fi
lint=$tools/node_modules/.bin/dockerfile-utils
if [ ! -x "$lint" ]; then
  command -v npm >/dev/null || PATH=$root/.tools/node/bin:$PATH
  command -v npm >/dev/null || fail "npm is needed; run: ./dev setup"
  npm install --silent --no-audit --no-fund --prefix "$tools" dockerfile-utils@0.16.3 >/dev/null \
    || fail "dockerfile-utils could not be installed from npm"
fi
command -v node >/dev/null || PATH=$root/.tools/node/bin:$PATH
promtool=$(command -v promtool || echo "$root/.tools/prometheus/usr/bin/promtool")
[ -x "$promtool" ] || fail "promtool is not installed; run: ./dev files"

bad=$(mktemp -d)
trap 'rm -rf "$bad"' EXIT
sed 's/^kind: Deployment/&\nreplicas: many/' "$root/examples/sidecar/k8s/shop.yaml" >"$bad/shop.yaml"
sed 's/^services:/&\n  no: { imaje: duebox }/' "$root/examples/sidecar/compose.yaml" >"$bad/compose.yaml"
printf 'FROM debian:12\nCOPY duebox\nHEALTHCHECK --every=1s CMD ["duebox", "health"]\n' >"$bad/Dockerfile"
printf 'groups:\n- name: a\n  rules:\n  - alert: b\n    expr: sum(\n' >"$bad/rules.yml"
printf 'scrape_configs:\n- job: duebox\n' >"$bad/prometheus.yml"

cd "$root/examples"
judged kubernetes "$bad/shop.yaml" "$bin/kubernetes-validate" --strict --quiet --no-warn -- sidecar/k8s/*.yaml
judged compose "$bad/compose.yaml" "$bin/check-jsonschema" -q --builtin-schema vendor.compose-spec -- sidecar/compose.yaml
judged dockerfile "$bad/Dockerfile" "$lint" lint -- ../Dockerfile sidecar/handlers.Dockerfile
judged rules "$bad/rules.yml" "$promtool" check rules -- observability/alerts.yml
judged prometheus "$bad/prometheus.yml" "$promtool" check config -- observability/prometheus.yml
