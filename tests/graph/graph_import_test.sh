#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# graph_import_test.sh FATHOM: `fathom graph import` of text from elsewhere: names, compressed files,
# broken ones, and what is left when it is killed.
subcommand=graph needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
export TMPDIR=$work
cd "$work"

# import_text TEXT OPTION...: imports it into t
import_text() {
  local text=$1
  shift
  printf '%b' "$text" >text
  expect 0 import --force "$@" text t
}

# refuse TEXT REASON OPTION...
refuse() {
  local text=$1 reason=$2
  shift 2
  printf '%b' "$text" >text
  expect 1 import "$@" text u
  [[ $err == *"$reason"* ]] || fail "\"$text\": $err"
  [ ! -e u ] || fail "\"$text\" left a graph"
}

# ---- what is dropped ----
import_text '0 1\n1 1\n0 1\n1 0\n2 2\n'
[[ $out == *"read       5 edges; dropped 2 loops and 1 duplicates"* ]] || fail "directed: $out"
import_text '0 1\n1 1\n0 1\n1 0\n2 2\n' --undirected --json
[[ $out == *'"vertices":3,"edges":2,'*'"edges_read":5,"loops_dropped":2,"duplicates_dropped":2,'* ]] ||
  fail "undirected: $out"

# ---- text that is odd, and text that is wrong ----
import_text '# c\r\n% c\r\n\r\n0\t1\r\n  1  2  \r\n2 3' --json
[[ $out == *'"vertices":4,"edges":3,'* ]] || fail "CRLF: $out"
refuse '' "the file contains no vertices"
refuse '# only\n' "the file contains no vertices"
refuse '0 1\n-1 2\n' "text: line 2: expected a vertex number; relabel accepts any names"
refuse '0 4294967295\n' "line 1: the number exceeds 4294967294; relabel accepts any names"
refuse '0 18446744073709551616\n' "line 1: the number exceeds"
refuse '0 1\n0,2\n' "line 2: expected a vertex number"
refuse '0 1\n0\n' "line 2: "
refuse '0 1\x00 2\n' "line 1: a zero byte"
refuse '\x89PNG\r\n\x1a\n' "line 1: "
refuse '0 1 x\n' "line 1: expected a weight" --weighted
head -c 200000 /dev/zero | tr '\0' 7 >text
expect 1 import text u
[[ $err == *"line 1: the line is longer than 65536 bytes"* ]] || fail "a long line: $err"
expect 1 import "$work" u
[[ $err == *"Is a directory"* ]] || fail "a folder: $err"
expect 1 import nosuch u
[[ $err == *"nosuch: No such file"* ]] || fail "no file: $err"
expect 1 import edges "$work/nosuch/u"
printf '0 1\n' >edges
expect 1 import edges "$work/nosuch/u"
[[ $err == *"nosuch/u"* ]] || fail "no folder: $err"
if [ "$(id -u)" != 0 ]; then
  mkdir closed
  chmod 500 closed
  expect 1 import edges closed/u
  [[ $err == *"ermission denied"* ]] || fail "no permission: $err"
fi

import_text 'from,to,weight\r\n0,1,3\r\n1,2,4\r\n' --delimiter , --header --weighted --json
[[ $out == *'"vertices":3,"edges":2,'* ]] || fail "CSV: $out"
cp text text.csv
expect 0 import --header text.csv of-csv
[[ $out == *"vertices   3"* ]] || fail "the delimiter of a .csv file: $out"
import_text '\xef\xbb\xbfbob;alice\nalice;carol\n' --delimiter ';' --relabel
expect 0 bfs t --source bob --top 1
[[ $out == *$'carol\talice\t2' ]] || fail "CSV with names: $out"
expect 2 import --delimiter xy text u
expect 2 import --delimiter '"' text u

# A header that nobody mentioned is skipped, and said to be; it is an edge if it is said to be one.
import_text 'source,target\n0,1\n1,2\n' --delimiter , --json
[[ $out == *'"vertices":3,"edges":2,'*'"header_line":1'* && $err == *"note: line 1 names columns and was skipped; --no-header"* ]] ||
  fail "a header: $out $err"
