#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The layer check finds each kind of violation, and nothing else.
set -eu
check=$PWD/scripts/check-layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

fail() {
  echo "layers_test: $*" >&2
  exit 1
}

# put FILE INCLUDED: the file exists and includes that (nothing if empty).
put() {
  [ -d "$tree/${1%/*}" ] || mkdir -p "$tree/${1%/*}"
  : >>"$tree/$1"
  [ -z "$2" ] || printf '#include "%s"\n' "$2" >>"$tree/$1"
}

fresh_tree() {
  rm -rf "${tree:?}"/*
  put include/fathom/hd.h ""
  put include/fathom/base/error.h fathom/hd.h
  put include/fathom/dev.h fathom/base/error.h
  put src/dev/inside.h fathom/dev.h
  put src/dev/dev.c inside.h
  put src/nvme/queue.c dev/inside.h
  put src/vol/label.h ""
  put src/dev/dev_test.c vol/label.h
  put src/dev/dev_fixture.h fth_test.h
  put src/dev/dev_test.c dev_fixture.h
  put src/schemes.c vol/label.h
  put src/query/mem/qmem.h fathom/base/error.h
  put src/query/vec/vec.h query/mem/qmem.h
  put src/query/sql/tree.h query/vec/vec.h
  put src/query/task/task.h query/vec/vec.h
  put src/query/plan/plan.c query/sql/tree.h
  put src/query/plan/plan.c query/task/task.h
  put src/query/open.c query/task/task.h
  put workloads/taxi/taxi.h dev/inside.h
  put bench/bench.c workloads/taxi/taxi.h
  put src/dev/dev_test.c workloads/taxi/taxi.h
  put tests/fth_test.h ""
  put tools/common/cli.h ""
  put tools/tool.h cli.h
  put bench/bench.c cli.h
  put examples/example.c fathom/dev.h
}

refuses() {
  fresh_tree
  put "$1" "$2"
  ! "$check" "$tree" >"$tree/out" 2>&1 || fail "$1 may include $2"
  grep -q "^$1:[0-9]*: " "$tree/out" || fail "$1 is not named: $(cat "$tree/out")"
}

fresh_tree
"$check" "$tree" >"$tree/out" 2>&1 || fail "a good tree is refused: $(cat "$tree/out")"

refuses src/base/error.c fathom/dev.h         # upward
refuses src/base/error.c dev/inside.h         # upward, a private header
refuses src/base/error.c ../dev/inside.h      # upward, by path
refuses include/fathom/base/error.h fathom/dev.h
refuses src/nvme/queue.c vol/label.h          # sideways
refuses src/vol/vol.c ../nvme/../nvme/queue.c # sideways, by a winding path
refuses src/dev/dev.c fth_test.h              # the library includes the tests
refuses src/schemes.c workloads/taxi/taxi.h   # the library includes a workload
refuses examples/example.c workloads/taxi/taxi.h # an example does, too
refuses tools/tool.h workloads/taxi/taxi.h    # the tool does
refuses workloads/taxi/taxi.h tool.h          # a workload includes the tool
refuses src/dev/dev.c dev_fixture.h           # or what they share
refuses src/dev/dev.c cli.h                   # the library includes the tool
refuses bench/bench.c tool.h                  # a benchmark includes the tool
refuses tools/common/cli.c tool.h             # what both share includes one of them
refuses include/fathom/dev.h dev/inside.h     # a public header includes a private one
refuses examples/example.c dev/inside.h       # an example includes a private one
refuses src/query/mem/qmem.c query/vec/vec.h   # upward inside query
refuses src/query/task/run.c query/sql/tree.h # sideways inside query
refuses src/query/nosuch/a.c query/mem/qmem.h # a part of query without a layer
refuses src/nosuch/a.c fathom/dev.h           # a module without a layer
echo "layers_test: every violation was found"
