#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# check.sh [GROUP...]: checks the Promela model with spin. Groups: line, broken. Without any: both,
# which is what the tests run.
#
# A right model must be searched to the end without error. A broken one must fail, with the error
# that belongs to its mistake. Exit: 0 as expected, 1 not, 77 spin or a C compiler is missing.
#
# KEEP=DIR keeps generated files and trails in DIR.

models=$(cd "$(dirname "$0")" && pwd) || exit 1
. "$models/../../../scripts/spin.sh"

violated='assertion violated'

check_line() {
	right line.pml "-DFRAMES=1"
	right line.pml "-DFRAMES=1 -DLOOKS=2 -DFAILURES=0"
	right line.pml "-DFRAMES=1 -DSETS=1 -DFAILURES=3"
	right line.pml "-DFRAMES=2 -DSETS=1"
}

check_broken() {
	wrong line.pml "-DBROKEN_DIRTY_FIRST" "$violated \(\( \(\(_pid==0\)\)" \
		"DIRTY before the change: a write-back clears it and misses the bytes"
	wrong line.pml "-DBROKEN_EVICT_COUNT" "$violated \(\(valid\[[01]\]&&\(frame" \
		"eviction ignores references: a line is changed in a frame that is another's"
	wrong line.pml "-DBROKEN_EVICT_DIRTY" "$violated \(\( \(\(_pid==0\)\)" \
		"eviction of a dirty line: what was set is gone"
	wrong line.pml "-DBROKEN_NO_VERSION -DLOOKS=2" "$violated \(seen==0\)" \
		"no version: the line left and came back between two looks at its word"
	wrong line.pml "-DBROKEN_TWO_WRITES" "$violated \(\( \(\(_pid==0\)\)" \
		"two writes of a line in flight: the older one arrives last"
	wrong line.pml "-DBROKEN_FLUSH_CLEAN" "$violated \(\( \(\(_pid==0\)\)" \
		"flush does not wait for the write of another: it has not arrived"
	wrong line.pml "-DBROKEN_STICKY_ERROR" "$violated \(turn\[[01]\]!=t\)" \
		"an error that was there before: it is of a fetch that the thread did not wait for"
}

[ $# -gt 0 ] || set -- line broken
for group in "$@"; do
	case $group in
	line | broken) check_$group ;;
	*)
		echo "usage: check.sh [line|broken]..." >&2
		exit 1
		;;
	esac
done
[ "$failures" -eq 0 ]
