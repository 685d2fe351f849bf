#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gpu_sum_test.sh GPU_SUM: sums are right. Skipped (77) without a GPU.
set -eu
gpu_sum=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "gpu_sum_test: $*" >&2
  exit 1
}

status=0
"$gpu_sum" mem:1M >"$work/out" || status=$?
[ $status != 77 ] || exit 77
[[ $status = 0 && $(cat "$work/out") = 0 ]] || fail "zeroes: $status"
# Through a sixteenth of it.
head -c 1M /dev/zero | tr '\0' '\1' >"$work/ones"
[ "$("$gpu_sum" "file:$work/ones?direct=off" 65536)" = "$(printf %u $((131072 * 0x0101010101010101)))" ] ||
  fail "ones"
if "$gpu_sum" "file:$work/nosuch" 2>"$work/err"; then
  fail "there is no such file"
fi
grep -q nosuch "$work/err" || fail "not the reason: $(cat "$work/err")"
