#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# table_tool_test.sh FATHOM: tables from the command line.
subcommand=sql
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
if ! "$fathom" --help | grep -q '^  sql '; then
  echo "skipped: built without LZ4"
  exit 77
fi
db=$work/db

# Three lines an order, and a comment for each.
awk 'BEGIN {
  for (i = 0; i < 200000; i++)
    printf "%d|%d|%d.%02d|199%d-0%d-11|%s|comment number %d, all of it\n", int(i / 3) * 4, i * 7919 % 1000,
      i % 5000, i % 100, i % 10, 1 + i % 9, i % 3 ? "RAIL" : "SHIP", i
}' >"$work/items.tbl"

expect 0 create "$db" Items "o int64 not null, part int not null, price decimal(15,2), day date, mode char(10), note varchar(44)"
expect 1 create "$db" items "a int"
[[ $err == *"items: the table already exists"* ]] || fail "create twice: $err"
expect 1 create "$db" other "a blob"
[[ $err == *"unknown type \"blob\""* ]] || fail "a bad type: $err"
expect 0 load "$db" items "$work/items.tbl"
[[ $out == "items: 200000 rows loaded" ]] || fail "load: $out"
expect 0 dump "$db" items
cmp "$work/out" "$work/items.tbl"
expect 0 check "$db" items
[[ $out == *"200000 rows, 0 findings" ]] || fail "check: $out"
expect 0 stat "$db" items
[[ $out == *"o "*"int64"*"runs up to 3, no-nulls sorted clustered whole-runs"* ]] || fail "stat: $out"
[[ $out == *"mode "*"codes"*"2 distinct"*"ordered-codes"* ]] || fail "stat: $out"
expect 0 --json stat "$db" items
python3 -c 'import json, sys
t = json.load(open(sys.argv[1]))
assert t["rows"] == 200000 and t["columns"][0]["max_run"] == 3, t
assert t["bytes"] * 5 < int(sys.argv[2]), t["bytes"]' "$work/out" "$(stat -c %s "$work/items.tbl")"

# All or nothing, with the line that is wrong.
{ cat "$work/items.tbl" && echo "1|2|x|1999-01-01|A|b"; } >"$work/bad.tbl"
expect 1 load "$db" items "$work/bad.tbl"
[[ $err == *"bad.tbl:200001: price: \"x\" is not a valid decimal(15,2)"* ]] || fail "bad input: $err"
expect 0 ls "$db"
[[ $out == *"200000 rows    6 columns"*" items" ]] || fail "ls: $out"

# From standard input, and CSV with nulls there and back.
head -n 10 "$work/items.tbl" | "$fathom" sql load "$db" items - >/dev/null
expect 0 --json ls "$db"
[[ $out == '{"tables":[{"name":"items","rows":200010,'* ]] || fail "$out"
expect 0 create "$db" notes "id int, note text"
printf 'id,note\n1,"a, ""b""\nc"\n,\n3,""\n' >"$work/notes.csv"
expect 0 load --csv --header "$db" notes "$work/notes.csv"
expect 0 dump --csv --header "$db" notes
cmp "$work/out" "$work/notes.csv"
expect 2 load --delimiter xy "$db" notes "$work/notes.csv"

# A header names the columns: in any order, some of them, and no others.
printf 'NOTE|id\nx|4\n' >"$work/swapped"
expect 0 load --header "$db" notes "$work/swapped"
printf 'note\ny\n' >"$work/some"
expect 0 load --header "$db" notes "$work/some"
printf 'key|text\n5|z\n' >"$work/others"
expect 1 load --header "$db" notes "$work/others"
[[ $err == *"others:1: the header names \"key\", which is no column of the table"* ]] || fail "unknown names: $err"
expect 0 load --skip-header "$db" notes "$work/others"
expect 2 load --skip-header --header "$db" notes "$work/others"
expect 0 dump --csv "$db" notes
[[ $out == *$'\n4,x\n,y\n5,z' ]] || fail "by names: $out"

# Compressed files, by their contents; half of one is an error, and so are bytes that are no text.
expect 0 create "$db" packed "o int64 not null, part int not null, price decimal(15,2), day date, mode char(10), note varchar(44)"
gzip -c "$work/items.tbl" >"$work/gz"
(gzip -c "$work/items.tbl"; head -n 10 "$work/items.tbl" | gzip -c) >"$work/members.tbl"
loaded=0
if "$fathom" sql load "$db" packed "$work/gz" >/dev/null 2>"$work/err"; then
  expect 0 dump "$db" packed
  cmp "$work/out" "$work/items.tbl"
  out=$("$fathom" sql load "$db" packed - <"$work/members.tbl")
  [[ $out == "packed: 200010 rows loaded" ]] || fail "two members: $out"
  head -c 100000 "$work/gz" >"$work/half.tbl"
  expect 1 load "$db" packed "$work/items.tbl" "$work/half.tbl"
  [[ $err == *"half.tbl: damaged gzip data before byte 100000: its end is missing"* ]] || fail "half of a file: $err"
  loaded=400010
