#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# spin.sh: for the check.sh beside Promela models, which sets `models` to its folder and sources
# this. right MODEL OPTIONS: must be searched to the end without error. wrong MODEL OPTIONS ERROR
# TEXT: must fail with that error. Exits with 77 where spin or a C compiler is missing.

CC=${CC:-cc}

for tool in spin "$CC"; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		echo "skipped: $tool is not installed"
		exit 77
	fi
done

if [ -n "$KEEP" ]; then
	mkdir -p "$KEEP" || exit 1
	work=$(cd "$KEEP" && pwd) || exit 1
else
	work=$(mktemp -d) || exit 1
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
fi
failures=0

# run MODEL FLAGS: builds and runs a verifier; its output is in $work/log. Breadth first, so that
# the trail of an error is as short as can be and no limit on depth applies.
run() {
	(
		cd "$work" || exit 1
		rm -f pan* "$1.trail"
		spin -a $2 "$models/$1" || exit 1
		"$CC" -O2 -w -DSAFETY -DNOCLAIM -DBFS -DCOLLAPSE -DMEMLIM=${limit:-2000} -o pan pan.c || exit 1
		./pan
	) >"$work/log" 2>&1
}

# report VERDICT NAME: one line, with states, seconds and megabytes as the verifier gives them.
report() {
	awk -v verdict="$1" -v name="$2" '
		/states, stored/ { states = $1 }
		/elapsed time/ { seconds = $4 }
		/total actual memory/ { mb = $1 }
		END { printf "%-4s  %-62s %10d states %6.1f s %5d MB\n",
			verdict, name, states, seconds, mb }' "$work/log"
}

fail() {
	failures=$((failures + 1))
	report FAIL "$1"
	echo "      $2; the verifier said:"
	sed 's/^/      | /' "$work/log"
}

# right MODEL FLAGS: the whole state space, no error.
right() {
	run "$1" "$2"
	if [ $? -ne 0 ] || ! grep -q 'errors: 0$' "$work/log"; then
		fail "$1 $2" "an error, or no result"
	elif grep -Eq 'not completed|depth too small|MEMLIM|out of memory|truncated' "$work/log"; then
		fail "$1 $2" "the search is not complete"
	else
		report ok "$1 $2"
	fi
}

# wrong MODEL FLAGS ERROR WHAT: the verifier must stop with ERROR, an extended regular expression.
wrong() {
	run "$1" "$2"
	if ! grep -q 'errors: 1$' "$work/log"; then
		fail "$1 $2" "not found: $4"
	elif ! grep -Eq "^pan:1: $3" "$work/log"; then
		fail "$1 $2" "another error than expected ($3)"
	else
		report ok "$1 $2"
		echo "      found: $4"
		sed -n 's/^pan:1: /      as:    /p' "$work/log"
		[ -z "$KEEP" ] || mv "$work/$1.trail" "$work/$(echo "$1$2" | tr -d ' ').trail"
	fi
}
