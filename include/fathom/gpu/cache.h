/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache in GPU memory, and arrays on it: kernels read and write data larger than the GPU's
 * memory, and fetch missing lines themselves.
 *
 *	struct fth_gpu_cache_options options = FTH_GPU_CACHE_OPTIONS_INIT;
 *	struct fth_gpu_cache *cache;
 *	fth_gpu_array<uint64_t> a;
 *
 *	options.bytes = (uint64_t)8 << 30;
 *	fth_gpu_cache_open(drive, &options, &cache);
 *	fth_gpu_array_open(cache, NULL, &a);
 *	my_kernel<<<blocks, threads, 0, stream>>>(a, ...);	(see fathom/gpu/array.h)
 *	cudaStreamSynchronize(stream);
 *	fth_gpu_cache_flush(cache);
 *	fth_gpu_cache_close(cache);
 *
 * The cache's words and rules are those of fathom/detail/hd/line.h: one word of 64 bits per line of
 * every array, and one per frame.
 *
 * In libfathom_cuda. One host thread at a time uses a cache. A cache is on one drive, which must
 * stay open longer. Functions return 0 or a negative errno and leave a text. Opening caches and
 * arrays, emptying and closing may stop the drive for a moment: no kernel may use the drive
 * meanwhile.
 */
#ifndef FATHOM_GPU_CACHE_H
#define FATHOM_GPU_CACHE_H

#include "fathom/base/decls.h"
#include "fathom/gpu.h"
#include "fathom/detail/hd/line.h"

#ifdef __cplusplus
#include <type_traits>
#endif

FTH_BEGIN_DECLS

#define FTH_GPU_LINE_MIN    512u
#define FTH_GPU_LINE_MAX    8192u
#define FTH_GPU_ARRAYS_MAX  64u
#define FTH_GPU_STAT_SHARDS 512u

/* ---- what kernels share with the host ---- */

/* Counted by misses only: reads of hot lines count nothing. */
enum fth_gpu_stat {
	FTH_GPU_MISSES,	   /* lines fetched, or overwritten without a fetch */
	FTH_GPU_MERGED,	   /* accesses, of one warp to one line, that waited for another's fetch */
	FTH_GPU_EVICTIONS, /* lines that were replaced */
	FTH_GPU_READS,	   /* lines read from the drive */
	FTH_GPU_WRITE_BACKS, /* lines written to it */
	FTH_GPU_ERRORS,	     /* accesses that failed */
	FTH_GPU_LOST_FRAMES, /* frames out of use, since their transfer did not complete */
	FTH_GPU_STAT_COUNT
};

/* An array's part of the drive. */
struct fth_gpu_range {
	uint64_t *words; /* per line */
	uint64_t lines;
	uint64_t first_block; /* of each SSD */
	uint32_t readonly;
	uint32_t replicated; /* every SSD has all lines; otherwise line n is on SSD n % ssds */
};

