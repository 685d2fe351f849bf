#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# check.sh [GROUP...]: checks the Promela models with spin. Groups: queue, broken, bam, long.
# Without any: the first three, which is what the tests run.
#
# A right model must be searched to the end without error. A broken one must fail, with the error
# that belongs to its mistake. Exit: 0 as expected, 1 not, 77 spin or a C compiler is missing.
#
# KEEP=DIR keeps generated files and trails in DIR (README.md: how to read a trail).

models=$(cd "$(dirname "$0")" && pwd) || exit 1
. "$models/../../../../scripts/spin.sh"

hang='invalid end state'
violated='assertion violated'

check_queue() {
	right queue.pml "-DS=2 -DTHREADS=3 -DTURNS=4"
	right queue.pml "-DS=4 -DTHREADS=3"
	right queue.pml "-DS=4 -DTHREADS=3 -DC=2"
	right queue.pml "-DS=2 -DTHREADS=3 -DTIMEOUTS=3 -DTURNS=4"
	right queue.pml "-DS=4 -DTHREADS=3 -DC=2 -DTIMEOUTS=1"
	right queue.pml "-DS=4 -DTHREADS=2 -DTIMEOUTS=1"
	right queue.pml "-DS=2 -DTHREADS=3 -DTIMEOUTS=2 -DRESET"
	right queue.pml "-DS=4 -DTHREADS=2 -DRESET"
	right queue.pml "-DS=4 -DTHREADS=2 -DC=2 -DTIMEOUTS=1 -DRESET"
}

check_broken() {
	wrong queue.pml "-DS=4 -DTHREADS=2 -DBROKEN_UNLOCK" "$hang" \
		"ring lock released without looking again: an entry is never rung"
	wrong queue.pml "-DS=2 -DTHREADS=3 -DBROKEN_MARK_BIT" "$violated \(t!=sq_ticket\)" \
		"mark is a bit: the one of the turn before passes for an entry not yet written"
	wrong queue.pml "-DS=2 -DTHREADS=3 -DBROKEN_CIDS" "$hang" \
		"as many ids as entries: a full ring looks empty to the controller"
	wrong queue.pml "-DS=2 -DTHREADS=3 -DBROKEN_PHASE" "$violated \(t!=255\)" \
		"phase ignored: an entry that was never posted is read"
	wrong queue.pml "-DS=2 -DTHREADS=3 -DBROKEN_GIVE_BACK" "$violated \(\(slot\[c\]==0\)" \
		"id given back before its slot is free: the next owner's slot is overwritten"
	wrong queue.pml "-DS=2 -DTHREADS=3 -DTIMEOUTS=1 -DBROKEN_CID_EARLY" \
		"$violated \(\(life\[cid\]" \
		"id given back at a timeout: it is free while the controller works on it"
	wrong queue.pml "-DS=4 -DTHREADS=2 -DRESET -DBROKEN_CANCEL_FREE" \
		"$violated \(\(life\[cid\]" \
		"id given back at a cancel: it is free while the controller works on it"
	wrong queue.pml "-DS=4 -DTHREADS=2 -DRESET -DBROKEN_RECHECK" "$violated \(ring_lock==0\)" \
		"no second look at failed after an id was taken: a submission runs into the reset"
	wrong queue.pml "-DS=4 -DTHREADS=2 -DRESET -DBROKEN_RESET_CQ" "$violated \(\(slot\[t\]" \
		"completion ring not cleared: a completion from before the reset is seen after it"
	wrong queue.pml "-DS=4 -DTHREADS=2 -DRESET -DBROKEN_RESET_STOP" "$violated \(cid!=255\)" \
		"controller not stopped before the rings are cleared: it goes on with old places"
}

check_bam() {
	right bam.pml "-DFIX_53 -DFIX_54 -DS=2 -DTHREADS=3 -DC=3"
	right bam.pml "-DFIX_53 -DFIX_54 -DS=4 -DTHREADS=3 -DC=2 -DTURNS=2"
	right bam.pml "-DFIX_53 -DFIX_54 -DS=3 -DTHREADS=4 -DC=4 -DCOMMANDS=5 -DTURNS=2"
	wrong bam.pml "-DFIX_53_LOCK -DFIX_54 -DS=2 -DTHREADS=3 -DC=2" \
		"$violated \(life\[c\]==4\)" \
		"first race of 5.3: a stale completion is taken for that of the next owner of the id"
	wrong bam.pml "-DFIX_53_ID -DFIX_54 -DS=2 -DTHREADS=3 -DC=2" "$violated 0 " \
		"second race of 5.3: a position is marked although the head has moved past it"
	wrong bam.pml "-DFIX_53 -DS=3 -DTHREADS=4 -DC=4 -DCOMMANDS=5 -DTURNS=2" "$hang" \
		"race of 5.4: a thread takes the mark of the next turn for its own, and all stop"
}

# Larger than a test should be; up to 4 GB and some minutes.
check_long() {
	limit=6000
	right queue.pml "-DS=4 -DTHREADS=3 -DTIMEOUTS=1"
	right queue.pml "-DS=4 -DTHREADS=3 -DC=2 -DTIMEOUTS=2"
	right queue.pml "-DS=4 -DTHREADS=2 -DTIMEOUTS=2"
	right queue.pml "-DS=4 -DTHREADS=3 -DC=2 -DRESET"
	right bam.pml "-DFIX_53 -DFIX_54 -DS=4 -DTHREADS=3 -DC=3 -DTURNS=2"
}

[ $# -gt 0 ] || set -- queue broken bam
for group in "$@"; do
	case $group in
	queue | broken | bam | long) check_$group ;;
	*)
		echo "usage: check.sh [queue|broken|bam|long]..." >&2
		exit 1
		;;
	esac
done
[ "$failures" -eq 0 ]
