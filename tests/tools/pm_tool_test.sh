#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# pm_tool_test.sh FATHOM PM_BANK: fathom pm, on memory that the example pm_bank makes.
set -eu
fathom=$1
pm_bank=$2
work=$(mktemp -d)
shm=fathom-pm-tool-test-$$
trap '"$fathom" pm rm "shm:$shm" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

fail() {
  echo "pm_tool_test: $*" >&2
  exit 1
}

# says WORDS COMMAND...: it succeeds, and its output has the words.
says() {
  local words=$1
  shift
  "$@" >"$work/out" 2>"$work/err" || fail "$*: $(cat "$work/err")"
  grep -qF -- "$words" "$work/out" || fail "$*: no '$words' in: $(cat "$work/out")"
}

# refuses WORDS COMMAND...: it fails with status 1, and the error has the words.
refuses() {
  local words=$1 status=0
  shift
  "$@" >"$work/out" 2>"$work/err" || status=$?
  [ $status = 1 ] || fail "$*: status $status"
  grep -qF -- "$words" "$work/err" || fail "$*: no '$words' in: $(cat "$work/err")"
}

"$pm_bank" "shm:$shm" 100 >/dev/null
"$pm_bank" "file:$work/bank" 10 >/dev/null

says "shm:$shm" "$fathom" pm ls
says "file:$work/bank" "$fathom" pm ls "$work"
says '"tag":1802396002' "$fathom" --json pm ls "$work"
says "survive the end of the process" "$fathom" pm stat "shm:$shm"
says "transactions: 1 undo logs, 0 open" "$fathom" pm stat "shm:$shm"
says '"guarantee":"exit"' "$fathom" --json pm stat "shm:$shm"
says '"areas":[{"offset":524288,"kind":"transactions"' "$fathom" --json pm stat "file:$work/bank"
says "areas" "$fathom" pm check "file:$work/bank"
# The first word, opened, is 1; the second is the number of transfers.
says "01 00 00 00 00 00 00 00  64 00 00 00" "$fathom" pm dump --bytes 16 "shm:$shm"
says '"hex":"01000000000000000a00000000000000"' "$fathom" --json pm dump --bytes 16 "file:$work/bank"
refuses "beyond the end" "$fathom" pm dump --from 1G "shm:$shm"
refuses "no log at offset 0" "$fathom" pm dump --log 0 "shm:$shm"

# Mapped by a program.
"$pm_bank" "shm:$shm" 2000000000 >"$work/bank.out" &
pid=$!
until grep -q begins "$work/bank.out"; do sleep 0.05; done
says "(mapped)" "$fathom" pm ls
refuses "mapped" "$fathom" pm stat "shm:$shm"
refuses "mapped" "$fathom" pm rm "shm:$shm"
kill -9 $pid
wait $pid 2>/dev/null || true

# Damage: found, and not touched.
cp "$work/bank" "$work/damaged"
printf '\377' | dd of="$work/damaged" bs=1 seek=$((4096 + 524288 + 12)) conv=notrunc status=none
cp "$work/damaged" "$work/before"
refuses "1 of 1 areas are damaged" "$fathom" pm check "file:$work/damaged"
printf '\377' | dd of="$work/damaged" bs=1 seek=20 conv=notrunc status=none
cp "$work/damaged" "$work/before"
refuses "header is damaged" "$fathom" pm check "file:$work/damaged"
refuses "header is damaged" "$fathom" pm rm "file:$work/damaged"
cmp "$work/damaged" "$work/before" || fail "a damaged file was changed"
echo "hello, this is a text" >"$work/text"
truncate -s 64K "$work/text"
refuses "not a Fathom persistent memory" "$fathom" pm stat "file:$work/text"
refuses "not a Fathom persistent memory" "$fathom" pm rm "file:$work/text"
truncate -s 100K "$work/bank"
refuses "truncated" "$fathom" pm check "file:$work/bank"
refuses "No such file" "$fathom" pm stat "shm:$shm-none"

# What a creation leaves that is killed: a file without contents, or without a header.
truncate -s 0 "$work/empty"
truncate -s 64K "$work/zeroes"
refuses "interrupted" "$fathom" pm stat "file:$work/empty"
"$fathom" pm rm "file:$work/empty" "file:$work/zeroes"
[ ! -e "$work/empty" ] && [ ! -e "$work/zeroes" ] || fail "an interrupted creation is still there"

"$fathom" pm rm "shm:$shm"
refuses "No such file" "$fathom" pm stat "shm:$shm"
echo "pm_tool_test: passed"
