# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# tool_fixture.sh: what tests of the command share. They source it with FATHOM as $1, and say before
#
#   subcommand=WORDS	what they test of it, if it is not all
#   needs_io_uring=yes	that they are skipped where a machine does not allow it
set -eu
fathom=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$(basename "$0" .sh): $*" >&2
  exit 1
}

# expect STATUS ARGUMENT...: runs it, leaves its output in $out and $err
expect() {
  local wanted=$1 status=0
  shift
  # shellcheck disable=SC2086
  set -- ${subcommand:-} "$@"
  "$fathom" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
  out=$(cat "$work/out")
  err=$(cat "$work/err")
  [ $status -ne "$wanted" ] || return 0
  if [ -n "${needs_io_uring:-}" ] && [[ $err =~ not\ (permitted|implemented) ]]; then
    echo "skipped: $err"
    exit 77
  fi
  fail "fathom $*: status $status, not $wanted: $out $err"
}
