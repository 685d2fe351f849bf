/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines and elements for the kernels of the GPU workloads, with one set of names for arrays through
 * a cache and for plain memory. Looks and claims have the names of fathom/gpu/look.h and claim.h.
 * Whole warps call, all 32 lanes together: what a warp lacks is fetched by one call of all its
 * lanes, never by those alone that miss.
 */
#ifndef FTH_WORKLOADS_GPU_LINES_H
#define FTH_WORKLOADS_GPU_LINES_H

#include "workloads/micro/gpu_work.h"
#include "fathom/gpu/array.h"
#include "fathom/gpu/claim.h"
#include "fathom/gpu/direct.h"
#include "fathom/gpu/look.h"

#define ALL ~0u

/* ---- plain memory ---- */

template <typename T> FTH_GPU int lines_bring(const fth_gpu_direct<T> &, uint64_t)
{
	return 0;
}

template <typename T>
FTH_GPU struct fth_gpu_pin lines_pin(const fth_gpu_direct<T> &a, uint64_t line, enum fth_gpu_mode)
{
	struct fth_gpu_pin pin = {(uint8_t *)a.data + (line << a.line_shift), 0, 0};

	return pin;
}

template <typename T>
FTH_GPU void lines_unpin(const fth_gpu_direct<T> &, uint64_t, struct fth_gpu_pin, bool)
{
}

/* Lines keep their place: every look is good, and nothing needs to be claimed. */

template <typename T>
FTH_GPU const T *fth_gpu_look_line(const fth_gpu_direct<T> &a, struct fth_gpu_look *, uint64_t line,
				   int *)
{
	return (const T *)((const uint8_t *)a.data + (line << a.line_shift));
}

template <typename T>
FTH_GPU bool fth_gpu_look_good(const fth_gpu_direct<T> &, const struct fth_gpu_look &)
{
	return true;
}

template <typename T>
FTH_GPU const T *fth_gpu_look_hold(const fth_gpu_direct<T> &, struct fth_gpu_look *, int *)
{
	return NULL; /* never called: all looks are good */
}

template <typename T>
FTH_GPU void fth_gpu_look_close(const fth_gpu_direct<T> &, struct fth_gpu_look *)
{
}

template <typename T>
FTH_GPU struct fth_gpu_claim fth_gpu_claim_lines(const fth_gpu_direct<T> &, uint64_t, uint32_t)
{
	struct fth_gpu_claim none = {FTH_GPU_NO_FRAME, 0};

	return none;
}

template <typename T>
FTH_GPU T *fth_gpu_claim_data(const fth_gpu_direct<T> &, struct fth_gpu_claim, uint32_t)
{
	return NULL;
}

template <typename T>
FTH_GPU void fth_gpu_claim_give(const fth_gpu_direct<T> &, uint64_t, struct fth_gpu_claim, uint32_t)
{
}

template <typename T> FTH_GPU int lines_flush(const fth_gpu_direct<T> &)
{
	return 0;
}

template <typename T> FTH_GPU int lines_get(const fth_gpu_direct<T> &a, uint64_t i, T *out)
{
	*out = a.data[i];
	return 0;
}

/* Load one or more elements of a line of plain memory. */
template <typename T, typename V> FTH_GPU V lines_load(const fth_gpu_direct<T> &, const V *at)
{
	return *at;
}

/* ---- through a cache ---- */

/* Of a line that is looked at. */
template <typename T, typename V> FTH_GPU V lines_load(const fth_gpu_array<T> &, const V *at)
{
	return fth_gpu_look_load(at);
}

/* Bring in a line for each lane, all at once. Nothing stays pinned. */
template <typename T> FTH_GPU int lines_bring(const fth_gpu_array<T> &a, uint64_t line)
{
	__syncwarp();
	return FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, line << a.line_shift,
					     FTH_GPU_OP_PREFETCH, 0, 0, 0)
		.rc;
}

template <typename T>
FTH_GPU struct fth_gpu_pin lines_pin(const fth_gpu_array<T> &a, uint64_t line,
				     enum fth_gpu_mode mode)
{
	return FTH_GPU_FAR_(fth_gpu_pin_)(a.cache, ALL, a.range, line, mode);
}

template <typename T>
FTH_GPU void lines_unpin(const fth_gpu_array<T> &a, uint64_t line, struct fth_gpu_pin pin,
			 bool changed)
{
	FTH_GPU_FAR_(fth_gpu_unpin_)(a.cache, ALL, a.range, line, pin, changed);
}

