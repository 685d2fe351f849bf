#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# plot.py makes figures that are well-formed and show all points and bars, and says what is wrong
# with data that it can not read. Skipped (77) without Python.
set -eu
if ! python3 -c "import json, xml.etree" 2>/dev/null; then
  echo "plot_test: skipped, no python3 here"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "plot_test: $*" >&2
  exit 1
}

# elements FILE CLASS: how many elements of a class a figure has; fails if it is not well-formed
elements() {
  python3 - "$1" "$2" <<'END'
import sys
import xml.etree.ElementTree as tree

root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
print(sum(sys.argv[2] in element.get("class", "").split() for element in root.iter()))
END
}

# counts FILE CLASS N
counts() {
  local n
  n=$(elements "$work/figures/$1" "$2") || fail "$1 is not well-formed"
  [ "$n" = "$3" ] || fail "$1 has $n of $2, not $3"
}

# expect STATUS: runs it on $work/data, leaves what it says in $said
expect() {
  local status=0
  said=$(scripts/plot.py "$work/data" "$work/figures" 2>&1) || status=$?
  [ $status = "$1" ] || fail "status $status, not $1: $said"
}

# refuses TEXT LINE: a line that is refused with this text, and that changes no figure
refuses() {
  local before
  before=$(cat "$work"/figures/*.svg | cksum)
  printf '%s\n' '{"bench":"queue"}' "$2" >"$work/data/zz.json"
  expect 1
  [[ $said == "plot: $work/data/zz.json:2: $1"* ]] || fail "$2: $said"
  [ "$(cat "$work"/figures/*.svg | cksum)" = "$before" ] || fail "$2: a figure was changed"
  rm "$work/data/zz.json"
}

mkdir "$work/data"
expect 1
[[ $said == *"no *.json"* ]] || fail "no data: $said"
cp tests/plots/block.json "$work/data"
expect 0
[ "$said" = "$work/figures/gpu-iops.svg" ] || fail "one kind of data: $said"
cp tests/plots/graph.json "$work/data"
expect 0

# Six points of 512-byte reads, one of them measured twice, in three lines.
counts gpu-iops.svg point 6
counts gpu-iops.svg limit 1
elements "$work/figures/gpu-iops.svg" series >"$work/n"
[ "$(cat "$work/n")" = 6 ] || fail "$(cat "$work/n") series and keys, not 3 and 3"
grep -q "16 queue pairs, 4 K threads: 32.9 M/s" "$work/figures/gpu-iops.svg" ||
  fail "what was measured last is not what is shown"
# Four workloads, in three parts each, three of them with a peer; and one part below nothing.
counts gpu-time.svg bar 15
grep -q "uniform, cc, cache: 0 s" "$work/figures/gpu-time.svg" || fail "a part below nothing"
for figure in "$work"/figures/*.svg; do
  grep -q "prefers-color-scheme:dark" "$figure" || fail "$figure does not follow the page"
done
[ ! -e "$work/figures/gpu-time.svg.new" ] || fail "something is left over"

refuses "no JSON" '{"bench":"gpublock",'
refuses "no JSON" 'limit 512 B read'
refuses 'no object with the name of a "bench"' '[1]'
refuses 'no object with the name of a "bench"' '{"rate":1}'
point='{"bench":"gpublock","design":"warp","block":512,"kind":"read","queues":1,"threads":1024'
refuses '"rate" is missing' "$point,\"limit\":1}"
refuses '"rate" is missing, or no number' "$point,\"limit\":1,\"rate\":\"fast\"}"
refuses '"rate" is missing, or no number' "$point,\"limit\":1,\"rate\":NaN}"
refuses '"rate" is 0, less than 1' "$point,\"limit\":1,\"rate\":0}"
case='{"bench":"gpugraph","cases":[{"graph":"g","algorithm":"bfs","ours":1,"peer":1,"compute":0.5'
refuses '"cache_s" is missing' "$case,\"storage\":0.5}]}"
refuses '"cases" is no array' '{"bench":"gpugraph","cases":1}'
refuses 'a case is no object' '{"bench":"gpugraph","cases":[1]}'
bar='{"bench":"gpugraph","graph":"g","algorithm":"bfs"'
refuses '"seconds" is missing' "$bar}"
refuses '"compute_s" is missing' "$bar,\"seconds\":1}"
refuses '"cache_s" is -1, less than -0.05' "$bar,\"seconds\":1,\"compute_s\":1,\"cache_s\":-1,\"storage_s\":1}"
refuses 'parts of 3 s do not add up to 1 s' \
  "$bar,\"seconds\":1,\"compute_s\":1,\"cache_s\":1,\"storage_s\":1}"

refuses "no UTF-8" $'\xff'
rm "$work"/data/*
echo '{"bench":"queue"}' >"$work/data/other.json"
expect 1
[[ $said == *"nothing to make a figure of"* ]] || fail "other data: $said"
status=0
said=$(scripts/plot.py --nonsense 2>&1) || status=$?
[[ $status = 2 && $said == *"plot.py [DATA-FOLDER"* ]] || fail "usage: $status $said"
echo "plot_test: passed"
