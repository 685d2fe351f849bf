#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gpu.sh goes on after what fails or hangs, says what became of each step, and makes a table of what
# benchmarks printed. Works on stand-ins, so it needs no GPU.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "gpu_script_test: $*" >&2
  exit 1
}

stand_in() {
  printf '#!/bin/bash\n%s\n' "$2" >"$work/build/$1"
  chmod +x "$work/build/$1"
}

# expect STATUS WHAT: leaves what it says in $said
expect() {
  local status=0
  said=$(PATH="$work/bin:$PATH" GPU_TIMEOUT=1 scripts/gpu.sh "$2" "$work/build" 2>&1) || status=$?
  [ $status = "$1" ] || fail "$2: status $status, not $1: $said"
}

# says TEXT
says() {
  [[ $said == *"$1"* ]] || fail "it does not say \"$1\": $said"
}

mkdir "$work/build" "$work/bin"
expect 2 check
says "build/fathom; build it first"
stand_in fathom 'exit 0'
expect 2 check
says "build/fathom-bench; build it first"
stand_in fathom-bench 'exit 1' # only fathom starts it
stand_in fathom '
if [ "$*" = bench ]; then
  printf "  cpuone      no\n  gpuone      yes\n  gputwo      yes\n"
elif [[ $* == "--json bench gpuone" ]]; then
  echo "{\"bench\":\"gpuone\",\"ours\":30,\"peer\":2e1,\"ratio\":1.5,\"unit\":\"reads/s\",\"x\":{\"ours\":7}}"
elif [[ $* == *gputwo* ]]; then
  echo "wrong data" >&2
  exit 1
fi'
expect 2 nonsense
says "gpu.sh check|memcheck"

# One test passes, one fails, one can not run, and one hangs.
stand_in a_device_test 'echo words of a'
stand_in b_device_test 'exit 3'
stand_in c_device_test 'exit 77'
stand_in d_device_test "echo \$\$ >$work/pid; exec sleep 100"
stand_in other_test 'exit 1'
expect 1 check
says "  words of a"
says "a_device_test: passed"
says "b_device_test: FAILED (3)"
says "c_device_test: skipped"
says "d_device_test: FAILED, no end in time"
says "bench gpuone --smallest: passed"
says "bench gputwo --smallest: FAILED (1)"
says "check: 9 passed, 1 skipped, 3 failed"
says "FAILED b_device_test (3)"
[[ $said != *other_test* && $said != *cpuone* ]] || fail "it runs what is not for GPUs: $said"
[ ! -e "$work/build/gpu-read.bin" ] || fail "a file is left over"

# Who wants it to end does not wait for the step that hangs; nor does that stay.
rm "$work/pid"
GPU_TIMEOUT=60 scripts/gpu.sh check "$work/build" >"$work/said" 2>&1 &
script=$!
for _ in $(seq 1200); do
  [ -s "$work/pid" ] && break
  sleep 0.05
done
kill "$script"
status=0
wait "$script" || status=$?
[ $status = 143 ] || fail "ended by a signal: $status: $(cat "$work/said")"
grep -q "gpuone" "$work/said" && fail "it went on: $(cat "$work/said")"
for _ in $(seq 1200); do
  kill -0 "$(cat "$work/pid")" 2>/dev/null || break
  sleep 0.05
done
! kill -0 "$(cat "$work/pid")" 2>/dev/null || fail "the step is still there"

# All steps together have an end: the first may take what is left, and the rest is skipped.
status=0
said=$(GPU_BUDGET=4 GPU_TIMEOUT=60 scripts/gpu.sh check "$work/build" 2>&1) || status=$?
[ $status = 1 ] || fail "a budget: status $status: $said"
says "a_device_test: passed"
says "d_device_test: FAILED, no end in time"
says "no time is left"
says "bench gpuone --smallest: skipped"

# What runs elsewhere is taken along, and nothing else.
expect_pack() {
  scripts/gpu.sh pack "$@" >"$work/said" 2>&1
}
expect_pack "$work/build" && fail "a pack without a folder"
mkdir -p "$work/real/sub"
for name in fathom fathom-bench sub/a_device_test sub/a_test; do
  cp "$(type -P true)" "$work/real/$name"
done
expect_pack "$work/real" "$work/packed" || fail "pack: $(cat "$work/said")"
[ "$(cd "$work/packed" && echo *)" = "a_device_test fathom fathom-bench" ] ||
  fail "packed: $(ls "$work/packed")"
"$work/packed/a_device_test" || fail "a packed program does not run"

# Tests that take it also run on a drive of CPU threads.
stand_in graph_gpu_device_test 'echo "graph: $*"'
expect 1 check
says "  graph: --service"
says "graph_gpu_device_test --service: passed"
rm "$work/build/graph_gpu_device_test"

# A benchmark that fails leaves its last good file as it was, and is not in the table.
echo old >"$work/build/gpu-two.json"
expect 1 bench
says "bench gpuone: passed"
says "bench gputwo: FAILED (1)"
[[ $said =~ gpuone\ +30\ +20\ +1\.500\ +reads/s ]] || fail "no table: $said"
[ "$(cat "$work/build/gpu-two.json")" = old ] || fail "a good file is overwritten"
grep -q '"ours":30' "$work/build/gpu-one.json" || fail "no JSON is written"

# Sanitizers see the tests that are meant for them.
printf '#!/bin/bash\necho "sanitized: $*"\n' >"$work/bin/compute-sanitizer"
chmod +x "$work/bin/compute-sanitizer"
expect 77 memcheck
says "not built"
stand_in gpu_drive_device_test 'exit 1'
expect 77 memcheck
[[ $said != *gpu_drive* ]] || fail "a controller on the GPU, which does not end, is sanitized: $said"
for name in gpu_ctrl gpu_cache workloads_gpu_work; do
  stand_in ${name}_device_test 'exit 1'
done
for tool in memcheck racecheck; do
  expect 0 $tool
  for name in gpu_ctrl gpu_cache workloads_gpu_work; do
    says "sanitized: --tool $tool --error-exitcode 1 $work/build/${name}_device_test --service --small"
  done
  says "$tool: 3 passed"
done

rm "$work"/build/*_test
stand_in fathom 'exit 77'
expect 77 all
says "all: 0 passed"
echo "gpu_script_test: passed"
