#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gpu.sh check|memcheck|racecheck|bench|all [BUILD-FOLDER]: what needs a GPU, in one go, from
# binaries that were built here or elsewhere: nothing is compiled.
# gpu.sh pack BUILD-FOLDER FOLDER: copy what the others need of a build, without symbols, to take it to
# a machine with a GPU.
#
#   check      the tests of device code, `fathom gpu`, and each benchmark at its smallest
#   memcheck   those that suit it, under compute-sanitizer's memcheck: on drives that CPU threads
#              serve, as a controller on the GPU is a kernel that does not end
#   racecheck  and under its racecheck
#   bench      the benchmarks: lines of JSON in BUILD-FOLDER/gpu-*.json, and a table of them
#   all        all of these
#
# A step that fails, or takes longer than GPU_TIMEOUT seconds (300), does not stop the rest. With
# GPU_BUDGET all steps together end within that many seconds: a step is stopped then, and steps that
# did not begin are skipped. Exits with 0 when all passed, 1 when a step failed, 77 when nothing could
# run here; Ctrl-C ends the step that runs.
set -u
what=${1:-check}
build=${2:-build}
limit=${GPU_TIMEOUT:-300}
budget=${GPU_BUDGET:-0}
export CUDA_MODULE_LOADING=EAGER
passed=() skipped=() failed=() written=()

# note NAME STATUS: how a step has ended
note() {
  case $2 in
  0)
    passed+=("$1")
    echo "$1: passed"
    ;;
  77)
    skipped+=("$1")
    echo "$1: skipped"
    ;;
  124 | 137)
    failed+=("$1 (no end in time)")
    echo "$1: FAILED, no end in time"
    ;;
  *)
    failed+=("$1 ($2)")
    echo "$1: FAILED ($2)"
    ;;
  esac
}

# bounded COMMAND...: a kernel that hangs needs more than a request to end. It has a process group of
# its own, which Ctrl-C does not reach; so we are told, and pass it on.
bounded() {
  local status=0 seconds=$limit
  if [ "$budget" != 0 ]; then
    [ $((budget - SECONDS)) -ge "$limit" ] || seconds=$((budget - SECONDS))
    if [ "$seconds" -le 0 ]; then
      echo "no time is left" >&2
      return 77
    fi
  fi
  timeout -k 10 "$seconds" "$@" &
  child=$!
  wait "$child" || status=$?
  child=
  return $status
}

# end STATUS: what runs ends, and so do we
end() {
  [ -z "$child" ] || kill "$child" 2>/dev/null
  exit "$1"
}
child=
trap 'end 130' INT
trap 'end 143' TERM
trap 'rm -f "$build/gpu-read.bin"' EXIT

# run NAME COMMAND...: a step
run() {
  local name=$1 status=0
  shift
  bounded "$@" >"$build/gpu.log" 2>&1 || status=$?
  sed "s/^/  /" "$build/gpu.log"
  note "$name" $status
}

# sanitize TOOL TEST ARGUMENT...: a test under compute-sanitizer
sanitize() {
  local tool=$1 test=$2 path
  shift 2
  path=$(find "$build" -name "$test" -type f | head -n 1)
  if ! command -v compute-sanitizer >/dev/null; then
    echo "  no compute-sanitizer here"
    note "$tool $test" 77
  elif [ -z "$path" ]; then
    echo "  not built"
    note "$tool $test" 77
  else
    run "$tool $test" compute-sanitizer --tool "$tool" --error-exitcode 1 "$path" "$@"
  fi
}

benchmarks() {
  "$build/fathom" bench | sed -nE 's/^  (gpu[a-z0-9]*|pmwork) .*/\1/p'
}

# bench FILE ARGUMENT...: a benchmark's lines of JSON, into $build/gpu-FILE.json if it passed
bench() {
  local file=$build/gpu-$1.json status=0
  shift
  bounded "$build/fathom" --json bench "$@" >"$file.new" 2>"$build/gpu.log" || status=$?
  sed "s/^/  /" "$build/gpu.log"
  if [ $status = 0 ]; then
    mv "$file.new" "$file"
    written+=("$file")
  else
    rm -f "$file.new"
  fi
  note "bench $*" $status
}

