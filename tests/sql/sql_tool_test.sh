#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# sql_tool_test.sh FATHOM: `fathom sql` with statements of -c, of files and of standard input: what it prints in each
# form, what it says about errors and where they are, what it refuses, and that no stream that fails goes unnoticed.
subcommand=sql
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
fathom=$(realpath "$fathom")
cd "$work"
db=$work/db

# same TEXT: the output was this
same() {
  [ "$out" = "$1" ] || fail "printed
$out
instead of
$1"
}
says() {
  [[ $err == *"$1"* ]] || fail "said '$err', not '$1'"
}

# ---- statements ----
expect 1 "$db" -c 'select 1'
says '--create creates it'
cat >shop.sql <<'END'
-- A shop; the semicolon in this remark ends nothing;
create table people (id int not null, name varchar(20), town varchar(20), worth decimal(10,2), paid bool, born date);
insert into people values (1, 'ann', 'ulm', 1.5, true, '1990-01-31'), (2, 'b"ob, jr', null, -2, false, null);
create view rich as select name, worth from people where worth > 0;
END
expect 0 --create "$db" shop.sql
same 'CREATE TABLE
INSERT 2
CREATE VIEW'
expect 0 "$db" -c 'select id, name, town, worth, born, paid from people order by id; select * from rich'
same ' id | name     | town | worth | born       | paid
----+----------+------+-------+------------+------
  1 | ann      | ulm  |  1.50 | 1990-01-31 | t
  2 | b"ob, jr |      | -2.00 |            | f
(2 rows)
 name | worth
------+-------
 ann  |  1.50
(1 row)'
expect 0 --csv --null '\N' "$db" -c 'select name, town, paid from people order by id'
same 'name,town,paid
ann,ulm,t
"b""ob, jr",\N,f'
expect 0 --csv --no-header "$db" -c 'select id from people order by id'
same '1
2'
expect 0 --json "$db" -c 'select name, town, worth, paid, born from people order by id'
same '{"name":"ann","town":"ulm","worth":1.50,"paid":true,"born":"1990-01-31"}
{"name":"b\"ob, jr","town":null,"worth":-2.00,"paid":false,"born":null}'
expect 0 --json "$db" -c "select cast('nan' as double precision) as n, E'tab\\tquote\"' as t"
same '{"n":"NaN","t":"tab\tquote\""}'
expect 2 --json --csv "$db" -c 'select 1'
printf '3|cid|bonn|7.25|t|2000-02-29\n4|||||\n' >more.tbl
expect 0 "$db" -c "copy people from '$work/more.tbl' with (delimiter '|', null '')"
same 'COPY 2'
expect 0 --csv --no-header "$db" -c 'select count(*), count(name), sum(worth) from people'
same '4,3,6.75'
# As in PostgreSQL, a header is ignored unless its names are to match.
printf 'y,x\n1,2\n' >pairs.csv
for header in true match; do
  expect 0 --csv --no-header -c "create table p (x int, y int); copy p from '$work/pairs.csv' with (format csv, header $header); select * from p"
  [ "$(tail -n 1 <<<"$out")" = "$([ $header = true ] && echo 1,2 || echo 2,1)" ] || fail "header $header: $out"
done
printf 'z,x\n1,2\n' >pairs.csv
expect 1 -c "create table p (x int, y int); copy p from '$work/pairs.csv' with (format csv, header match)"
[[ $err == *'the header names "z", which is no column'* ]] || fail "header match: $err"
expect 0 --threads 2 --memory 16M --timing "$db" -c 'select count(*) from people'
[[ $out == *'time: '*' s, read '*', memory '* ]] || fail "no timing: $out"
# A query that fails while it runs says so, and prints nothing that looks like a result.
expect 1 "$db" -c 'select 1 / (id - id) from people order by 1'
[[ -z $out && $err == *"division by zero"* ]] || fail "a failed query: $out / $err"
expect 0 "$db" -c 'explain select sum(worth) from people where id > 1'
[[ $out == *'table people'* && $out == *'budget'* ]] || fail "EXPLAIN: $out"
expect 0 "$db" -c 'explain analyze select sum(worth) from people where id > 1'
[[ $out == *'table people'* && $out == *'rows'* ]] || fail "EXPLAIN ANALYZE: $out"
expect 0 "$db" -c 'drop view rich; drop table people'
same 'DROP VIEW
DROP TABLE'
expect 0 "$db" -c 'drop table if exists people, nobody'
expect 0 -c 'create table t (a int, b int) with (cluster_by = a)'
expect 1 -c 'create table t (a int) with (cluster_by = b)'

