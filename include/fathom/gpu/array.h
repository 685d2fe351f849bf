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
 * word, data, word again (fathom/hd/line.h); no atomics.
 */
#ifndef FATHOM_GPU_ARRAY_H
#define FATHOM_GPU_ARRAY_H

#include "fathom/gpu/cache.h"

#ifdef __CUDACC__

#include "fathom/gpu/lines.h"

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

/* Where byte `byte` of an array is, if its line is where the word says. */
FTH_GPU uint8_t *fth_gpu_place_(const struct fth_gpu_array &a, uint64_t word, uint64_t byte)
{
	uint32_t offset = (uint32_t)byte & ((1u << a.line_shift) - 1);

	return a.data + ((uint64_t)fth_line_frame(word) << a.line_shift) + offset;
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
	value = fth_gpu_access_(a.cache, a.range, byte, FTH_GPU_OP_GET, sizeof(T), 0, 0);
	*out = fth_gpu_from_bits_<T>(value.bits);
	return value.rc;
}

template <typename T> FTH_GPU int fth_gpu_set(const struct fth_gpu_array &a, uint64_t i, T value)
{
	if (i >= a.count)
		return -ERANGE;
	return fth_gpu_access_(a.cache, a.range, i * sizeof(T), FTH_GPU_OP_SET, sizeof(T),
			       fth_gpu_to_bits_(value), 0)
		.rc;
}

/*
 * N elements anywhere, as fth_gpu_get() but all of them on their way at once: for gathers, where a
 * single look would leave the memory idle.
 */
template <uint32_t N, typename T>
FTH_GPU int fth_gpu_get_many(const struct fth_gpu_array &a, const uint64_t *indices, T *out)
{
	uint64_t words[N];
	uint32_t missed = 0;
	int rc = 0;

#pragma unroll
	for (uint32_t k = 0; k < N; k++)
		words[k] = indices[k] < a.count
				   ? fth_load_relaxed_dev64(
					     a.words + (indices[k] * sizeof(T) >> a.line_shift))
				   : 0;
	/* Stops the data from being read before the words. */
	fth_gpu_fence_();
#pragma unroll
	for (uint32_t k = 0; k < N; k++)
		if (fth_gpu_is_hot_(words[k]))
			out[k] = fth_gpu_from_bits_<T>(fth_gpu_load_(
				fth_gpu_place_(a, words[k], indices[k] * sizeof(T)), sizeof(T)));
	/* Stops the second look at the words from being taken before. */
	fth_gpu_fence_();
#pragma unroll
	for (uint32_t k = 0; k < N; k++) {
		uint64_t *at = a.words + (indices[k] * sizeof(T) >> a.line_shift);

		if (!fth_gpu_is_hot_(words[k]) ||
		    !fth_line_same_place(words[k], fth_load_relaxed_dev64(at)))
			missed |= 1u << k;
	}
#pragma unroll
	for (uint32_t k = 0; k < N; k++)
		if (missed >> k & 1) {
			int one = fth_gpu_get(a, indices[k], &out[k]);

			rc = rc ? rc : one;
		}
	return rc;
}

/* ---- atomics on elements of 4 and 8 bytes; *old may be NULL ---- */

template <typename T>
FTH_GPU int fth_gpu_atomic_(const struct fth_gpu_array &a, uint64_t i, enum fth_gpu_op op, T value,
			    T expected, T *old)
{
	struct fth_gpu_value found;

	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are for 4 and 8 bytes");
	if (i >= a.count)
		return -ERANGE;
	found = fth_gpu_access_(a.cache, a.range, i * sizeof(T), op, sizeof(T), value, expected);
	if (old)
		*old = (T)found.bits;
	return found.rc;
}

/* Integers without a sign. */
template <typename T>
FTH_GPU int fth_gpu_add(const struct fth_gpu_array &a, uint64_t i, T amount, T *old)
{
	return fth_gpu_atomic_(a, i, FTH_GPU_OP_ADD, amount, (T)0, old);
}

template <typename T>
FTH_GPU int fth_gpu_xor(const struct fth_gpu_array &a, uint64_t i, T bits, T *old)
{
	return fth_gpu_atomic_(a, i, FTH_GPU_OP_XOR, bits, (T)0, old);
}

template <typename T>
FTH_GPU int fth_gpu_min(const struct fth_gpu_array &a, uint64_t i, T value, T *old)
{
	return fth_gpu_atomic_(a, i, FTH_GPU_OP_MIN, value, (T)0, old);
}

/* *expected becomes what was found: it was swapped if that is what it was. */
template <typename T>
FTH_GPU int fth_gpu_cas(const struct fth_gpu_array &a, uint64_t i, T *expected, T desired)
{
	return fth_gpu_atomic_(a, i, FTH_GPU_OP_CAS, desired, *expected, expected);
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
	return fth_gpu_access_(a.cache, a.range, byte, FTH_GPU_OP_PREFETCH, 0, 0, 0).rc;
}

/*
 * A warp's cursor: it keeps the line of its last access pinned, so that accesses within a line are
 * plain loads and stores (BaM 7.2.2). All 32 lanes call, with the same line. Close it; it holds a
 * frame until then, and a warp that holds one must not wait for others that wait for frames.
 */
struct fth_gpu_cursor {
	uint64_t line; /* UINT64_MAX: none */
	struct fth_gpu_pin pin;
};

FTH_GPU struct fth_gpu_cursor fth_gpu_cursor_open(void)
{
	struct fth_gpu_cursor cursor = {UINT64_MAX, {NULL, 0, 0}};

	return cursor;
}

