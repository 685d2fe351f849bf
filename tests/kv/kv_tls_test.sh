#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kv_tls_test.sh FATHOM: the tools that connect to a server, to one that wants TLS and a password: `fathom kv
# bench`, `stat`, `top` and `load`, with a certificate that is made here. They refuse a server whose
# certificate does not verify.
subcommand=kv needs_io_uring=yes
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
# shellcheck source=tests/kv/kv_fixture.sh
. "$(dirname "$0")/kv_fixture.sh"

command -v openssl >/dev/null || { echo "skipped: no openssl"; exit 77; }

certificate() { # NAME SUBJECT-ALTERNATIVE-NAME
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/$1.key" -out "$work/$1.pem" \
    -subj /CN=fathom -addext "subjectAltName=$2" -days 2 2>/dev/null || fail "no certificate"
}

certificate good IP:127.0.0.1
certificate other IP:127.0.0.1
certificate elsewhere DNS:elsewhere.example
echo 'ada:secret' >"$work/users"
echo 'ada:guessed' >"$work/wrong"

serve() { # NAME: with this certificate
  launch --listen "127.0.0.1:0,unix:$work/socket" --flash none --auth "$work/users" \
    --tls-cert "$work/$1.pem" --tls-key "$work/$1.key"
  for ((i = 0; i < 2400; i++)); do
    [ -s "$work/ready" ] || ! kill -0 $server 2>/dev/null || sleep 0.1
  done
  if ! kill -0 $server 2>/dev/null && grep -q OpenSSL "$work/log"; then
    echo "skipped: $(cat "$work/log")"
    exit 77
  fi
  wait_ready
}

serve good
to=(--server "127.0.0.1:$port")
with=("${to[@]}" --auth "$work/users" --tls-ca "$work/good.pem")

# Each of them, over TCP and over a Unix socket.
expect 0 bench "${with[@]}" --items 500 --value 5000 --connections 4 --threads 2 --seconds 0.2 --sets 20 --keys 3
[[ $out == *" 0 wrong, 0 stale"* && $out == *" 0 misses"* ]] || fail "bench: $out"
expect 0 bench "${with[@]}" --items 500 --value 5000 --no-fill --seconds 0.1 --json
[[ $out == *"\"server\":\"127.0.0.1:$port\""*'"misses":0,'* ]] || fail "bench in JSON: $out"
expect 0 stat "${with[@]}"
[[ $out == *"127.0.0.1:$port: "* && $out == *500* ]] || fail "stat: $out"
expect 0 stat --server "unix:$work/socket" --auth "$work/users" --tls-ca "$work/good.pem" --all
[[ $out == *curr_items*500* ]] || fail "stat over a Unix socket: $out"
expect 0 top "${with[@]}" --once --interval 0.1
[[ $out == *"127.0.0.1:$port"* ]] || fail "top: $out"
printf 'set one 7 0 3\r\nabc\r\nset two 0 0 %d\r\n%0300000d\r\n' 300000 5 >"$work/dump"
expect 0 load "$work/dump" "${with[@]}"
expect 0 stat "${with[@]}" --all
[[ $out == *curr_items*502* ]] || fail "load: $out"

# A certificate that nobody here knows, no TLS, a wrong password, a file that is none.
for command in "bench --items 10" stat "top --once --interval 0.1" "load $work/dump"; do
  # shellcheck disable=SC2086
  set -- $command
  expect 1 "$@" "${to[@]}" --auth "$work/users" --tls-ca "$work/other.pem"
  [[ $err == *"TLS: self-signed certificate"* || $err == *"TLS: self signed certificate"* ]] || fail "$command, unknown: $err"
  expect 1 "$@" "${to[@]}" --auth "$work/users" --tls
  [[ $err == *"TLS: self"* ]] || fail "$command, system: $err"
  expect 1 "$@" "${to[@]}" --auth "$work/users" --tls-ca "$work/users"
  [[ $err == *"users: cannot read a certificate"* ]] || fail "$command, no file of certificates: $err"
done
expect 1 bench "${to[@]}" --auth "$work/wrong" --tls-ca "$work/good.pem" --items 10
[[ $err == *"127.0.0.1:$port: CLIENT_ERROR"* ]] || fail "a wrong password: $err"
expect 1 bench "${to[@]}" --tls-ca "$work/good.pem" --items 10
expect 1 stat "${to[@]}" --auth "$work/users"
stop TERM

# SIGHUP: other files for later connections; bad ones change nothing.
live() { # NAME: its certificate and key are those of the server
  cp "$work/$1.pem" "$work/live.pem"
  cp "$work/$1.key" "$work/live.key"
}
with_live() { # CERTIFICATE PASSWORD-FILE: a client
  "$fathom" kv stat --server "127.0.0.1:$port" --auth "$work/$2" --tls-ca "$work/$1.pem" >/dev/null 2>&1
}
reloads() { # EVENT COUNT: wait until the log has so many
  local i
  kill -HUP $server
  for ((i = 0; i < 600; i++)); do
    [ "$(grep -c " $1: " "$work/log")" = "$2" ] && return 0
    sleep 0.1
  done
  fail "no $1 after SIGHUP: $(cat "$work/log")"
}
live good
cp "$work/users" "$work/secrets"
launch --listen 127.0.0.1:0 --flash none --auth "$work/secrets" --log text \
  --tls-cert "$work/live.pem" --tls-key "$work/live.key"
wait_ready
with_live good users || fail "the first files: $(cat "$work/log")"
live other
cp "$work/wrong" "$work/secrets"
with_live good users || fail "new files before SIGHUP"
reloads reload 1
with_live other wrong || fail "new files are not in use"
! with_live good wrong || fail "the old certificate is in use"
! with_live other users || fail "the old password is in use"
cp "$work/good.pem" "$work/live.pem" # not the one of the key
cp "$work/users" "$work/secrets"
reloads reload-failed 1
[[ $(cat "$work/log") == *"live.key is not the key of"* || $(cat "$work/log") == *"live.key: cannot read"* ]] ||
  fail "a bad file: $(cat "$work/log")"
with_live other wrong || fail "bad files replaced the good ones"
! with_live other users || fail "a bad certificate, and passwords changed"
stop TERM

# It verifies, but names another host.
serve elsewhere
expect 1 stat --server "127.0.0.1:$port" --auth "$work/users" --tls-ca "$work/elsewhere.pem"
[[ $err == *"TLS: IP address mismatch"* ]] || fail "another host: $err"
expect 0 stat --server "unix:$work/socket" --auth "$work/users" --tls-ca "$work/elsewhere.pem"
stop TERM

# A password without TLS.
launch --listen 127.0.0.1:0 --flash none --auth "$work/users"
wait_ready
expect 0 bench --server "127.0.0.1:$port" --auth "$work/users" --items 100 --seconds 0.1
[[ $out == *" 0 wrong, 0 stale"* ]] || fail "a password alone: $out"
stop TERM
echo "kv_tls_test: passed"
