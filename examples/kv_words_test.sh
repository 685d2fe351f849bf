#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kv_words_test.sh KV_WORDS: words are counted, and counted on in the next run.
set -eu
kv_words=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "kv_words_test: $*" >&2
  exit 1
}

for ((i = 0; i < 3000; i++)); do
  echo "the word$((i % 700)) the"
done >"$work/text"
[ "$("$kv_words" mem:32M the word1 word699 nothing <"$work/text")" = "the 6000
word1 5
word699 4
nothing 0" ] || fail "in memory"

flash="file:$work/words?create=on&size=32M"
if ! "$kv_words" "$flash" <"$work/text" 2>"$work/err"; then
  grep -Eq "not (permitted|implemented)" "$work/err" || fail "$(cat "$work/err")"
  echo "skipped: $(cat "$work/err")"
  exit 77
fi
[ "$("$kv_words" "$flash" the word1 <"$work/text")" = "the 12000
word1 10" ] || fail "the second run"
if "$kv_words" "file:$work/no/such" </dev/null 2>"$work/err"; then
  fail "a device that is not there"
fi
grep -q "No such file" "$work/err" || fail "not the reason: $(cat "$work/err")"
echo "kv_words_test: passed"
