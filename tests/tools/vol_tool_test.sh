#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# vol_tool_test.sh FATHOM: volumes from the command line.
subcommand=vol needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"

a="file:$work/a" b="file:$work/b" c="file:$work/c"
new="$a?create=on&size=8M,$b?create=on&size=8M,$c?create=on&size=8M"
volume="$a,$b,$c"

expect 0 create "$new"
expect 1 create "$volume"
[[ $err == *"has the label of a volume"* ]] || fail "create: $err"
head -c 8M /dev/urandom >"$work/photo"
expect 1 create "$work/photo"
[[ $err == *photo*"contains data and is not part of a volume; --force"* ]] || fail "create over a file: $err"
expect 0 create --force "$work/photo"
rm "$work/photo"
expect 2 create
expect 1 create "$a,$a" --force
[[ $err == *"in use"* ]] || fail "one file twice: $err"
expect 0 ls "$volume"
[ -z "$out" ] || fail "a new volume is not empty: $out"

# In and out again, in all shapes.
head -c 3000001 /dev/urandom >"$work/data"
: >"$work/empty"
expect 0 import "$volume" "$work/data" plain --verify
[[ $out == *"imported plain: 2.9 MiB, checksum "*", verified" ]] || fail "import: $out"
expect 0 --json import "$volume" "$work/data" twice --replicas 2 --unit 4K
[[ $out == '{"name":"twice","size":3000001,"checksum":"'*'"verified":false}' ]] || fail "$out"
expect 0 import "$volume" "$work/empty" nothing
expect 1 import "$volume" "$work/data" plain
[[ $err == *"exists"* ]] || fail "import twice: $err"
expect 1 import "$volume" "$work/nosuch" x
expect 1 import "$volume" - x
[[ $err == *"--size"* ]] || fail "a pipe without a size: $err"
"$fathom" vol import "$c,$a,$b" - piped --size 1000000 <"$work/data" >/dev/null
for name in plain twice; do
  expect 0 export "$volume" $name "$work/$name"
  cmp "$work/data" "$work/$name"
done
"$fathom" vol export "$volume" piped - | cmp - <(head -c 1000000 "$work/data")
expect 0 export "$volume" nothing "$work/nothing"
[ -e "$work/nothing" ] && [ ! -s "$work/nothing" ] || fail "nothing is not empty"
expect 1 export "$volume" plain "$work/plain"
[[ $err == *"exists"* ]] || fail "export over a file: $err"
expect 0 export "$volume" plain "$work/plain" --force
expect 1 export "$volume" nosuch "$work/nosuch"
[ ! -e "$work/nosuch" ] && [ -z "$(find "$work" -name '*.partial-*')" ] || fail "leftovers"

# What is there decides how it is written: links are followed, nodes are not replaced.
echo old >"$work/target"
chmod 640 "$work/target"
ln -s target "$work/link"
ln -s nowhere "$work/dangling"
mkfifo "$work/fifo"
expect 1 export "$volume" plain "$work/link"
[[ $err == *"exists"* ]] || fail "export over a link: $err"
expect 0 export "$volume" plain "$work/link" --force
[ -L "$work/link" ] && cmp "$work/data" "$work/target" || fail "the link was replaced"
[ "$(stat -c %a "$work/target")" = 640 ] || fail "other permissions than before"
expect 1 export "$volume" plain "$work/dangling" --force
[ -L "$work/dangling" ] && [[ $err == *"symbolic link to a file that does not exist"* ]] ||
  fail "a dangling link: $err"
expect 1 export "$volume" plain "$work" --force
[[ $err == *"is a directory"* ]] || fail "a directory: $err"
cmp "$work/data" "$work/fifo" &
expect 0 export "$volume" plain "$work/fifo" --force
wait $! || fail "a pipe got something else"
[ -p "$work/fifo" ] || fail "the pipe was replaced"
if mknod "$work/full" c 1 7 2>/dev/null && { : >"$work/full"; } 2>/dev/null; then
  expect 1 export "$volume" plain "$work/full" --force
  [ -c "$work/full" ] && [[ $err == *"No space left"* ]] || fail "a full device: $err"
fi
(
  ulimit -f 1000 # SIGXFSZ is ignored: the write fails in the middle
  trap '' XFSZ
  ! "$fathom" vol export "$volume" plain "$work/toolarge" 2>/dev/null
) || fail "export beyond the limit"
[ ! -e "$work/toolarge" ] && [ -z "$(find "$work" -name '*.partial-*')" ] || fail "leftovers"

