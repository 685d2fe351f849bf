#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# graph_output_test.sh FATHOM: results of `fathom graph` in files: text, numpy, the largest rows; and
# what goes wrong while they are written.
subcommand=graph needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
export TMPDIR=$work
cd "$work"

tab() {
  printf '%b' "$1"
}

# A graph whose results are known: 0-1-2-3 in a row, 4-5 apart, 6 alone.
printf '0 1 5\n1 2 1\n2 3 7\n4 5 1\n' >edges
expect 0 import --undirected --weighted --vertices 7 edges g

# ---- text ----
expect 0 bfs g --source 0 --output bfs.tsv
[ "$(cat bfs.tsv)" = "$(tab 'vertex\tparent\tdepth\n0\t0\t0\n1\t0\t1\n2\t1\t2\n3\t2\t3')" ] || fail "$(cat bfs.tsv)"
[[ $out == *"reached 4, depth 3"* ]] || fail "bfs: $out"
expect 0 cc g --output cc.tsv
[ "$(cut -f 2 cc.tsv | tr '\n' ' ')" = "component 0 0 0 0 4 4 6 " ] || fail "$(cat cc.tsv)"
expect 0 sssp g --source 3 --output sssp.tsv
[ "$(cat sssp.tsv)" = "$(tab 'vertex\tdistance\n0\t13\n1\t8\n2\t7\n3\t0')" ] || fail "$(cat sssp.tsv)"
expect 0 pagerank g --output -
[[ $out == vertex*rank* && $err == *iterations* ]] || fail "standard output: $out; $err"
[ "$(wc -l <<<"$out")" -eq 8 ] || fail "not 7 rows: $out"
awk 'NR > 1 { sum += $2 } END { exit sum < 0.999999 || sum > 1.000001 }' <<<"$out" || fail "ranks: $out"
expect 2 pagerank g --output - --json
[[ $err == *"--output - and --json"* && -z $out ]] || fail "both on standard output: $err"

# ---- the largest rows ----
expect 0 sssp g --source 3 --top 2
[[ $out == *"$(tab 'vertex\tdistance\n0\t13\n1\t8')" ]] || fail "top: $out"
expect 0 cc g --top 100 --json
[[ $out == *'"top":[{"component":0,"vertices":4},{"component":4,"vertices":2},{"component":6,"vertices":1}]}' ]] ||
  fail "top: $out"
[ "$(wc -l <<<"$out")" -eq 1 ] || fail "more than a line: $out"
expect 0 bfs g --source 0 --top 1 --output top.tsv --json
[[ $out == *'"output":"top.tsv"'* && $out != *'"top":'* ]] || fail "top in a file: $out"
[ "$(cat top.tsv)" = "$(tab 'vertex\tparent\tdepth\n3\t2\t3')" ] || fail "$(cat top.tsv)"

# ---- numpy ----
expect 0 pagerank g --output ranks.npy
expect 0 bfs g --source 0 --output tree.npy
expect 0 sssp g --source 3 --output far.npy
expect 0 cc g --top 2 --output parts.npy
# The magic string, version 1.0, the length of a header that ends at a multiple of 64, and the header.
[ "$(head -c 10 ranks.npy | od -An -tx1 | tr -d ' \n')" = 934e554d505901007600 ] || fail "$(head -c 10 ranks.npy | od -tx1)"
[ "$(head -c 128 ranks.npy | tail -c 118)" = "$(printf "%-117s" "{'descr': '<f8', 'fortran_order': False, 'shape': (7,), }")" ] ||
  fail "$(head -c 128 ranks.npy)"
[ "$(stat -c %s ranks.npy)" -eq $((128 + 7 * 8)) ] || fail "ranks.npy has $(stat -c %s ranks.npy) bytes"
python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate; fi
done
if [ -n "$python" ]; then
  "$python" - <<'PY' || fail "numpy reads something else"
import numpy as np
ranks, tree, far, parts = (np.load(n + ".npy") for n in ("ranks", "tree", "far", "parts"))
assert ranks.dtype == np.float64 and ranks.shape == (7,) and abs(ranks.sum() - 1) < 1e-6
assert list(tree["parent"]) == [0, 0, 1, 2, -1, -1, -1] and list(tree["depth"]) == [0, 1, 2, 3, -1, -1, -1]
assert list(far) == [13, 8, 7, 0, -1, -1, -1]
assert list(parts["component"]) == [0, 4] and list(parts["vertices"]) == [4, 2]
PY
else
  echo "numpy is not here: .npy is checked by its bytes alone"
fi

# ---- files that exist, cannot be written, or stay unfinished ----
cp ranks.npy before
expect 1 pagerank g --output ranks.npy
[[ $err == *"ranks.npy: the file exists; --force replaces it"* ]] || fail "no hint: $err"
cmp ranks.npy before || fail "a refused file was changed"
expect 0 pagerank g --output ranks.npy --force --iterations 1
cmp -s ranks.npy before && fail "--force replaces nothing"
expect 1 pagerank g --output "$work/nosuch/ranks"
[[ $err == *nosuch* && $out != *iterations* ]] || fail "the work was done before the file: $err"
expect 1 pagerank g --output ''
[[ $err == *"the file name is empty"* ]] || fail "no name: $err"
expect 1 pagerank nosuch --output never
[ ! -e never ] || fail "a failed run left a file"
expect 0 pagerank g --output /dev/null
if [ -e /dev/full ]; then
  expect 1 pagerank g --output /dev/full
  [[ $err == *"No space left"* ]] || fail "full: $err"
  "$fathom" graph pagerank g --output - >/dev/full 2>err && fail "a full standard output is a success"
  grep -q "No space left" err || fail "full: $(cat err)"
fi
expect 0 generate --scale 16 --degree 2 big
(
  ulimit -f 256
  trap '' XFSZ
  expect 1 pagerank big --output toolarge
  [[ $err == *"toolarge: cannot write the result"* ]] || fail "no room: $err"
) || exit 1
[ ! -e toolarge ] || fail "half a file stays"
status=0
"$fathom" graph pagerank big --output - 2>err > >(exec head -n 1 >/dev/null) || status=$?
[ $status -eq 1 ] || fail "a closed pipe: status $status"
grep -q "Broken pipe" err || fail "a closed pipe: $(cat err)"
# Stopped while it writes into a pipe that nobody reads.
mkfifo pipe
"$fathom" graph pagerank big --output - 2>err >pipe &
job=$!
exec 8<pipe
head -c 100 <&8 >/dev/null
kill -INT $job
exec 8<&-
status=0
wait $job || status=$?
[ $status -eq 130 ] || [ $status -eq 1 ] || fail "stopped: status $status: $(cat err)"
[ -z "$(find . -name '*.partial-*')" ] || fail "unfinished files stay"
echo "graph_output_test: passed"
