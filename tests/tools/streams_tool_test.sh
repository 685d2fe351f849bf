#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# streams_tool_test.sh FATHOM: with standard input, output or error closed, no command writes its
# output over a device or takes a device for its input; and what only reads needs no permission to
# write.
needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
fathom=$(realpath "$fathom")

truncate -s 4M "$work/disk"
expect 0 vol create "file:$work/disk"
head -c 200000 /dev/urandom >"$work/data"
expect 0 vol import "file:$work/disk" "$work/data" obj
expect 0 bench taxi generate --rows 1000 "file:$work/taxi"
expect 0 graph generate --scale 8 "file:$work/graph"
for name in disk taxi graph; do
  cp "$work/$name" "$work/$name.before"
done
unchanged() {
  local name
  for name in disk taxi graph; do
    cmp "$work/$name" "$work/$name.before" || fail "$1: $name was changed"
  done
}

# Each command with each set of closed descriptors, with and without the page cache.
each() {
  local direct=$1
  local v=file:$work/disk?direct=$direct
  local commands=("vol ls $v" "vol stat $v" "vol export $v obj -" "vol check $v" "dev stat $v"
    "--json vol ls $v" "bench taxi check file:$work/taxi?direct=$direct"
    "graph check file:$work/graph?direct=$direct"
    "graph bfs --trials 1 file:$work/graph?direct=$direct")
  local command
  for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    {
      "$fathom" $command >&- 2>/dev/null </dev/null || true
      "$fathom" $command 2>&- >/dev/null </dev/null || true
      "$fathom" $command <&- >/dev/null 2>&1 || true
      "$fathom" $command <&- >&- 2>&- || true
    }
    unchanged "$command"
  done
}
each auto
each off

# A closed stream is an error, not an empty file or success.
status=0
"$fathom" vol export "file:$work/disk" obj - >&- 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "an export to nowhere: status $status"
status=0
"$fathom" vol import "file:$work/disk" - new <&- >/dev/null 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "an import from nowhere: status $status: $(cat "$work/err")"
expect 0 vol ls "file:$work/disk"
[[ $out != *new* ]] || fail "an import from nowhere made an object: $out"
expect 0 vol export "file:$work/disk" obj "$work/again"
cmp "$work/again" "$work/data" || fail "the object has changed"

# Reading needs permission to read, and no more. The programs are copied, because another user may not be
# able to enter the folder of the build.
as_other=()
if [ "$(id -u)" = 0 ]; then
  as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
cp "$fathom" "$(dirname "$fathom")/fathom-bench" "$work"
chmod 755 "$work" "$work"/fathom*
chmod 444 "$work"/{disk,taxi,graph}
readers=("vol ls file:$work/disk" "vol stat file:$work/disk" "vol export file:$work/disk obj -"
  "vol check file:$work/disk" "dev stat file:$work/disk" "dev stat vol(file:$work/disk)?object=obj"
  "bench taxi check file:$work/taxi" "bench taxi query --query 0 file:$work/taxi"
  "graph check file:$work/graph" "graph bfs --trials 1 file:$work/graph")
for command in "${readers[@]}"; do
  # shellcheck disable=SC2086
  "${as_other[@]}" "$work/fathom" $command >"$work/out" 2>"$work/err" ||
    fail "$command needs more than permission to read: $(cat "$work/err")"
done
echo "streams_tool_test: passed"
