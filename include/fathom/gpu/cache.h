/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache in GPU memory, and arrays seen through it: kernels read and write data larger than the
 * GPU's memory, and bring in what is missing by themselves.
 *
 *	struct fth_gpu_cache_opts opts = FTH_GPU_CACHE_OPTS_INIT;
 *	struct fth_gpu_cache *cache;
 *	fth_gpu_array<uint64_t> a;
 *
 *	opts.bytes = (uint64_t)8 << 30;
 *	fth_gpu_cache_open(drive, &opts, &cache);
 *	fth_gpu_array_open(cache, NULL, &a);
 *	my_kernel<<<blocks, threads, 0, stream>>>(a, ...);	(see fathom/gpu/array.h)
 *	cudaStreamSynchronize(stream);
 *	fth_gpu_cache_flush(cache);
 *	fth_gpu_cache_close(cache);
 *
 * The cache's words and rules are those of fathom/hd/line.h: one word of 64 bits per line of every
 * array, and one per frame.
 *
 * In libfathom_cuda. A cache belongs to one host thread at a time, and lives on one drive, which
 * stays open longer. Functions return 0 or a negative errno and leave a text. Opening caches and
 * arrays, emptying and closing may stop the drive for a moment: no kernel may be using it.
 */
#ifndef FATHOM_GPU_CACHE_H
#define FATHOM_GPU_CACHE_H

#include "fathom/base/decls.h"
#include "fathom/gpu.h"
#include "fathom/hd/line.h"

#ifdef __cplusplus
#include <type_traits>
#endif

FTH_BEGIN_DECLS

#define FTH_GPU_LINE_MIN    512u
#define FTH_GPU_LINE_MAX    8192u
#define FTH_GPU_ARRAYS_MAX  64u
#define FTH_GPU_STAT_SHARDS 512u

/* ---- what kernels share with the host ---- */

/* Counted on the way of a miss only; those who read a hot line without a reference count nothing.
 */
enum fth_gpu_stat {
	FTH_GPU_MISSES,	   /* lines brought in, or overwritten without being brought in */
	FTH_GPU_MERGED,	   /* accesses, of one warp to one line, that waited for another's fetch */
	FTH_GPU_EVICTIONS, /* lines whose frame was taken */
	FTH_GPU_READS,	   /* lines read from the drive */
	FTH_GPU_WRITE_BACKS, /* lines written to it */
	FTH_GPU_ERRORS,	     /* accesses that failed */
	FTH_GPU_LOST_FRAMES, /* frames that a transfer without an end keeps from use */
	FTH_GPU_STAT_COUNT
};

/* An array's part of the drive. */
struct fth_gpu_range {
	uint64_t *words; /* per line */
	uint64_t lines;
	uint64_t first_block; /* of each SSD */
	uint32_t readonly;
	uint32_t replicated; /* every SSD has all of it; else line n is on SSD n % ssds */
};

/* The first failure that kernels met. */
struct fth_gpu_failure {
	uint32_t taken;	 /* someone is filling it in, or has */
	int32_t error;	 /* negative errno */
	uint32_t array;	 /* by its number, from 0, in the order of opening */
	uint32_t status; /* of NVMe, or 0 when there was no completion */
	uint64_t line;
	uint32_t write; /* it was a write-back */
	uint32_t reserved;
};

/* In GPU memory. Everything before `hand` is set before any kernel runs. */
struct fth_gpu_cache_state {
	uint8_t *data;	/* frame f is at data + (f << line_shift) */
	uint64_t *tags; /* per frame; see fathom/detail/gpu/frames.h */
	uint32_t frames;
	uint32_t line_shift;
	uint32_t blocks_per_line;
	uint32_t ahead; /* frames by which writing is ahead of the hand */
	uint64_t timeout_ns;
	struct fth_gpu_view drive;
	struct fth_gpu_range ranges[FTH_GPU_ARRAYS_MAX];

	uint64_t hand __attribute__((aligned(128)));	/* replacement looks here next */
	uint32_t dirtied __attribute__((aligned(128))); /* a line was ever changed */
	struct fth_gpu_failure failure __attribute__((aligned(128)));
	uint64_t stats[FTH_GPU_STAT_SHARDS][8] __attribute__((aligned(128)));
};

/*
 * An open array, without the type of its elements: what C code has. Kernels take a typed handle,
 * fth_gpu_array<T>, below. Valid until the cache is closed.
 */
struct fth_gpu_array_base {
	uint64_t *words;
	uint8_t *data;
	uint64_t count; /* elements */
	struct fth_gpu_cache_state *cache;
	uint32_t range;
	uint32_t line_shift;
	uint32_t element_shift;
	uint32_t readonly;
};

/* ---- the host's side ---- */

struct fth_gpu_cache_opts {
	size_t size;	/* of this struct */
	uint64_t bytes; /* of GPU memory, for lines */
	uint32_t line;	/* bytes, a power of two from 512 to 8192; at least a block */
	/*
	 * For each wait in a kernel. The host waits for a flush as long as lines are written, and
	 * three times this while none is.
	 */
	uint32_t timeout_ms;
};
#define FTH_GPU_CACHE_OPTS_INIT                                             \
	{                                                                   \
		sizeof(struct fth_gpu_cache_opts), 64u << 20, 4096u, 10000u \
	}

