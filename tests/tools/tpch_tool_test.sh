#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# tpch_tool_test.sh FATHOM: fathom bench tpch. The tables are those of the reference generator, version 2.14,
# at scale factor 0.01; with FTH_LONG_TESTS=1 also at 1.
subcommand="bench tpch"
# shellcheck source=tests/tool_fixture.sh
. tests/tool_fixture.sh

# check_tables FOLDER: against the checksums on standard input, and nothing else is there
check_tables() {
  (cd "$1" && sha256sum --quiet --strict -c -) || fail "$1: not what the reference generator makes"
  [ "$(ls "$1" | wc -l)" -eq 8 ] || fail "$1: $(ls "$1")"
}

small() {
  cat <<END
5a7c2fe9718db00ff5e5bc82a9ebfa8abc492cc75260d3c0ffb411974f235ab0  region.tbl
7d47bc9397da331054fa92b8fb92e4c074004bad72dcbb893012093218dccf6c  nation.tbl
b199bef3350840676cfe4be096091851bc47b6a57cd8a71b3f559d42b7d9dacd  supplier.tbl
22156f2770387f5adadbc72774f2282d353aedd5092bd8fc54871b3bf5e74cba  customer.tbl
604232ee10e95dca875c196f759c07babf34293dfac8c99b9f1f0c2708f0561b  part.tbl
906f58419af6ad5d62489a7e2105257654bb6d8458a7fd8fe19b76655aac50c7  partsupp.tbl
a444603dfba6c47e902e24b517608a5eb3b117127e99dff16a40f4eaa47b812c  orders.tbl
517b566190fbeadc638602554d109a463631e19788936ccb97196ebd407b51f1  lineitem.tbl
END
}

large() {
  cat <<END
5a7c2fe9718db00ff5e5bc82a9ebfa8abc492cc75260d3c0ffb411974f235ab0  region.tbl
7d47bc9397da331054fa92b8fb92e4c074004bad72dcbb893012093218dccf6c  nation.tbl
f5699b5df22724f41bee9b8521798d8fc0cecd5beb0bd3bca96547ac58095547  supplier.tbl
a035a33a703d3a043ecf97746b4e3a7988316c1c04923fda63231a59d5e46092  customer.tbl
cecd01146ae002aebe47e6b58bd81644df1d51d9c14da3425aea2b4976e02d60  part.tbl
3a68b7b7757cd3aacccb39c4bc092dc3edf3b7e0e7609a259c39238cae0be41e  partsupp.tbl
3f111871419ea6f319fcc51c235d199b3edf16754c5e100be92927527e5f6c97  orders.tbl
4feb529dfa255799bbf0243d2f2c5028375dfb684e592eb94775345602aa2728  lineitem.tbl
END
}

# ---- the tables ----
expect 0 generate --sf 0.01 --threads 1 --output "$work/one"
small | check_tables "$work/one"
expect 0 --json generate --sf 0.01 --threads 3 --output "$work/three"
small | check_tables "$work/three"
[[ $out == *'"table":"lineitem","rows":60175,"bytes":7204075,'* ]] || fail "$out"
[[ $out == *'],"rows":86805,"bytes":10492819,"seconds":'* ]] || fail "$out"

# ---- straight into tables ----
if "$fathom" --help | grep -q '^  sql '; then
  expect 0 generate --sf 0.01 --db "$work/db"
  [[ $out == *"lineitem           60175 rows"* ]] || fail "$out"
  for table in region nation supplier customer part partsupp orders lineitem; do
    "$fathom" sql check "$work/db" $table >/dev/null || fail "$table in the database"
  done
  # l_quantity has two places in SQL.
  for table in region nation supplier customer part partsupp orders; do
    "$fathom" sql dump "$work/db" $table | cmp - "$work/one/$table.tbl" || fail "$table is another one in the database"
  done
  "$fathom" sql dump "$work/db" lineitem | sed -E 's/^(([^|]*\|){4}[0-9]+)\.00\|/\1|/' | cmp - "$work/one/lineitem.tbl" ||
    fail "lineitem is another one in the database"
  expect 1 generate --sf 0.01 --table part --db "$work/db"
  [[ $err == *"part: the table already exists"* ]] || fail "$err"
  expect 2 generate --sf 0.01 --db "$work/db" --output "$work/one"
