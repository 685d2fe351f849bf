/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of fathom/array.h that must be inlined: reading an element of a hot line without a
 * reference, and what cursors do within a line. Included by it; not for direct use.
 */
#ifndef FATHOM_ARRAY_INLINE_H
#define FATHOM_ARRAY_INLINE_H

#include "fathom/array.h"
#include "fathom/base/decls.h"
#include "fathom/base/stats.h"

#include <string.h>

FTH_BEGIN_DECLS

/* Fixed when the array is opened. Not part of the interface. */
struct fth_array {
	struct fth_array_look look;
	uint64_t peekable; /* count, or 0 where nothing can be read without a reference */
	uint64_t *words;   /* as in view */
	uint8_t *frames;   /* as in view */
	uint64_t in_line;  /* mask: an element's place in its line */
	uint32_t per_line; /* log2 of the elements in a line */
	uint64_t count;
	uint32_t shift; /* log2 of the element's size */
	struct fth_cache_view view;
	struct fth_cache *cache;
	struct fth_cache_range *range;
	struct fth_dev *own_dev; /* to be closed with the array; NULL if it is the caller's */
	int lock;		 /* descriptor of the lock on its file, or -1 */
};

/* What the inline read leaves: with a reference, if need be. The element size is not an argument: a
 * fourth one would cost the fast path a register. */
int fth_array_get_slow(struct fth_array *array, uint64_t i, void *out);
/* -EINVAL unless `size` is the element size. */
int fth_array_check_size(const struct fth_array *array, size_t size);

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FTH_ARRAY_TSAN_ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define FTH_ARRAY_TSAN_ 1
#endif

/* An element of 1, 2, 4 or 8 bytes in a frame, whole. acquire: later loads stay after it. */
#ifdef FTH_ARRAY_TSAN_
/* Races with a refill of the frame on purpose; the second look at the word decides. */
__attribute__((no_sanitize_thread, noinline, unused)) static uint64_t
#else
static inline uint64_t
#endif
fth_array_peek_bytes(const uint8_t *at, size_t size)
{
	switch (size) {
	case 1:
		return __atomic_load_n(at, __ATOMIC_ACQUIRE);
	case 2:
		return __atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_ACQUIRE);
	case 4:
		return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
	default:
		return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
	}
}

