/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain memory that kernels use like an array: pinned host memory, which every access reads over
 * PCIe (zero copy), or GPU memory. It is the baseline for arrays in a cache: a kernel that is a
 * template over the type of its array runs on both.
 *
 *	template <typename A> __global__ void sum(A a, uint64_t *total)
 *	{
 *		uint64_t i = blockIdx.x * blockDim.x + threadIdx.x, v = 0;
 *		int rc = fth_gpu_get(a, i, &v);
 *		...
 *
 *	cudaHostAlloc(&memory, bytes, cudaHostAllocMapped);
 *	sum<<<...>>>(fth_gpu_direct_of<uint64_t>(memory, bytes, 4096), total);
 *
 * The functions for kernels have the names and meanings of fathom/gpu/array.h. There is nothing to
 * fetch, so prefetch does nothing and lines keep their place. There are no atomics: over PCIe they
 * would not be atomic towards the host.
 */
#ifndef FATHOM_GPU_DIRECT_H
#define FATHOM_GPU_DIRECT_H

#include "fathom/gpu/cache.h"

#ifdef __cplusplus
/* A typed handle of plain memory, which kernels take by value. Valid as long as the memory. */
template <typename T> struct fth_gpu_direct {
	typedef T element;
	T *data;
	uint64_t count; /* elements */
	uint32_t line_shift;
	uint32_t readonly;
};

/*
 * `bytes` of memory that kernels can reach, at a multiple of 16, in lines of a power of two bytes.
 */
template <typename T>
static inline fth_gpu_direct<T> fth_gpu_direct_of(void *memory, uint64_t bytes, uint32_t line)
{
	fth_gpu_direct<T> a = {(T *)memory, bytes / sizeof(T), 0, 0};

	while ((1u << a.line_shift) < line)
		a.line_shift++;
	return a;
}
#endif

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

#include "fathom/gpu/array.h"

/* Get element i. */
template <typename T>
FTH_GPU int fth_gpu_get(const fth_gpu_direct<T> &a, uint64_t i,
			typename fth_gpu_same_<T>::type *out)
{
	if (i >= a.count)
		return -ERANGE;
	*out = a.data[i];
	return 0;
}

/* Set element i. */
template <typename T>
FTH_GPU int fth_gpu_set(const fth_gpu_direct<T> &a, uint64_t i,
			typename fth_gpu_same_<T>::type value)
{
	if (i >= a.count)
		return -ERANGE;
	if (a.readonly)
		return -EROFS;
	a.data[i] = value;
	return 0;
}

/* Does nothing but check the index: 0 or -ERANGE. */
template <typename T> FTH_GPU int fth_gpu_prefetch(const fth_gpu_direct<T> &a, uint64_t i)
{
	return i >= a.count ? -ERANGE : 0;
}

/* Reset the cursor. There is nothing to unpin. */
template <typename T>
FTH_GPU void fth_gpu_cursor_close(const fth_gpu_direct<T> &a, struct fth_gpu_cursor *cursor,
				  enum fth_gpu_mode mode)
{
	(void)a;
	(void)mode;
	cursor->line = FTH_GPU_NO_LINE;
}

/* The address of a line. NULL with *rc set to -ERANGE or -EROFS, otherwise *rc is 0. */
template <typename T>
FTH_GPU T *fth_gpu_cursor_line(const fth_gpu_direct<T> &a, struct fth_gpu_cursor *cursor,
			       uint64_t line, enum fth_gpu_mode mode, int *rc)
{
	uint32_t shift = a.line_shift - fth_gpu_shift_<T>();
	uint64_t lines = (a.count + ((uint64_t)1 << shift) - 1) >> shift;

	*rc = line >= lines ? -ERANGE : mode != FTH_GPU_READ && a.readonly ? -EROFS : 0;
	if (*rc < 0)
		return NULL;
	cursor->line = line;
	return a.data + (line << shift);
}

template <typename T>
FTH_GPU int fth_gpu_direct_check_(const fth_gpu_direct<T> &a, uint64_t first, uint64_t n,
				  bool write)
{
	if (first > a.count || n > a.count - first)
		return -ERANGE;
	return write && a.readonly ? -EROFS : 0;
}

/* All bytes of a run, thread `me` of `threads`; 16 bytes each where both sides allow it. */
FTH_GPU void fth_gpu_direct_copy_(void *target, const void *source, uint64_t bytes, uint32_t me,
				  uint32_t threads)
{
	const uint8_t *from = (const uint8_t *)source;
	uint8_t *to = (uint8_t *)target;

	if ((((uint64_t)to | (uint64_t)from | bytes) & 15) == 0) {
		for (uint64_t k = 16 * me; k < bytes; k += 16 * threads)
			*(uint4 *)(to + k) = *(const uint4 *)(from + k);
	} else {
		for (uint64_t k = me; k < bytes; k += threads)
			to[k] = from[k];
	}
}

/* A warp copies elements [first, first + n) to `out`. All 32 lanes call with the same arguments. */
template <typename T>
FTH_GPU int fth_gpu_warp_read(const fth_gpu_direct<T> &a, uint64_t first, uint64_t n,
			      typename fth_gpu_same_<T>::type *out)
{
	int rc = fth_gpu_direct_check_(a, first, n, false);

	if (rc == 0)
		fth_gpu_direct_copy_(out, a.data + first, n * sizeof(T), fth_warp_lane(), 32);
	return rc;
}

/* A warp stores elements [first, first + n). All 32 lanes call with the same arguments. */
template <typename T>
FTH_GPU int fth_gpu_warp_write(const fth_gpu_direct<T> &a, uint64_t first, uint64_t n,
			       const typename fth_gpu_same_<T>::type *values)
{
	int rc = fth_gpu_direct_check_(a, first, n, true);

	if (rc == 0)
		fth_gpu_direct_copy_(a.data + first, values, n * sizeof(T), fth_warp_lane(), 32);
	return rc;
}

#ifdef __CUDACC__
/*
 * The same by a block of whole warps. All threads of the block call, and return when all are done.
 */
template <typename T>
FTH_GPU int fth_gpu_block_read(const fth_gpu_direct<T> &a, uint64_t first, uint64_t n,
			       typename fth_gpu_same_<T>::type *out)
{
	int rc = fth_gpu_direct_check_(a, first, n, false);

	if (rc == 0)
		fth_gpu_direct_copy_(out, a.data + first, n * sizeof(T), fth_gpu_thread_(),
				     fth_gpu_threads_());
	__syncthreads();
	return rc;
}

/* The write of a block of whole warps, as fth_gpu_block_read(). */
template <typename T>
FTH_GPU int fth_gpu_block_write(const fth_gpu_direct<T> &a, uint64_t first, uint64_t n,
				const typename fth_gpu_same_<T>::type *values)
{
	int rc = fth_gpu_direct_check_(a, first, n, true);

	if (rc == 0)
		fth_gpu_direct_copy_(a.data + first, values, n * sizeof(T), fth_gpu_thread_(),
				     fth_gpu_threads_());
	__syncthreads();
	return rc;
}
#endif

#endif
#endif
