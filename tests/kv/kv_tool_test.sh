#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kv_tool_test.sh FATHOM: `fathom kv serve` as its users run it: clients of memcached, restarts after a
# stop and after kill -9, two servers on one file, metrics, passwords, TLS, sockets of systemd.
subcommand=kv needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
# shellcheck source=tests/kv/kv_fixture.sh
. "$(dirname "$0")/kv_fixture.sh"

# launch_next TEXT ARGUMENT...: a second server, $next, on the port of the first, which waits because of TEXT
launch_next() {
  local text=$1 i
  shift
  : >"$work/next.log"
  "$fathom" kv serve --json --listen "127.0.0.1:$port" --wait 600 "$@" >"$work/next" 2>"$work/next.log" &
  next=$!
  for ((i = 0; i < 600; i++)); do
    if grep -qF "$text; waiting for up to 600 s" "$work/next.log" && [ ! -s "$work/next" ]; then
      return
    fi
    kill -0 $next 2>/dev/null || break
    sleep 0.1
  done
  kill -9 $next 2>/dev/null || true
  fail "it does not wait: $(cat "$work/next" "$work/next.log")"
}

# Options.
expect 2 serve --persist sometimes
expect 2 serve --log loud
expect 2 serve --tls-cert x
[[ $err == *"--tls-cert and --tls-key must be given together"* ]] || fail "half of TLS: $err"
expect 1 serve --listen nowhere
[[ $err == *"nowhere: expected HOST:PORT, unix:PATH or fd:N"* ]] || fail "listen: $err"
for where in --listen --metrics; do
  expect 1 serve --flash none $where 127.0.0.1:85948
  [[ $err == *"127.0.0.1:85948: port 85948 is above 65535"* ]] || fail "$where: $err"
done
expect 2 serve --persist write-back
[[ $err == *"--persist write-back requires --flash"* ]] || fail "no device: $err"
expect 1 serve --flash none --persist write-back
[[ $err == *"persistence requires a flash device"* ]] || fail "no flash: $err"

# Load, over a Unix socket; a value that somebody has changed is found.
launch --listen "unix:$work/socket,127.0.0.1:0" --memory 16M --flash "file:$work/load?create=on&size=64M"
wait_ready
load=(bench --server "unix:$work/socket" --items 5000 --connections 8)
expect 0 "${load[@]}" --seconds 0.2 --sets 20 --keys 3 --zipf 0.9
[[ $out == *" 0 wrong, 0 stale"* && $out == *" 0 misses"* ]] || fail "load: $out"
expect 0 "${load[@]}" --no-fill --seconds 0.1 --threads 2 --json
[[ $out == *'"misses":0,'*'"wrong":0,"stale":0,'* ]] || fail "load in JSON: $out"
ask $'set k000000000000001 0 0 1024\r\n'"$(printf '%01024d' 7)"
[ "$answer" = STORED ] || fail "load: $answer"
expect 1 "${load[@]}" --no-fill --seconds 1 --items 2
[[ $out != *" 0 wrong"* ]] || fail "a wrong value was not found: $out"
stop TERM
expect 1 "${load[@]}"
[[ $err == *"cannot connect to unix:"* ]] || fail "no server: $err"
expect 2 bench --threads 9 --connections 8
expect 2 bench --zipf 1

# With no flash named, on a scratch file that has no name any more: nothing is left after a kill.
TMPDIR=$work start
ask $'set a 0 0 5\r\nhello\r\nget a'
[ "$answer" = "STORED VALUE a 0 5 hello END" ] || fail "scratch: $answer"
[ -z "$(find "$work" -name 'fathom-kv-*')" ] || fail "the scratch file has a name"
expect 0 bench --server "127.0.0.1:$port" --items 100000 --seconds 0.1 # more than fits in memory
[[ $out == *" 0 misses"* && $out == *" 0 wrong"* ]] || fail "scratch: $out"
stop TERM

# Several devices: a volume over them, made when they are empty, found again, and with a clear error when they are not
# those of one volume.
part() { # NAME: a device of 32 MiB
  echo "file:$work/$1?create=on&size=32M"
}
striped=(--flash "$(part stripe1)" --flash "$(part stripe2)" --persist write-through)
start "${striped[@]}"
ask $'set striped 0 0 5\r\nhello\r\nget striped'
[ "$answer" = "STORED VALUE striped 0 5 hello END" ] || fail "striped: $answer"
stop KILL
start "${striped[@]}"
ask 'get striped'
[ "$answer" = "VALUE striped 0 5 hello END" ] || fail "striped, after kill -9: $answer"
stop TERM
expect 0 check --flash "vol(file:$work/stripe1,file:$work/stripe2)?object=kv"
expect 1 serve --flash "$(part stripe1)" --flash "$(part stripe3)"
[[ $err == *stripe1* && $err == *volume* ]] || fail "a device of a volume and an empty one: $err"
expect 1 serve --flash "file:$work/stripe1" --flash "file:$work/no-such"
expect 1 serve --flash none --flash "$(part stripe3)"
[[ $err == *"--flash none cannot be combined with other devices"* ]] || fail "none and a device: $err"
start --flash "$(part stripe4)"
stop TERM
expect 1 serve --flash "$(part stripe4)" --flash "$(part stripe5)"
[[ $err == *stripe4*"contains data and is not part of a volume; --force overwrites it"* ]] ||
  fail "a device with data: $err"
