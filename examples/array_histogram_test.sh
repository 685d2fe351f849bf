#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# array_histogram_test.sh ARRAY_HISTOGRAM: the counts are right, and failures are told.
set -eu
histogram=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "array_histogram_test: $*" >&2
  exit 1
}

# A device of zeroes, four times the cache.
"$histogram" mem:4M >"$work/out"
grep -q '^ *0 *4194304 *100.000% *100.000%$' "$work/out" || fail "zeroes: $(cat "$work/out")"

if "$histogram" "fault(mem:4M)?kind=read&every=1" 2>"$work/err"; then
  fail "failed reads went unnoticed"
fi
if "$histogram" mem:4M 100 2>"$work/err"; then
  fail "a cache of 100 bytes"
fi

# A file whose size is no multiple of anything, against od.
head -c 3000001 /dev/urandom >"$work/a"
if ! "$histogram" "file:$work/a?direct=off" 512K >"$work/out" 2>"$work/err"; then
  cat "$work/err" >&2
  # Some machines do not allow io_uring.
  ! grep -qE "not permitted|not implemented" "$work/err" || exit 77
  fail "a file cannot be read"
fi
od -An -v -tu1 -w1 "$work/a" | awk '{n[$1]++} END {for (v in n) print v + 0, n[v]}' | sort -n >"$work/od"
awk 'NR > 1 {print $1, $2}' "$work/out" | cmp - "$work/od" || fail "the counts differ"
