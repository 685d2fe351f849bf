#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gpu.sh check|memcheck|bench [BUILD-FOLDER]: what needs a GPU, in one go, from binaries that were
# built here or elsewhere: nothing is compiled.
#
#   check     the tests of device code
#   memcheck  those that suit it, under compute-sanitizer's memcheck
#   bench     the benchmarks; what they print is in BUILD-FOLDER/gpu-*.json as well
set -u
what=${1:-check}
build=${2:-build}
export CUDA_MODULE_LOADING=EAGER
failed=0

run() {
  local name=$1
  shift
  timeout 300 "$@" >"$build/gpu.log" 2>&1
  local status=$?
  sed "s/^/  /" "$build/gpu.log"
  case $status in
  0) echo "$name: passed" ;;
  77) echo "$name: skipped" ;;
  *)
    echo "$name: FAILED ($status)"
    failed=1
    ;;
  esac
}

case $what in
check)
  while read -r test; do
    run "$(basename "$test")" "$test"
  done < <(find "$build" -name '*_device_test' -type f | sort)
  run bench_gpublock "$build/fathom" bench gpublock --smallest
  run bench_gpucache "$build/fathom" bench gpucache --smallest
  run bench_gpugraph "$build/fathom" bench gpugraph --smallest
  ;;
memcheck)
  tool="compute-sanitizer --tool memcheck --error-exitcode 1"
  run drive_memcheck $tool "$(find "$build" -name gpu_drive_device_test)" --small
  run fault_memcheck $tool "$(find "$build" -name gpu_fault_device_test)" --no-failure
  ;;
bench)
  "$build/fathom" bench gpublock | tee "$build/gpu-block.json" || failed=1
  "$build/fathom" bench gpucache | tee "$build/gpu-cache.json" || failed=1
  "$build/fathom" bench gpugraph | tee "$build/gpu-graph.json" || failed=1
  ;;
*)
  sed -n '3,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
exit $failed