else
  grep -q "was built without zlib" "$work/err" || fail "gzip: $(cat "$work/err")"
fi
if command -v zstd >/dev/null; then
  zstd -qc "$work/items.tbl" >"$work/zst"
  if "$fathom" sql load "$db" packed "$work/zst" >/dev/null 2>"$work/err"; then
    head -c 100000 "$work/zst" >"$work/half.tbl"
    expect 1 load "$db" packed "$work/half.tbl"
    [[ $err == *"half.tbl: damaged zstd data"*"its end is missing"* ]] || fail "half of a file: $err"
    loaded=$((loaded + 200000))
  else
    grep -q "was built without zstd" "$work/err" || fail "zstd: $(cat "$work/err")"
  fi
fi
expect 0 --json ls "$db"
[[ $out == *"{\"name\":\"packed\",\"rows\":$loaded,"* ]] || fail "rows: $out"
printf 'fine\nb\xe4d\n' >"$work/latin1"
expect 0 create "$db" words "word text"
expect 1 load "$db" words "$work/latin1"
[[ $err == *"latin1:2: word: invalid byte sequence for encoding \"UTF8\": 0xe4 0x64"* ]] || fail "no UTF-8: $err"
head -c 3000 /dev/urandom >"$work/junk"
for options in "" --csv; do
  # shellcheck disable=SC2086
  expect 1 load $options "$db" words "$work/junk"
  [[ $err =~ junk:[0-9]+:\  ]] || fail "binary data: $err"
done

# Ctrl-C ends a load that waits for input, with nothing loaded. ThreadSanitizer delays the signal while the main thread
# waits for its turn to read.
if ! grep -q __tsan_init "$fathom"; then
  mkfifo "$work/pipe"
  exec 7<>"$work/pipe"
  echo one >&7
  "$fathom" sql load "$db" words - <"$work/pipe" >"$work/out" 2>"$work/err" &
  job=$!
  until [ "$(cat /proc/$job/comm)" = fathom ] && grep -q '^SigCgt.*[2367abef]$' /proc/$job/status; do sleep 0.05; done
  kill -INT $job
  status=0
  wait $job || status=$?
  exec 7<&-
  [ $status -eq 130 ] || fail "Ctrl-C at an empty pipe: status $status: $(cat "$work/err")"
  expect 0 dump "$db" words
  [ -z "$out" ] || fail "words: $out"
fi
expect 0 rm "$db" packed words

# Bytes that changed are found and named: more of them than lie unused between groups.
offset=$(($(stat -c %s "$db/items/data") / 3))
head -c 8192 /dev/urandom | dd of="$db/items/data" bs=1 seek=$offset conv=notrunc status=none
expect 1 check "$db" items
[[ $out == *"table items, column "*", group "*"checksum"* ]] || fail "a damaged page: $out"

expect 0 rm "$db" items notes
expect 0 ls "$db"
[ -z "$out" ] || fail "tables are left: $out"
[ -z "$(ls -A "$db")" ] || fail "files are left: $(ls -A "$db")"
expect 1 stat "$db" items
[[ $err == *"no such table"* ]] || fail "stat: $err"
# Tables of Fathom itself are not the user's.
if "$fathom" sql --help >/dev/null 2>&1; then
  "$fathom" sql --create "$work/views" -c "create table t (a int); create view v as select a from t" >/dev/null
else # a build without SQL
  expect 0 create "$work/views" t "a int"
fi
for command in rm load create; do
  expect 1 "$command" "$work/views" fathom_views "a int"
  [[ $err == *reserved* ]] || fail "$command fathom_views: $err"
done
# A limit on the size of files is an error with a message, not the end by SIGXFSZ.
expect 0 create "$work/limited" t "s varchar(100)"
seq 100000 | sed 's/$/ of many lines/' >"$work/many"
status=0
(ulimit -f 16 && "$fathom" sql load "$work/limited" t "$work/many" >/dev/null 2>"$work/err") || status=$?
if [ $status -ne 1 ] || ! grep -q 'too large' "$work/err"; then
  fail "a limit of file sizes: $status $(cat "$work/err")"
fi
echo "table_tool_test: passed"