start --flash "$(part stripe4)" --flash "$(part stripe5)" --force
stop TERM

# memcached's conformance test.
if command -v memccapable >/dev/null; then
  start --flash "file:$work/capable?create=on&size=64M"
  memccapable -h 127.0.0.1 -p "$port" -a >"$work/capable.out" 2>&1 ||
    fail "memccapable: $(grep -v pass "$work/capable.out")"
  stop TERM
else
  skipped="memccapable is not installed"
fi

# What was acknowledged is there after a restart.
fill() { # FIRST LAST
  local i text=
  for ((i = $1; i <= $2; i++)); do
    text+="set key$i $i 0 ${#i}"$'\r\n'"$i"$'\r\n'
  done
  ask "${text%$'\r\n'}"
  [ "$(grep -o STORED <<<"$answer" | wc -l)" = $(($2 - $1 + 1)) ] || fail "not all stored"
}

check() { # FIRST LAST
  local i text= want=
  for ((i = $1; i <= $2; i++)); do
    text+="get key$i"$'\r\n'
    want+="VALUE key$i $i ${#i} $i END "
  done
  ask "${text%$'\r\n'}"
  [ "$answer" = "${want% }" ] || fail "after $3: $answer"
}

for mode in write-back write-through; do
  flash="file:$work/$mode?create=on&size=64M"
  start --flash "$flash" --persist $mode --log json
  [[ $ready == *'"recovered":false'* ]] || fail "a new file: $ready"
  fill 1 300
  stop TERM
  grep -q '"event":"start"' "$work/log" && grep -q '"event":"stopped"' "$work/log" ||
    fail "log: $(cat "$work/log")"
  start --flash "$flash" --persist $mode --log json
  [[ $ready == *'"recovered":true,"clean":true,"items":300,'* ]] || fail "clean restart: $ready"
  grep -q '"event":"recovery"' "$work/log" || fail "log: $(cat "$work/log")"
  check 1 300 "a clean stop, $mode"
  fill 301 600
  [ $mode = write-through ] || sleep 1 # its window is 100 ms
  stop KILL
  start --flash "$flash" --persist $mode --log text
  [[ $ready == *'"recovered":true,"clean":false,'* ]] || fail "crash restart: $ready"
  grep -q ' recovery: found 600 items after a crash' "$work/log" || fail "log: $(cat "$work/log")"
  check 1 600 "kill -9, $mode"

  # Another server must not touch this file.
  expect 1 serve --listen 127.0.0.1:0 --flash "file:$work/$mode" --persist $mode --wait 0
  [[ $err == *"$work/$mode is in use by another process, volume or cache"* ]] || fail "two servers: $err"
  check 1 10 "a second server"

  # One that comes to replace it waits for the device and for the port.
  launch_next "$work/$mode is in use by another process, volume or cache" --flash "file:$work/$mode" --persist $mode
  stop KILL
  server=$next
  mv "$work/next" "$work/ready"
  wait_ready
  check 1 600 "the next server, $mode"
  stop TERM
done

# The port of a server that still has it, and a signal that ends the wait.
start --flash none
launch_next "127.0.0.1:$port: Address already in use" --flash none
kill -TERM $next
status=0
wait $next || status=$?
[ $status = 130 ] || fail "a server that was stopped while it waited: $status"
expect 1 serve --flash none --listen "127.0.0.1:$port" --wait 0
[[ $err == *"Address already in use"* && $err != *waiting* ]] || fail "no wait: $err"
stop TERM

# Fewer descriptors than connections.
for connections in 100 2000; do
  : >"$work/ready" # as launch() does
  (ulimit -n 1024 && exec "$fathom" kv serve --json --listen 127.0.0.1:0 --flash none --connections $connections) \
    >"$work/ready" 2>"$work/log" &
  server=$!
  wait_ready
  if [ $connections = 100 ]; then
    [ ! -s "$work/log" ] || fail "descriptors: $(cat "$work/log")"
  else
    grep -q "RLIMIT_NOFILE is 1024, too low for --connections 2000 and 256 other files" "$work/log" ||
      fail "no word of the limit: $(cat "$work/log")"
  fi
  stop TERM
