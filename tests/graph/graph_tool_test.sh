#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# graph_tool_test.sh FATHOM: `fathom graph` from making a graph to results, and at its edges.
subcommand=graph needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"

export TMPDIR=$work
g=file:$work/g
expect 0 generate --scale 12 --weighted --memory 1M --seed 7 "$g"
[[ $out == *"Kronecker, scale 12, degree 16, seed 7"* ]] || fail "generate: $out"
expect 0 check "$g"
[[ $out == *"checksum   right"* && $out == *"undirected, weighted"* ]] || fail "stat: $out"
expect 0 stat "$g" --json
[[ $out == '{"graph":'*'"vertices":4096,'*'"checked":false}' ]] || fail "stat: $out"
size=$(stat -c %s "$work/g")
[[ $out == *"\"bytes\":$size,"* ]] || fail "the file has $size bytes: $out"
expect 1 generate --scale 12 "$g"
[[ $err == *"--force"* ]] || fail "no hint: $err"
[ "$(stat -c %s "$work/g")" = "$size" ] || fail "a refused target was changed"

# Each algorithm, with little cache, verified.
for algorithm in bfs cc pagerank sssp; do
  expect 0 $algorithm "$g" --verify --trials 2 --memory 32K --threads 3
  [[ $out == *"results verified"* ]] || fail "$algorithm: $out"
  expect 0 $algorithm "$g" --verify --trials 1 --line 512 --compact --offsets flash --policy clock --json
  [[ $out == *"\"algorithm\":\"$algorithm\""*'"verified":true'*'"hit_rate":'* ]] ||
    fail "$algorithm: $out"
done
expect 0 bfs "$g" --source 5 --trials 1
expect 1 bfs "$g" --source 4096
[[ $err == *"vertex 4096 does not exist"* ]] || fail "bad source: $err"
for offsets in nowhere foo mem m; do
  expect 2 bfs "$g" --offsets $offsets
done
expect 1 bfs "$g" --policy nosuch

# Import, from both formats; nothing is left of what failed.
printf '# triangle\n1 2 5\n2 3 0.5\n3 1 2\n' >"$work/edges"
expect 0 import --one-based --undirected --weighted --weight-scale 2 "$work/edges" "file:$work/t"
expect 0 sssp --verify --source 0 --trials 1 "file:$work/t" --json
[[ $out == *'"vertices":3,"edges":6,'*'"reached":3,'* ]] || fail "triangle: $out"
expect 1 import --weighted "$work/edges" "file:$work/u"
[[ $err == *"line 3: the weight is not an integer"* && ! -e $work/u ]] || fail "bad weight: $err"
printf '%%%%MatrixMarket matrix coordinate pattern symmetric\n4 4 2\n2 1\n4 3\n' >"$work/m.mtx"
expect 0 import "$work/m.mtx" "file:$work/m"
expect 0 cc --verify --trials 1 "file:$work/m" --json
[[ $out == *'"components":2,"largest":2,'* ]] || fail "matrix: $out"
expect 1 import "$work/nothere" "file:$work/u"
expect 1 sssp "file:$work/m"
[[ $err == *"no weights"* ]] || fail "no weights: $err"
expect 1 stat "file:$work/edges"
expect 0 generate --scale 4 --force mem:1M
expect 1 generate --scale 12 --force mem:128K
[[ $err == *"does not fit"* ]] || fail "too small: $err"
for scale in nan inf -1 1e999 x; do
  expect 2 import --weighted --weight-scale=$scale "$work/edges" "file:$work/u"
done

# What is replaced stays as it is until the new graph is whole, and a link stays a link.
cp "$work/g" "$work/kept"
ln -s kept "$work/link"
chmod 640 "$work/kept"
printf '1 x\n' >"$work/bad"
expect 1 import --force "$work/bad" "file:$work/link"
expect 1 generate --scale 12 --force --scratch "$work/nosuch" --memory 1M "file:$work/link"
cmp "$work/g" "$work/kept" || fail "a failed import changed what was there"
expect 0 import --force --one-based "$work/edges" "file:$work/link"
[ -L "$work/link" ] && [ "$(stat -c %a "$work/kept")" = 640 ] || fail "the link or its mode is gone"
expect 0 check "file:$work/kept"
"$fathom" graph import --force - "file:$work/kept" < <(yes '1 2') >"$work/out" 2>&1 &
job=$!
sleep 0.3
kill -INT $job
status=0
wait $job || status=$?
[ $status -eq 130 ] || fail "interrupted import: status $status: $(cat "$work/out")"
expect 0 check "file:$work/kept"
if [ -e /dev/full ]; then
  expect 1 import --force "$work/edges" file:/dev/full
  [ -c /dev/full ] || fail "a device node was replaced"
fi

# A search goes in either direction; in a directed graph bottom-up with the transpose only.
awk 'BEGIN { for (i = 0; i < 400; i++) { print i, (i * 7 + 1) % 400; print i, (i * i + 3) % 400 } }' >"$work/directed"
expect 0 import "$work/directed" "$work/forward"
expect 0 import --reversed "$work/directed" "$work/turned"
for direction in auto push pull; do
  expect 0 bfs --verify --direction $direction --source 3 --transpose "$work/turned" "$work/forward"
  expect 0 bfs --verify --direction $direction "file:$work/g"
done
expect 0 bfs --verify --direction pull --source 3 --transpose "$work/turned" --json "$work/forward"
[[ $out =~ \"bottom_up\":\ ?[1-9] ]] || fail "no level was searched bottom-up: $out"
expect 1 bfs --direction pull --source 3 "$work/forward"
[[ $err == *"needs its transpose"* ]] || fail "pull without a transpose: $err"
# Edges that are not reversed give wrong parents, which --verify finds.
expect 1 bfs --verify --direction pull --source 3 --transpose "$work/forward" "$work/forward"
expect 1 bfs --source 3 --transpose "$work/nothere" "$work/forward"
[[ $err == *nothere* ]] || fail "error does not name the transpose: $err"
expect 2 bfs --direction sideways "$work/forward"

# A graph in a volume is a graph as well.
truncate -s 16M "$work/a" "$work/b"
volume=file:$work/a,file:$work/b
"$fathom" vol create "$volume" >/dev/null
"$fathom" vol new "$volume" graph 4M >/dev/null
expect 0 generate --scale 10 --force "vol($volume)?object=graph"
expect 0 bfs --verify --trials 1 "vol($volume)?object=graph"

# Stopped, it leaves nothing behind.
"$fathom" graph generate --scale 22 --memory 1M "file:$work/big" >"$work/out" 2>&1 &
job=$!
sleep 0.3
kill -INT $job
status=0
wait $job || status=$?
[ $status -eq 130 ] || fail "interrupted: status $status"
[ ! -e "$work/big" ] || fail "an unfinished graph stays"
"$fathom" graph import --vertices 4000000000 "$work/edges" "file:$work/big" >"$work/out" 2>&1 &
job=$!
sleep 1
kill -INT $job
status=0
wait $job || status=$?
[ $status -eq 130 ] || fail "interrupted among vertices: status $status: $(cat "$work/out")"
[ -z "$(find "$work" -name '*.partial-*' -o -name big)" ] || fail "unfinished files stay"
[ -z "$(find "$work" -name 'fathom-sort-*')" ] || fail "temporary files stay"
echo "graph_tool_test: passed"
