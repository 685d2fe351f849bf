#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# completion_test.sh FATHOM: what a shell offers. The candidates of every command are those of its
# --help, and completing never runs a command.
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
root=$PWD

# candidates WORD...: the names alone, on one line
candidates() {
  "$fathom" --complete "$@" </dev/null 2>"$work/err" | cut -f 1 | tr '\n' ' '
  [ ! -s "$work/err" ] || fail "--complete $*: $(cat "$work/err")"
}

# compare HELP WHAT WORD...: names in a help text, and candidates
compare() {
  local help=$1 what=$2 wanted got
  shift 2
  wanted=$(sed -n "s/^  \\(${what}[a-z0-9-]*\\) .*/\\1/p" <<<"$help" | sort | tr '\n' ' ')
  got=$(candidates "$@" | tr ' ' '\n' | grep -v -e '^--help$' -e '^--json$' -e '^$' | sort | tr '\n' ' ')
  [ "$wanted" = "$got" ] || fail "$*: help has \"$wanted\", completion \"$got\""
}

# walk WORD...: a command and all below it
walk() {
  local help name
  help=$("$fathom" "$@" --help </dev/null)
  if [[ $help == *$'\ncommands:\n'* ]]; then
    compare "$help" '[a-z]' "$@" ''
    compare "$help" -- "$@" -
    for name in $(candidates "$@" ''); do walk "$@" "$name"; done
    walked=$((walked + 1))
  elif [[ $help == *"NAME --help\` says more."* ]]; then
    compare "$help" '[a-z]' "$@" ''
    for name in $(candidates "$@" ''); do walk "$@" "$name"; done
  else
    compare "$help" -- "$@" -
    [ -z "$(candidates "$@" '')" ] || fail "$*: something where a file belongs"
    walked=$((walked + 1))
  fi
}

walked=0
for command in $(candidates ''); do
  walk "$command"
done
[ $walked -ge 70 ] || fail "only $walked commands"
[ "$(candidates gra)" = "graph " ] || fail "gra: $(candidates gra)"
[ "$(candidates graph p)" = "pagerank " ] || fail "graph p: $(candidates graph p)"
[ "$(candidates graph pagerank g --ou)" = "--output " ] || fail "--ou: $(candidates graph pagerank g --ou)"
[ "$(candidates --json graph p)" = "pagerank " ] || fail "--json graph p: $(candidates --json graph p)"
[ "$(candidates bench que)" = "queue " ] || fail "bench que: $(candidates bench que)"
for words in "nosuch x" "graph nosuch -" "graph bfs --output -" "flat run -- -"; do
  # shellcheck disable=SC2086
  [ -z "$(candidates $words)" ] || fail "$words: $(candidates $words)"
done
[ -z "$(candidates)" ] && fail "no commands without a word"

# As bash calls it: the words of a line, and the one that the cursor is at.
# in_bash LINE-WORD...: what COMPREPLY has
in_bash() {
  bash --norc -c '
    PATH=$1:$PATH
    . "$2/contrib/completion/fathom.bash"
    shift 2
    [[ $(complete -p fathom) == *"-F _fathom"* ]] || exit 1
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _fathom
    printf "%s\n" "${COMPREPLY[@]}"' bash "$(dirname "$fathom")" "$root" "$@"
}
[ "$(in_bash fathom graph ss)" = sssp ] || fail "bash: $(in_bash fathom graph ss)"
[ "$(in_bash fathom graph pagerank --t | sort | tr '\n' ' ')" = "--threads --tolerance --top --trials " ] ||
  fail "bash: $(in_bash fathom graph pagerank --t)"
[ "$(in_bash "$fathom" kv 'to')" = top ] || fail "bash, by path: $(in_bash "$fathom" kv to)"
[ -z "$(in_bash fathom graph pagerank some)" ] || fail "bash: something where a file belongs"
if command -v zsh >/dev/null; then
  # in_zsh WORD...: what it gives to _describe, or "files"
  in_zsh() {
    PATH=$(dirname "$fathom"):$PATH zsh -f -c '
      _describe() { print -rl -- "${(@P)4}" }
      _files() { print files }
      script=$1; shift; words=("$@") CURRENT=$#
      . "$script"' zsh "$root/contrib/completion/_fathom" "$@"
  }
  [ "$(in_zsh fathom graph ss)" = "sssp:shortest paths by weight" ] || fail "zsh: $(in_zsh fathom graph ss)"
  [ "$(in_zsh fathom graph cc '')" = files ] || fail "zsh: $(in_zsh fathom graph cc '')"
fi
echo "completion_test: passed"
