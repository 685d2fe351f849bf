#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# pm_bank_test.sh PM_BANK FATHOM: killed again and again, it ends with the right answer; in shared memory and on a file.
set -eu
pm_bank=$1
fathom=$2
work=$(mktemp -d)
shm=fathom-bank-test-$$
trap '"$fathom" pm rm "shm:$shm" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

fail() {
  echo "pm_bank_test: $*" >&2
  exit 1
}

# killed NAME TRANSFERS: run it, and kill it after a short random time.
killed() {
  "$pm_bank" "$1" "$2" >"$work/out" &
  local pid=$!
  sleep "0.0$((RANDOM % 10))"
  kill -9 $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
}

for name in "shm:$shm" "file:$work/bank"; do
  transfers=2000000
  [ "${name%%:*}" = shm ] || transfers=200
  for _ in 1 2 3 4 5 6 7 8; do
    killed "$name" $transfers
    "$fathom" pm check "$name" >"$work/check" 2>&1 || grep -qE "blank|interrupted|No such file|empty" "$work/check" ||
      fail "after a kill: $(cat "$work/check")"
  done
  "$pm_bank" "$name" $transfers >"$work/out"
  grep -qx "transfers $transfers, sum 100000" "$work/out" || fail "$name: $(cat "$work/out")"
done
# A second one at the same time, and memory of another program.
"$pm_bank" "shm:$shm" 2000000000 >"$work/out" &
pid=$!
until grep -q begins "$work/out"; do sleep 0.05; done
if "$pm_bank" "shm:$shm" 1 2>"$work/err"; then fail "two at once"; fi
grep -q mapped "$work/err" || fail "two at once: $(cat "$work/err")"
kill -9 $pid
wait $pid 2>/dev/null || true
echo "pm_bank_test: passed"