struct fth_gpu_array_opts {
	size_t size; /* of this struct */
	/*
	 * Bytes into the drive where element 0 is, a multiple of the drive's block. Striped over
	 * several SSDs: of their number times the line, and bytes are counted over all of them.
	 */
	uint64_t offset;
	/*
	 * Elements; 0: as many as fit. Where the drive ends within the last line, what is there of
	 * that is read and written, and the rest of its bytes have no meaning; but arrays that are
	 * striped end with whole lines.
	 */
	uint64_t count;
	bool readonly;
	bool replicated; /* every SSD has the same data; read only */
};
#define FTH_GPU_ARRAY_OPTS_INIT                                       \
	{                                                             \
		sizeof(struct fth_gpu_array_opts), 0, 0, false, false \
	}

struct fth_gpu_cache_stats {
	uint64_t count[FTH_GPU_STAT_COUNT];
	uint64_t bytes_read, bytes_written;
};

struct fth_gpu_cache;

/* -EINVAL, among others, for a line that is smaller than a block of the drive. */
int fth_gpu_cache_open(struct fth_gpu_drive *drive, const struct fth_gpu_cache_opts *opts,
		       struct fth_gpu_cache **out);

/*
 * Open another array of elements of `element` bytes, a power of two, at most a line. opts may be
 * NULL. Lines are read and written whole, also the last line of an array that ends within it: an
 * array that is written shares no line with another. C++ code calls fth_gpu_array_open().
 */
int fth_gpu_cache_array(struct fth_gpu_cache *cache, size_t element,
			const struct fth_gpu_array_opts *opts, struct fth_gpu_array_base *out);

/* Returns 0 if the array's elements have `element` bytes; -EINVAL otherwise. */
int fth_gpu_array_check(const struct fth_gpu_array_base *array, size_t element);

/*
 * Write all dirty lines and flush the drive; kernels may run meanwhile, and what they change is
 * written now or stays dirty. The first error.
 */
int fth_gpu_cache_flush(struct fth_gpu_cache *cache);

/*
 * Flush, then forget every line: what the host changed on the medium is seen. Frames that were lost
 * are used again, after a drive that reaches GPU memory was stopped and started.
 */
int fth_gpu_cache_empty(struct fth_gpu_cache *cache);

/* Since the cache was opened; a little behind while kernels run. */
int fth_gpu_cache_stats(struct fth_gpu_cache *cache, struct fth_gpu_cache_stats *stats);

/*
 * The first failure since the last call that told one: 1, 0 if there was none, or an error. Kernels
 * that may fail have ended.
 */
int fth_gpu_cache_failure(struct fth_gpu_cache *cache, struct fth_gpu_failure *failure);

/* Bytes of GPU memory beside the lines' own. */
uint64_t fth_gpu_cache_metadata(const struct fth_gpu_cache *cache);

/*
 * Flush and release everything, whatever the flush says; returns its error. NULL is allowed. The
 * cache is gone in any case: what a drive that does not stop may still use is lost, with -ETIME.
 */
int fth_gpu_cache_close(struct fth_gpu_cache *cache);

FTH_END_DECLS

#ifdef __cplusplus

/*
 * A typed handle of an array, which kernels take by value. fth_gpu_array_open() and
 * fth_gpu_array_wrap() fill it, and see that an element of the array has the size of a T; every
 * function of fathom/gpu/array.h that takes it also takes pointers to T, so that a mismatch does not
 * compile. It does not convert to its base: fth_gpu_cache_array() can not fill it with elements of
 * another size. Copies are equal to the original. Valid until the cache is closed.
 */
template <typename T> struct fth_gpu_array : private fth_gpu_array_base {
	static_assert(std::is_trivially_copyable<T>::value, "elements are plain bytes");
	static_assert((sizeof(T) & (sizeof(T) - 1)) == 0, "an element is a power of two of bytes");

	typedef T element;
	using fth_gpu_array_base::cache;
	using fth_gpu_array_base::count;
	using fth_gpu_array_base::data;
	using fth_gpu_array_base::line_shift;
	using fth_gpu_array_base::range;
	using fth_gpu_array_base::readonly;
	using fth_gpu_array_base::words;

	/* The same array without its type. */
	struct fth_gpu_array_base base(void) const
	{
		return *this;
	}

	/* Host: see fth_gpu_array_wrap(). */
	int wrap(const struct fth_gpu_array_base &array)
	{
		int rc = fth_gpu_array_check(&array, sizeof(T));

		if (rc == 0)
			*static_cast<struct fth_gpu_array_base *>(this) = array;
		return rc;
	}
};

/* Give an open array its type. -EINVAL, and *out is unchanged, if an element is no T by its size. */
template <typename T>
static inline int fth_gpu_array_wrap(const struct fth_gpu_array_base &array, fth_gpu_array<T> *out)
{
	return out->wrap(array);
}

/* Open an array of T on a cache; fth_gpu_cache_array() has the errors. */
template <typename T>
static inline int fth_gpu_array_open(struct fth_gpu_cache *cache,
				     const struct fth_gpu_array_opts *opts, fth_gpu_array<T> *out)
{
	struct fth_gpu_array_base array;
	int rc = fth_gpu_cache_array(cache, sizeof(T), opts, &array);

	return rc < 0 ? rc : out->wrap(array);
}

#endif
#endif
