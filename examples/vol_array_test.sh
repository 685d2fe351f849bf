#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# vol_array_test.sh VOL_ARRAY: the numbers come back, also with a device that can not be read.
set -eu
vol_array=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "vol_array_test: $*" >&2
  exit 1
}

# The objects begin behind the catalogs, which are 64 KiB each on devices of this size.
bad="fault(mem:16M)?kind=read&from=200K&to=15M&nth=1&every=1"
"$vol_array" mem:16M mem:16M mem:16M | grep -q "^sum 34359607296, .* served: 0$" || fail "sound"
"$vol_array" mem:16M "$bad" mem:16M | grep -q "^sum 34359607296, .* served: [1-9]" || fail "one bad"
if "$vol_array" "$bad" "$bad" 2>"$work/err"; then
  fail "two devices that can not be read went unnoticed"
fi
grep -q "Input/output error" "$work/err" || fail "not the reason: $(cat "$work/err")"
if "$vol_array" mem:16M mem:1K 2>"$work/err"; then
  fail "a volume on 1 KiB"
fi
echo "vol_array_test: passed"