/* The same with a reference held. relaxed: what orders threads is the caller's. */
static inline uint64_t fth_array_load_bytes(const uint8_t *at, size_t size)
{
	switch (size) {
	case 1:
		return __atomic_load_n(at, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
	}
}

/* relaxed, but whole: someone may be reading it without a reference. */
static inline void fth_array_store_bytes(uint8_t *at, uint64_t value, size_t size)
{
	switch (size) {
	case 1:
		__atomic_store_n(at, (uint8_t)value, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((uint16_t *)(void *)at, (uint16_t)value, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((uint32_t *)(void *)at, (uint32_t)value, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELAXED);
		break;
	}
}

/* Between the caller's memory, of any alignment, and a value. */
static inline void fth_array_store_value(void *out, uint64_t value, size_t size)
{
	uint8_t v8 = (uint8_t)value;
	uint16_t v16 = (uint16_t)value;
	uint32_t v32 = (uint32_t)value;

	switch (size) {
	case 1:
		memcpy(out, &v8, 1);
		break;
	case 2:
		memcpy(out, &v16, 2);
		break;
	case 4:
		memcpy(out, &v32, 4);
		break;
	default:
		memcpy(out, &value, 8);
		break;
	}
}

static inline uint64_t fth_array_load_value(const void *from, size_t size)
{
	uint8_t v8;
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (size) {
	case 1:
		memcpy(&v8, from, 1);
		return v8;
	case 2:
		memcpy(&v16, from, 2);
		return v16;
	case 4:
		memcpy(&v32, from, 4);
		return v32;
	default:
		memcpy(&v64, from, 8);
		return v64;
	}
}

/* The frame that a word names. */
static inline uint8_t *fth_array_frame(const struct fth_array *array, uint64_t word)
{
	return array->frames + (uint64_t)fth_line_frame(word) * FTH_CACHE_LINE_MIN;
}

/*
 * True if element i was in a line that is HOT, and is now in *value. i is below peekable; size is
 * the element's, and at most 8.
 */
static inline bool fth_array_peek(const struct fth_array *array, uint64_t i, size_t size,
				  uint64_t *value)
{
	uint64_t *word = &array->words[i >> array->per_line];
	/* acquire: keeps the data's load after this one. */
	uint64_t before = fth_load_acquire_dev64(word), after;

	/* HOT implies VALID. A line that is not is read with a reference, which makes it so. */
	if (__builtin_expect(!(before & FTH_LINE_HOT), 0))
		return false;
	*value = fth_array_peek_bytes(fth_array_frame(array, before) + (i & array->in_line) * size,
				      size);
	after = fth_load_relaxed_dev64(word);
	/* As a rule nothing has changed at all. */
	return __builtin_expect(before == after, 1) || fth_line_same_place(before, after);
}

/*
 * The same for a handle's look, by line and place in it: each instruction counts here, since a
 * processor reads as many elements at once as it has room for the instructions of. A word that
 * changed in any way is left to the slow path.
 */
#define FTH_ARRAY_LOOK_BYTES_ ((uint64_t)8 << 32) /* of frames, and less */

#if defined(__x86_64__) && !defined(FTH_ARRAY_TSAN_) && !defined(__CUDACC__)
/*
 * The lower half of a HOT word is its frame's place in units of 8 bytes, above the bits of HOT and
 * VALID; larger caches have a look without words. x86 keeps loads in order, and the
 * compiler what is volatile. The memory clobbers keep all other accesses on their side.
 */
#define FTH_ARRAY_LOOK_(load, value, scale)                                                  \
	__asm__ volatile(load " -%c[bias](%[from],%[at]," scale "), " value "\n\t"           \
			      "cmpq %[before], (%[words],%[line],8)"                         \
			 : "=@cce"(same), [at] "+r"(at)                                      \
			 : [from] "r"(from), [before] "r"(before), [words] "r"(look->words), \
			   [line] "r"(line), [bias] "i"(8 * (FTH_LINE_HOT | FTH_LINE_VALID)) \
			 : "memory")

static inline bool fth_array_look_at(const struct fth_array_look *look, uint64_t line, uint64_t at,
				     size_t size, uint64_t *out)
{
	const uint8_t *from = look->frames;
	uint64_t before;
	bool same;

	/* A volatile load, but for the way compilers write down its address. */
	__asm__ volatile("movq (%[words],%[line],8), %[before]"
			 : [before] "=r"(before)
			 : [words] "r"(look->words), [line] "r"(line)
			 : "memory");
	if (__builtin_expect(!(before & FTH_LINE_HOT), 0))
		return false;
	if (size == 8)
		at = (uint32_t)before + (uint32_t)at;
	else
		from += (uint64_t)(uint32_t)before * 8;
	/* Where it was is overwritten with what was there, which takes one register less. */
	switch (size) {
	case 1:
		FTH_ARRAY_LOOK_("movzbl", "%k[at]", "1");
		break;
	case 2:
		FTH_ARRAY_LOOK_("movzwl", "%k[at]", "2");
		break;
	case 4:
		FTH_ARRAY_LOOK_("movl", "%k[at]", "4");
		break;
	default:
		FTH_ARRAY_LOOK_("movq", "%[at]", "8");
		break;
	}
	*out = at;
	return same;
}
#undef FTH_ARRAY_LOOK_
#else

static inline bool fth_array_look_at(const struct fth_array_look *look, uint64_t line, uint64_t at,
				     size_t size, uint64_t *out)
{
	/* acquire: keeps the data's load after this one. */
	uint64_t before = fth_load_acquire_dev64(&look->words[line]);
	const uint8_t *frame = look->frames + (uint64_t)fth_line_frame(before) * FTH_CACHE_LINE_MIN;

	if (__builtin_expect(!(before & FTH_LINE_HOT), 0))
		return false;
	*out = fth_array_peek_bytes(frame + at * size, size);
	return fth_load_relaxed_dev64(&look->words[line]) == before;
}
#endif

static inline int fth_array_look_get(struct fth_array *array, struct fth_array_look look,
				     uint64_t i, void *out, size_t size)
{
	if (size > 8)
		return fth_array_get_slow(array, i, out);
	if (__builtin_expect(i < look.count, 1)) {
		uint64_t line = i >> look.per_line, at = i & look.in_line, value;

		if (__builtin_expect(fth_array_look_at(&look, line, at, size, &value), 1)) {
			fth_stats_tally((unsigned)__builtin_ctzll(size), look.frames, look.peeks);
			fth_array_store_value(out, value, size);
			return 0;
		}
		/* Made anew, so that the fast path need not keep it. */
		i = (line << look.per_line) + at;
	}
	/* By way of a copy, so that what the caller has need not be in memory. */
	{
		uint64_t copy = 0;
		int rc = fth_array_get_slow(array, i, &copy);

		memcpy(out, &copy, size);
		return rc;
	}
}

static inline int fth_array_get(struct fth_array *array, uint64_t i, void *out, size_t size)
{
	/* Of a constant size one comparison is left. */
	if (__builtin_expect(size == 0 || (size & (size - 1)) ||
				     array->shift != (uint32_t)__builtin_ctzll(size),
			     0)) {
		memset(out, 0, size);
		return fth_array_check_size(array, size);
	}
	return fth_array_look_get(array, array->look, i, out, size);
}

/* -EROFS: the cursor was opened to read. */
int fth_cursor_refuse(void);

static inline int fth_cursor_load(struct fth_cursor *cursor, uint64_t i, void *out, size_t size)
{
	const uint8_t *at;

	if (__builtin_expect(i - cursor->first >= cursor->count, 0)) {
		int rc = fth_cursor_move(cursor, i, size);

		if (rc < 0) {
			memset(out, 0, size);
			return rc;
		}
	}
	at = cursor->data + (i - cursor->first) * size;
	if (size <= 8)
		fth_array_store_value(out, fth_array_load_bytes(at, size), size);
	else
		memcpy(out, at, size);
	return 0;
}

static inline int fth_cursor_store(struct fth_cursor *cursor, uint64_t i, const void *value,
				   size_t size)
{
	uint8_t *at;

	if (__builtin_expect(i - cursor->first >= cursor->count, 0)) {
		int rc = fth_cursor_move(cursor, i, size);

		if (rc < 0)
			return rc;
	}
	if (__builtin_expect(!cursor->changed, 0))
		return fth_cursor_refuse();
	at = cursor->data + (i - cursor->first) * size;
	if (size <= 8)
		fth_array_store_bytes(at, fth_array_load_value(value, size), size);
	else
		memcpy(at, value, size);
	return 0;
}

FTH_END_DECLS

#ifdef __cplusplus
/*
 * Values of fth_set(), fth_fill() and fth_cursor_set() in C++, where a compound literal has no
 * address: one value that converts to T or a braced list, or the members of T, two at least. The
 * first argument only carries the type; a parameter of type fth_array_same_<T>::type takes no part
 * in finding T.
 */
template <typename T> struct fth_array_same_ {
	typedef T type;
};

template <typename T>
inline int fth_array_set_as_(const T *, struct fth_array *array, uint64_t i,
			     const typename fth_array_same_<T>::type &value)
{
	return fth_array_set(array, i, &value, sizeof(T));
}

template <typename T, typename A, typename B, typename... Rest>
inline int fth_array_set_as_(const T *type, struct fth_array *array, uint64_t i, const A &a,
			     const B &b, const Rest &...rest)
{
	return fth_array_set_as_(type, array, i, T{a, b, rest...});
}

template <typename T>
inline int fth_array_fill_as_(const T *, struct fth_array *array, uint64_t first, uint64_t n,
			      const typename fth_array_same_<T>::type &value)
{
	return fth_array_fill(array, first, n, &value);
}

template <typename T, typename A, typename B, typename... Rest>
inline int fth_array_fill_as_(const T *type, struct fth_array *array, uint64_t first, uint64_t n,
			      const A &a, const B &b, const Rest &...rest)
{
	return fth_array_fill_as_(type, array, first, n, T{a, b, rest...});
}

template <typename T>
inline int fth_cursor_set_as_(const T *, struct fth_cursor *cursor, uint64_t i,
			      const typename fth_array_same_<T>::type &value)
{
	return fth_cursor_store(cursor, i, &value, sizeof(T));
}

template <typename T, typename A, typename B, typename... Rest>
inline int fth_cursor_set_as_(const T *type, struct fth_cursor *cursor, uint64_t i, const A &a,
			      const B &b, const Rest &...rest)
{
	return fth_cursor_set_as_(type, cursor, i, T{a, b, rest...});
}
#endif
#endif
