/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain memory as kernels see an array: host memory that is pinned, read over PCIe by every access
 * (zero copy), or GPU memory. The baseline that arrays in a cache are measured against: a kernel
 * that is a template over the type of its array runs on both, unchanged.
 *
 *	template <typename A> __global__ void sum(A a, uint64_t *total)
 *	{
 *		uint64_t i = blockIdx.x * blockDim.x + threadIdx.x, v = 0;
 *		int rc = fth_gpu_get(a, i, &v);
 *		...
 *
 *	fth_gpu_pinned_open_file("/data/a", true, &pinned);
 *	sum<<<...>>>(fth_gpu_direct_of(fth_gpu_pinned_mapped(pinned), bytes, 8, 4096), total);
 *
 * The functions for kernels are those of fathom/gpu/array.h with the same meaning; there is nothing
 * to fetch, so prefetch does nothing and lines stay where they are. Atomics are not offered: over
 * PCIe they would not be what they are in a cache.
 */
#ifndef FATHOM_GPU_DIRECT_H
#define FATHOM_GPU_DIRECT_H

#include "fathom/base/decls.h"
#include "fathom/gpu/cache.h"

FTH_BEGIN_DECLS

/* An array as kernels get it, by value. Good as long as its memory is. */
struct fth_gpu_direct {
	uint8_t *data;
	uint64_t count; /* elements */
	uint32_t line_shift;
	uint32_t element_shift;
	uint32_t readonly;
};

/*
 * `bytes` of memory that kernels can reach, seen as elements and lines of these sizes, powers of
 * two. A multiple of 16 bytes.
 */
static inline struct fth_gpu_direct fth_gpu_direct_of(void *memory, uint64_t bytes,
						      uint32_t element, uint32_t line)
{
	struct fth_gpu_direct a = {(uint8_t *)memory, 0, 0, 0, 0};

	while ((1u << a.element_shift) < element)
		a.element_shift++;
	while ((1u << a.line_shift) < line)
		a.line_shift++;
	a.count = bytes >> a.element_shift;
	return a;
}

/* ---- host memory for it ---- */

struct fth_gpu_pinned;

/*
 * Pin memory of the caller, who keeps it until close; NULL: allocated here, zeroed. -ENOMEM,
 * -EBUSY if CUDA knows it already, -EOPNOTSUPP without a GPU.
 */
int fth_gpu_pinned_open(void *memory, uint64_t bytes, struct fth_gpu_pinned **out);

/*
 * Pin all of a file. Its pages themselves, if the system lets CUDA have them; where it does not, a
 * copy that is made now, for reading only: -EOPNOTSUPP if it was to be written.
 */
int fth_gpu_pinned_open_file(const char *path, bool readonly, struct fth_gpu_pinned **out);

/* Where the host and where kernels see it; and its size. */
void *fth_gpu_pinned_memory(const struct fth_gpu_pinned *pinned);
void *fth_gpu_pinned_mapped(const struct fth_gpu_pinned *pinned);
uint64_t fth_gpu_pinned_bytes(const struct fth_gpu_pinned *pinned);

/* No kernel uses it any more. NULL is allowed. The first error, and all is released even so. */
int fth_gpu_pinned_close(struct fth_gpu_pinned *pinned);

FTH_END_DECLS

#ifdef __CUDACC__

#include "fathom/gpu/array.h"

/* Element i. T has the array's element size. */
template <typename T> FTH_GPU int fth_gpu_get(const struct fth_gpu_direct &a, uint64_t i, T *out)
{
	if (i >= a.count)
		return -ERANGE;
	*out = ((const T *)a.data)[i];
	return 0;
}

template <typename T> FTH_GPU int fth_gpu_set(const struct fth_gpu_direct &a, uint64_t i, T value)
{
	if (i >= a.count)
		return -ERANGE;
	if (a.readonly)
		return -EROFS;
	((T *)a.data)[i] = value;
	return 0;
}

FTH_GPU int fth_gpu_prefetch(const struct fth_gpu_direct &a, uint64_t i)
{
	return i >= a.count ? -ERANGE : 0;
}

FTH_GPU void fth_gpu_cursor_close(const struct fth_gpu_direct &a, struct fth_gpu_cursor *cursor,
				  enum fth_gpu_mode mode)
{
	(void)a;
	(void)mode;
	cursor->line = FTH_GPU_NO_LINE;
}

FTH_GPU uint8_t *fth_gpu_cursor_line(const struct fth_gpu_direct &a, struct fth_gpu_cursor *cursor,
				     uint64_t line, enum fth_gpu_mode mode, int *rc)
{
	uint32_t shift = a.line_shift - a.element_shift;
	uint64_t lines = (a.count + ((uint64_t)1 << shift) - 1) >> shift;

	*rc = line >= lines ? -ERANGE : mode != FTH_GPU_READ && a.readonly ? -EROFS : 0;
	if (*rc < 0)
		return NULL;
	cursor->line = line;
	return a.data + (line << a.line_shift);
}

FTH_GPU int fth_gpu_direct_check_(const struct fth_gpu_direct &a, uint64_t first, uint64_t n,
				  bool write)
{
	if (first > a.count || n > a.count - first)
		return -ERANGE;
	return write && a.readonly ? -EROFS : 0;
}

/* All bytes of a run, thread `me` of `threads`; 16 bytes each where both sides allow it. */
FTH_GPU void fth_gpu_direct_copy_(uint8_t *to, const uint8_t *from, uint64_t bytes, uint32_t me,
				  uint32_t threads)
{
	if ((((uint64_t)to | (uint64_t)from | bytes) & 15) == 0) {
		for (uint64_t k = 16 * me; k < bytes; k += 16 * threads)
			*(uint4 *)(to + k) = *(const uint4 *)(from + k);
	} else {
		for (uint64_t k = me; k < bytes; k += threads)
			to[k] = from[k];
	}
}

/* A warp copies elements [first, first + n); all 32 lanes call, with the same arguments. */
FTH_GPU int fth_gpu_warp_read(const struct fth_gpu_direct &a, uint64_t first, uint64_t n, void *out)
{
	int rc = fth_gpu_direct_check_(a, first, n, false);

	if (rc == 0)
		fth_gpu_direct_copy_((uint8_t *)out, a.data + (first << a.element_shift),
				     n << a.element_shift, fth_warp_lane(), 32);
	return rc;
}

FTH_GPU int fth_gpu_warp_write(const struct fth_gpu_direct &a, uint64_t first, uint64_t n,
			       const void *values)
{
	int rc = fth_gpu_direct_check_(a, first, n, true);

	if (rc == 0)
		fth_gpu_direct_copy_(a.data + (first << a.element_shift), (const uint8_t *)values,
				     n << a.element_shift, fth_warp_lane(), 32);
	return rc;
}

/* A block of whole warps does the same; all its threads call, and wait for all. */
FTH_GPU int fth_gpu_block_read(const struct fth_gpu_direct &a, uint64_t first, uint64_t n,
			       void *out)
{
	int rc = fth_gpu_direct_check_(a, first, n, false);

	if (rc == 0)
		fth_gpu_direct_copy_((uint8_t *)out, a.data + (first << a.element_shift),
				     n << a.element_shift, threadIdx.x, blockDim.x);
	__syncthreads();
	return rc;
}

FTH_GPU int fth_gpu_block_write(const struct fth_gpu_direct &a, uint64_t first, uint64_t n,
				const void *values)
{
	int rc = fth_gpu_direct_check_(a, first, n, true);

	if (rc == 0)
		fth_gpu_direct_copy_(a.data + (first << a.element_shift), (const uint8_t *)values,
				     n << a.element_shift, threadIdx.x, blockDim.x);
	__syncthreads();
	return rc;
}

#endif
#endif
