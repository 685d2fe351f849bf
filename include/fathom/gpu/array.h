/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays for kernels: elements of data larger than the GPU's memory. fathom/gpu/cache.h opens them.
 *
 *	__global__ void sum(fth_gpu_array<uint64_t> a, uint64_t *total, int *error)
 *	{
 *		uint64_t i = blockIdx.x * blockDim.x + threadIdx.x, v;
 *		int rc = fth_gpu_get(a, i, &v);
 *		...
 *
 * A single lane may call each function, unless the function says that a warp or a block calls it.
 * Pointers are pointers to the array's element type: others do not compile. All functions return 0
 * or a negative errno in each lane: -ERANGE outside the array, -EROFS, -ENOBUFS when all frames
 * stayed in use for the cache's timeout, -ETIMEDOUT when another warp's fetch took that long, or
 * the error of the drive. fth_gpu_cache_failure() returns the first failure to the host.
 *
 * Elements of 1, 2, 4 and 8 bytes are read and set whole. A hot line is read without a reference
 * and without atomics: word, data, word again (fathom/detail/hd/line.h). Whole warps that stream
 * over lines read them faster with fathom/gpu/look.h, and overwrite many at once with
 * fathom/gpu/claim.h.
 */
#ifndef FATHOM_GPU_ARRAY_H
#define FATHOM_GPU_ARRAY_H

#include "fathom/gpu/cache.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

#include "fathom/gpu/flush.h"
#include "fathom/detail/gpu/runs.h"

template <typename T> FTH_GPU T fth_gpu_from_bits_(uint64_t bits)
{
	typename fth_gpu_bits_<sizeof(T)>::type whole =
		(typename fth_gpu_bits_<sizeof(T)>::type)bits;
	T value;

	memcpy(&value, &whole, sizeof(T));
	return value;
}

template <typename T> FTH_GPU uint64_t fth_gpu_to_bits_(T value)
{
	typename fth_gpu_bits_<sizeof(T)>::type whole;

	memcpy(&whole, &value, sizeof(T));
	return whole;
}

/* ---- single elements ---- */

/* May a line be read without a reference? It must be valid and marked as hot. */
FTH_GPU bool fth_gpu_is_hot_(uint64_t word)
{
	return (word & (FTH_LINE_VALID | FTH_LINE_HOT)) == (FTH_LINE_VALID | FTH_LINE_HOT);
}

/* Read a line that is hot, without a reference: false if it is not, or was replaced meanwhile. */
template <typename T>
FTH_GPU bool fth_gpu_try_get_(const fth_gpu_array<T> &a, uint64_t byte, T *out)
{
	uint64_t *at = a.words + (byte >> a.line_shift);
	/* acquire: stops the data from being read before the word. */
	uint64_t word = fth_load_acquire_dev64(at);

	if (!fth_gpu_is_hot_(word))
		return false;
	/* acquire: stops the second look at the word from being taken before. */
	*out = fth_gpu_load_acquire_((const T *)fth_gpu_place_(a, word, byte));
	return fth_line_same_place(word, fth_load_relaxed_dev64(at));
}

/* Get element i. */
template <typename T>
FTH_GPU int fth_gpu_get(const fth_gpu_array<T> &a, uint64_t i, typename fth_gpu_same_<T>::type *out)
{
	struct fth_gpu_value value;

	if (i >= a.count)
		return -ERANGE;
	if (fth_gpu_try_get_(a, i * sizeof(T), out))
		return 0;
	value = FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, i * sizeof(T), FTH_GPU_OP_GET,
					      sizeof(T), 0, 0);
	*out = fth_gpu_from_bits_<T>(value.bits);
	return value.rc;
}

/* Set element i. */
template <typename T>
FTH_GPU int fth_gpu_set(const fth_gpu_array<T> &a, uint64_t i,
			typename fth_gpu_same_<T>::type value)
{
	if (i >= a.count)
		return -ERANGE;
	return FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, i * sizeof(T), FTH_GPU_OP_SET,
					     sizeof(T), fth_gpu_to_bits_<T>(value), 0)
		.rc;
}

/* ---- atomics on integers of 4 and 8 bytes ---- */

template <enum fth_gpu_op op, typename T>
FTH_GPU int fth_gpu_atomic_(const fth_gpu_array<T> &a, uint64_t i, T value, T expected, T *old)
{
	struct fth_gpu_value found;

	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are for 4 and 8 bytes");
	static_assert((T)0.5 == (T)0, "atomics are for integers");
	static_assert(op != FTH_GPU_OP_MIN || (T)-1 > (T)0,
		      "fth_gpu_min() is for unsigned integers");
	if (i >= a.count)
		return -ERANGE;
	found = FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, i * sizeof(T), op, sizeof(T),
					      (uint64_t)value, (uint64_t)expected);
	if (old)
		*old = (T)found.bits;
	return found.rc;
}

