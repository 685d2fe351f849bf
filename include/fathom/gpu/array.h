/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays for kernels: elements of data larger than the GPU's memory. fathom/gpu/cache.h opens them.
 *
 *	__global__ void sum(struct fth_gpu_array a, uint64_t *total, int *error)
 *	{
 *		uint64_t i = blockIdx.x * blockDim.x + threadIdx.x, v;
 *		int rc = fth_gpu_get(a, i, &v);
 *		...
 *
 * Functions are called by single lanes, any of them, unless they say that a warp or a block calls.
 * All return 0 or a negative errno in each lane: -ERANGE outside the array, -EROFS, -ENOBUFS when
 * all frames stayed in use for the cache's timeout, -ETIMEDOUT when another warp's fetch took that
 * long, or what the drive said. The host learns the first failure from fth_gpu_cache_failure().
 *
 * Elements of 1, 2, 4 and 8 bytes are read and set whole. A hot line is read without a reference:
 * word, data, word again (fathom/hd/line.h); no atomics. Whole warps that stream over lines read
 * them with less by fathom/gpu/look.h, and overwrite many at once by fathom/gpu/claim.h.
 */
#ifndef FATHOM_GPU_ARRAY_H
#define FATHOM_GPU_ARRAY_H

#include "fathom/gpu/cache.h"

#ifdef __CUDACC__

#include "fathom/gpu/flush.h"
#include "fathom/detail/gpu/runs.h"

template <uint32_t size> struct fth_gpu_bits_;
template <> struct fth_gpu_bits_<1> {
	typedef uint8_t type;
};
template <> struct fth_gpu_bits_<2> {
	typedef uint16_t type;
};
template <> struct fth_gpu_bits_<4> {
	typedef uint32_t type;
};
template <> struct fth_gpu_bits_<8> {
	typedef uint64_t type;
};

template <typename T> FTH_GPU T fth_gpu_from_bits_(uint64_t bits)
{
	typename fth_gpu_bits_<sizeof(T)>::type whole = bits;
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

/* What a line without a reference needs to be read: there, and known to be in use. */
FTH_GPU bool fth_gpu_is_hot_(uint64_t word)
{
	return (word & (FTH_LINE_VALID | FTH_LINE_HOT)) == (FTH_LINE_VALID | FTH_LINE_HOT);
}

/* Element i. T has the array's element size. */
template <typename T> FTH_GPU int fth_gpu_get(const struct fth_gpu_array &a, uint64_t i, T *out)
{
	typedef typename fth_gpu_bits_<sizeof(T)>::type bits;
	uint64_t byte = i * sizeof(T), *at = a.words + (byte >> a.line_shift), word;
	struct fth_gpu_value value;

	if (i >= a.count)
		return -ERANGE;
	/* acquire: stops the data from being read before the word. */
	word = fth_load_acquire_dev64(at);
	if (fth_gpu_is_hot_(word)) {
		bits *data = (bits *)fth_gpu_place_(a, word, byte);
		/* acquire: stops the second look at the word from being taken before. */
		bits got = cuda::atomic_ref<bits, cuda::thread_scope_device>(*data).load(
			cuda::memory_order_acquire);

		*out = fth_gpu_from_bits_<T>(got);
		if (fth_line_same_place(word, fth_load_relaxed_dev64(at)))
			return 0;
	}
	value = FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, byte, FTH_GPU_OP_GET, sizeof(T), 0,
					      0);
	*out = fth_gpu_from_bits_<T>(value.bits);
	return value.rc;
}

template <typename T> FTH_GPU int fth_gpu_set(const struct fth_gpu_array &a, uint64_t i, T value)
{
	if (i >= a.count)
		return -ERANGE;
	return FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, i * sizeof(T), FTH_GPU_OP_SET,
					     sizeof(T), fth_gpu_to_bits_(value), 0)
		.rc;
}

