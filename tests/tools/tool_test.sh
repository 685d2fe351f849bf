#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# tool_test.sh FATHOM: how the command behaves at its edges.
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"

expect 0 --version
[[ $out =~ ^fathom\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "version: $out"
expect 0 --help
help=$out
[[ $help == *"usage: fathom"* ]] || fail "no usage in --help"
expect 0 help
[ "$out" = "$help" ] || fail "help and --help differ"

# Every command that is listed can explain itself.
for command in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' <<<"$help"); do
  expect 0 help "$command"
  [[ $out == *"usage: fathom $command"* ]] || fail "help $command: $out"
done

expect 2
[[ $err == "fathom: "* && -z $out ]] || fail "no command: $err"
expect 2 dve
[[ $err == *"did you mean: fathom dev"* ]] || fail "no hint: $err"
expect 2 quite-another-word
[[ $err == *"try: fathom --help"* ]] || fail "no way out: $err"
expect 2 dev stat
expect 2 dev stat mem:1M mem:1M
expect 2 dev stat --nosuch mem:1M

# `fathom bench` is another program, which says and returns what one would expect of this one.
expect 2 bench nosuch
[[ $err == "fathom: "* ]] || fail "bench nosuch: $err"
expect 2 bench quue
[[ $err == *"did you mean: fathom bench queue"* ]] || fail "no hint: $err"
expect 0 bench help queue
[[ $out == "usage: fathom bench queue "* ]] || fail "help: $out"
expect 0 bench queue --smallest --json
[[ $out == '{"bench":"queue",'*'}' ]] || fail "bench --json: $out"
cp "$fathom" "$work/fathom"
mkdir "$work/path"
printf '#!/bin/sh\necho "$0 $*"; exit 42\n' >"$work/path/fathom-bench"
chmod +x "$work/path/fathom-bench"
status=0
PATH="$work" "$work/fathom" bench dev >"$work/out" 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "bench without its program: status $status"
grep -q "^fathom: bench: cannot start fathom-bench" "$work/err" || fail "$(cat "$work/err")"
status=0
out=$(PATH="$work/path:$PATH" "$work/fathom" bench dev --json -- --json) || status=$?
[ $status -eq 42 ] || fail "bench by PATH: status $status"
[[ $out == *"/fathom-bench --json dev -- --json" ]] || fail "bench by PATH: $out"
out=$(PATH="$work/path:$PATH" "$work/fathom" --json bench) && fail "a status is lost"
[[ $out == *"/fathom-bench --json" ]] || fail "--json bench: $out"

expect 0 dev stat mem:4G
[[ $out == *"4.0 GiB (4294967296 bytes)"* ]] || fail "info: $out"
expect 0 dev stat mem:4G --json
[[ $out == '{"uri":"mem:4G","size":4294967296,"block":512,'*'"engine":"memory"}' ]] || fail "info: $out"
truncate -s 64K "$work/file"
expect 0 dev stat "file:$work/file?engine=threads"
[[ $out == *"engine       threads"* ]] || fail "engine: $out"
expect 0 dev stat "fault(file:$work/file?engine=threads)" --json
[[ $out == *'"engine":"threads"}' ]] || fail "engine: $out"
expect 0 --json dev schemes
[[ $out == '{"schemes":[{"name":"mem","wrapper":false}'* ]] || fail "schemes: $out"
expect 1 dev stat mem:nonsense
[[ $err == "fathom: "*"mem:nonsense"* && -z $out ]] || fail "bad device: $err"
expect 1 dev stat -- --json
[[ $err == *"--json"* ]] || fail "-- does not end options: $err"

# A plain path is a file, in wrappers too.
expect 0 dev stat "$work/file"
[[ $out == *"64.0 KiB"* ]] || fail "plain path: $out"
(
  cd "$work"
  expect 0 dev stat file --json
  [[ $out == '{"uri":"file","size":65536,'* ]] || fail "plain path: $out"
  expect 0 dev stat 'fault(./file?direct=off)' --json
  [[ $out == *'"size":65536,'* ]] || fail "plain path in a wrapper: $out"
  expect 1 dev stat nosuch
  [ "$err" = "fathom: nosuch: No such file or directory" ] || fail "no such file: $err"
)

# Sizes, as options and in URIs; defaults and limits are shown as sizes.
for size in 1.5M 1.5MiB 1536K 1572864 0x180000 1.5mib; do
  expect 0 --json dev stat mem:$size
  [[ $out == *'"size":1572864,'* ]] || fail "mem:$size: $out"
done
expect 0 --json dev stat mem:1.536MB
[[ $out == *'"size":1536000,'* ]] || fail "mem:1.536MB: $out"
for size in 1.5 1,5M 4Q 4GBs -4K '4 K'; do
  expect 2 dev stress --force --span "$size" mem:1M
  [[ $err == *"--span $size: expected a size"* || $err == *"--span"* ]] || fail "$size: $err"
done
expect 2 bench gups run --force --memory 1K mem:1M
[[ $err == *"expected a size from 64K to 16T"* ]] || fail "limits: $err"
expect 0 bench gups run --help
[[ $out == *"memory for lines [64M]"* ]] || fail "default: $out"
expect 0 pm dump --help
[[ $out != *18446744073709551615* ]] || fail "default: $out"

# Colours on a terminal only, and never with NO_COLOR.
on_terminal() {
  python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) and 0)' "$@" </dev/null
}
if command -v python3 >/dev/null; then
  bold=$'\033[1m'
  out=$(TERM=xterm NO_COLOR='' on_terminal "$fathom" --help)
  [[ $out == *"$bold"* ]] || fail "no colour on a terminal: $out"
  out=$(TERM=xterm NO_COLOR=1 on_terminal "$fathom" --help)
  [[ $out == *usage* && $out != *$'\033'* ]] || fail "NO_COLOR: $out"
  out=$(TERM=dumb on_terminal "$fathom" --help)
  [[ $out == *usage* && $out != *$'\033'* ]] || fail "TERM=dumb: $out"
