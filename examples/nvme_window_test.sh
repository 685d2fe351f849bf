#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# nvme_window_test.sh NVME_WINDOW: the log survives wherever the region is kept, and what has no
# region is refused.
set -eu
nvme_window=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "nvme_window_test: $*" >&2
  exit 1
}

# survives DEVICE TEXT: all losses pass, some entries are lost and some are not, the report says TEXT.
survives() {
  "$nvme_window" "$1" >"$work/out" || fail "$1: $(cat "$work/out")"
  grep -q "all 400 entries that were persisted survived" "$work/out" || fail "$(cat "$work/out")"
  ! grep -qE " (0|100) of the 100 " "$work/out" || fail "no luck about it: $(cat "$work/out")"
  grep -q "$2" "$work/out" || fail "the report of $1 lacks \"$2\": $(cat "$work/out")"
}

survives "crash(softnvme(mem:1M)?pmr=64K)" "in memory of this process"
survives "crash(softnvme(mem:1M)?pmr=64K&pmr_dev=mem:64K)" "keeps the region on mem:64K"
for device in mem:1M "crash(mem:1M)" "crash(softnvme(mem:1M))" "crash(softnvme(mem:1M)?cmb=64K)" \
  "softnvme(mem:1M)?pmr=64K" "crash(softnvme(mem:1M)?pmr=4K)"; do
  ! "$nvme_window" "$device" >"$work/out" 2>&1 || fail "$device was taken"
done

# Twice over a file: the second run finds the log of the first, which it then goes on with.
truncate -s 64K "$work/pmr"
if ! "$nvme_window" "crash(softnvme(mem:1M)?pmr=64K&pmr_dev=file:$work/pmr)" >"$work/out" 2>&1; then
  cat "$work/out" >&2
  # Some machines do not allow io_uring.
  ! grep -qE "not permitted|not implemented" "$work/out" || exit 77
  fail "a file cannot keep the region"
fi
grep -q "as safe as what was written there and flushed" "$work/out" || fail "$(cat "$work/out")"
count=$(od -An -tu8 -N8 "$work/pmr" | tr -d ' ')
[ "$count" = 400 ] || fail "the file has a log of $count entries"
survives "crash(softnvme(mem:1M)?pmr=64K&pmr_dev=file:$work/pmr)" "file:$work/pmr"
count=$(od -An -tu8 -N8 "$work/pmr" | tr -d ' ')
[ "$count" = 800 ] || fail "the file has a log of $count entries"
