#!/usr/bin/env bash
# Checks the Helm chart without a cluster: helm lints it and renders it in several settings, Kubernetes' schemas and those
# of KEDA accept what comes out, and the program accepts the manifest and the handlers that its pods would see.
#
#   packaging/helm/check.sh [PROGRAM]    installs helm and the validators under .tools once; target/release/duebox by default
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=$(realpath "${1:-$root/target/release/duebox}")
chart=$root/packaging/helm/duebox
tools=$root/.tools/helm
HELM=v3.18.6
KEDA=v2.17.2
fail() { printf 'helm check: %s\n' "$*" >&2; exit 1; }
say() { printf '%-10s %s\n' "$1" "$2"; }
[ -x "$program" ] || fail "$program is missing; run: cargo build --release -p duebox"

go=$(command -v go || echo "$root/.tools/go/bin/go")
[ -x "$go" ] || fail "Go is missing, which installs helm; run: ./dev setup"
export GOFLAGS='' GOWORK=off
mkdir -p "$tools/bin"
[ -x "$tools/bin/helm" ] || GOBIN=$tools/bin "$go" install "helm.sh/helm/v3/cmd/helm@$HELM" || fail "helm could not be built from the Go module proxy"
# The schema of a ScaledObject, from the sources of KEDA.
if [ ! -s "$tools/scaledobject.json" ]; then
  sources=$("$go" mod download -json "github.com/kedacore/keda/v2@$KEDA" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q kubernetes-validate==1.33.1 check-jsonschema==0.39.0 pyyaml
  "$tools/venv/bin/python" - "$sources/config/crd/bases/keda.sh_scaledobjects.yaml" >"$tools/scaledobject.json" <<'PYTHON'
import json, sys, yaml
def closed(schema):
    """A field that the schema does not name is a mistake."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            closed(value)
    elif isinstance(schema, list):
        for value in schema:
            closed(value)
crd = yaml.safe_load(open(sys.argv[1]))
schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
closed(schema)
schema["properties"]["metadata"] = {"type": "object"}
json.dump(schema, sys.stdout)
PYTHON
fi
PATH=$tools/bin:$tools/venv/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rendered NAME OPTION…: renders the chart, and writes each document to a file of its own.
rendered() {
  local name=$1
  shift
  mkdir -p "$work/$name"
  helm template box "$chart" --kube-version 1.33.0 --set redis.existingSecret=shop-redis "$@" >"$work/$name.yaml"
  python - "$work/$name.yaml" "$work/$name" <<'PYTHON'
import pathlib, sys, yaml
for number, document in enumerate(d for d in yaml.safe_load_all(open(sys.argv[1])) if d):
    pathlib.Path(sys.argv[2], f"{document['kind']}-{number}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
PYTHON
}

cat >"$work/settings.yaml" <<'YAML'
api: {service: true}
podMonitor: {enabled: true, labels: {release: prometheus}}
autoscaling: {enabled: true}
handlersImage: {image: "registry.example/handlers:1"}
handlerSecrets: shop-keys
imagePullSecrets: [{name: registry}]
podAnnotations: {team: shop}
podLabels: {tier: jobs}
nodeSelector: {kubernetes.io/arch: amd64}
tolerations: [{key: jobs, operator: Exists}]
extraEnv: [{name: TZ, value: UTC}]
YAML
helm lint --strict --quiet --kube-version 1.33.0 "$chart" --set redis.existingSecret=shop-redis
helm lint --strict --quiet --kube-version 1.33.0 "$chart" --set redis.existingSecret=shop-redis --values "$work/settings.yaml"
! helm template box "$chart" --kube-version 1.33.0 >"$work/refused" 2>&1 || fail "a release without a Redis is rendered"
grep -q 'set redis.existingSecret' "$work/refused" || fail "the missing Redis is not named: $(cat "$work/refused")"
say lint "by helm $HELM"

rendered default
rendered all --values "$work/settings.yaml"
rendered bare --set files=null --set redis.existingSecret= --set redis.url=redis://r:6379/0
sed 's/replicas: 2/replicas: many/' "$work"/default/Deployment-*.yaml >"$work/bad.yaml"
! kubernetes-validate --strict --quiet --no-warn "$work/bad.yaml" >/dev/null 2>&1 || fail "the schemas accept an invalid Deployment, so they check nothing"
# PodMonitor and ScaledObject are not Kubernetes' own.
find "$work"/default "$work"/all "$work"/bare -name '*.yaml' ! -name 'PodMonitor*' ! -name 'ScaledObject*' -print0 |
  xargs -0 kubernetes-validate --strict --quiet --no-warn
sed 's/threshold:/treshhold:/; s/maxReplicaCount/maxReplicas/' "$work"/all/ScaledObject-*.yaml >"$work/bad.yaml"
! check-jsonschema -q --schemafile "$tools/scaledobject.json" "$work/bad.yaml" 2>/dev/null || fail "the schema accepts an invalid ScaledObject, so it checks nothing"
check-jsonschema -q --schemafile "$tools/scaledobject.json" "$work"/all/ScaledObject-*.yaml
say schemas "$(find "$work"/default "$work"/all "$work"/bare -name '*.yaml' | wc -l) documents in three settings"

# The folder that the pod would see.
python - "$work" <<'PYTHON'
import pathlib, sys, yaml
work = pathlib.Path(sys.argv[1])
maps = {d["metadata"]["name"]: d["data"] for d in map(yaml.safe_load, (p.read_text() for p in work.glob("default/ConfigMap-*.yaml")))}
[pod] = [yaml.safe_load(p.read_text())["spec"]["template"]["spec"] for p in work.glob("default/Deployment-*.yaml")]
[volume] = [v for v in pod["volumes"] if v["name"] == "manifest"]
for source in volume["projected"]["sources"]:
    data = maps[source["configMap"]["name"]]
    for key, path in [(i["key"], i["path"]) for i in source["configMap"].get("items", [])] or [(k, k) for k in data]:
        file = work / "pod" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data[key])
PYTHON
REDIS_URL=redis://127.0.0.1:1 "$program" check --manifest "$work/pod/duebox.toml" >"$work/check" || fail "the program refuses the default manifest: $(cat "$work/check")"
say manifest "duebox check accepts the manifest and the handler of the chart"