done

# kill -9 while a client writes: what it was told is stored, is.
start --flash "file:$work/write-through" --persist write-through
exec 6<>"/dev/tcp/127.0.0.1/$port"
(for ((i = 1; i <= 20000; i++)); do printf 'set busy%d 0 0 1\r\nx\r\n' "$i"; done >&6) 2>/dev/null &
writer=$!
stored=0
while [ $stored -lt 500 ] && IFS= read -r -t 20 line <&6; do
  [ "$line" = $'STORED\r' ] || fail "busy: $line"
  stored=$((stored + 1))
done
stop KILL
while IFS= read -r -t 5 line <&6; do
  [ "$line" != $'STORED\r' ] || stored=$((stored + 1))
done 2>/dev/null # reset by peer
exec 6<&- 6>&-
wait $writer 2>/dev/null || true
start --flash "file:$work/write-through" --persist write-through
text=
for ((i = 1; i <= stored; i++)); do text+="mg busy$i"$'\r\n'; done
ask "${text%$'\r\n'}"
[ "$(grep -o HD <<<"$answer" | wc -l)" = $stored ] || fail "of $stored acknowledged some are gone"
stop TERM

# Several devices: an object of a volume.
truncate -s 32M "$work/part1" "$work/part2"
parts=file:$work/part1,file:$work/part2
"$fathom" vol create "$parts" && "$fathom" vol new --zero "$parts" cache 48M
for round in 1 2; do
  start --flash "vol($parts)?object=cache" --persist write-through
  [ $round = 1 ] || [[ $ready == *'"recovered":true,"clean":false,"items":300,'* ]] || fail "volume: $ready"
  [ $round = 2 ] || fill 1 300
  check 1 300 "round $round on a volume"
  stop KILL
done

# Metrics.
start --flash none --metrics 127.0.0.1:0
ask $'set a 0 0 1\r\nx\r\nget a'
exec 5<>"/dev/tcp/127.0.0.1/$(number metrics_port)"
printf 'GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n' >&5
metrics=$(timeout 20 cat <&5)
exec 5<&- 5>&-
[[ $metrics == "HTTP/1.1 200 OK"*'fathom_kv_hits_total{command="get"} 1'* ]] || fail "metrics: $metrics"
stop TERM

# Flash that fails: the server says so, and serves.
start --flash 'fault(mem:64M)?kind=write&nth=8&every=1' --log json
text=
for ((i = 1; i <= 400; i++)); do
  text+="set big$i 0 0 100000 noreply"$'\r\n'"$(printf '%0100000d' "$i")"$'\r\n'
done
ask "${text}set a 0 0 1"$'\r\nx\r\nget a'
[ "$answer" = "STORED VALUE a 0 1 x END" ] || fail "failing flash: $answer"
for ((i = 0; i < 2400; i++)); do
  ! grep -q '"event":"flash-error"' "$work/log" || break
  sleep 0.1
done
grep -q '"event":"flash-error".*writes failed' "$work/log" || fail "log: $(cat "$work/log")"
kill -TERM "$server"
wait "$server" || true
server=

# A log that cannot be written: with persistence changes are refused until the device works again.
start --flash 'fault(mem:64M)?kind=flush&nth=8&every=1&count=3' --persist write-through --log json --metrics 127.0.0.1:0
for ((i = 1; i <= 40; i++)); do
  ask $'set a 0 0 1\r\nx\r\nget a'
  [ "$answer" != "SERVER_ERROR the change could not be made durable END" ] || break
  [ "$answer" = "STORED VALUE a 0 1 x END" ] || [[ $answer == "SERVER_ERROR"* ]] || fail "failing log: $answer"
done
[ "$answer" = "SERVER_ERROR the change could not be made durable END" ] || fail "an old value: $answer"
for ((i = 0; i < 300; i++)); do
  ask $'set a 0 0 1\r\ny\r\nget a'
  [ "$answer" != "STORED VALUE a 0 1 y END" ] || break
  sleep 0.1
done
[ "$answer" = "STORED VALUE a 0 1 y END" ] || fail "the log does not go on: $answer"
exec 5<>"/dev/tcp/127.0.0.1/$(number metrics_port)"
printf 'GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n' >&5
metrics=$(timeout 20 cat <&5)
exec 5<&- 5>&-
[[ $metrics == *"fathom_kv_log_failed 0"*"fathom_kv_engine_log_failures_total 1"*"fathom_kv_engine_log_restarts_total 1"* ]] ||
  fail "metrics: $metrics"