/* ---- atomics on elements of 4 and 8 bytes; *old may be NULL ---- */

template <enum fth_gpu_op op, typename T>
FTH_GPU int fth_gpu_atomic_(const struct fth_gpu_array &a, uint64_t i, T value, T expected, T *old)
{
	struct fth_gpu_value found;

	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are for 4 and 8 bytes");
	static_assert((T)0.5 == (T)0, "atomics are for integers");
	static_assert(op != FTH_GPU_OP_MIN || (T)-1 > (T)0,
		      "a minimum is of integers without a sign");
	if (i >= a.count)
		return -ERANGE;
	found = FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, i * sizeof(T), op, sizeof(T), value,
					      expected);
	if (old)
		*old = (T)found.bits;
	return found.rc;
}

/* Integers; of those with a sign there is no minimum. */
template <typename T>
FTH_GPU int fth_gpu_add(const struct fth_gpu_array &a, uint64_t i, T amount, T *old)
{
	return fth_gpu_atomic_<FTH_GPU_OP_ADD>(a, i, amount, (T)0, old);
}

template <typename T>
FTH_GPU int fth_gpu_xor(const struct fth_gpu_array &a, uint64_t i, T bits, T *old)
{
	return fth_gpu_atomic_<FTH_GPU_OP_XOR>(a, i, bits, (T)0, old);
}

template <typename T>
FTH_GPU int fth_gpu_min(const struct fth_gpu_array &a, uint64_t i, T value, T *old)
{
	return fth_gpu_atomic_<FTH_GPU_OP_MIN>(a, i, value, (T)0, old);
}

/* *expected becomes what was found: it was swapped if that is what it was. */
template <typename T>
FTH_GPU int fth_gpu_cas(const struct fth_gpu_array &a, uint64_t i, T *expected, T desired)
{
	return fth_gpu_atomic_<FTH_GPU_OP_CAS>(a, i, desired, *expected, expected);
}

/* ---- lines ---- */

/*
 * See that the line of element i is there, or on its way by another warp. Lanes that call together
 * have their fetches under way together, and wait for them; nothing stays pinned.
 */
FTH_GPU int fth_gpu_prefetch(const struct fth_gpu_array &a, uint64_t i)
{
	uint64_t byte = i << a.element_shift;

	if (i >= a.count)
		return -ERANGE;
	if (fth_line_ready(fth_load_relaxed_dev64(a.words + (byte >> a.line_shift))))
		return 0;
	return FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, byte, FTH_GPU_OP_PREFETCH, 0, 0, 0)
		.rc;
}

/*
 * A warp's cursor: it keeps the line of its last access pinned, so that accesses within a line are
 * plain loads and stores (BaM 7.2.2). All 32 lanes call, with the same line. Close it; it holds a
 * frame until then, and a warp that holds one must not wait for others that wait for frames. A line
 * that was not there and is to be overwritten is nobody else's until the cursor leaves it: who reads
 * it meanwhile waits, and this warp would for itself, until the timeout.
 */
struct fth_gpu_cursor {
	uint64_t line; /* FTH_GPU_NO_LINE: none */
	struct fth_gpu_pin pin;
};

FTH_GPU struct fth_gpu_cursor fth_gpu_cursor_open(void)
{
	struct fth_gpu_cursor cursor = {FTH_GPU_NO_LINE, {NULL, 0, 0}};

	return cursor;
}