import_text 'source,target\nbob,alice\n' --delimiter , --relabel --json
[[ $out == *'"vertices":2,"edges":1,'* && $err == *"note: line 1 names columns"* ]] || fail "a header: $out $err"
import_text 'source,target\nbob,alice\n' --delimiter , --relabel --no-header --json
[[ $out == *'"vertices":4,"edges":2,'*'"header_line":0'* && -z $err ]] || fail "no header: $out $err"
import_text 'bob,alice\nalice,carol\n' --delimiter , --relabel --json
[[ $out == *'"vertices":3,"edges":2,'* && -z $err ]] || fail "names are no header: $out $err"
refuse 'source,target\n0,1\n' "line 1: expected a vertex number" --delimiter , --no-header
refuse 'source,target\n' "no vertices: its only line was taken for a header" --delimiter ,
expect 2 import --header --no-header text u

# Names with blanks.
import_text '"New York" "Los Angeles"\n"Los Angeles" "a ""b"""\n' --relabel
expect 0 bfs t --source 'New York' --top 1
[[ $out == *$'a "b"\tLos Angeles\t2' ]] || fail "quoted names: $out"
import_text 'New York,"York, New"\n' --relabel --delimiter ,
expect 0 bfs t --source 'New York' --top 1
[[ $out == *$'York, New\tNew York\t1' ]] || fail "names of CSV: $out"
expect 2 import --delimiter , --format mtx text u

# A target that is refused costs no reading: nothing comes out of this pipe.
mkfifo never
exec 6<>never
expect 1 import never g:1
[[ $err == *"g:1: this is a device URI (g:)"*"prefix it with ./"* ]] || fail "g:1: $err"
expect 0 import edges ./g:1
expect 1 import never ./g:1
[[ $err == *"--force"* ]] || fail "it exists: $err"
expect 1 import never ''
exec 6<&-

# ---- names ----
printf 'bob alice\nalice carol\ncarol 1000000000\nbob bob\nbob alice\n10 bob\n' >names
expect 0 import --relabel names l
[[ $out == *"vertices   5"*"labels     words, up to 10 bytes"*"dropped 1 loops and 1 duplicates"* ]] || fail "$out"
expect 0 check l
expect 0 bfs l --source bob --output -
[ "$out" = "$(printf 'vertex\tparent\tdepth\n1000000000\tcarol\t3\nalice\tbob\t1\nbob\tbob\t0\ncarol\talice\t2')" ] ||
  fail "names: $out"
expect 0 bfs l --source 10 --verify --json --top 1
[[ $out == *'"source":"10"'*'"top":[{"vertex":"1000000000","parent":"carol","depth":4}]}' ]] || fail "$out"
expect 1 bfs l --source dave
[[ $err == *"no vertex has the label dave"* ]] || fail "dave: $err"
expect 0 pagerank l --output names.npy
[[ $(head -c 128 names.npy | tr '\0' ' ') == *"{'descr': [('vertex', '|S10'), ('rank', '<f8')], 'fortran_order': False, 'shape': (5,), }"* ]] ||
  fail "$(head -c 200 names.npy)"
[ "$(stat -c %s names.npy)" -eq $((128 + 5 * 18)) ] || fail "names.npy has $(stat -c %s names.npy) bytes"
# Numbers stay numbers, and few edges need little room whatever their numbers are.
import_text '1000000000 7\n9223372036854775807 1000000000\n' --relabel --undirected
[ "$(stat -c %s t)" -lt 1000000 ] || fail "the graph has $(stat -c %s t) bytes"
expect 0 cc t --output ids.npy --force
[[ $(head -c 128 ids.npy | tr '\0' ' ') == *"[('vertex', '<i8'), ('component', '<i8')]"* ]] || fail "$(head -c 128 ids.npy)"
expect 0 cc t --output -
[[ $out == *$'9223372036854775807\t7' ]] || fail "numbers: $out"
printf '0 3000000\n' >sparse
expect 0 import sparse s
[[ $err == *"hint: 1 edges, but vertex numbers up to 3000000"*"--relabel"* ]] || fail "no hint: $err"
expect 0 import --relabel sparse s --force
[ -z "$err" ] || fail "a hint for nothing: $err"
for options in --one-based "--vertices 9" "--format mtx"; do
  # shellcheck disable=SC2086
  expect 2 import --relabel $options names u