/* This warp's part of a flush of all that is dirty. */
template <typename T> FTH_GPU int lines_flush(const fth_gpu_array<T> &a)
{
	uint32_t warps = gridDim.x * (blockDim.x / 32);

	return FTH_GPU_FAR_(fth_gpu_flush_part)(a.cache, fth_gpu_warp_(), warps);
}

/* Element i, within the array, of each lane. If one lane misses all go the way of a miss. */
template <typename T> FTH_GPU int lines_get(const fth_gpu_array<T> &a, uint64_t i, T *out)
{
	uint64_t byte = i * sizeof(T);
	struct fth_gpu_value value;

	if (__all_sync(ALL, fth_gpu_try_get_(a, byte, out)))
		return 0;
	value = FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, byte, FTH_GPU_OP_GET, sizeof(T), 0,
					      0);
	*out = fth_gpu_from_bits_<T>(value.bits);
	return value.rc;
}

/* ---- both ---- */

/* A line whose first n elements of 8 bytes will be written. */
template <class A> FTH_GPU struct fth_gpu_pin lines_pin_out(const A &to, uint64_t line, uint32_t n)
{
	/* What is not overwritten whole is brought in: behind our end there is something else. */
	return lines_pin(to, line, n << 3 >> to.line_shift ? FTH_GPU_OVERWRITE : FTH_GPU_WRITE);
}

/* ---- chunks ---- */

/* What the warps of a kernel share, in GPU memory; cleared before it starts. */
struct work_state {
	unsigned long long next; /* chunk */
	unsigned long long failed;
	int rc; /* of one that failed */
	unsigned long long sum;
};

/* The next chunk, the same in all lanes. */
FTH_GPU uint64_t chunk_take(struct work_state *state)
{
	unsigned long long chunk = 0;

	if (fth_warp_lane() == 0)
		chunk = atomicAdd(&state->next, 1);
	__syncwarp();
	return __shfl_sync(ALL, chunk, 0);
}

/* One error of a warp, for all its lanes. */
FTH_GPU int chunk_worst(int rc)
{
	__syncwarp();
	return __reduce_min_sync(ALL, rc);
}

FTH_GPU void chunk_tell(struct work_state *state, int rc)
{
	if (rc < 0 && fth_warp_lane() == 0) {
		atomicAdd(&state->failed, 1);
		state->rc = rc;
	}
}

FTH_GPU uint64_t chunk_sum(uint64_t value)
{
	for (uint32_t step = 16; step; step /= 2)
		value += __shfl_xor_sync(ALL, value, (int)step);
	return value;
}

/* Lines of an array of elements of 8 bytes. */
template <class A> FTH_GPU uint64_t lines_of(const A &a)
{
	uint32_t shift = a.line_shift - 3;

	return (a.count + (1u << shift) - 1) >> shift;
}

/* Elements of a line that are in the array: all of them but for the last line. */
template <class A> FTH_GPU uint32_t elements_of(const A &a, uint64_t line)
{
	uint32_t each = 1u << (a.line_shift - 3);
	uint64_t left = a.count - (line << (a.line_shift - 3));

	return left < each ? (uint32_t)left : each;
}

/* Bring in the first `ahead` lines of a chunk, those after the last as the last once more. */
template <class A> FTH_GPU int chunk_bring(const A &a, uint64_t first, uint32_t n)
{
	uint32_t lane = fth_warp_lane();

	return chunk_worst(n > 1 ? lines_bring(a, first + (lane < n ? lane : n - 1)) : 0);
}

/* ---- sums ---- */

template <class A> FTH_GPU uint64_t sum_elements(const A &a, const uint64_t *data, uint32_t n)
{
	uint64_t sum = 0;

#pragma unroll 4
	for (uint32_t k = 2 * fth_warp_lane(); k < n; k += 64) {
		ulonglong2 v = lines_load(a, (const ulonglong2 *)data + k / 2);

		sum += v.x + (k + 1 < n ? v.y : 0);
	}
	return sum;
}

/* Add this lane's elements of a line. */
template <class A> FTH_GPU int sum_line(const A &a, uint64_t line, uint64_t *sum)
{
	struct fth_gpu_look look = fth_gpu_look_open();
	int rc = 0;
	const uint64_t *data = fth_gpu_look_line(a, &look, line, &rc);

	while (data) {
		uint64_t mine = sum_elements(a, data, elements_of(a, line));

		if (fth_gpu_look_good(a, look)) {
			fth_gpu_look_close(a, &look);
			*sum += mine;
			return 0;
		}
		data = fth_gpu_look_hold(a, &look, &rc);
	}
	return rc;
}

#endif
