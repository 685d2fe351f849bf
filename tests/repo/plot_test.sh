#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# plot.py makes figures that are well-formed, show all points and bars and are the same each time, and
# says what is wrong with data that it cannot read. Skipped (77) without matplotlib.
set -eu
if ! /usr/bin/python3 -c "import matplotlib" 2>/dev/null; then
  echo "plot_test: skipped, no matplotlib here (python3-matplotlib)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "plot_test: $*" >&2
  exit 1
}

# elements FILE PREFIX [TAG]: how many elements have an id that begins so, or how many of TAG are in
# them; fails if the figure is not well-formed
elements() {
  /usr/bin/python3 - "$@" <<'END'
import sys
import xml.etree.ElementTree as tree

svg = "{http://www.w3.org/2000/svg}"
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == svg + "svg", root.tag
found = [element for element in root.iter() if element.get("id", "").startswith(sys.argv[2])]
if len(sys.argv) > 3:
    found = [inner for element in found for inner in element.iter(svg + sys.argv[3])]
print(len(found))
END
}

# counts N FILE PREFIX [TAG]
counts() {
  local n wanted=$1 file=$2
  shift 2
  n=$(elements "$work/figures/$file" "$@") || fail "$file is not well-formed"
  [ "$n" = "$wanted" ] || fail "$file has $n of $*, not $wanted"
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
cp tests/repo/plots/block.json "$work/data"
expect 0
[ "$said" = "$work/figures/gpu-iops.svg" ] || fail "one kind of data: $said"
cp tests/repo/plots/graph.json tests/repo/plots/pm.json "$work/data"
expect 0

# Six points of 512-byte reads, one of them measured twice, in three lines.
counts 3 gpu-iops.svg series-
counts 6 gpu-iops.svg series- use
counts 1 gpu-iops.svg limit
# Four workloads, in three parts each, three of them with a peer; and one part below nothing.
counts 15 gpu-time.svg bar-
for text in "GPU threads" "million reads per second" "16 queue pairs" "one lock, 1 pair" "A &lt;GPU&gt; &amp; more"; do
  grep -q "$text" "$work/figures/gpu-iops.svg" || fail "gpu-iops.svg lacks $text"
done
for text in kronecker uniform compute storage "800 ms" "1.7 s"; do
  grep -q "$text" "$work/figures/gpu-time.svg" || fail "gpu-time.svg lacks $text"
done
# Two sizes and four logs; two workloads and three peers; two cases.
counts 8 pm-logs.svg bar-
counts 6 pm-work.svg bar-
counts 2 pm-cpu.svg bar-
counts 1 pm-cpu.svg limit
for text in "16 B" "HCL log" "GB/s of payload"; do
  grep -q "$text" "$work/figures/pm-logs.svg" || fail "pm-logs.svg lacks $text"
done
grep -q "log, 16 B (libpmemlog)" "$work/figures/pm-cpu.svg" || fail "pm-cpu.svg lacks a name"
[ ! -e "$work/figures/gpu-time.svg.new" ] || fail "something is left over"
before=$(cat "$work"/figures/*.svg | cksum)
expect 0
[ "$(cat "$work"/figures/*.svg | cksum)" = "$before" ] || fail "the same data gives another figure"

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

log='{"bench":"gpupm","entry":16,"plain_gbs":1,"hcl_gbs":1,"gpm_gbs":1'
refuses '"conventional_gbs" is missing' "$log}"
refuses '"entry" is neither a number nor a name' '{"bench":"gpupm","entry":[1]}'
refuses '"file" is missing' '{"bench":"pmwork","workload":"kvs","mapped":1,"cpu_threads":1}'
refuses '"ratio" is missing' '{"bench":"pm","cases":[{"what":"log"}]}'

refuses "no UTF-8" $'\xff'
rm "$work"/data/*
echo '{"bench":"queue"}' >"$work/data/other.json"
expect 1
[[ $said == *"nothing to make a figure of"* ]] || fail "other data: $said"
status=0
said=$(scripts/plot.py --nonsense 2>&1) || status=$?
[[ $status = 2 && $said == *"plot.py [DATA-FOLDER"* ]] || fail "usage: $status $said"
echo "plot_test: passed"
