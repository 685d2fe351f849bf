#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# flat_table_test.sh FLAT_TABLE: every update is there, in this run and in the next.
set -eu
flat_table=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "flat_table_test: $*" >&2
  exit 1
}

uri="file:$work/table?create=on&size=16M"
if ! "$flat_table" "$uri" 20000 >"$work/out" 2>"$work/err"; then
  # Some machines do not allow userfaultfd.
  ! grep -q "userfaultfd" "$work/err" || exit 77
  fail "$(cat "$work/err")"
fi
grep -qx "sum 20000" "$work/out" || fail "not 20000: $(grep sum "$work/out")"
"$flat_table" "$uri" 500 >"$work/out"
grep -qx "sum 20500" "$work/out" || fail "not 20500: $(grep sum "$work/out")"
if "$flat_table" "fault(mem:16M)?kind=write&nth=2000" 20000 >"$work/out" 2>"$work/err"; then
  grep -qx "sum 20000" "$work/out" || fail "a failed write lost an update"
fi
