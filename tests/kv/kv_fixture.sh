# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# kv_fixture.sh: servers for tests of `fathom kv`, which source it after tool_fixture.sh.
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# launch ARGUMENT...: a server; $server is its process. The report of the one before must be gone when this
# returns: the shell that becomes the server empties the file only when it gets to run.
launch() {
  : >"$work/ready"
  "$fathom" kv serve --json "$@" >"$work/ready" 2>"$work/log" &
  server=$!
}

# start ARGUMENT...: a server on a port of its own; $port and $ready are from its report
start() {
  launch --listen 127.0.0.1:0 --memory 16M "$@"
  wait_ready
}

wait_ready() {
  local i
  for ((i = 0; i < 2400; i++)); do
    ready=$(cat "$work/ready")
    if [[ $ready == *'"port":'*'}' ]]; then
      port=$(number port)
      return 0
    fi
    if ! kill -0 "$server" 2>/dev/null; then
      err=$(cat "$work/log")
      server=
      if [[ $err =~ not\ (permitted|implemented) ]]; then
        echo "skipped: $err"
        exit 77
      fi
      fail "the server did not start: $err"
    fi
    sleep 0.1
  done
  fail "the server reports nothing"
}

# number NAME: of the report
number() {
  sed "s/.*\"$1\":\([0-9]*\).*/\1/" <<<"$ready"
}

# stop SIGNAL: 0 after TERM
stop() {
  local status=0
  kill "-$1" "$server"
  wait "$server" 2>/dev/null || status=$?
  server=
  if [ "$1" = TERM ] && [ $status -ne 0 ]; then
    fail "status $status after SIGTERM: $(cat "$work/log")"
  fi
}

# ask TEXT: sends it, and mn; leaves the answers before MN in $answer
ask() {
  local line
  answer=
  exec 5<>"/dev/tcp/127.0.0.1/$port"
  printf '%s' "$1"$'\r\nmn\r\n' >&5
  while IFS= read -r -t 20 line <&5; do
    line=${line%$'\r'}
    [ "$line" != MN ] || break
    answer+="$line "
  done
  exec 5<&- 5>&-
  answer=${answer% }
}
