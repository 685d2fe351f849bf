#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# taxi_fare_test.sh TAXI_FARE: it finds the trips there are, and reads no more than it should.
set -eu
taxi_fare=$1

fail() {
  echo "taxi_fare_test: $*" >&2
  exit 1
}

out=$("$taxi_fare" mem:40M 30)
[[ $out =~ ^([0-9]+)\ of\ ([0-9]+)\ trips\ are\ at\ least\ 30\ miles ]] || fail "$out"
trips=${BASH_REMATCH[1]} rows=${BASH_REMATCH[2]}
[ "$trips" -eq $(((rows * 3 + 5000) / 10000)) ] || fail "$trips of $rows is not 0.03 %"
[[ $out =~ read\ ([0-9]+)\ bytes\ where\ ([0-9]+)\ were\ needed ]] || fail "$out"
[ $((BASH_REMATCH[1] * 10)) -le $((BASH_REMATCH[2] * 16)) ] || fail "it reads too much: $out"

if "$taxi_fare" mem:1K 2>/dev/null; then
  fail "a table fits into 1 KiB"
fi
echo "taxi_fare_test: passed"