/* The first failure in a kernel. */
struct fth_gpu_failure {
	uint32_t taken;	 /* a thread fills it in, or has done so */
	int32_t error;	 /* negative errno */
	uint32_t array;	 /* its number, from 0, in the order of opening */
	uint32_t status; /* of NVMe, or 0 if there was no completion */
	uint64_t line;
	uint32_t write; /* not 0: a write-back failed, not a fetch */
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

/* Start from FTH_GPU_CACHE_OPTIONS_INIT. */
struct fth_gpu_cache_options {
	size_t size;	/* of this struct */
	uint64_t bytes; /* of GPU memory, for lines */
	uint32_t line;	/* bytes, a power of two from 512 to 8192; at least a block */
	/*
	 * Of each wait in a kernel. The host waits for a flush as long as lines are being written,
	 * and three times this timeout while none is.
	 */
	uint32_t timeout_ms;
};
#define FTH_GPU_CACHE_OPTIONS_INIT                                             \
	{                                                                      \
		sizeof(struct fth_gpu_cache_options), 64u << 20, 4096u, 10000u \
	}

/* Start from FTH_GPU_ARRAY_OPTIONS_INIT. */
struct fth_gpu_array_options {
	size_t size; /* of this struct */
	/*
	 * Byte of the drive where element 0 is, a multiple of the drive's block. With several SSDs
	 * lines are striped over them: a multiple of their number times the line, counted over all.
	 */
	uint64_t offset;
	/*
	 * Elements; 0: as many as fit. If the drive ends within the last line, the part that exists
	 * is read and written. Striped arrays end with whole lines.
	 */
	uint64_t count;
	bool readonly;
	bool replicated; /* every SSD has the same data, read only */
};
#define FTH_GPU_ARRAY_OPTIONS_INIT                                       \
	{                                                                \
		sizeof(struct fth_gpu_array_options), 0, 0, false, false \
	}

struct fth_gpu_cache_stats {
	uint64_t count[FTH_GPU_STAT_COUNT];
	uint64_t bytes_read, bytes_written;
};

struct fth_gpu_cache;

/* Open a cache on a drive. -EINVAL for invalid options, such as a line smaller than a block. */
int fth_gpu_cache_open(struct fth_gpu_drive *drive, const struct fth_gpu_cache_options *options,
		       struct fth_gpu_cache **out);

/*
 * Open another array of elements of `element` bytes, a power of two, at most a line. options may be
 * NULL. Lines are read and written whole, also the last line of an array that ends within it: an
 * array that is written shares no line with another. C++ code calls fth_gpu_array_open().
 */
int fth_gpu_cache_array(struct fth_gpu_cache *cache, size_t element,
			const struct fth_gpu_array_options *options,
			struct fth_gpu_array_base *out);

/* Returns 0 if the array's elements have `element` bytes; -EINVAL otherwise. */
int fth_gpu_array_check(const struct fth_gpu_array_base *array, size_t element);

/*
 * Write all dirty lines and flush the drive. Kernels may run meanwhile; lines that they change are
 * written now or stay dirty. Returns the first error; lines that were not written stay dirty.
 */
int fth_gpu_cache_flush(struct fth_gpu_cache *cache);

/*
 * Flush, then drop every line, so that kernels see what the host changed on the medium. Lost frames
 * come into use again; for that, a drive that reaches GPU memory is stopped and started.
 */
int fth_gpu_cache_empty(struct fth_gpu_cache *cache);

/* Since the cache was opened; a little behind while kernels run. */
int fth_gpu_cache_stats(struct fth_gpu_cache *cache, struct fth_gpu_cache_stats *stats);

/*
 * Get the first failure since the last call that returned one: 1 if there was a failure, 0 if not,
 * or an error. Call it after the kernels have ended.
 */
int fth_gpu_cache_failure(struct fth_gpu_cache *cache, struct fth_gpu_failure *failure);

/* Bytes of GPU memory beside the lines. */
uint64_t fth_gpu_cache_metadata(const struct fth_gpu_cache *cache);

/*
 * Flush, then release everything, even if the flush fails; returns its error. Accepts NULL. The
 * cache is closed in any case; after -ETIME the drive did not stop, and the memory it may use is
 * not freed.
 */
int fth_gpu_cache_close(struct fth_gpu_cache *cache);

FTH_END_DECLS

#ifdef __cplusplus

/*
 * A typed handle of an array, which kernels take by value. fth_gpu_array_open() and
 * fth_gpu_array_wrap() fill it, and see that an element of the array has the size of a T; every
 * function of fathom/gpu/array.h that takes it also takes pointers to T, so that a mismatch does
 * not compile. It does not convert to its base: fth_gpu_cache_array() cannot fill it with elements
 * of another size. Copies are equal to the original. Valid until the cache is closed.
 */
template <typename T> struct fth_gpu_array : private fth_gpu_array_base {
	static_assert(std::is_trivially_copyable<T>::value, "elements are plain bytes");
	static_assert((sizeof(T) & (sizeof(T) - 1)) == 0, "the element size is a power of two");

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

/*
 * Give an open array its type. -EINVAL, and *out is unchanged, if the element size is not
 * sizeof(T).
 */
template <typename T>
static inline int fth_gpu_array_wrap(const struct fth_gpu_array_base &array, fth_gpu_array<T> *out)
{
	return out->wrap(array);
}

/* Open an array of T on a cache; fth_gpu_cache_array() has the errors. */
template <typename T>
static inline int fth_gpu_array_open(struct fth_gpu_cache *cache,
				     const struct fth_gpu_array_options *options,
				     fth_gpu_array<T> *out)
{
	struct fth_gpu_array_base array;
	int rc = fth_gpu_cache_array(cache, sizeof(T), options, &array);

	return rc < 0 ? rc : out->wrap(array);
}

#endif
#endif
