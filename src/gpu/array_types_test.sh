#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Handles of GPU arrays have the type of their elements: what does not match does not compile. Works
# on the device code as CPU threads run it, so it needs no nvcc.
set -eu
cxx=${CXX:-c++}

# compiles STATEMENT: in a function that has an array of uint32_t, one without a type, and memory
compiles() {
  printf '#include "gpu/warp_fixture.h"\n#include "fathom/gpu/%s.h"\n' array claim direct look |
    awk '!seen[$0]++' >"$work/one.cpp"
  cat >>"$work/one.cpp" <<EOF
int one(fth_gpu_array<uint32_t> a, fth_gpu_direct<uint32_t> d, struct fth_gpu_array_base untyped,
	struct fth_gpu_cache *cache, uint32_t *narrow, uint64_t *wide);
int one(fth_gpu_array<uint32_t> a, fth_gpu_direct<uint32_t> d, struct fth_gpu_array_base untyped,
	struct fth_gpu_cache *cache, uint32_t *narrow, uint64_t *wide)
{
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	struct fth_gpu_look look = fth_gpu_look_open();
	struct fth_gpu_claim claim = {};
	fth_gpu_array<uint64_t> other;
	int rc = 0;
	(void)a, (void)d, (void)untyped, (void)cache, (void)narrow, (void)wide, (void)cursor;
	(void)look, (void)claim, (void)other;
	$1;
	return rc;
}
EOF
  $cxx -std=c++17 -Wall -Wextra -Werror -Wno-unused-function -D_GNU_SOURCE -Iinclude -Isrc \
    -fsyntax-only "$work/one.cpp" 2>"$work/said"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each line compiles as it is, and does not with `wide` or `other` in place of `narrow` and `a`.
right=(
  'rc = fth_gpu_get(a, 1, narrow)'
  'rc = fth_gpu_set(a, 1, 2)'
  'rc = fth_gpu_add(a, 1, 2, narrow)'
  'rc = fth_gpu_add(a, 1, 2, NULL)'
  'rc = fth_gpu_xor(a, 1, 2, narrow)'
  'rc = fth_gpu_min(a, 1, 2, narrow)'
  'rc = fth_gpu_cas(a, 1, narrow, 2)'
  'rc = fth_gpu_warp_read(a, 1, 2, narrow)'
  'rc = fth_gpu_warp_write(a, 1, 2, narrow)'
  'narrow = fth_gpu_cursor_line(a, &cursor, 1, FTH_GPU_READ, &rc)'
  'const uint32_t *at = fth_gpu_look_line(a, &look, 1, &rc); (void)at'
  'narrow = fth_gpu_claim_data(a, claim, 1)'
  'rc = fth_gpu_get(d, 1, narrow)'
  'rc = fth_gpu_warp_read(d, 1, 2, narrow)'
  'rc = fth_gpu_array_wrap(untyped, &a)'
  'rc = fth_gpu_array_open(cache, NULL, &a)'
)
wrong=(
  'rc = fth_gpu_get(a, 1, wide)'
  'rc = fth_gpu_get<uint64_t>(a, 1, wide)'
  'rc = fth_gpu_get(untyped, 1, narrow)'
  'rc = fth_gpu_add(a, 1, 2, wide)'
  'rc = fth_gpu_xor(a, 1, 2, wide)'
  'rc = fth_gpu_min(a, 1, 2, wide)'
  'rc = fth_gpu_cas(a, 1, wide, 2)'
  'rc = fth_gpu_warp_read(a, 1, 2, wide)'
  'rc = fth_gpu_warp_write(a, 1, 2, wide)'
  'wide = fth_gpu_cursor_line(a, &cursor, 1, FTH_GPU_READ, &rc)'
  'const uint64_t *at = fth_gpu_look_line(a, &look, 1, &rc); (void)at'
  'wide = fth_gpu_claim_data(a, claim, 1)'
  'rc = fth_gpu_get(d, 1, wide)'
  'rc = fth_gpu_warp_read(d, 1, 2, wide)'
  'other = a'
  'rc = fth_gpu_cache_array(cache, 8, NULL, &a)'
  'fth_gpu_array<char[3]> odd; (void)odd'
)
for statement in "${right[@]}"; do
  compiles "$statement" || {
    echo "array_types_test: does not compile: $statement" >&2
    cat "$work/said" >&2
    exit 1
  }
done
for statement in "${wrong[@]}"; do
  ! compiles "$statement" || {
    echo "array_types_test: compiles: $statement" >&2
    exit 1
  }
done
echo "array_types_test: ${#right[@]} statements compile, ${#wrong[@]} do not"
