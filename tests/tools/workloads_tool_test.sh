#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# workloads_tool_test.sh FATHOM: fathom bench taxi, vectoradd and gups on given devices.
needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"

# ---- a device that somebody has is not overwritten, even with --force ----
truncate -s 1M "$work/locked"
exec 9<"$work/locked"
flock -x 9
for command in "bench gups run" "dev check" "dev stress" "bench vectoradd run mem:1M mem:1M"; do
  # shellcheck disable=SC2086
  expect 1 $command --force "file:$work/locked"
  [[ $err == *"in use"* ]] || fail "$command: $err"
done
# nor replaced: graphs and tables are written to a new file, or to a device (a wrapper is one) in place
for command in "graph generate --scale 4" "bench taxi generate --rows 100"; do
  for target in "$work/locked" "delay(file:$work/locked)"; do
    # shellcheck disable=SC2086
    expect 1 $command --force "$target"
    [[ $err == *"in use"* ]] || fail "$command $target: $err"
  done
done
exec 9<&-
cmp -n 1048576 "$work/locked" /dev/zero || fail "a locked file is overwritten"

# ---- taxi: made-up trips ----
expect 0 bench taxi generate --help
[[ $out == *"fathom sql"* ]] || fail "taxi help: $out"
expect 0 bench taxi generate --rows 100000 "file:$work/trips"
[[ $out == *"100000 trips, 470 of at least 20 miles, 30 of at least 30"* ]] || fail "$out"
expect 1 bench taxi generate --rows 100000 "file:$work/trips"
[[ $err == *"the file exists; --force replaces it"* ]] || fail "a file is overwritten without a word: $err"
expect 1 bench taxi generate --rows 1000 mem:1M
[[ $err == *--force* ]] || fail "a device is overwritten without a word: $err"
expect 0 bench taxi generate --force --rows 90000 --seed 2 "$work/trips"
expect 0 bench taxi generate --force --rows 200000 "file:$work/trips"
expect 1 bench taxi generate --force --rows 900000 mem:1M
[[ $err == *"need a device of"* ]] || fail "too many rows: $err"
expect 1 bench taxi check mem:1M
[[ $err == *"does not contain a table"* ]] || fail "no table: $err"

expect 0 bench taxi generate --rows 100000 "file:$work/table"
expect 0 bench taxi check "file:$work/table"
expect 0 bench taxi query --verify --threads 2 "file:$work/table"
[ "$(grep -c '^Q' <<<"$out")" -eq 6 ] || fail "not six answers: $out"
expect 0 --json bench taxi query --query 5 --miles 20 --line 4K --policy clock "file:$work/table"
[[ $out == *'"query":5,"trips":470,"dollars_per_mile":'*'"ok":true}' ]] || fail "$out"
through=$(grep -o '"dollars_per_mile":[0-9.]*[0-9]\{0,6\}' <<<"$out" | cut -c1-26)
expect 0 --json bench taxi query --query 5 --miles 20 --whole "file:$work/table"
[[ $out == *"$through"* ]] || fail "two answers: $through and $out"
# Every policy that the help names is there.
expect 0 bench taxi query --help
policies=$(sed -n 's/.*--policy TEXT .*: //p' <<<"$out" | tr -d ,)
[ -n "$policies" ] || fail "no policies in the help: $out"
for policy in $policies; do
  expect 0 bench taxi query --query 1 --miles 20 --policy "$policy" "file:$work/table"
done
expect 1 bench taxi query --policy nosuch "file:$work/table"
[[ $err == *nosuch* ]] || fail "policy: $err"
expect 2 bench taxi query --query 7 "file:$work/table"

# What is damaged is found.
printf x | dd of="$work/table" bs=1 seek=100000 conv=notrunc status=none
expect 1 bench taxi check "file:$work/table"
[[ $err == *"column distance"* ]] || fail "damage: $err"