/* Add to element i, atomically. Sets *old, unless NULL, to the previous value. */
template <typename T>
FTH_GPU int fth_gpu_add(const fth_gpu_array<T> &a, uint64_t i,
			typename fth_gpu_same_<T>::type amount,
			typename fth_gpu_same_<T>::type *old)
{
	return fth_gpu_atomic_<FTH_GPU_OP_ADD, T>(a, i, amount, (T)0, old);
}

/* Exclusive-or bits into element i, atomically; *old as for fth_gpu_add(). */
template <typename T>
FTH_GPU int fth_gpu_xor(const fth_gpu_array<T> &a, uint64_t i, typename fth_gpu_same_<T>::type bits,
			typename fth_gpu_same_<T>::type *old)
{
	return fth_gpu_atomic_<FTH_GPU_OP_XOR, T>(a, i, bits, (T)0, old);
}

/*
 * Store the minimum of element i, an unsigned integer, and `value`, atomically; *old as for
 * fth_gpu_add().
 */
template <typename T>
FTH_GPU int fth_gpu_min(const fth_gpu_array<T> &a, uint64_t i,
			typename fth_gpu_same_<T>::type value, typename fth_gpu_same_<T>::type *old)
{
	return fth_gpu_atomic_<FTH_GPU_OP_MIN, T>(a, i, value, (T)0, old);
}

/*
 * Compare and swap: set element i to `desired` if it equals *expected. Sets *expected to the
 * previous value.
 */
template <typename T>
FTH_GPU int fth_gpu_cas(const fth_gpu_array<T> &a, uint64_t i,
			typename fth_gpu_same_<T>::type *expected,
			typename fth_gpu_same_<T>::type desired)
{
	return fth_gpu_atomic_<FTH_GPU_OP_CAS, T>(a, i, desired, *expected, expected);
}

/* ---- lines ---- */

/*
 * Fetch the line of element i, unless it is there or another warp fetches it already. The fetches
 * of lanes that call together are in flight together, and the lanes wait for them; no line stays
 * pinned.
 */
template <typename T> FTH_GPU int fth_gpu_prefetch(const fth_gpu_array<T> &a, uint64_t i)
{
	uint64_t byte = i * sizeof(T);

	if (i >= a.count)
		return -ERANGE;
	if (fth_line_ready(fth_load_relaxed_dev64(a.words + (byte >> a.line_shift))))
		return 0;
	return FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, byte, FTH_GPU_OP_PREFETCH, 0, 0, 0)
		.rc;
}

/*
 * A warp's cursor keeps the line of its last access pinned, so that accesses within a line are
 * plain loads and stores (BaM 7.2.2). All 32 lanes call, with the same line. An open cursor holds a
 * frame: a warp that has one must not wait for warps that wait for frames. With FTH_GPU_OVERWRITE a
 * line that was not in the cache belongs to this warp until the cursor leaves it: other warps that
 * read the line wait, and this warp, reading it in another way, would wait for itself until the
 * timeout.
 */
struct fth_gpu_cursor {
	uint64_t line; /* FTH_GPU_NO_LINE: none */
	struct fth_gpu_pin pin;
};

/* A new cursor, which holds no line. */
FTH_GPU struct fth_gpu_cursor fth_gpu_cursor_open(void)
{
	struct fth_gpu_cursor cursor = {FTH_GPU_NO_LINE, {NULL, 0, 0}};

	return cursor;
}

/* Release the line; if it was pinned for writing, it becomes dirty. */
template <typename T>
FTH_GPU void fth_gpu_cursor_close(const fth_gpu_array<T> &a, struct fth_gpu_cursor *cursor,
				  enum fth_gpu_mode mode)
{
	if (cursor->line == FTH_GPU_NO_LINE)
		return;
	if (mode != FTH_GPU_READ) {
		FTH_GPU_FAR_(fth_gpu_unpin_)
		(a.cache, ~0u, a.range, cursor->line, cursor->pin, true);
	} else {
		/* All lanes have read. */
		__syncwarp();
		if (fth_warp_lane() == 0)
			fth_gpu_end_read_(&a.words[cursor->line]);
	}
	cursor->line = FTH_GPU_NO_LINE;
}