# Changes.
expect 0 new "$volume" fresh 100K --zero
expect 2 new "$volume" bad 100X
expect 0 mv "$volume" fresh renamed
expect 1 mv "$volume" renamed plain
expect 0 resize "$volume" renamed 200K
expect 0 ls "$volume"
[ "$(awk '{print $1, $NF}' <<<"$out")" = "0 nothing
1000000 piped
3000001 plain
204800 renamed
3000001 twice" ] || fail "ls: $out"
expect 0 --json stat "$volume"
[[ $out == '{"uuid":"'*'"objects":5,'* ]] || fail "stat: $out"
expect 0 --json stat "$volume" twice
[[ $out == *'"unit":4096,"width":3,"replicas":2,'* ]] || fail "stat twice: $out"
expect 1 stat "$volume" nosuch
expect 0 rm "$volume" renamed nothing
expect 1 rm "$volume" renamed
expect 0 check "$volume" --data
[[ $out == *"is sound"* ]] || fail "check: $out"

# An object is a device.
"$fathom" dev stat "vol($a,$b,$c)?object=plain&readonly=on" | grep -q 3000320 ||
  fail "the object as a device"
expect 0 new "$volume" device 1M
"$fathom" dev check --force --ops 300 "vol($a,$b,$c)?object=device" >/dev/null ||
  fail "dev check of an object"

# What a volume must not be put together from.
expect 1 ls "$a,$b"
[[ $err == *"device 2 of 3 of the volume is missing"* ]] || fail "missing: $err"
expect 1 ls "$a,$b,mem:8M"
[[ $err == *"mem:8M is not part of a volume"* ]] || fail "blank: $err"
cp "$work/a" "$work/copy"
expect 1 ls "$volume,file:$work/copy"
[[ $err == *"are both device 0"* ]] || fail "double: $err"
expect 0 rm "$volume" device
expect 0 mv "$volume" piped moved
expect 1 ls "file:$work/copy,$b,$c"
[[ $err == *"different histories"* ]] || fail "a copy from the past: $err"
expect 0 export "$a,$c" twice "$work/twice" --force --degraded
cmp "$work/data" "$work/twice"
expect 1 export "$a,$c" plain "$work/plain" --force --degraded

# Damage is named, and mended where it can be.
printf 'xxxx' | dd of="$work/b" bs=1 seek=40 conv=notrunc status=none
expect 1 check "$volume"
[[ $out == "damage "*"label"*"copy 0 of the label: its checksum is wrong" ]] || fail "$out"
expect 1 --json check "$volume"
[[ $out == '{"findings":[{"kind":"label",'*'"ok":false}' ]] || fail "check: $out"
expect 0 check "$volume" --repair
[[ $out == "repaired "* ]] || fail "repair: $out"
expect 0 check "$volume"

# A bad block on each of two replicas, in one stripe unit: every block is readable somewhere.
m="file:$work/m" n="file:$work/n"
expect 0 create "$m?create=on&size=8M,$n?create=on&size=8M"
expect 0 import "$m,$n" "$work/data" pair --replicas 2 --width 1
bad="fault($m)?kind=read&from=200K&to=205312&every=1,fault($n)?kind=read&from=210K&to=215552&every=1"
expect 0 export "$bad" pair "$work/pair"
cmp "$work/data" "$work/pair"
expect 0 check "$bad" --data --repair
[[ $out != *"damage"* && $out == *"repaired"*"512 bytes cannot be read from device"* ]] ||
  fail "blocks: $out"

# A device that was left out of a write, and is opened without the other one: nobody can know.
expect 1 export "$m" pair "$work/half" --degraded
[[ $err == *"may hold newer data"*"--minority"* ]] || fail "one of two: $err"
for command in ls stat; do
  expect 1 $command "$m" --degraded
  expect 0 $command "$m" --minority
  [[ $err == *"warning: device 1 of 2 is missing and may hold newer data"*"may be out of date"* ]] || fail "$err"
done
expect 0 --json stat "$m" --minority
[[ $out == *'"devices":["file:'*'","missing"]'*'"missing":2,"warning":"device 1 of 2'* ]] || fail "$out"
expect 0 export "$m" pair "$work/half" --minority
cmp "$work/data" "$work/half"
[[ $err == *"may be out of date"* ]] || fail "no warning: $err"
expect 1 check "$m"
[[ $out == *"may hold newer data"* ]] || fail "check of one of two: $out"
expect 0 export "$a,$c" twice "$work/twice" --force --degraded
[[ $err == *"warning: device 1 of 3 is missing"* && $err != *"out of date"* ]] || fail "$err"
expect 1 export "$a" twice "$work/twice" --force --degraded

# What is added to an object begins at its last byte.
head -c 8192 "$work/data" >"$work/short"
expect 0 import "$volume" "$work/short" grown
expect 0 resize "$volume" grown 100
expect 0 resize --zero "$volume" grown 8192
expect 0 export "$volume" grown "$work/grown"
cmp <(tail -c +101 "$work/grown") <(head -c 8092 /dev/zero)

# A signal leaves no object behind, and no file.
mkfifo "$work/pipe"
exec 3<>"$work/pipe" # a pipe that gives nothing and does not end
status=0
timeout --foreground --preserve-status -s INT -k 20 1 \
  "$fathom" vol import "$volume" - half --size 1M <&3 >/dev/null 2>"$work/err" || status=$?
[ $status -eq 130 ] || fail "SIGINT: status $status: $(cat "$work/err")"
expect 1 stat "$volume" half
expect 0 check "$volume" --data
echo "vol_tool_test: passed"
