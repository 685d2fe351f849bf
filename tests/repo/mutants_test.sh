#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/mutants.py on a small project: changes that its test covers are killed, those in a function
# that nothing tests survive, and the tree itself stays as it is.
set -eu
command -v ninja >/dev/null || {
  echo "mutants_test: skipped, ninja is not here"
  exit 77
}
mutants=$PWD/scripts/mutants.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/array"
cat >"$tree/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(small C)
enable_testing()
add_subdirectory(src)
END
cat >"$tree/src/CMakeLists.txt" <<'END'
add_library(fathom_objects OBJECT array/small.c)
add_library(fathom_internal STATIC $<TARGET_OBJECTS:fathom_objects>)
add_executable(array_small_test array/small_test.c)
target_link_libraries(array_small_test fathom_internal)
add_test(NAME array_small_test COMMAND array_small_test)
END
cat >"$tree/src/array/small.c" <<'END'
/* if (a < b) in a comment is no code */
int small_max(int a, int b);
int small_untested(int a);

int small_max(int a, int b)
{
	if (a < b)
		return b;
	return a;
}

int small_untested(int a)
{
	if (a == 3)
		return -1;
	return a;
}
END
cat >"$tree/src/array/small_test.c" <<'END'
int small_max(int a, int b);
int main(void)
{
	return small_max(1, 2) != 2 || small_max(2, 1) != 2;
}
END
git -C "$tree" init -q
git -C "$tree" add -A

fail() {
  echo "mutants_test: $*" >&2
  cat "$tree/out" >&2
  exit 1
}
run() {
  "$mutants" --root "$tree" --module array "$@" >"$tree/out" 2>&1 || fail "ended with an error"
}

run --line src/array/small.c:7
grep -q '^killed by array_small_test: src/array/small.c:7: condition negated' "$tree/out" || fail "a planted mutant was not found"
grep -q 'survived.*condition' "$tree/out" && fail "it survived as well"
run --line src/array/small.c:14
grep -q '^survived: src/array/small.c:14: condition negated' "$tree/out" || fail "an untested line counts as tested"
grep -q ' 0 killed, ' "$tree/out" || fail "something of it was killed"
run --count 100 --jobs 2
grep -q 'small.c:1:' "$tree/out" && fail "a comment was changed"
[ -z "$(git -C "$tree" diff)" ] || fail "the tree was changed"
# The same seed makes the same choice.
run --count 3 --seed 5 --list
cp "$tree/out" "$tree/before"
run --count 3 --seed 5 --list
cmp -s "$tree/out" "$tree/before" || fail "another choice for the same seed"
echo "mutants_test: a planted mutant is found"
