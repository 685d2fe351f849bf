#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# install-deps.sh installs what is missing and only that, and stops where it may not. Runs with a
# PATH that holds nothing but the stand-ins made here.
set -eu
script=$PWD/scripts/install-deps.sh
shell=$(command -v bash)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "deps_test: $*" >&2
  exit 1
}

stand_in() {
  printf '#!%s\n%s\n' "$shell" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# machine UID PACKAGE...: a machine with these packages installed
machine() {
  local id=$1
  shift
  rm -rf "$work/bin" "$work/log"
  mkdir -p "$work/bin"
  ln -s "$(command -v env)" "$work/bin/env"
  stand_in id "echo $id"
  stand_in dpkg-query "printf 'ii %s ' $*; exit 1"
  stand_in apt-get "echo \"apt-get \$DEBIAN_FRONTEND \$*\" >>$work/log"
}

run() {
  status=0
  output=$(PATH=$work/bin "$shell" "$script" build </dev/null 2>&1) || status=$?
}

# The list itself is the script's; the test is about what happens with it.
all=$(sed -n '/^build=(/,/)/p' "$script" | tr -d '()
' | sed 's/^build=//')
[[ $all == *" ninja-build "* ]] || fail "no list of packages for build: $all"
some=${all/ninja-build/}

machine 0 $all
run
[ $status -eq 0 ] || fail "all is there, but it fails: $output"
[ -z "$output" ] || fail "all is there, but it speaks: $output"
[ ! -e "$work/log" ] || fail "all is there, but apt-get is called"

machine 0 $some
run
[ $status -eq 0 ] || fail "root cannot install: $output"
[[ $output == *"installing ninja-build"* ]] || fail "it does not say what it installs: $output"
grep -q "noninteractive .*update" "$work/log" || fail "no update before installing"
grep -q "noninteractive .*install .* ninja-build$" "$work/log" || fail "wrong: $(cat "$work/log")"

machine 1000 $some
run
[ $status -eq 1 ] || fail "neither root nor sudo, but status $status"
[[ $output == *"missing: ninja-build"* ]] || fail "the packages are not named: $output"
[ ! -e "$work/log" ] || fail "neither root nor sudo, but apt-get is called"

machine 1000 $some
stand_in sudo "echo sudo >>$work/log; shift; exec \"\$@\""
stand_in true "exit 0"
run
[ $status -eq 0 ] || fail "sudo was there, but status $status: $output"
grep -q "install .* ninja-build$" "$work/log" || fail "sudo was there, but not used"

machine 0 $some
rm "$work/bin/apt-get"
run
[ $status -eq 1 ] || fail "no apt-get, but status $status"
[[ $output == *"missing: ninja-build"* ]] || fail "the packages are not named: $output"

machine 0 $some
stand_in apt-get "exit 100"
run
[ $status -eq 1 ] || fail "apt-get fails, but status $status"
[[ $output == *"missing: ninja-build"* ]] || fail "the packages are not named: $output"

machine 0
rm "$work/bin/dpkg-query"
run
[ $status -eq 1 ] || fail "no dpkg, but status $status"
[[ $output == *"missing: gcc g++"* ]] || fail "the packages are not named: $output"
echo "deps_test: installs what is missing, stops where it may not"