/* A line that was pinned for writing counts as changed. */
FTH_GPU void fth_gpu_cursor_close(const struct fth_gpu_array &a, struct fth_gpu_cursor *cursor,
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

/* Hold a line that is hot; false if it is not. The same in all lanes. */
FTH_GPU bool fth_gpu_cursor_try_(const struct fth_gpu_array &a, struct fth_gpu_cursor *cursor,
				 uint64_t line)
{
	uint64_t word = 0;

	if (fth_warp_lane() == 0) {
		word = fth_line_ref(&a.words[line], 1);
		/* relaxed: nothing was done under it. */
		if (!fth_gpu_is_hot_(word))
			fth_add_relaxed_dev64(&a.words[line], (uint64_t)0 - FTH_LINE_ONE);
	}
	__syncwarp();
	word = __shfl_sync(~0u, word, 0);
	cursor->pin.data = fth_gpu_place_(a, word, 0);
	return fth_gpu_is_hot_(word);
}

/* The bytes of a line, for any lane to use; NULL with *rc set. The same mode each time. */
FTH_GPU uint8_t *fth_gpu_cursor_line(const struct fth_gpu_array &a, struct fth_gpu_cursor *cursor,
				     uint64_t line, enum fth_gpu_mode mode, int *rc)
{
	if (cursor->line == line)
		return cursor->pin.data;
	fth_gpu_cursor_close(a, cursor, mode);
	if (!fth_gpu_has_line_(a, line)) {
		*rc = -ERANGE;
		return NULL;
	}
	if (mode == FTH_GPU_READ && fth_gpu_cursor_try_(a, cursor, line)) {
		cursor->line = line;
		return cursor->pin.data;
	}
	cursor->pin = FTH_GPU_FAR_(fth_gpu_pin_)(a.cache, ~0u, a.range, line, mode);
	*rc = cursor->pin.rc;
	if (cursor->pin.rc < 0)
		return NULL;
	cursor->line = line;
	return cursor->pin.data;
}

/* ---- runs of elements, copied by warps and blocks ---- */

FTH_GPU int fth_gpu_run_check_(const struct fth_gpu_array &a, uint64_t first, uint64_t n)
{
	return first > a.count || n > a.count - first ? -ERANGE : 0;
}

/* A warp copies elements [first, first + n); all 32 lanes call, with the same arguments. */
FTH_GPU int fth_gpu_warp_read(const struct fth_gpu_array &a, uint64_t first, uint64_t n, void *out)
{
	int rc = fth_gpu_run_check_(a, first, n);

	return rc < 0 || n == 0
		       ? rc
		       : FTH_GPU_FAR_(fth_gpu_run_)(a.cache, a.range, first << a.element_shift,
						    n << a.element_shift, (uint8_t *)out, false, 0,
						    1);
}

FTH_GPU int fth_gpu_warp_write(const struct fth_gpu_array &a, uint64_t first, uint64_t n,
			       const void *values)
{
	int rc = fth_gpu_run_check_(a, first, n);

	return rc < 0 || n == 0
		       ? rc
		       : FTH_GPU_FAR_(fth_gpu_run_)(a.cache, a.range, first << a.element_shift,
						    n << a.element_shift, (uint8_t *)values, true,
						    0, 1);
}

/* A block of whole warps does the same, line by line; all its threads call, and wait for all. */
FTH_GPU int fth_gpu_block_run_(const struct fth_gpu_array &a, uint64_t first, uint64_t n,
			       uint8_t *memory, bool write)
{
	int rc = fth_gpu_run_check_(a, first, n);

	if (rc == 0 && n > 0)
		rc = FTH_GPU_FAR_(fth_gpu_run_)(a.cache, a.range, first << a.element_shift,
						n << a.element_shift, memory, write,
						fth_gpu_thread_() / 32, fth_gpu_threads_() / 32);
	return __syncthreads_or(rc < 0) && rc == 0 ? -EIO : rc;
}

FTH_GPU int fth_gpu_block_read(const struct fth_gpu_array &a, uint64_t first, uint64_t n, void *out)
{
	return fth_gpu_block_run_(a, first, n, (uint8_t *)out, false);
}

FTH_GPU int fth_gpu_block_write(const struct fth_gpu_array &a, uint64_t first, uint64_t n,
				const void *values)
{
	return fth_gpu_block_run_(a, first, n, (uint8_t *)values, true);
}

#endif
#endif
