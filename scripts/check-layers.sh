#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# check-layers.sh [ROOT]: fails when a module includes one that is not below it.
#
# A module is a folder of src/ with its public headers include/fathom/NAME.h and
# include/fathom/NAME/, and its inner ones include/fathom/detail/NAME/. Files straight in src/ tie
# the modules together and may include all of them; so may include/fathom.h, *_test.c and
# *_fixture.[ch], what tests share. Public headers include public headers only, and so do examples
# and the Python package.
# The programs in tools/ and bench/ share tools/common and nothing else. Files of workloads/ are no module: the
# library does not have them.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2

# The layers, lowest first; modules of one layer do not know each other.
declare -A level=(
  [hd]=0
  [base]=1
  [dev]=2 [scalar]=2
  [nvme]=3 [vol]=3
  [cache]=4
  [array]=5 [flat]=5 [pm]=5 [gpu]=5 [table]=5
  [kv]=6 [query]=6 [graph]=6
  [pg]=7
  [top]=8
  [common]=9
  [tools]=10 [workloads]=10 [bench]=10 [examples]=10 [python]=10 [tests]=10
)
# Inside src/query, folders are layers as well; files straight in it tie them together.
declare -A query_level=(
  [mem]=0
  [vec]=1
  [keys]=2
  [sql]=3 [task]=3
  [spill]=4 [plan]=4
  [join]=5 [group]=5
  [exec]=6
  [remote]=7
)
# Who may include whom all the same.
allowed=" tests:tools tests:bench tests:workloads bench:workloads "

violations=0
complain() {
  echo "$1: $2" >&2
  violations=$((violations + 1))
}

# The module a file belongs to, into the variable `module`.
module_of() {
  local rest
  case $1 in
  include/fathom.h) module=top ;;
  include/fathom/*)
    rest=${1#include/fathom/}
    rest=${rest#detail/}
    module=${rest%%/*}
    module=${module%.h}
    ;;
  *_test.c | *_test.cu | *_fixture.[ch] | */fixture.[ch]) module=tests ;;
  src/*/*)
    rest=${1#src/}
    module=${rest%%/*}
    ;;
  src/*) module=top ;;
  tools/common/*) module=common ;;
  *) module=${1%%/*} ;;
  esac
}

# Where an included name is found, as the compiler looks for it, into `found`; empty if nowhere.
resolve() {
  local folder=${1%/*} name=$2 candidate
  found=
  for candidate in "$folder/$name" "$name" "include/$name" "src/$name" "tests/$name" "tools/$name" \
    "tools/common/$name" "bench/$name"; do
    if [ -f "$candidate" ]; then
      found=$candidate
      break
    fi
  done
  # A path that climbs (../other/x.h) belongs to where it ends.
  while [[ $found =~ ^(.*/)?[^/.]+/\.\./(.*)$ ]]; do
    found=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
  done
}

# The part of src/query a file belongs to, into the variable `part`; empty for files straight in it.
query_part_of() {
  part=${1#src/query/}
  case $part in
  */*) part=${part%%/*} ;;
  *) part= ;;
  esac
}

check_query_include() {
  local file=$1 line=$2 name=$3 from to
  query_part_of "$file"
  from=$part
  query_part_of "$found"
  to=$part
  [ -n "$from" ] && [ "$from" != "$to" ] || return
  if [ -z "$to" ] || [ -z "${query_level[$from]-}" ] || [ -z "${query_level[$to]-}" ] ||
    [ "${query_level[$to]}" -ge "${query_level[$from]}" ]; then
    complain "$file:$line" "query/$from includes $name, which is not below it"
  fi
}

check_include() {
  local file=$1 line=$2 name=$3 from to
  resolve "$file" "$name"
  [ -n "$found" ] || return
  module_of "$file"
  from=$module
  module_of "$found"
  to=$module
  if [ -z "${level[$from]-}" ] || [ -z "${level[$to]-}" ]; then
    complain "$file:$line" "includes $name: \"$from\" or \"$to\" has no layer here"
  elif [[ $file == include/* && $found != include/* ]]; then
    complain "$file:$line" "a public header includes $name, which is not installed"
  elif [[ $from =~ ^(examples|python)$ && $found != include/* && $found != "$from"/* ]]; then
    complain "$file:$line" "$from includes $name, which is not public"
  elif [ "$from" != "$to" ] && [ "${level[$to]}" -ge "${level[$from]}" ] &&
    [[ $allowed != *" $from:$to "* ]]; then
    complain "$file:$line" "$from includes $name of $to, which is not below it"
  elif [[ $from == query && $file == src/query/* && $found == src/query/* ]]; then
    check_query_include "$file" "$line" "$name"
  fi
}

folders=()
for folder in include src workloads tools bench examples python tests; do
  [ ! -d $folder ] || folders+=($folder)
done
includes=0
while IFS=: read -r file line text; do
  [[ $text =~ [\"\<]([^\">]+)[\"\>] ]] || continue
  check_include "$file" "$line" "${BASH_REMATCH[1]}"
  includes=$((includes + 1))
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "${folders[@]}" \
  --include='*.[ch]' --include='*.cu' --include='*.cuh')

if [ $violations -gt 0 ]; then
  echo "layers: $violations violations" >&2
  exit 1
fi
echo "layers: $includes includes keep to them"
