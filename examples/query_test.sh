#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# query_test.sh QUERY: the answer is right, twice, in a directory and in a volume.
set -eu
query=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "query_test: $*" >&2
  exit 1
}

for turn in 1 2; do
  "$query" "$work/db" >"$work/out"
  grep -q '^bob  *100.00  2024-03-01$' "$work/out" || fail "turn $turn: $(cat "$work/out")"
  grep -q '^ann  *19.50  2024-02-28$' "$work/out" || fail "turn $turn: $(cat "$work/out")"
  grep -q '^2 rows, 11950 cents; memory below 4 MiB: yes$' "$work/out" || fail "$(cat "$work/out")"
  grep -q 'table lines' "$work/out" || fail "no plan: $(cat "$work/out")"
  grep -q 'as expected: .*custmer' "$work/out" || fail "no error: $(cat "$work/out")"
done
if "$query" "vol(file:$work/nothing)" 2>"$work/err"; then
  fail "a volume that does not exist"
fi
[ -s "$work/err" ] || fail "no reason"
echo "query_test: passed"
