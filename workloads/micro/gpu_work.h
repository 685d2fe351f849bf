/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workloads over arrays on a GPU: adding two vectors, a sum, a prefix sum, and accesses in
 * patterns.
 *
 *	struct fth_gpu_work_options opts = FTH_GPU_WORK_OPTIONS_INIT;
 *	struct fth_gpu_work *work;
 *
 *	fth_gpu_work_open(&opts, &work);			(before the drive is opened)
 *	...
 *	a = fth_gpu_source_cached(&array);
 *	rc = fth_gpu_reduce(work, &a, &sum);
 *
 * Each takes its arrays through a cache (fathom/gpu/cache.h) or plainly in memory that kernels
 * reach: of the GPU, or of the host (zero copy). The kernels are the same, so that one says what
 * the other costs. Warps take chunks of lines in turn, bring in all lines of a chunk at once, and
 * then work on them.
 *
 * In fathom_cuda_workloads. One thread at a time uses a fth_gpu_work. Functions return 0 or a
 * negative errno with a text; a workload waits until its kernel has ended, and the waits inside
 * that end by the cache's timeout.
 */
#ifndef FTH_WORKLOADS_GPU_WORK_H
#define FTH_WORKLOADS_GPU_WORK_H

#include "fathom/base/rng.h"
#include "fathom/gpu/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* what cudaStream_t points to */

/* ---- where an array is ---- */

struct fth_gpu_source {
	struct fth_gpu_array_base array; /* if plain is NULL */
	void *plain;			 /* as kernels see it, at a multiple of 16 */
	uint64_t count;			 /* elements */
	uint32_t element;		 /* bytes of one; all workloads want 8 */
	uint32_t line; /* bytes that a warp works on at a time, a power of two >= 512 */
};

static inline struct fth_gpu_source fth_gpu_source_cached(const struct fth_gpu_array_base *array)
{
	struct fth_gpu_source source = {*array, NULL, array->count, 1u << array->element_shift,
					1u << array->line_shift};

	return source;
}

static inline struct fth_gpu_source fth_gpu_source_plain(void *plain, uint64_t count,
							 uint32_t element, uint32_t line)
{
	struct fth_gpu_source source = {
		{NULL, NULL, 0, NULL, 0, 0, 0, 0}, plain, count, element, line};

	return source;
}

/* ---- what all workloads need ---- */

#define FTH_GPU_WORK_THREADS 256u /* of a block */
#define FTH_GPU_AHEAD_MAX    32u

struct fth_gpu_work_options {
	uint32_t blocks; /* of a kernel; 0: two for each processor; 8 for each at most */
	/*
	 * Lines of each array that a warp works on at once, 1 to 32; if two arrays are read, 16 at
	 * most. It brings in those that it reads, all together, and claims those that it overwrites
	 * (fathom/gpu/claim.h). A cache should hold twice what all warps work on; with less than
	 * that there may be no frame for someone: -ENOBUFS.
	 */
	uint32_t ahead;
	uint64_t chunks;     /* that a prefix sum has at most; each takes 24 bytes */
	uint32_t timeout_ms; /* for a chunk of a prefix sum to wait for those before it */
};
#define FTH_GPU_WORK_OPTIONS_INIT                \
	{                                        \
		0, 16, (uint64_t)1 << 20, 10000u \
	}

struct fth_gpu_work;

/* Allocates GPU memory: call it while no drive runs. */
int fth_gpu_work_open(const struct fth_gpu_work_options *opts, struct fth_gpu_work **out);

/* Frees it: likewise. NULL is allowed. */
int fth_gpu_work_close(struct fth_gpu_work *work);

/* Other numbers for the next kernels; zeros leave what was. */
int fth_gpu_work_tune(struct fth_gpu_work *work, uint32_t blocks, uint32_t ahead);

