#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# table_scan_test.sh TABLE_SCAN: the sums are right, and groups without a row of interest are not read.
set -eu
table_scan=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "table_scan_test: $*" >&2
  exit 1
}

# The sum of i % 977 for i from 1000 * FROM to 1000 * (TO + 1).
expected() {
  awk -v from="$1" -v to="$2" 'BEGIN { for (i = from * 1000; i < (to + 1) * 1000; i++) s += i % 977; print s }'
}

all=$("$table_scan" "$work/db" 0 999)
[[ $all == "sum $(expected 0 999); 16 of 16 groups were read; days are sorted: yes" ]] || fail "all: $all"
few=$("$table_scan" "$work/db" 100 107)
[[ $few == "sum $(expected 100 107); 1 of 16 groups were read; days are sorted: yes" ]] || fail "few: $few"
none=$("$table_scan" "$work/db" 5000 6000)
[[ $none == "sum 0; 0 of 16 groups were read; days are sorted: yes" ]] || fail "none: $none"
volume="vol(file:$work/disk)"
truncate -s 64M "$work/disk"
if "$table_scan" "$volume" 0 1 2>"$work/err"; then
  fail "a device without a volume"
fi
[ -s "$work/err" ] || fail "no reason"
echo "table_scan_test: passed"
