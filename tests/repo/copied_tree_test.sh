#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# copied_tree_test.sh: `make install` and `make check-asan` in a tree that was copied with its build folders, or moved,
# configure them anew, work there, and leave the tree that it was copied from as it is. Uses our Makefile on a tree of one file.
set -eu
makefile=$PWD/Makefile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "copied_tree_test: $*" >&2
  exit 1
}

# try TREE TARGET: what it says goes to `log`
try() {
  make -C "$1" DEPS=no JOBS=1 DESTDIR="$work/$1.root" PREFIX=/usr "$2" >log 2>&1 || fail "make $2 in $1: $(cat log)"
}

# contents TREE: all of its files, with the time at which each was changed
contents() {
  find "$1" -printf '%p %C@ %s\n' | sort
}

mkdir -p tree/scripts
cp "$makefile" tree/
cat >tree/CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.20)
project(tree LANGUAGES NONE)
option(FTH_WERROR "" OFF)
file(READ name name)
file(WRITE ${PROJECT_BINARY_DIR}/built "${name} at ${PROJECT_SOURCE_DIR}")
add_custom_target(installed ALL)
install(FILES ${PROJECT_BINARY_DIR}/built DESTINATION share)
EOF
# shellcheck disable=SC2016
printf '#!/bin/sh\ncp "$1/built" "$1/tested"\n' >tree/scripts/run-tests.sh
chmod +x tree/scripts/run-tests.sh
printf 'the first' >tree/name

try tree install
try tree check-asan
[ "$(cat tree.root/usr/share/built)" = "the first at $work/tree" ] || fail "installed: $(cat tree.root/usr/share/built)"
try tree install
! grep -q anew log || fail "configured twice: $(cat log)"
# A tree has one place, whatever leads to it.
ln -s tree link
try link install
! grep -q anew log || fail "configured again behind a link: $(cat log)"

cp -a tree copy
printf 'the copy' >copy/name
contents tree >before
try copy install
grep -q "build was configured for $work/tree: configuring it anew" log || fail "no word of it: $(cat log)"
try copy check-asan
contents tree | cmp - before || fail "the tree that was copied has changed"
[ "$(cat copy.root/usr/share/built)" = "the copy at $work/copy" ] || fail "installed: $(cat copy.root/usr/share/built)"
[ "$(cat copy/build-asan/tested)" = "the copy at $work/copy" ] || fail "tested: $(cat copy/build-asan/tested)"

# What a tree installed before it was moved can still be removed.
mv copy moved
cp -a copy.root moved.root
try moved build
[ -e moved/build/installed.txt ] || fail "installed.txt is gone"
try moved uninstall
[ ! -e moved.root/usr/share/built ] || fail "make uninstall left it"
echo "copied_tree_test: passed"
