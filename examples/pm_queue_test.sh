#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# pm_queue_test.sh PM_QUEUE FATHOM: killed again and again while it puts and gets, in shared memory and on a file, the queue loses no line that was
# stored, and delivers all lines in their order.
set -eu
pm_queue=$1
fathom=$2
work=$(mktemp -d)
shm=fathom-queue-test-$$
trap '"$fathom" pm rm "shm:$shm" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

fail() {
  echo "pm_queue_test: $*" >&2
  exit 1
}

# killed OUTPUT COMMAND...: run it, and kill it after a short random time.
killed() {
  local out=$1
  shift
  "$@" >"$out" 2>"$work/err" &
  local pid=$!
  sleep "0.0$((RANDOM % 6))"
  kill -9 $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
}

check() {
  "$fathom" pm check "$1" >"$work/check" 2>&1 || grep -qE "blank|interrupted|No such file|empty" "$work/check" ||
    fail "after a kill: $(cat "$work/check")"
}

rounds=3
[ -z "${FTH_LONG_TESTS:-}" ] || rounds=100
seq 100000 >"$work/lines"
for name in "shm:$shm" "file:$work/queue"; do
  for round in $(seq $rounds); do
    killed "$work/stored" "$pm_queue" "$name" put <"$work/lines"
    check "$name"
    stored=$(sed -n 's/^stored //p' "$work/stored" | tail -1)
    # What a killed get had printed came before what the next one prints; lines between may come twice.
    : >"$work/got"
    for _ in 1 2; do
      killed "$work/part" "$pm_queue" "$name" get
      check "$name"
      sed -n '/^[0-9]*$/p' "$work/part" >>"$work/got"
    done
    "$pm_queue" "$name" get >>"$work/got" || fail "get: round $round"
    [ "$("$pm_queue" "$name" get | wc -l)" = 0 ] || fail "lines that were removed came back"
    [ "$("$fathom" pm stat "$name" | grep -c 'wal: 1 log, 0 entries')" = 1 ] || fail "$("$fathom" pm stat "$name")"
    # In order, but for lines that were printed twice; the last line of a killed get may be cut off.
    python3 - "$work/got" "${stored:-0}" <<'END' || fail "$name, round $round"
import sys
lines = [int(line) for line in open(sys.argv[1]) if line.strip()]
seen = 0
for line in lines:
    if line == seen + 1:
        seen = line
    elif line > seen + 1:
        sys.exit("line %d after %d: one is missing" % (line, seen))
if seen < int(sys.argv[2]):
    sys.exit("%d lines were stored, %d delivered" % (int(sys.argv[2]), seen))
END
  done
done

# A full queue says so, and keeps what it has.
name="file:$work/full"
if yes "a line that takes some space in the queue" | head -100000 | "$pm_queue" "$name" put >"$work/out" 2>"$work/err"; then fail "a full queue"; fi
grep -q "is full" "$work/err" || fail "a full queue: $(cat "$work/err")"
stored=$(sed -n 's/^stored //p' "$work/out" | tail -1)
[ "$("$pm_queue" "$name" get | wc -l)" = "$stored" ] || fail "a full queue lost lines"
# Entries are dumped as bytes.
printf 'one\ntwo\n' | "$pm_queue" "$name" put >/dev/null
"$fathom" pm dump --log 0 "$name" | cut -d' ' -f3 | tr '\n' ' ' | grep -qx "6f6e65 74776f " || fail "$("$fathom" pm dump --log 0 "$name")"
# Output that nobody takes: the lines stay.
if "$pm_queue" "$name" get >/dev/full 2>/dev/null; then fail "a full disk for the output"; fi
[ "$("$pm_queue" "$name" get 1)" = one ] || fail "a line that was not delivered is gone"
[ "$("$pm_queue" "$name" get)" = two ] || fail "get"
echo "pm_queue_test: passed"