/* Kernels that use arrays through a cache, for their registers. */
enum fth_gpu_work_kernel {
	FTH_GPU_WORK_ADD,
	FTH_GPU_WORK_REDUCE,
	FTH_GPU_WORK_SCAN,
	FTH_GPU_WORK_PATTERN,
	FTH_GPU_WORK_TAXI,
	FTH_GPU_WORK_KERNELS
};

const char *fth_gpu_work_kernel_name(enum fth_gpu_work_kernel kernel);

/* Registers per thread, or a negative errno. */
int fth_gpu_work_registers(enum fth_gpu_work_kernel kernel);

/* ---- workloads ---- */

/*
 * c = a + b, doubles, as fth_vectoradd_run(). All have as many elements and the same line; through
 * caches, a and b are in one, and c is neither of them. No line of c is read that is overwritten
 * whole. Much of c may still be dirty: flush its cache. After an error, what is in c has no
 * meaning.
 */
int fth_gpu_vector_add(struct fth_gpu_work *work, const struct fth_gpu_source *a,
		       const struct fth_gpu_source *b, const struct fth_gpu_source *c);

/* The sum of all elements, uint64_t, modulo 2^64. */
int fth_gpu_reduce(struct fth_gpu_work *work, const struct fth_gpu_source *a, uint64_t *sum);

/*
 * Element i of `to` becomes the sum of elements 0 to i of `from`, uint64_t, modulo 2^64. One pass:
 * a chunk's sum is told as soon as it is known, and a chunk adds up those before it (D. Merrill and
 * M. Garland, Single-pass parallel prefix scan with decoupled look-back, 2016). Through caches they
 * are two arrays. -ENOSPC for more chunks than the options allowed. After an error, what is in `to`
 * has no meaning.
 */
int fth_gpu_scan(struct fth_gpu_work *work, const struct fth_gpu_source *from,
		 const struct fth_gpu_source *to);

enum fth_gpu_pattern {
	FTH_GPU_SEQUENTIAL,
	FTH_GPU_STRIDED,
	FTH_GPU_UNIFORM,
	FTH_GPU_ZIPF, /* the more often the smaller the rank, about 1/rank, and ranks anywhere */
	FTH_GPU_PATTERNS
};

struct fth_gpu_accesses {
	enum fth_gpu_pattern pattern;
	uint64_t n;	 /* accesses, neighbouring ones by neighbouring lanes */
	uint64_t count;	 /* elements that are chosen from, the first ones */
	uint64_t stride; /* elements; divides count */
	uint64_t seed;
};

/* Which element access j is to. */
FTH_HD uint64_t fth_gpu_access_index(const struct fth_gpu_accesses *accesses, uint64_t j)
{
	struct fth_rng rng = {accesses->seed + (j << 4)};
	uint64_t rows, bits = 0, rank;

	switch (accesses->pattern) {
	case FTH_GPU_SEQUENTIAL:
		return j < accesses->count ? j : j % accesses->count;
	case FTH_GPU_STRIDED:
		rows = accesses->count / accesses->stride;
		return j % rows * accesses->stride + j / rows % accesses->stride;
	case FTH_GPU_UNIFORM:
		return fth_rng_below(&rng, accesses->count);
	default:
		/* Every octave of ranks is as likely; without logarithms all machines agree. */
		while (accesses->count >> (bits + 1))
			bits++;
		bits = fth_rng_below(&rng, bits + 1);
		rank = ((uint64_t)1 << bits) + fth_rng_below(&rng, (uint64_t)1 << bits) - 1;
		rng.state = rank;
		return fth_rng_below(&rng, accesses->count);
	}
}

/* Read elements, uint64_t: *sum is that of (element ^ j) over all accesses j. */
int fth_gpu_access_run(struct fth_gpu_work *work, const struct fth_gpu_source *a,
		       const struct fth_gpu_accesses *accesses, uint64_t *sum);

#ifdef __cplusplus
}
#endif
#endif
