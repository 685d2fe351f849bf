#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kv_admin_test.sh FATHOM: a cache on flash is dumped, loaded and checked, damaged or not.
# shellcheck disable=SC2154 # out and err are set by expect
subcommand=kv needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
# shellcheck source=tests/kv/kv_fixture.sh
. "$(dirname "$0")/kv_fixture.sh"

cache="file:$work/cache"
new="$cache?create=on&size=32M"
small=(--chunk 64K --value-max 30000 --items 5000)

# sum FILE: to see that nothing changes it
sum() {
  sha256sum <"$1"
}

# poke FILE OFFSET: changes one byte
poke() {
  local byte
  byte=$(dd if="$1" bs=1 skip="$2" count=1 status=none | od -An -tu1)
  # shellcheck disable=SC2059 # the octal escape is made here
  printf "\\$(printf %o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# Options.
for command in dump check; do
  expect 2 $command
  [[ $err == *"--flash is required"* ]] || fail "$command: $err"
  expect 2 $command --flash "$cache" more
  expect 1 $command --flash "$cache"
  [[ $err == *"No such file"* ]] || fail "$command of nothing: $err"
  expect 1 $command --flash "$new" # create= has no effect
  [ ! -e "$work/cache" ] || fail "$command made a file"
  expect 1 $command --flash mem:64M
  [[ $err == *"the device contains no cache: its first block is zero"* ]] || fail "$command: $err"
  head -c 1000000 /dev/urandom >"$work/noise"
  expect 1 $command --flash "file:$work/noise"
  [[ $err == *"contains data that is not a cache"* ]] || fail "$command of noise: $err"
  head -c 100 /dev/urandom >"$work/short"
  expect 1 $command --flash "file:$work/short"
done

# A cache without persistence keeps nothing.
start --flash "$new" "${small[@]}"
stop TERM
expect 1 dump --flash "$cache"
[[ $err == *"was used without persistence"* ]] || fail "volatile: $err"
rm "$work/cache"

# An empty cache.
start --flash "$new" --persist write-back "${small[@]}"
stop TERM
expect 0 dump --flash "$cache"
[ -z "$out" ] || fail "an empty cache: $out"
expect 0 check --flash "$cache"
[[ $out == *"live items        0"*sound ]] || fail "an empty cache: $out"

# Items of all kinds: values with line ends, flags, expiry, keys that a line cannot hold.
start --flash "$cache" --persist write-through "${small[@]}"
text=
for ((i = 1; i <= 200; i++)); do
  text+="set key$i $i $((i % 2 * 4000000000)) 2004"$'\r\n'"$(printf '%01000d' "$i")"$'\r\n'"$(printf '%01000d' "$i")"$'\r\n\r\n'
done
text+=$'ms YSBiIGM= 3 b F7 T4000000000\r\nx\ny\r\n' # "a b c"
text+=$'set empty 0 0 0\r\n\r\nset \xc3\xa4%/\xff 1 0 1\r\nx\r\n'
text+=$'set stale 0 0 1\r\nx\r\nmd stale I\r\n'
text+=$'set gone 0 0 1\r\nx\r\ndelete gone\r\nset key7 1 0 3\r\nnew\r\nset past 0 -1 1\r\nx'
ask "$text"
[ "$(grep -o STORED <<<"$answer" | wc -l)" = 206 ] || fail "not all stored: $answer"

# Figures of a server.
expect 0 stat --server "127.0.0.1:$port"
[[ $out == "127.0.0.1:$port: 1.6.18 fathom-"*"items         20"*"sets          207"*"latency "*"set: half below"*"write amplification"* ]] ||
  fail "stat: $out"
expect 0 --json stat --server "localhost:$port"
[[ $out == '{"server":"localhost:'*'"sets":207,'*'"flash_queue_depth":0,'*'"write_amplification":'*'"latency_us":{"set":{"mean":'* ]] ||
  fail "stat: $out"
expect 0 stat --all --server "127.0.0.1:$port"
[[ $out == "pid "*"flash_reads_in_flight "*"kv_flash_reads "*"latency_get_p99_ns "* ]] || fail "stat: $out"
expect 0 --json stat --all --server "127.0.0.1:$port"
[[ $out == '{"pid":'*'"version":"1.6.18 fathom-'*'"kv_sets":'* ]] || fail "stat: $out"
expect 1 stat --server 127.0.0.1:1
[[ $err == *"cannot connect to 127.0.0.1:1: Connection refused"* ]] || fail "stat of nothing: $err"
expect 1 stat --server "unix:$work/nosuch"
[[ $err == *"cannot connect to unix:$work/nosuch: No such file"* ]] || fail "stat of nothing: $err"
expect 1 stat --server no:such:host
expect 1 stat --server "127.0.0.1:$((port + 65536))" # getaddrinfo() takes the lower 16 bits
[[ $err == *"port $((port + 65536)) is above 65535"* ]] || fail "stat of a port that is none: $err"
expect 1 bench --server "127.0.0.1:$((port + 65536))" --items 10 --seconds 0.1
[[ $err == *"port $((port + 65536)) is above 65535"* ]] || fail "bench of a port that is none: $err"

# While a server uses it, nobody looks at it.
for command in dump check; do
  expect 1 $command --flash "$cache"
  [[ $err == *"$work/cache is in use by another process"* ]] || fail "$command in use: $err"
done
stop KILL # not in good order: the log is replayed
before=$(sum "$work/cache")
cp --sparse=always "$work/cache" "$work/crashed"
expect 0 check --flash "$cache"
[[ $out == *"it was not closed"*"live items        204"*"bad records       0"*sound ]] || fail "crashed: $out"
expect 0 dump --flash "$cache" --output "$work/crashed.dump"
start --flash "$cache" --persist write-through "${small[@]}"
stop TERM
before=$(sum "$work/cache")
expect 0 check --flash "$cache"
[[ $out == *"closed in good order"*"live items        204"*"lost items        0"*sound ]] || fail "check: $out"
expect 0 --json check --flash "$cache"
[[ $out == '{"findings":[],"chunks":'*'"items":204,'*'"bad_records":0,"bad_chunks":0,"lost_items":0,'*'"ok":true}' ]] ||
  fail "check: $out"
expect 0 dump --flash "$cache" --output "$work/dump"
[ -z "$out" ] && [[ $err == "203 items; 1 stale items skipped" ]] || fail "dump: $out $err"
cmp "$work/dump" "$work/crashed.dump" || fail "a crash changes the dump"
grep -aq $'^ms YSBiIGM= 3 b F7 T4000000000\r$' "$work/dump" || fail "a key with blanks"
grep -aq $'^set key3 3 4000000000 2004\r$' "$work/dump" || fail "flags and expiry"
! grep -aq 'gone\|past\|stale' "$work/dump" || fail "what was deleted, or has expired"
"$fathom" kv dump --flash "$cache" 2>/dev/null | cmp - "$work/dump" || fail "standard output"
expect 0 dump --flash "$cache" --keys
[ "$(wc -l <<<"$out")" = 203 ] && [[ $out == *$'\na%20b%20c\nempty\n%C3%A4%25/%FF\n'* ]] || fail "keys: $out"
expect 0 --json dump --flash "$cache"
[ "$(wc -l <<<"$out")" = 203 ] && [[ $out == *'{"key":"a b c","flags":7,"expires":4000000000,"bytes":3,"value_base64":"eAp5"}'* ]] ||
  fail "JSON: $(tail -3 <<<"$out")"
[[ $out == *'{"key_base64":"w6QlL/8=","flags":1,"expires":0,"bytes":1,"value_base64":"eA=="}'* ]] || fail "JSON"
if command -v python3 >/dev/null; then
  python3 -c 'import json, sys; [json.loads(l) for l in sys.stdin]' <<<"$out" || fail "no JSON"
fi

# A file is whole, or not there.
expect 1 dump --flash "$cache" --output "$work/dump"
[[ $err == *"exists"* ]] || fail "over a file: $err"
expect 0 dump --flash "$cache" --output "$work/dump" --force
expect 1 dump --flash "$cache" --output "$work/no/such/folder"
(
  ulimit -f 100 # SIGXFSZ is ignored: the write fails in the middle
  trap '' XFSZ
  ! "$fathom" kv dump --flash "$cache" --output "$work/toolarge" 2>"$work/err"
) || fail "beyond the limit"
grep -q "File too large" "$work/err" || fail "beyond the limit: $(cat "$work/err")"
[ ! -e "$work/toolarge" ] && [ -z "$(find "$work" -name '*.partial-*')" ] || fail "leftovers"
if { : >/dev/full; } 2>/dev/null; then
  status=0
  "$fathom" kv dump --flash "$cache" >/dev/full 2>"$work/err" || status=$?
  [ $status = 1 ] && grep -q "No space left" "$work/err" || fail "a full disk: $(cat "$work/err")"
fi
status=0
"$fathom" kv dump --flash "$cache" 2>"$work/err" >&- || status=$?
[ $status = 1 ] && [ -s "$work/err" ] || fail "closed standard output: status $status"
"$fathom" kv dump --flash "$cache" 2>"$work/err" | head -c 100 >/dev/null
if [ "$(id -u)" != 0 ]; then
  chmod 000 "$work/cache"
  expect 1 dump --flash "$cache"
  [[ $err == *"Permission denied"* ]] || fail "permission: $err"
  chmod 400 "$work/cache"
  expect 0 dump --flash "$cache"
  chmod 600 "$work/cache"
fi
[ "$(sum "$work/cache")" = "$before" ] || fail "a byte of the cache has changed"

# Damage: a byte of a record in the middle, a header of a chunk, the index, a superblock.
place=$(grep -abo "key123$(printf '%050d' 0)" "$work/cache" | head -1 | cut -d: -f1)
[ -n "$place" ] || fail "key123 is not on the device"
cp --sparse=always "$work/cache" "$work/record"
poke "$work/record" $((place + 500))
expect 1 check --flash "file:$work/record"
[[ $out == *"damage    chunk "*"no record verifies"*"an item is lost"*"live items        203"*"bad records       1"*"lost items        1"*damaged ]] ||
  fail "a bad record: $out"
expect 1 dump --flash "file:$work/record" --output "$work/less"
[[ $err == *"skipped 1 damaged items"* ]] || fail "a bad record: $err"
expect 0 dump --flash "$cache" --keys
keys=$out
expect 1 dump --flash "file:$work/record" --keys
[ "$out" = "$(grep -v '^key123$' <<<"$keys")" ] || fail "other items are left out: $out"

# The same after a crash: the log was durable farther than that, so it is no write that the crash has torn.
cp --sparse=always "$work/crashed" "$work/torn"
poke "$work/torn" $((place + 500))
expect 1 check --flash "file:$work/torn"
[[ $out == *"damage    chunk "*"no record verifies"*"items older than that are dropped"*"bad records       1"*damaged ]] ||
  fail "torn: $out"

# Two areas for the index take turns, each a header of 4 KiB and pieces of 1 MiB and 4 KiB; then the log.
area=$((4096 + 1048576 + 4096))
log_at=$((131072 + 2 * area))
cp --sparse=always "$work/cache" "$work/header"
poke "$work/header" $((log_at + 2 * 65536 + 16))
expect 1 check --flash "file:$work/header"
[[ $out == *"damage    chunk 2 is missing: its header"*"live items        204"*"bad chunks        1"*"lost items        0"*damaged ]] ||
  fail "a bad header: $out"
expect 0 dump --flash "file:$work/header"

cp --sparse=always "$work/cache" "$work/index"
poke "$work/index" $((131072 + 4096 + 100))
poke "$work/index" $((131072 + area + 4096 + 100))
expect 1 check --flash "file:$work/index"
[[ $out == *"damage    the index on the device is damaged at"*"rebuilt from the log"*"live items        204"*damaged ]] ||
  fail "index: $out"
expect 0 dump --flash "file:$work/index"
[ "$out" = "$("$fathom" kv dump --flash "$cache" 2>/dev/null)" ] || fail "a dump without an index differs"
start --flash "file:$work/index" --persist write-through --log text "${small[@]}"
[[ $ready == *'"index_damaged":true'* ]] || fail "index: $ready"
stop TERM
grep -q 'the index was damaged and is rebuilt from the log' "$work/log" || fail "index: $(cat "$work/log")"
expect 0 check --flash "file:$work/index"
[[ $out == *"closed in good order"*"live items        204"*sound ]] || fail "index, opened: $out"

cp --sparse=always "$work/cache" "$work/super"
poke "$work/super" 65600
expect 0 check --flash "file:$work/super"
[[ $out == *"harmless  copy 1 of the superblock does not verify"*sound ]] || fail "super: $out"
poke "$work/super" 100
expect 1 check --flash "file:$work/super"
[[ $err == *"contains data that is not a cache"* ]] || fail "super: $err"

# A read that fails.
expect 1 check --flash "fault(file:$work/cache)?kind=read&from=$((place / 4096 * 4096))&to=$((place / 4096 * 4096 + 4096))&every=1"
[[ $out == *"damage    chunk "*" cannot be read"* ]] || fail "a bad block: $out $err"

# Load: into a device, into a server; a dump of that is the same, but for a key that a client cannot send.
sorted() { # a dump, as JSON, sorted: the order may differ
  "$fathom" kv --json dump --flash "$1" 2>/dev/null | sort
}
expect 2 load
expect 2 load "$work/dump" --server x --flash y
expect 1 load "$work/nosuch"
[[ $err == *"nosuch: No such file"* ]] || fail "load: $err"
expect 1 load "$work"
expect 1 load "$work/dump" --server 127.0.0.1:1
[[ $err == *"127.0.0.1:1"* ]] || fail "load into nothing: $err"
expect 0 load "$work/dump" --flash "file:$work/copy?create=on&size=32M" --chunk 64K --value-max 30000
[[ $out == "203 items loaded, "* ]] || fail "load: $out"
"$fathom" kv dump --flash "file:$work/copy" 2>/dev/null | cmp - "$work/dump" || fail "dump, load, dump"
start --flash "file:$work/served?create=on&size=32M" --persist write-back "${small[@]}"
expect 1 load "$work/dump" --flash "file:$work/served" --value-max 30000
[[ $err == *"in use"* ]] || fail "load into a device in use: $err"
"$fathom" kv --json load - --server "127.0.0.1:$port" <"$work/dump" >"$work/out" 2>"$work/err" && fail "a key with blanks"
grep -q '^{"loaded":202,"bytes":.*"expired":0,"not_loaded":1,' "$work/out" || fail "load: $(cat "$work/out")"
grep -q 'line [0-9]*: not loaded: keys with spaces' "$work/err" || fail "load: $(cat "$work/err")"
stop TERM
diff <(sorted "file:$work/served") <(sorted "$cache" | grep -v '"a b c"') >"$work/diff" || fail "by a server: $(head -c 500 "$work/diff")"
expect 0 load /dev/null --flash "file:$work/copy" --value-max 30000
[[ $out == "0 items loaded"* ]] || fail "load of nothing: $out"

# Bad lines are named; what was before them is loaded.
bad() { # TEXT MESSAGE
  printf '%b' "$1" >"$work/text"
  expect 1 load "$work/text" --flash "file:$work/copy" --value-max 30000
  [[ $err == *"$work/text, $2"* ]] || fail "load of $1: $err"
}
bad 'nonsense\r\n' 'line 1: expected set KEY FLAGS EXPIRES BYTES, add or ms'
bad 'set a 0 0 1\r\nx\r\nget a\r\n' 'line 3: expected set'
[[ $out == "1 items loaded"* ]] || fail "before a bad line: $out"
bad 'set a 0 0 3\na\nb\nset a 0 0 x\n' 'line 4: '
bad 'set a 0 0 3\r\nab\r\n' 'line 1: the value that follows does not have 3 bytes'
bad 'set a 0 0 3\r\na' 'line 1: unexpected end of file in the value'
bad 'set a 0 0' 'line 1: unexpected end of file in the line'
bad "set $(printf '%0300d' 0) 0 0 1\r\nx\r\n" 'line 1: '
bad "set a 0 0 999999999999\r\nx\r\n" 'line 1: '
bad "$(printf '%05000d' 0)" 'line 1: longer than the maximum command length'
bad 'ms !!!! 1 b\r\nx\r\n' 'line 1: '
bad 'set big 0 0 40000\r\n'"$(printf '%040000d' 0)"'\r\n' 'line 1: not loaded: the value is too large'
head -c 100000 /dev/urandom >"$work/text"
expect 1 load "$work/text" --flash "file:$work/copy" --value-max 30000
printf 'add old 0 -1 1\nx\nadd new 5 100 1 noreply\ny\n' >"$work/text"
expect 0 load "$work/text" --flash "file:$work/copy" --value-max 30000
[[ $out == "1 items loaded, 1 B of values, "*"; 1 have expired" ]] || fail "expired: $out"
expect 0 check --flash "file:$work/copy"
mkfifo "$work/pipe"
exec 3<>"$work/pipe" # a pipe that gives nothing and does not end
status=0
timeout --foreground --preserve-status -s INT -k 20 1 \
  "$fathom" kv load - --flash "file:$work/copy" --value-max 30000 <&3 >/dev/null 2>"$work/err" || status=$?
[ $status -eq 130 ] || fail "SIGINT: status $status: $(cat "$work/err")"
exec 3<&-
expect 0 check --flash "file:$work/copy"
[[ $out == *"closed in good order"* ]] || fail "after SIGINT: $out"

# A log that went round since its checkpoint, and a crash: no damage.
start --flash "file:$work/ring?create=on&size=5600K" --persist write-through --chunk 64K --value-max 30000 --items 100
text=
for ((i = 1; i <= 200; i++)); do
  text+="set key$((i % 30)) $i 0 20000 noreply"$'\r\n'"$(printf '%020000d' "$i")"$'\r\n'
done
ask "${text}set last 0 0 1"$'\r\nx'
[ "$answer" = STORED ] || fail "round: $answer"
stop KILL
expect 0 --json check --flash "file:$work/ring"
[[ $out == '{"findings":[],'*'"clean":false,"went_round":true,'*'"forgotten":false,'*'"ok":true}' && $out != *'"superseded":0,'* ]] ||
  fail "a log that went round: $out"
expect 0 dump --flash "file:$work/ring" --keys
keys=$(sort <<<"$out")
start --flash "file:$work/ring" --persist write-through --chunk 64K --value-max 30000
[ "$(wc -l <<<"$keys")" = "$(number items)" ] || fail "the server finds $ready, the dump has $keys"
stop TERM

# Servers that ask for a password, that are silent, that talk nonsense, that are memcached.
echo 'ann:secret' >"$work/users"
echo 'ann:guess' >"$work/guess"
start --flash none --auth "$work/users"
expect 1 stat --server "127.0.0.1:$port"
[[ $err == *'replied "CLIENT_ERROR unauthenticated"; --auth names a file'* ]] || fail "no password: $err"
expect 1 stat --server "127.0.0.1:$port" --auth "$work/guess"
[[ $err == *"rejected the user and password"* ]] || fail "wrong password: $err"
expect 0 stat --server "127.0.0.1:$port" --auth "$work/users"
expect 1 load "$work/text" --server "127.0.0.1:$port"
expect 0 load "$work/text" --server "127.0.0.1:$port" --auth "$work/users"
stop TERM
if command -v python3 >/dev/null; then
  cat >"$work/fake.py" <<'END'
import socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
answers = [b"", b"HTTP/1.1 400 Bad Request\r\n", b"STAT a \x1b[2J\r\nSTAT\r\nSTAT b\r\nEND\r\n", b"STAT a 1\r\n", b"END\r\n"]
held = []
for a in answers:
    c, _ = s.accept()
    held.append(c)
    c.recv(100)
    c.sendall(a)
c.close()
held[3].close()
END
  python3 "$work/fake.py" >"$work/fake" &
  fake=$!
  for ((i = 0; i < 2400; i++)); do
    [ ! -s "$work/fake" ] || break
    sleep 0.1
  done
  port=$(cat "$work/fake")
  expect 1 stat --server "127.0.0.1:$port" --timeout-ms 200
  [[ $err == *"timed out after 0.2 s"* ]] || fail "silent: $err"
  expect 1 stat --server "127.0.0.1:$port"
  [[ $err == *'replied "HTTP/1.1 400 Bad Request"'* ]] || fail "nonsense: $err"
  expect 0 stat --all --server "127.0.0.1:$port"
  [[ $out == "a  "*" ?[2J" ]] || fail "escapes: $out"
  expect 1 stat --server "127.0.0.1:$port" --timeout-ms 200
  expect 0 stat --all --server "127.0.0.1:$port"
  wait $fake
fi
if command -v memcached >/dev/null; then
  memcached -s "$work/socket" -U 0 -u "$(id -un)" &
  server=$!
  for ((i = 0; i < 2400; i++)); do
    [ ! -S "$work/socket" ] || break
    sleep 0.1
  done
  expect 0 stat --server "unix:$work/socket"
  [[ $out == *"items         0"*"hit rate -"* && $out != *latency* ]] || fail "memcached: $out"
  expect 0 load "$work/text" --server "unix:$work/socket"
  expect 0 stat --server "unix:$work/socket"
  [[ $out == *"items         1"* ]] || fail "load into memcached: $out"
  kill -9 $server
  wait $server 2>/dev/null || true
  server=
fi
echo "kv_admin_test: passed"
