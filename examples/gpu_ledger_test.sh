#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gpu_ledger_test.sh GPU_LEDGER FATHOM: killed in the middle of its work, it goes on with the right sum. Skipped (77)
# without a GPU.
set -eu
gpu_ledger=$1 fathom=$2
name=shm:fathom-ledger-$$
work=$(mktemp -d)
trap '"$fathom" pm rm "$name" >/dev/null 2>&1 || :; rm -rf "$work"' EXIT

fail() {
  echo "gpu_ledger_test: $*" >&2
  exit 1
}

status=0
"$gpu_ledger" "$name" 10 >"$work/out" || status=$?
[ $status != 77 ] || exit 77
[ $status = 0 ] || fail "first run: $status"
grep -q '^10 rounds, sum 16384000$' "$work/out" || fail "$(cat "$work/out")"
for delay in 0.3 0.45 0.6 0.8; do
  timeout -s KILL "$delay" "$gpu_ledger" "$name" 100000000 >"$work/out" 2>&1 || :
done
# A process that was killed keeps its lock until the driver has released its memory.
for _ in $(seq 100); do
  "$gpu_ledger" "$name" 10 >"$work/out" 2>"$work/err" && break
  grep -q 'another process' "$work/err" || fail "after a kill: $(cat "$work/err")"
  sleep 0.2
done
grep -q ' rounds, sum 16384000$' "$work/out" || fail "$(cat "$work/out")"
