#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# types_test.sh: a pointer to another type than the array's does not compile; the right one does,
# without a warning.
set -eu

compile() {
  printf '%s\n' '#include "fathom/array.h"' 'typedef FTH_ARRAY(uint64_t) u64_array;' \
    'int f(u64_array a, const uint64_t *at, uint64_t *u64, uint32_t *u32, double *d);' \
    'int f(u64_array a, const uint64_t *at, uint64_t *u64, uint32_t *u32, double *d)' \
    "{ FTH_CURSOR(uint64_t) c = {0}; FTH_CURSOR(float) c2 = {0}; (void)at; (void)u64; (void)u32;" \
    "(void)d; (void)c; (void)c2; (void)a; return $1; }" |
    ${CC:-cc} -x c -std=gnu11 -Wall -Wextra -Werror -Iinclude -fsyntax-only - 2>/dev/null
}

fail() {
  echo "types_test: $*" >&2
  exit 1
}

right=('fth_get(a, 1, u64)' 'fth_set(a, 1, *u32)' 'fth_read(a, 0, 2, u64)' 'fth_write(a, 0, 2, u64)'
  'fth_fill(a, 0, 2, 5)' 'fth_gather(a, at, 1, u64)' 'fth_scatter(a, at, 1, u64)'
  '(fth_start(&c, a, FTH_CACHE_READ), fth_cursor_get(&c, 0, u64))' 'fth_cursor_set(&c, 0, *u32)')
wrong=('fth_get(a, 1, u32)' 'fth_get(a, 1, d)' 'fth_set(a, 1, u64)' 'fth_read(a, 0, 2, u32)'
  'fth_write(a, 0, 2, d)' 'fth_fill(a, 0, 2, u64)' 'fth_gather(a, at, 1, u32)'
  'fth_gather(a, u32, 1, u64)' 'fth_scatter(a, at, 1, d)'
  '(fth_start(&c2, a, FTH_CACHE_READ), 0)' 'fth_cursor_get(&c, 0, u32)'
  'fth_cursor_set(&c, 0, d)')

for call in "${right[@]}"; do
  compile "$call" || fail "does not compile: $call"
done
for call in "${wrong[@]}"; do
  ! compile "$call" || fail "compiles, and should not: $call"
done
echo "types_test: passed, ${#right[@]} right and ${#wrong[@]} wrong"
