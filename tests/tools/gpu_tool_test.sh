#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gpu_tool_test.sh FATHOM: fathom gpu. Without a GPU: that it says so, and what it says of mistakes.
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"

# refuses TEXT ARGUMENT...: it was called wrongly, and says why
refuses() {
  local text=$1
  shift
  expect 2 gpu read "$@"
  [[ $err == *"$text"* && -z $out ]] || fail "gpu read $*: $err"
}

expect 0 gpu --help
[[ $out == *"ls "* && $out == *"read "* ]] || fail "help: $out"
expect 0 gpu read --help
[[ $out == *--memory*--line*--pattern*--check* ]] || fail "help: $out"
expect 2 gpu raed
[[ $err == *"did you mean: fathom gpu read"* ]] || fail "no hint: $err"
expect 2 gpu ls something
refuses "an argument is missing"
refuses "too many arguments" mem:1M mem:1M
refuses "--pattern zigzag: expected seq or random" --pattern zigzag mem:1M
refuses "16 hexadecimal digits" --check 12 mem:1M
refuses "16 hexadecimal digits" --check 0123456789abcdeg mem:1M
refuses "16 hexadecimal digits" --check 0x123456789abcde mem:1M
refuses "--line 1000: expected a power of two" --line 1000 mem:1M
refuses "from 512 to 8K" --line 256 mem:1M
refuses "from 512 to 8K" --line 16K mem:1M
refuses "--memory is smaller than a line" --memory 2K mem:1M
refuses "expected a number" --queues many mem:1M

# What a benchmark would overwrite, or can not use, is not touched.
echo precious >"$work/file"
expect 2 bench gpufile --flash "file:$work/file"
[[ $err == *"file:$work/file would be overwritten; use --force to allow it"* && -z $out ]] || fail "gpufile: $err"
[ "$(cat "$work/file")" = precious ] || fail "gpufile has overwritten a file"
expect 2 bench gpufile --flash mem:1M --dir "$work"
[[ $err == *"--dir and --options apply only without a device"* ]] || fail "gpufile: $err"
expect 2 bench gpufile --size 3M
[[ $err == *"--size 3145728: expected a power of two"* ]] || fail "gpufile: $err"
expect 2 bench gpufile --threads 300
[[ $err == *"--threads: expected a multiple of 256"* ]] || fail "gpufile: $err"
expect 2 bench gputaxi --cache 1M
[[ $err == *"--cache is --memory now"* ]] || fail "an earlier name of an option: $err"
expect 2 bench gpupm --memory shm
[[ $err == *"--memory is --kind now"* ]] || fail "an earlier name of another option: $err"

if ! "$fathom" gpu ls >/dev/null 2>&1; then
  expect 77 gpu ls
  [[ $err == "fathom: "*[[:alpha:]]* && -z $out ]] || fail "no reason: $err"
  expect 77 gpu ls --json
  [[ $out == '{"gpus":[],"reason":"'*'"}' ]] || fail "no reason: $out"
  expect 77 gpu read mem:1M
  [[ $err == "fathom: mem:1M: "*[[:alpha:]]* && -z $out ]] || fail "no reason: $err"
  mkdir "$work/empty"
  expect 77 bench gpufile --smallest --dir "$work/empty"
  [[ $err == "fathom: bench gpufile: "*[[:alpha:]]* && -z $out ]] || fail "no reason: $err"
  rmdir "$work/empty" || fail "gpufile has left a file"
  echo "gpu_tool_test: passed, without a GPU"
  exit 0
fi

expect 0 gpu ls --json
[[ $out == '{"gpus":[{"name":"'*'"usable":'*']}' ]] || fail "info: $out"
expect 0 gpu read --memory 1M --json mem:4M
[[ $out == *'"bytes":4194304,"pattern":"seq"'*'"checksum":"'* ]] || fail "read: $out"
sum=${out##*'"checksum":"'}
sum=${sum%%'"'*}
expect 0 gpu read --memory 64K --line 512 --pattern random --check "$sum" mem:4M
[[ $out == *"$sum, as given"* ]] || fail "read: $out"
expect 0 gpu read --memory 1M --json "mem:4M?block=4096"
[[ $out == *'"block":4096,"bytes":4194304'*'"line":4096'*"$sum"* ]] || fail "4 KiB blocks: $out"
expect 0 gpu read --memory 1M --check "$sum" "mem:4M?block=8192"
[[ $out == *"blocks of 8192 bytes"*"in lines of 8192 bytes"* ]] || fail "8 KiB blocks: $out"
expect 1 gpu read --memory 1M --line 512 "mem:4M?block=4096"
[[ $err == *"smaller than the drive's blocks, 4096"* ]] || fail "a line below a block: $err"
expect 77 gpu read --memory 1M "mem:4M?block=16384"
[[ $err == *"larger than 8192"* ]] || fail "a large block: $err"
expect 1 gpu read --memory 1M --check 0123456789abcdef mem:4M
[[ $err == *"--check gives 0123456789abcdef"* ]] || fail "a wrong checksum: $err"
expect 1 gpu read "file:$work/nosuch"
expect 1 gpu read "gpu:nosuch"
expect 1 gpu read --gpu 63 mem:4M
[[ $err == *"GPU 63 does not exist"* ]] || fail "no such GPU: $err"
expect 1 gpu read --memory 1M "fault(mem:4M)?kind=read&nth=9"
[[ $err == *"reading byte"* ]] || fail "an error of the device: $err"
expect 0 bench gpufile --smallest --flash mem:16M --json
[[ $out == '{"bench":"gpufile","ours":'*'"case":"read_512"'*'"case":"sequential"'*'"case":"write_read_4096"'* ]] ||
  fail "gpufile: $out"
expect 0 bench gpufile --smallest --flash "mem:16M?block=4096" --json
[[ $out == *'"case":"read_4096"'* && $out != *read_512* ]] || fail "4 KiB blocks: $out"
expect 1 bench gpufile --smallest --force --flash "gpu:host?bytes=16M"
[[ $err == *"not served by CPU threads"* ]] || fail "a drive on GPU blocks: $err"
expect 1 bench gpufile --smallest --flash mem:1M
[[ $err == *"too many for 256 blocks"* ]] || fail "a small device: $err"
expect 1 bench gpufile --smallest --force --flash "fault(mem:16M)?kind=read&nth=900"
[[ $err == *"bench gpufile: "*[[:alpha:]]* ]] || fail "an error of the device: $err"
echo "gpu_tool_test: passed"