# ---- a database for once; a script on standard input ----
mkdir once
TMPDIR=$work/once "$fathom" sql --csv <<<"create table t (a int); insert into t values (5); select a from t" >out
[ "$(cat out)" = "a
5" ] || fail "without a database: $(cat out)"
[ -z "$(ls once)" ] || fail "the database was left: $(ls once)"
echo 'select 2' | "$fathom" sql --csv --no-header "$db" - >out
[ "$(cat out)" = 2 ] || fail "the file -: $(cat out)"

# ---- errors: where they are ----
printf 'select 1;\nselect\n\tä, nosuch\nfrom people;\nselect 2;\n' >bad.sql
expect 1 "$db" bad.sql
says "bad.sql:4:6: table \"people\" does not exist
  from people
       ^"
expect 1 -c "create table t (x int); select 'ä' as a, y from t"
says 'command:1:42: column "y" does not exist'
[[ $err == *"
                   ^" ]] || fail "no caret: $err"
expect 1 -c 'selec 1'
says 'command:1:1: syntax error'
expect 1 --keep-going --csv --no-header -c 'select 1/0; select 2'
same 2
says 'command:1: division by zero'
expect 1 "$db" "$work/nothing.sql"
says 'No such file'
expect 1 -c "create table t (a int); copy t from '$work/nothing.tbl'"
says 'nothing.tbl'
printf '1\nx\n' >bad.tbl
expect 1 -c "create table t (a int); copy t from '$work/bad.tbl'; select 1"
says 'bad.tbl:2'

# ---- what is not supported is refused, with its name and its place ----
refuse() {
  expect 1 -c "create table t (a int, b int); $1"
  says "$2"
  says '^'
}
refuse 'select a, rank() over (order by b) from t' 'a window function (OVER) is not supported'
refuse 'select * from t, lateral (select t.a + 1) u' 'LATERAL is not supported'
refuse 'with w as (insert into t values (1, 2)) select 3' 'INSERT, UPDATE or DELETE in WITH ("w") is not supported'
refuse "select a from t where 'x' similar to 'y'" 'SIMILAR TO is not supported'
refuse 'create table orders (a int); create table zeta (a int); select * from ordes' 'did you mean "orders"?'
refuse 'select array[1]' 'an array is not supported'
refuse 'select * from t tablesample system (1)' 'TABLESAMPLE'
refuse 'select cbrt(a) from t' 'cbrt'
for statement in 'update t set a = 1' 'delete from t' 'begin' 'alter table t add c int'; do
  expect 1 -c "create table t (a int); $statement"
  says 'not supported'
done

# ---- streams ----
for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
  status=0
  eval "\"\$fathom\" sql -c 'select 1' $closed" >/dev/null 2>&1 || status=$?
  case $closed in
  *'>&-'*) ;;
  *) [ $status -eq 0 ] || fail "$closed: status $status" ;;
  esac
done
status=0
"$fathom" sql -c 'select 1' >&- 2>err || status=$?
[ $status -eq 1 ] || fail "no standard output: status $status"
status=0
"$fathom" sql </dev/null <&- >out 2>err || status=$?
[ $status -eq 1 ] || fail "no standard input: status $status"
if [ -e /dev/full ]; then
  status=0
  "$fathom" sql -c 'select 1' >/dev/full 2>err || status=$?
  [ $status -eq 1 ] || fail "a full device: status $status"
fi
# A table is cut at the values of a column that CREATE TABLE names, as by `sql create`.
"$fathom" sql --create clustered -c "create table by_sql (a int, b int) with (cluster_by = b)" >/dev/null || fail "cluster_by"
"$fathom" sql create clustered by_tool "a int, b int cluster by (b)" || fail "cluster by"
for name in by_sql by_tool; do
  printf '1|1\n2|1\n3|2\n' | "$fathom" sql load clustered $name - >/dev/null
  "$fathom" sql stat clustered $name | sed "s/$name//" >stat.$name
done
cmp stat.by_sql stat.by_tool || fail "cluster_by is not cluster by: $(cat stat.by_sql)"
# A zero byte does not end a script in silence.
status=0
printf 'select 1;\0 select 2;\nselect 3;\n' | "$fathom" sql --csv >out 2>err || status=$?
[ $status -eq 1 ] && [ ! -s out ] && grep -q 'byte 9 is zero' err || fail "a zero byte in a script: $status $(cat out err)"
nine='(values (1), (2), (3), (4), (5), (6), (7), (8), (9))'
status=0
"$fathom" sql --csv -c "select a.x from $nine a(x), $nine b(x), $nine c(x), $nine d(x), $nine e(x)" 2>err |
  head -1 >out || true
[ "$(cat out)" = x ] || fail "a pipe that is closed early: $(cat out err)"
# The database of a session without one goes with it; that of a killed one goes with the next session.
mkdir own
mkfifo own/in
TMPDIR=$PWD/own "$fathom" sql <own/in >/dev/null 2>&1 &
killed=$!
exec 9>own/in
until ls own | grep -q '^fathom-sql-'; do
  sleep 0.1
done
TMPDIR=$PWD/own "$fathom" sql -c 'select 1' >/dev/null || fail "a session beside another one"
[ "$(ls own | grep -c '^fathom-sql-')" -eq 1 ] || fail "the database of a session that runs was removed"
kill -9 $killed
wait $killed 2>/dev/null || true
exec 9>&-
[ "$(ls own | grep -c '^fathom-sql-')" -eq 1 ] || fail "a killed session left no database"
TMPDIR=$PWD/own "$fathom" sql -c 'select 1' >/dev/null || fail "a session after a killed one"
[ -z "$(ls own | grep '^fathom-sql-' || true)" ] || fail "a database was left"
echo "sql_tool_test: passed"