fi
out=$(TERM=xterm "$fathom" --help; TERM=xterm "$fathom" nosuch 2>&1) || true
[[ $out != *$'\033'* ]] || fail "colour in a pipe: $out"

# Earlier spellings are refused, and the present ones named.
while IFS=: read -r old new; do
  # shellcheck disable=SC2086
  expect 2 $old
  [[ $err == *"\`fathom $new\` now"* ]] || fail "$old: $err"
done <<END
dev info x:dev stat
flat bench:bench flat
gpu info:gpu ls
graph info x:graph stat
gups x:bench gups run
nvme info x:nvme stat
nvme list:nvme ls
help storaged:sql serve-tasks
table load x:sql
tpch gen:bench tpch generate
END
expect 2 graph bfs --cache=4M x
[[ $err == *"--cache is --memory now"* ]] || fail "--cache: $err"

# --force is the one option to overwrite; earlier names of it are refused, and it is named.
expect 2 dev check mem:1M
[[ $err == *"--force"* ]] || fail "check does not ask: $err"
for old in --overwrite --replace; do
  expect 2 dev check $old --ops 500 mem:1M
  [[ $err == *"$old is --force now"* ]] || fail "$old: $err"
done
expect 0 dev check --force --ops 500 "crash(mem:1M)"
[[ $out == *"passes all checks"* ]] || fail "check: $out"
expect 1 --json dev check --force "fault(mem:1M)?kind=read&nth=9"
[[ $out == *'"ok":false,"error":"'* ]] || fail "check: $out"
expect 0 --json dev models
[[ $out == *'"name":"p5800x"'* ]] || fail "models: $out"

# A signal stops a long job in good order: the line of JSON is whole. -k only in case it is not so.
status=0
out=$(timeout --foreground --preserve-status -s INT -k 60 3 \
  "$fathom" --json demo) || status=$?
[ $status -eq 130 ] || fail "SIGINT: status $status"
[[ $out == '{'*'"ok":false}' ]] || fail "SIGINT: $out"
status=0
timeout --foreground --preserve-status -s INT -k 60 1 "$fathom" bench queue --threads 1 --ms 60000 \
  >/dev/null || status=$?
[ $status -eq 130 ] || fail "SIGINT to a benchmark: status $status"

if "$fathom" --help >/dev/full 2>/dev/null; then
  fail "a full disk looks like success"
fi
# A long check can be stopped.
status=0
timeout --foreground --preserve-status -s INT -k 60 1 \
  "$fathom" dev check --force --ops 4000000000 mem:1M >/dev/null 2>&1 || status=$?
[ $status -eq 130 ] || fail "dev check, interrupted: status $status"

echo "tool_test: passed"
