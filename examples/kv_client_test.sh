#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kv_client_test.sh KV_CLIENT FATHOM: three servers; items are computed once; one server goes and comes back empty.
set -eu
kv_client=$1
fathom=$2
work=$(mktemp -d)
servers=()
ports=()
trap 'for pid in "${servers[@]}"; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

fail() {
  echo "kv_client_test: $*" >&2
  exit 1
}

# start N PORT: server N; its port goes to ports[N]
start() {
  local i
  : >"$work/ready$1"
  "$fathom" kv serve --json --memory 16M --listen "127.0.0.1:$2" >"$work/ready$1" 2>"$work/log$1" &
  servers[$1]=$!
  for ((i = 0; i < 600; i++)); do
    if grep -q '"port":.*}' "$work/ready$1"; then
      ports[$1]=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$work/ready$1")
      return 0
    fi
    kill -0 "${servers[$1]}" 2>/dev/null || break
    sleep 0.1
  done
  if grep -Eq 'not (permitted|implemented)' "$work/log$1"; then
    echo "skipped: $(cat "$work/log$1")"
    exit 77
  fi
  fail "server $1 did not start: $(cat "$work/log$1")"
}

# look: runs the example; its lines go to $work/out
look() {
  if ! "$kv_client" "127.0.0.1:${ports[0]}" "127.0.0.1:${ports[1]}" "127.0.0.1:${ports[2]}" \
    >"$work/out" 2>"$work/err"; then
    fail "it failed: $(cat "$work/err")"
  fi
}

# count N NAME: a figure of server N
count() {
  sed -n "$(($1 + 1))s/.* $2 \([0-9]*\).*/\1/p" "$work/out"
}

# expect TEXT: the figures of the servers
expect() {
  [ "$(sed 's/^[^ ]* //' "$work/out")" = "$1" ] || fail "$(cat "$work/out"), expected $1"
}

for n in 0 1 2; do
  start $n 0
done
look
a=$(count 0 misses)
b=$(count 1 misses)
c=$(count 2 misses)
[ $((a + b + c)) -eq 6400 ] && [ "$a" -gt 640 ] && [ "$b" -gt 640 ] && [ "$c" -gt 640 ] ||
  fail "not all items were computed, or a server has few of them: $(cat "$work/out")"
expect "hits 0 misses $a away 0
hits 0 misses $b away 0
hits 0 misses $c away 0"
look
expect "hits $a misses 0 away 0
hits $b misses 0 away 0
hits $c misses 0 away 0"

kill -9 "${servers[1]}"
wait "${servers[1]}" 2>/dev/null || true
look
expect "hits $a misses 0 away 0
hits 0 misses 0 away $b
hits $c misses 0 away 0"
start 1 "${ports[1]}"
look
expect "hits $a misses 0 away 0
hits 0 misses $b away 0
hits $c misses 0 away 0"

if "$kv_client" 'host:port:what' >/dev/null 2>"$work/err"; then
  fail "an invalid server was accepted"
fi
grep -q 'kv_client: kv client' "$work/err" || fail "no reason: $(cat "$work/err")"
echo "kv_client_test: passed"