# field NAME: of the line of JSON on standard input, the first of that name
field() {
  grep -oE "\"$1\":(\"[^\"]*\"|[^,}]*)" | head -n 1 | sed 's/^[^:]*://; s/"//g'
}

# The last line of each file that was written.
table() {
  local file line
  printf '\n%-12s %14s %14s %8s  %s\n' bench ours peer ratio unit
  for file in "${written[@]}"; do
    line=$(tail -n 1 "$file")
    LC_ALL=C printf '%-12s %14.6g %14.6g %8.3f  %s\n' "$(field bench <<<"$line")" \
      "$(field ours <<<"$line")" "$(field peer <<<"$line")" "$(field ratio <<<"$line")" \
      "$(field unit <<<"$line")"
  done
}

# ---- what there is to do ----

# Tests that take --service: their drive is served by CPU threads.
on_services="gpu_cache_device_test gpu_cache_write_device_test gpu_cache_fault_device_test
  graph_gpu_device_test workloads_gpu_taxi_device_test workloads_gpu_work_device_test"

# sanitize_all TOOL: all kinds of device code. compute-sanitizer serialises kernels: beside a drive's
# controller, which does not end, none would run. So gpu_drive_device_test and gpu_fault_device_test
# are not here; gpu_ctrl_device_test has the controller and its clients in one kernel.
sanitize_all() {
  local test
  for test in gpu_service_device_test gpu_ctrl_device_test pm_gpu_device_test $on_services; do
    sanitize "$1" "$test" --service --small --no-failure
  done
}

do_check() {
  local test name
  while read -r test; do
    run "$(basename "$test")" "$test"
  done < <(find "$build" -name '*_device_test' -type f | sort)
  for name in $on_services; do
    while read -r test; do
      run "$name --service" "$test" --service
    done < <(find "$build" -name "$name" -type f)
  done
  run "gpu ls" "$build/fathom" gpu ls
  head -c 16M /dev/urandom >"$build/gpu-read.bin"
  for name in "file:$build/gpu-read.bin?direct=off" "file:$build/gpu-read.bin?block=4096" \
    "gpu:host?bytes=16M" "gpu:hbm?bytes=16M&ssds=2" "gpu:hbm?bytes=16M&block=4096"; do
    run "gpu read $name" "$build/fathom" gpu read --memory 1M "$name"
  done
  run "gpu read, random" "$build/fathom" gpu read --memory 1M --line 512 --pattern random \
    "file:$build/gpu-read.bin?direct=off"
  for name in $(benchmarks); do
    run "bench $name --smallest" "$build/fathom" bench "$name" --smallest
  done
}

do_memcheck() {
  sanitize_all memcheck
}

do_racecheck() {
  sanitize_all racecheck
}

do_bench() {
  local name
  for name in $(benchmarks); do
    bench "${name#gpu}" "$name"
  done
  bench block-sweep gpublock --sweep
  bench file-mem gpufile --flash mem:1G
  [ ${#written[@]} = 0 ] || table
}

# pack FOLDER: programs without symbols; those of other kinds of tests stay behind
do_pack() {
  local program
  mkdir -p "$1"
  while read -r program; do
    strip -o "$1/$(basename "$program")" "$program" || exit 1
  done < <(find "$build" -type f \( -name '*_device_test' -o -name fathom -o -name fathom-bench \))
  du -sh "$1"
}

case $what in
pack)
  if [ $# -ne 3 ] || [ ! -x "$build/fathom" ]; then
    echo "gpu.sh: pack takes a build folder, with a fathom in it, and a folder" >&2
    exit 2
  fi
  do_pack "$3"
  exit 0
  ;;
check | memcheck | racecheck | bench) steps=("$what") ;;
all) steps=(check memcheck racecheck bench) ;;
*)
  sed -n '4,20s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
for program in fathom fathom-bench; do
  if [ ! -x "$build/$program" ]; then
    echo "gpu.sh: no $build/$program; build it first" >&2
    exit 2
  fi
done
for step in "${steps[@]}"; do
  "do_$step"
done
printf '\n%s: %d passed, %d skipped, %d failed\n' "$what" ${#passed[@]} ${#skipped[@]} ${#failed[@]}
[ ${#failed[@]} = 0 ] || printf '  FAILED %s\n' "${failed[@]}"
[ ${#failed[@]} = 0 ] || exit 1
[ ${#passed[@]} != 0 ] || exit 77
