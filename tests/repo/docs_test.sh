#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# docs_test.sh FATHOM: the words keep up with the code.
set -eu
fathom=$1

fail() {
  echo "docs_test: $*" >&2
  exit 1
}

# The names in a list of commands.
names() {
  sed -n 's/^  \([a-z][a-z0-9]*\)  .*/\1/p'
}

# The README begins with the two commands, after what they are for, and names no target that is not there.
for command in "make demo" "make check"; do
  head -n 60 README.md | grep -q "^$command\b" || fail "README.md does not open with $command"
done
targets=$(grep -ohE '(^|`)make [a-z-]+' README.md CONTRIBUTING.md doc/*.md | sed 's/.*make //')
for target in $targets; do
  grep -q "^$target:" Makefile || fail "make $target is in the text, but not in the Makefile"
done

# The man page has every command and subcommand.
for command in $("$fathom" --help | names); do
  grep -Eq "^\.(Ss|It|Cm|Ic|Nm).*\b$command\b" man/fathom.1 || fail "man/fathom.1 lacks $command"
done
for group in bench dev flat gpu graph kv nvme pm sql vol; do
  for command in $("$fathom" $group --help | names); do
    grep -Eq "^\.It .*\b$group $command\b" man/fathom.1 ||
      fail "man/fathom.1 lacks $group $command"
  done
done

# It has every kind of device as well.
for scheme in $("$fathom" dev schemes | sed 's/[:(].*//'); do
  grep -Eq "^\.It Cm $scheme " man/fathom.1 || fail "man/fathom.1 lacks the device $scheme"
done

# Links between our own pages lead somewhere.
for page in *.md doc/*.md $(find src workloads bench tests -name README.md); do
  for link in $(grep -ohE '\]\([^):# ]+' "$page" | cut -c3-); do
    [[ $link == http* ]] || [ -e "$(dirname "$page")/$link" ] ||
      fail "$page links to $link, which is not there"
  done
done

# Every module and every package has its words.
for module in src/*/; do
  [ -e "${module}README.md" ] || fail "${module}README.md is not there"
done
for package in $(sed -n 's/^[a-z]*=(\([a-z].*\))$/\1/p' scripts/install-deps.sh); do
  grep -q "\`$package\`" doc/dependencies.md || fail "doc/dependencies.md lacks $package"
done
echo "docs_test: passed"
