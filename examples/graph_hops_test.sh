#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# graph_hops_test.sh GRAPH_HOPS: distances are right, and bad input is refused.
set -eu
graph_hops=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "graph_hops_test: $*" >&2
  exit 1
}

printf '# two ways round\n0 1\n1 2\n0 3\n3 4\n4 2\n7 8\n' >"$work/edges"
[ "$("$graph_hops" "$work/edges" | tr '\n' ,)" = "0 1,1 2,2 2," ] || fail "from 0"
[ "$("$graph_hops" "$work/edges" 8 | tr '\n' ,)" = "0 1,1 1," ] || fail "from 8"
if "$graph_hops" "$work/edges" 9 2>"$work/err"; then
  fail "there is no vertex 9"
fi
grep -q "vertex 9 does not exist" "$work/err" || fail "not the reason: $(cat "$work/err")"
echo "0 x" >"$work/edges"
if "$graph_hops" "$work/edges" 2>"$work/err"; then
  fail "x is no vertex"
fi
grep -q "line 1" "$work/err" || fail "not the reason: $(cat "$work/err")"