fi

if [ -n "${FTH_LONG_TESTS:-}" ]; then
  expect 0 generate --sf 1 --output "$work/large"
  large | check_tables "$work/large"
  rm -r "$work/large"
fi

# ---- one table, to standard output and to a file that is there ----
"$fathom" bench tpch generate --sf 0.01 --table orders --threads 3 | cmp - "$work/one/orders.tbl" ||
  fail "standard output is not orders.tbl"
expect 1 generate --sf 0.01 --table part --output "$work/one"
[[ $err == *part.tbl\ exists* ]] || fail "$err"
echo old >"$work/three/part.tbl"
expect 0 generate --sf 0.01 --table part --output "$work/three" --force
cmp "$work/three/part.tbl" "$work/one/part.tbl" || fail "part.tbl was not replaced"

# ---- what cannot be ----
expect 2 generate
[[ $err == *--output* ]] || fail "$err"
expect 2 generate --table nosuch
[[ $err == *"table nosuch: expected region"* ]] || fail "$err"
expect 2 --json generate --table region
expect 1 generate --sf 0.0001 --table region
[[ $err == *"multiple of 0.001"* ]] || fail "$err"
expect 2 generate --sf many --table region
expect 1 generate --sf 0.01 --output "$work/no/such/folder"
[[ $err == *"No such file"* ]] || fail "$err"
expect 1 generate --sf 0.01 --output "$work/one/part.tbl"
[[ $err == *"Not a directory"* ]] || fail "$err"
if [ -w /dev/full ]; then
  "$fathom" bench tpch generate --sf 0.01 --table part >/dev/full 2>"$work/err" && fail "/dev/full took it"
  grep -q "No space left" "$work/err" || fail "$(cat "$work/err")"
fi
status=0
(
  ulimit -f 1000
  trap '' XFSZ
  exec "$fathom" bench tpch generate --sf 0.01 --table lineitem --output "$work/full"
) 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "a file that may not grow: status $status"
grep -q "lineitem.tbl: File too large" "$work/err" || fail "$(cat "$work/err")"
[ -z "$(ls "$work/full")" ] || fail "an error left $(ls "$work/full")"

# ---- stopping, into a file and into a pipe that nobody reads ----
stop() {
  kill -TERM "$1"
  status=0
  wait "$1" || status=$?
  [ $status -eq 130 ] || fail "stopped: status $status"
}
"$fathom" bench tpch generate --sf 10000 --table lineitem --output "$work/stopped" &
pid=$!
# The file has no name before it is complete.
until find "/proc/$pid/fd" -lname "$work/stopped/*" 2>/dev/null | grep -q .; do sleep 0.05; done
stop $pid
[ -z "$(ls "$work/stopped")" ] || fail "a stop left $(ls "$work/stopped")"
mkfifo "$work/pipe"
exec 9<>"$work/pipe"
"$fathom" bench tpch generate --sf 10000 --table lineitem >"$work/pipe" &
pid=$!
head -c 1000 <&9 >/dev/null
stop $pid
exec 9<&-

# ---- queries and the schema ----
for n in $(seq 22); do
  expect 0 query "$n"
  [[ $out == *\; ]] || fail "query $n: $out"
done
expect 2 query 0
expect 2 query 23
expect 2 query x
[[ $err == *"expected a number from 1 to 22"* ]] || fail "$err"
expect 0 --json query 6
[[ $out == '{"query":6,"sql":"select sum('* ]] || fail "$out"
expect 0 schema
[ "$(grep -c '^create table' <<<"$out")" -eq 8 ] || fail "$out"
echo "tpch_tool_test: passed"