for event in log-failed log-works; do
  for ((i = 0; i < 50; i++)); do
    ! grep -q "\"event\":\"$event\"" "$work/log" || break
    sleep 0.1
  done
  [ "$(grep -c "\"event\":\"$event\"" "$work/log")" = 1 ] || fail "log: $(cat "$work/log")"
done
stop TERM

# The same with --on-failure exit.
start --flash 'fault(mem:64M)?kind=flush&nth=8&every=1' --persist write-through --on-failure exit
for ((i = 1; i <= 40; i++)); do
  ask $'set a 0 0 1\r\nx'
  [[ $answer == STORED ]] || break
done
status=0
wait "$server" || status=$?
server=
[ $status = 1 ] || fail "--on-failure exit: status $status"

# Passwords.
echo 'ann:secret'  >"$work/users"
start --flash none --auth "$work/users"
ask 'get a'
[ "$answer" = "CLIENT_ERROR unauthenticated" ] || fail "no password: $answer"
ask $'set x 0 0 10\r\nann secret\r\nget a'
[ "$answer" = "STORED END" ] || fail "password: $answer"
stop TERM

# A Unix socket, by libmemcached's tools.
launch --flash none --listen "unix:$work/socket"
wait_ready
if command -v memccp >/dev/null; then
  head -c 500000 /dev/urandom >"$work/thing"
  memccp --servers="$work/socket" "$work/thing" || fail "memccp"
  memccat --servers="$work/socket" --file="$work/copy" thing || fail "memccat"
  cmp "$work/thing" "$work/copy"
fi
stop TERM
[ ! -e "$work/socket" ] || fail "the socket is still there"

# A socket that systemd made (socket activation), and TLS, by Python and OpenSSL.
if command -v python3 >/dev/null; then
  cat >"$work/activate.py" <<'END'
import os, socket, subprocess, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
if s.fileno() != 3:
    os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
command = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" kv serve --json --flash none'
p = subprocess.Popen(["sh", "-c", command, sys.argv[1]], stdout=subprocess.PIPE, pass_fds=[3], text=True)
report = p.stdout.readline()
assert '"port":%d,' % s.getsockname()[1] in report, report
c = socket.create_connection(s.getsockname(), 20)
c.sendall(b"set a 0 0 1\r\nx\r\n")
assert c.makefile("rb").readline() == b"STORED\r\n"
p.terminate()
assert p.wait(20) == 0
END
  python3 "$work/activate.py" "$fathom" || fail "socket activation"
fi
if command -v python3 >/dev/null && command -v openssl >/dev/null; then
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" \
    -subj /CN=localhost -days 2 2>/dev/null
  launch --listen 127.0.0.1:0 --flash none --tls-cert "$work/cert.pem" --tls-key "$work/key.pem"
  for ((i = 0; i < 2400; i++)); do
    [ -s "$work/ready" ] || ! kill -0 $server 2>/dev/null || sleep 0.1
  done
  if ! kill -0 $server 2>/dev/null; then
    grep -q 'OpenSSL' "$work/log" || fail "TLS: $(cat "$work/log")"
    server=
  else
    wait_ready
    cat >"$work/tls.py" <<'END'
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.check_hostname = False
address = ("127.0.0.1", int(sys.argv[1]))
c = context.wrap_socket(socket.create_connection(address, 20))
f = c.makefile("rb")
for n in (1, 1000, 16384, 100000, 1048576):
    value = bytes([65 + n % 26]) * n
    c.sendall(b"set k 0 0 %d\r\n%s\r\nget k\r\n" % (n, value))
    assert f.readline() == b"STORED\r\n"
    assert f.readline() == b"VALUE k 0 %d\r\n" % n
    assert f.read(n + 2) == value + b"\r\n"
    assert f.readline() == b"END\r\n"
c.sendall(b"set k 0 0 1\r\nx\r\nget k\r\n" * 3000)
for i in range(3000):
    assert [f.readline() for _ in range(4)] == [b"STORED\r\n", b"VALUE k 0 1\r\n", b"x\r\n", b"END\r\n"]
plain = socket.create_connection(address, 20)
plain.sendall(b"version\r\n")
try:
    assert b"VERSION" not in plain.recv(100)
except ConnectionResetError:
    pass
c.sendall(b"mn\r\n")
assert f.readline() == b"MN\r\n"
END
    python3 "$work/tls.py" "$port" "$work/cert.pem" || fail "TLS: $(cat "$work/log")"
    stop TERM
  fi
fi

if [ -n "${skipped:-}" ]; then
  echo "skipped: $skipped"
  exit 77
fi
echo "kv_tool_test: passed"
