#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# dev_copy_test.sh DEV_COPY: the copy is a copy, and what cannot be copied is refused.
set -eu
dev_copy=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "dev_copy_test: $*" >&2
  exit 1
}

"$dev_copy" mem:5M "softnvme(mem:6M)"
if "$dev_copy" mem:2M mem:1M 2>"$work/err"; then
  fail "2 MiB went into 1 MiB"
fi
grep -q "does not fit" "$work/err" || fail "not the reason: $(cat "$work/err")"
if "$dev_copy" mem:1M "fault(mem:1M)?kind=write&nth=5" 2>"$work/err"; then
  fail "a failed write went unnoticed"
fi

head -c 3M /dev/urandom >"$work/a"
if ! "$dev_copy" "file:$work/a" "file:$work/b?create=on&size=3M" 2>"$work/err"; then
  cat "$work/err" >&2
  # Some machines do not allow io_uring.
  ! grep -qE "not permitted|not implemented" "$work/err" || exit 77
  fail "files cannot be copied"
fi
cmp "$work/a" "$work/b"