/* A line that was pinned for writing counts as changed. */
FTH_GPU void fth_gpu_cursor_close(const struct fth_gpu_array &a, struct fth_gpu_cursor *cursor,
				  enum fth_gpu_mode mode)
{
	if (cursor->line != UINT64_MAX)
		fth_gpu_unpin_(a.cache, ~0u, a.range, cursor->line, cursor->pin,
			       mode != FTH_GPU_READ);
	cursor->line = UINT64_MAX;
}

/* The bytes of a line, for any lane to use; NULL with *rc set. The same mode each time. */
FTH_GPU uint8_t *fth_gpu_cursor_line(const struct fth_gpu_array &a, struct fth_gpu_cursor *cursor,
				     uint64_t line, enum fth_gpu_mode mode, int *rc)
{
	if (cursor->line == line)
		return cursor->pin.data;
	fth_gpu_cursor_close(a, cursor, mode);
	cursor->pin = fth_gpu_pin_(a.cache, ~0u, a.range, line, mode);
	*rc = cursor->pin.rc;
	if (cursor->pin.rc < 0)
		return NULL;
	cursor->line = line;
	return cursor->pin.data;
}

/* ---- runs of elements, copied by warps and blocks ---- */

/* One piece within a line, all lanes; 16 bytes each where both sides allow it. */
FTH_GPU void fth_gpu_copy_(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint32_t lane = fth_warp_lane();

	if ((((uint64_t)to | (uint64_t)from | bytes) & 15) == 0) {
		for (uint32_t k = 16 * lane; k < bytes; k += 512)
			*(uint4 *)(to + k) = *(const uint4 *)(from + k);
	} else {
		for (uint32_t k = lane; k < bytes; k += 32)
			to[k] = from[k];
	}
}

/* Bring in the next 32 lines of a run, all at once. */
FTH_GPU void fth_gpu_run_ahead_(struct fth_gpu_cache_state *cache, uint32_t array, uint64_t line,
				uint64_t last)
{
	line += fth_warp_lane();
	/* What fails here fails again below, where someone looks at the error. */
	if (line <= last)
		(void)fth_gpu_access_(cache, array, line << cache->line_shift, FTH_GPU_OP_PREFETCH,
				      0, 0, 0);
	__syncwarp();
}

/*
 * Copy bytes [byte, byte + bytes) of an array, not 0, from or to memory: lines step, step + steps
 * and so on of the run. Lines that are written whole are not brought in.
 */
FTH_GPU_CALL int fth_gpu_run_(struct fth_gpu_cache_state *cache, uint32_t array, uint64_t byte,
			      uint64_t bytes, uint8_t *memory, bool write, uint32_t step,
			      uint32_t steps)
{
	uint32_t size = 1u << cache->line_shift;
	uint64_t first = byte >> cache->line_shift, last = (byte + bytes - 1) >> cache->line_shift;
	uint64_t turn = 0;

	for (uint64_t line = first + step; line <= last; line += steps, turn++) {
		uint64_t from = line << cache->line_shift, to = from + size;
		struct fth_gpu_pin pin;
		bool whole;

		if (!write && steps == 1 && turn % 32 == 0)
			fth_gpu_run_ahead_(cache, array, line, last);
		from = from < byte ? byte : from;
		to = to > byte + bytes ? byte + bytes : to;
		whole = to - from == size;
		pin = fth_gpu_pin_(cache, ~0u, array, line,
				   !write  ? FTH_GPU_READ
				   : whole ? FTH_GPU_OVERWRITE
					   : FTH_GPU_WRITE);
		if (pin.rc < 0)
			return pin.rc;
		if (write)
			fth_gpu_copy_(pin.data + (from & (size - 1)), memory + (from - byte),
				      (uint32_t)(to - from));
		else
			fth_gpu_copy_(memory + (from - byte), pin.data + (from & (size - 1)),
				      (uint32_t)(to - from));
		fth_gpu_unpin_(cache, ~0u, array, line, pin, write);
	}
	return 0;
}

FTH_GPU int fth_gpu_run_check_(const struct fth_gpu_array &a, uint64_t first, uint64_t n)
{
	return first > a.count || n > a.count - first ? -ERANGE : 0;
}

/* A warp copies elements [first, first + n); all 32 lanes call, with the same arguments. */
FTH_GPU int fth_gpu_warp_read(const struct fth_gpu_array &a, uint64_t first, uint64_t n, void *out)
{
	int rc = fth_gpu_run_check_(a, first, n);

	return rc < 0 || n == 0 ? rc
				: fth_gpu_run_(a.cache, a.range, first << a.element_shift,
					       n << a.element_shift, (uint8_t *)out, false, 0, 1);
}

FTH_GPU int fth_gpu_warp_write(const struct fth_gpu_array &a, uint64_t first, uint64_t n,
			       const void *values)
{
	int rc = fth_gpu_run_check_(a, first, n);

	return rc < 0 || n == 0 ? rc
				: fth_gpu_run_(a.cache, a.range, first << a.element_shift,
					       n << a.element_shift, (uint8_t *)values, true, 0, 1);
}

/* A block of whole warps does the same, line by line; all its threads call, and wait for all. */
FTH_GPU int fth_gpu_block_run_(const struct fth_gpu_array &a, uint64_t first, uint64_t n,
			       uint8_t *memory, bool write)
{
	int rc = fth_gpu_run_check_(a, first, n);

	if (rc == 0 && n > 0)
		rc = fth_gpu_run_(a.cache, a.range, first << a.element_shift, n << a.element_shift,
				  memory, write, threadIdx.x / 32, blockDim.x / 32);
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