# ---- taxi: CSV ----
cat >"$work/a.csv" <<CSV
VendorID,trip_distance,total_amount,extra,mta_tax,tolls_amount
1,25.5,90.25,1,0.5,6
2,1.5,9,,0.5,0
CSV
printf 'Total_Amt,Trip_Distance\r\n\r\n70.75,35\r\nx,3\r\n' >"$work/b.csv"
expect 1 bench taxi load "file:$work/loaded" "$work/a.csv" "$work/b.csv"
[[ $err == *"b.csv: line 4, field 1 (total): \"x\" is not a number"* ]] || fail "$err"
[ ! -e "$work/loaded" ] || fail "a table that could not be loaded left a file"
expect 0 bench taxi load --lenient "file:$work/loaded" "$work/a.csv" "$work/b.csv"
[[ $out == *"3 trips from 7 lines"*"1 values were empty"*"1 skipped"*"hail fee"* ]] || fail "$out"
expect 0 --json bench taxi query --query 1 --miles 20 "file:$work/loaded"
[[ $out == *'"trips":2,'*'"distance":60.5,"total":161'* ]] || fail "$out"
expect 1 bench taxi load "file:$work/none" "$work/nosuch.csv"
[[ $err == *nosuch.csv* ]] || fail "$err"
cp "$work/loaded" "$work/before"
expect 1 bench taxi load --force "file:$work/loaded" "$work/b.csv"
cmp "$work/loaded" "$work/before" || fail "a failed load changed the table"

# Stopped, or with a full disk, it leaves nothing behind, and can be run again.
"$fathom" bench taxi generate --rows 500M "file:$work/long" >"$work/out" 2>&1 &
job=$!
sleep 0.5
kill -INT $job
status=0
wait $job || status=$?
[ $status -eq 130 ] || fail "interrupted: status $status: $(cat "$work/out")"
(
  ulimit -f 2048
  trap '' XFSZ
  expect 1 bench taxi generate --rows 1M "file:$work/long?direct=off"
)
[ -z "$(find "$work" -name 'long*')" ] || fail "unfinished tables stay: $(ls "$work")"
expect 0 bench taxi generate --rows 1000 "file:$work/long"

# ---- vectoradd ----
new="create=on&size=1M"
expect 2 bench vectoradd run "file:$work/a?$new" "file:$work/b?$new" "file:$work/c?$new"
[[ $err == *--force* ]] || fail "vectoradd does not ask: $err"
expect 0 bench vectoradd run --force --fill --memory 512K --line 4K --threads 2 "file:$work/a?$new" \
  "file:$work/b?$new" "file:$work/c?$new"
[[ $out == *"wrong          0"* ]] || fail "vectoradd: $out"
expect 0 --json bench vectoradd run --force "file:$work/a" "file:$work/b" "file:$work/c"
[[ $out == '{"elements":131072,'* ]] || fail "vectoradd: $out"
expect 1 bench vectoradd run --force "file:$work/a" "file:$work/b" mem:2M
[[ $err == *"differ in length"* ]] || fail "vectoradd: $err"

# ---- gups ----
expect 2 bench gups run mem:1M
expect 0 bench gups run --force --updates 20000 --memory 256K --threads 2 "file:$work/gups?$new"
[[ $out == *"wrong words    0"*"amplification"* ]] || fail "gups: $out"
expect 0 --json bench gups run --force --updates 5000 --memory 256K --line 512 mem:1M
[[ $out == *'"wrong":0,"line":512,"cache":{"hits":'* ]] || fail "gups: $out"
expect 1 bench gups run --force --updates 5000 --memory 256K "fault(mem:1M)?kind=read&nth=9&every=1"
[[ $err == *"fault("* ]] || fail "gups: $err"

# A signal stops a long run in good order.
status=0
timeout --foreground --preserve-status -s INT -k 60 1 \
  "$fathom" bench gups run --force --updates 4000000000 --memory 256K mem:1M >/dev/null || status=$?
[ $status -eq 130 ] || fail "SIGINT: status $status"
echo "workloads_tool_test: passed"