/* Pin a line that is hot; false if it is not. The same in all lanes. */
template <typename T>
FTH_GPU bool fth_gpu_cursor_try_(const fth_gpu_array<T> &a, struct fth_gpu_cursor *cursor,
				 uint64_t line)
{
	uint64_t word = 0;

	if (fth_warp_lane() == 0) {
		word = fth_line_ref(&a.words[line], 1);
		/* relaxed: nothing was done under it. */
		if (!fth_gpu_is_hot_(word))
			fth_add_relaxed_dev64(&a.words[line], (uint64_t)0 - FTH_LINE_ONE);
	}
	/* The barrier puts the accesses of all lanes after the acquire of lane 0. */
	__syncwarp();
	word = __shfl_sync(~0u, word, 0);
	cursor->pin.data = fth_gpu_place_(a, word, 0);
	return fth_gpu_is_hot_(word);
}

/*
 * Pin a line and return its elements, for all lanes; NULL with *rc set. Use the same mode in all
 * calls.
 */
template <typename T>
FTH_GPU T *fth_gpu_cursor_line(const fth_gpu_array<T> &a, struct fth_gpu_cursor *cursor,
			       uint64_t line, enum fth_gpu_mode mode, int *rc)
{
	if (cursor->line == line)
		return (T *)cursor->pin.data;
	fth_gpu_cursor_close(a, cursor, mode);
	if (!fth_gpu_has_line_(a, line)) {
		*rc = -ERANGE;
		return NULL;
	}
	if (mode == FTH_GPU_READ && fth_gpu_cursor_try_(a, cursor, line)) {
		cursor->line = line;
		return (T *)cursor->pin.data;
	}
	cursor->pin = FTH_GPU_FAR_(fth_gpu_pin_)(a.cache, ~0u, a.range, line, mode);
	*rc = cursor->pin.rc;
	if (cursor->pin.rc < 0)
		return NULL;
	cursor->line = line;
	return (T *)cursor->pin.data;
}

/* ---- runs of elements, copied by warps and blocks ---- */

template <typename T>
FTH_GPU int fth_gpu_run_check_(const fth_gpu_array<T> &a, uint64_t first, uint64_t n)
{
	return first > a.count || n > a.count - first ? -ERANGE : 0;
}

/* A warp copies elements [first, first + n) to `out`. All 32 lanes call with the same arguments. */
template <typename T>
FTH_GPU int fth_gpu_warp_read(const fth_gpu_array<T> &a, uint64_t first, uint64_t n,
			      typename fth_gpu_same_<T>::type *out)
{
	int rc = fth_gpu_run_check_(a, first, n);

	return rc < 0 || n == 0
		       ? rc
		       : FTH_GPU_FAR_(fth_gpu_run_)(a.cache, a.range, first * sizeof(T),
						    n * sizeof(T), (uint8_t *)out, false, 0, 1);
}

/* A warp stores elements [first, first + n). All 32 lanes call with the same arguments. */
template <typename T>
FTH_GPU int fth_gpu_warp_write(const fth_gpu_array<T> &a, uint64_t first, uint64_t n,
			       const typename fth_gpu_same_<T>::type *values)
{
	int rc = fth_gpu_run_check_(a, first, n);

	return rc < 0 || n == 0
		       ? rc
		       : FTH_GPU_FAR_(fth_gpu_run_)(a.cache, a.range, first * sizeof(T),
						    n * sizeof(T), (uint8_t *)values, true, 0, 1);
}

#ifdef __CUDACC__
/* A block of whole warps does the same, line by line; all its threads call, and wait for all. */
template <typename T>
FTH_GPU int fth_gpu_block_run_(const fth_gpu_array<T> &a, uint64_t first, uint64_t n,
			       uint8_t *memory, bool write)
{
	int rc = fth_gpu_run_check_(a, first, n);

	if (rc == 0 && n > 0)
		rc = FTH_GPU_FAR_(fth_gpu_run_)(a.cache, a.range, first * sizeof(T), n * sizeof(T),
						memory, write, fth_gpu_thread_() / 32,
						fth_gpu_threads_() / 32);
	return __syncthreads_or(rc < 0) && rc == 0 ? -EIO : rc;
}

/*
 * The same by a block of whole warps. All threads of the block call with the same arguments, and
 * return when all are done; -EIO if another thread of the block failed.
 */
template <typename T>
FTH_GPU int fth_gpu_block_read(const fth_gpu_array<T> &a, uint64_t first, uint64_t n,
			       typename fth_gpu_same_<T>::type *out)
{
	return fth_gpu_block_run_(a, first, n, (uint8_t *)out, false);
}

/* The write of a block of whole warps, as fth_gpu_block_read(). */
template <typename T>
FTH_GPU int fth_gpu_block_write(const fth_gpu_array<T> &a, uint64_t first, uint64_t n,
				const typename fth_gpu_same_<T>::type *values)
{
	return fth_gpu_block_run_(a, first, n, (uint8_t *)values, true);
}
#endif

#endif
#endif