done
refuse 'a b\nc\n' "line 2: expected a vertex name" --relabel

# The same graph by names and by numbers, sorted in little memory: the same depths.
expect 0 generate --scale 10 --seed 3 k
"$fathom" graph bfs k --source 0 --output - 2>/dev/null | awk 'NR > 1 { print $1, $2 }' >tree
awk '{ print "v" $1, "v" $2 }' tree >tree.names
expect 0 import --undirected --memory 1M tree by_number
expect 0 import --undirected --memory 1M --relabel tree.names by_name
"$fathom" graph bfs by_number --source 0 --output - 2>/dev/null | cut -f 1,3 | sort >by_number.depth
"$fathom" graph bfs by_name --source v0 --output - 2>/dev/null | cut -f 1,3 | sed 's/^v\([0-9]\)/\1/' | sort >by_name.depth
[ "$(wc -l <by_number.depth)" -gt 500 ] || fail "few vertices: $(wc -l <by_number.depth)"
cmp by_number.depth by_name.depth || fail "names change the depths"

# ---- compressed text, by its contents ----
seq 0 20000 | awk '{ print $1, $1 + 1 }' >chain
packed() {
  expect 0 import --json --force "$1" p
  [[ $out == *'"vertices":20002,"edges":20001,'* ]] || fail "$1: $out"
}
if "$fathom" graph import --force <(gzip -c edges) p >/dev/null 2>err; then
  gzip -c chain >chain.gz
  packed chain.gz
  (head -n 10000 chain | gzip -c; tail -n +10001 chain | gzip -c) >members
  packed members
  expect 1 import --force <(head -c 3000 chain.gz) q
  [[ $err == *"damaged gzip data"*"its end is missing"* && ! -e q ]] || fail "half a file: $err"
  (head -c 2000 chain.gz; head -c 2000 /dev/urandom) >bad.gz
  expect 1 import --force bad.gz q
  [[ $err == *"bad.gz: "* && ! -e q ]] || fail "a damaged file: $err"
  printf '%%%%MatrixMarket matrix coordinate pattern general\n3 3 1\n2 1\n' | gzip -c >m.mtx.gz
  expect 0 import m.mtx.gz m
else
  grep -q "was built without zlib" err || fail "gzip: $(cat err)"
fi
if command -v zstd >/dev/null; then
  zstd -q -c chain >chain.zst
  if "$fathom" graph import --force chain.zst p >/dev/null 2>err; then
    packed chain.zst
    (head -n 10000 chain | zstd -q -c; tail -n +10001 chain | zstd -q -c) >frames
    packed frames
    expect 1 import --force <(head -c 3000 chain.zst) q
    [[ $err == *"damaged zstd data"*"its end is missing"* && ! -e q ]] || fail "half a file: $err"
  else
    grep -q "was built without zstd" err || fail "zstd: $(cat err)"
  fi
fi
printf '\xfd7zXZ\0abcd' >file.xz
expect 1 import file.xz q
[[ $err == *"xz data"* ]] || fail "xz: $err"

# ---- stopped and killed ----
mkfifo pipe
exec 7<>pipe
"$fathom" graph import - waiting <pipe >out 2>err &
job=$!
until find "/proc/$job/fd" -lname "$work/pipe" 2>/dev/null | grep -q .; do sleep 0.05; done
sleep 0.2
kill -INT $job
status=0
wait $job || status=$?
[ $status -eq 130 ] || fail "Ctrl-C at an empty pipe: status $status: $(cat err)"
for options in "" --relabel; do
  # shellcheck disable=SC2086
  "$fathom" graph import $options --memory 1M - killed < <(awk 'BEGIN { for (;;) print i++, i * 7 }') >out 2>err &
  job=$!
  # It has begun to spill.
  until find "/proc/$job/fd" -lname "$work/*" 2>/dev/null | grep -q .; do sleep 0.05; done
  kill -KILL $job
  wait $job 2>/dev/null || true
done
"$fathom" graph generate --scale 22 --memory 1M killed >out 2>err &
job=$!
sleep 0.3
kill -KILL $job
wait $job 2>/dev/null || true
[ -z "$(find . -name 'killed*' -o -name 'fathom-*' -o -name '*.partial-*')" ] || fail "killed, it leaves $(ls)"
echo "graph_import_test: passed"
