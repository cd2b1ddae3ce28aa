#!/usr/bin/env bash
# Installs what tests run programs of the documentation with, into .tools/producers: Redis clients of Python, Node, Go
# and Java, and the queues asynq, delayqueue and BullMQ. Nothing is installed twice.
#
# Needs python3 with venv, npm, go and mvn. PHP, Ruby, their Redis clients and Sidekiq are packages of the system, which
# ./dev test installs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=$here/../../.tools/producers
fail() { printf 'tests/producers/setup.sh: %s\n' "$*" >&2; exit 1; }
say() { printf 'installing %s\n' "$*" >&2; }

# is_current NAME FILE: whether NAME was installed from this FILE.
is_current() { cmp -s "$here/$2" "$tools/$1/installed-from"; }
# installed NAME FILE: notes that it was.
installed() { cp "$here/$2" "$tools/$1/installed-from"; }

python() {
  is_current python requirements.txt && return
  say "a Redis client for Python"
  rm -rf "$tools/python"
  python3 -m venv "$tools/python" || fail "python3 with venv is needed (apt-get install python3-venv)"
  "$tools/python/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" \
    || fail "pip could not install what requirements.txt lists"
  installed python requirements.txt
}

node() {
  is_current node package.json && return
  say "a Redis client for Node, and BullMQ"
  mkdir -p "$tools/node"
  cp "$here/package.json" "$tools/node/"
  (cd "$tools/node" && npm install --no-audit --no-fund --loglevel=error >/dev/null) \
    || fail "npm could not install what package.json lists"
  installed node package.json
}

# The modules come with the first build; go.sum holds them to what was tried.
go_modules() {
  is_current go go/go.mod && return
  say "a Redis client for Go, asynq and delayqueue"
  mkdir -p "$tools/go"
  (cd "$here/go" && GOFLAGS=-mod=readonly GOWORK=off GOTOOLCHAIN=local go mod download \
    github.com/redis/go-redis/v9 github.com/hibiken/asynq github.com/hdt3213/delayqueue) \
    || fail "go could not download what go/go.mod lists"
  installed go go/go.mod
}

java() {
  is_current java pom.xml && return
  say "a Redis client for Java"
  rm -rf "$tools/java"
  mkdir -p "$tools/java"
  (cd "$here" && mvn -q -B -ntp dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$tools/java" >&2) \
    || fail "mvn could not download what pom.xml lists"
  installed java pom.xml
}

mkdir -p "$tools"
python
node
go_modules
java
