#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# check-headers.sh: every public header compiles alone, twice in a row, as C11 and as C++17; the
# ones for GPUs (they say FTH_HD, FTH_GPU or FTH_WARP) also as CUDA, where nvcc is present.
#
# check-headers.sh LANGUAGE HEADER does one; the script calls itself so, several at a time.
set -eu
cd "$(dirname "$0")/.."
self=scripts/check-headers.sh
strict=(-Wall -Wextra -Werror -pedantic -D_POSIX_C_SOURCE=200809L -Iinclude -fsyntax-only)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)

# With a declaration, since ISO C wants one and a header may have macros only.
twice() {
  printf '#include "%s"\n#include "%s"\nextern int header;\n' "$1" "$1"
}

# 177: a static function that this file does not call. Every file calls few of the shared ones.
as_cuda() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  twice "$1" >"$work/alone.cu"
  "$nvcc" -std=c++17 -arch=sm_90 -Iinclude -Werror all-warnings -diag-suppress 177 \
    -Xcompiler -Wall,-Wextra,-Werror -c "$work/alone.cu" -o "$work/alone.o"
}

one() {
  case $1 in
  C11) twice "$2" | ${CC:-cc} -x c -std=c11 "${strict[@]}" - ;;
  C++17) twice "$2" | ${CXX:-c++} -x c++ -std=c++17 "${strict[@]}" - ;;
  CUDA) as_cuda "$2" ;;
  esac
}

# all LANGUAGE HEADER...
all() {
  local language=$1
  shift
  printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 $self "$language"
  echo "headers: $# compile alone as $language"
}

if [ $# -eq 2 ]; then
  one "$1" "$2" || {
    echo "headers: $2 does not compile alone as $1" >&2
    exit 1
  }
  exit 0
fi

mapfile -t headers < <(cd include && find . -name '*.h' | sed 's|^./||' | sort)
all C11 "${headers[@]}"
all C++17 "${headers[@]}"
if [ ! -x "$nvcc" ]; then
  echo "headers: none compiled as CUDA, nvcc is not here"
  exit 0
fi
mapfile -t shared < <(cd include && grep -lwE 'FTH_(HD|GPU|WARP)' "${headers[@]}")
all CUDA "${shared[@]}"
