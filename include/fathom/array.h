/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays larger than memory.
 *
 *	typedef FTH_ARRAY(uint64_t) u64_array;
 *	u64_array a;
 *	uint64_t v;
 *
 *	fth_open(&a, cache, "file:/data/a", NULL);
 *	fth_get(a, 12, &v);
 *	fth_set(a, 12, v + 1);
 *	fth_array_flush(a.base, 0, FTH_ARRAY_ALL);
 *	fth_array_close(a.base);
 *
 * An array is a sequence of elements of one size (a power of two, at most a line) on part of a
 * device or volume object, accessed through a cache. Any number of threads may use an array at
 * once; no thread may use it while another closes it. Reads and writes of elements of 1, 2, 4 and 8
 * bytes are not torn; the caller orders them between threads, except for the atomics below.
 *
 * Every call returns 0 or a negative errno unless stated otherwise. Calls check bounds (-ERANGE). A
 * call that waits for a device fails with -ETIMEDOUT when nothing that it waits for has completed
 * within the cache's timeout; that includes flushes and closing. A call that needs many lines may
 * take longer than the timeout in total, as long as lines arrive.
 *
 * The macros with short names (fth_get, fth_set) work on typed handles in C11 and C++17; the
 * compiler checks the types of their arguments.
 */
#ifndef FATHOM_ARRAY_H
#define FATHOM_ARRAY_H

#include "fathom/base/decls.h"
#include "fathom/cache.h"

FTH_BEGIN_DECLS

/* As a number of elements: all up to the end of the array. */
#define FTH_ARRAY_ALL UINT64_MAX

struct fth_array;

/* What the inline read of a hot line needs of its array. Not part of the interface. */
struct fth_array_look {
	uint64_t count;
	uint64_t *words; /* without inline reads: one word that is never HOT, for all elements */
	uint8_t *frames;
	uint64_t in_line;  /* mask: an element's index in its line */
	uint64_t *peeks;   /* the counter of these reads */
	uint32_t per_line; /* log2 of the elements in a line */
};

/*
 * A typed handle, filled by fth_open() or fth_wrap(). base is the untyped array. Declare a typedef
 * of it to pass it to functions. It can be copied. A loop of single gets is fastest on a copy in a
 * local variable, which no other code can change.
 */
#define FTH_ARRAY(type)                     \
	struct {                            \
		struct fth_array *base;     \
		type *type_of_element;      \
		struct fth_array_look look; \
	}

/* The pointer p. The compiler warns if p does not point to the element type. */
#define FTH_ARRAY_CHECKED_(typed, p) ((p) + 0 * sizeof((p) == (typed).type_of_element))

/* ---- opening and closing ---- */

/* Start from FTH_ARRAY_OPTIONS_INIT. */
struct fth_array_options {
	size_t size;	 /* of this struct */
	uint64_t offset; /* of element 0, in bytes; a multiple of the device's block */
	uint64_t count;	 /* elements; 0: as many as fit */
	bool readonly;
	/*
	 * fth_array_open(): lock the file of the URI, shared if readonly, else exclusive, until the
	 * array is closed. -EBUSY if another array or process has locked it otherwise.
	 */
	bool lock;
};

#define FTH_ARRAY_OPTIONS_INIT                                       \
	{                                                            \
		sizeof(struct fth_array_options), 0, 0, false, false \
	}

/*
 * Open an array on a device by URI: "file:/path", "vol(file:/a,file:/b)?object=name" or any other.
 * The array owns the device. options may be NULL. Blocks. -EINVAL for an element size that is not a
 * power of two or larger than a line, -ERANGE if count elements do not fit, the errors of
 * fth_dev_open() and fth_cache_add().
 */
int fth_array_open(struct fth_cache *cache, const char *uri, size_t element,
		   const struct fth_array_options *options, struct fth_array **out);
/* The same on an open device, which the caller keeps open until the array is closed. */
int fth_array_open_dev(struct fth_cache *cache, struct fth_dev *dev, size_t element,
		       const struct fth_array_options *options, struct fth_array **out);

/*
 * Flush the array, then close it. If that fails the array is still open and usable, with all its
 * changes; the caller may close it again, or discard it. Blocks. Errors: the device's, -ETIMEDOUT,
 * -EBUSY if lines are pinned. Accepts NULL.
 */
int fth_array_close(struct fth_array *array);
/*
 * Close the array without writing anything: changes that were not flushed may be lost. If that
 * fails the array is still open. -EBUSY if lines are pinned, -ETIMEDOUT if the device has not
 * completed requests that are in flight from the cache's memory. Accepts NULL.
 */
int fth_array_discard(struct fth_array *array);
/*
 * Close, or discard if closing fails: for programs that end. Returns the result of closing. Sets
 * *array to NULL, unless discarding failed as well: then the array is still open, and the caller
 * must not close its device.
 */
int fth_array_finish(struct fth_array **array);

/* The number of elements, and the bytes of an element. Any thread. */
uint64_t fth_array_count(const struct fth_array *array);
size_t fth_array_element(const struct fth_array *array);
/* The cache of the array and the range in it; not the caller's. Any thread. */
struct fth_cache *fth_array_cache(const struct fth_array *array);
struct fth_cache_range *fth_array_range(const struct fth_array *array);

/*
 * For fth_open() and fth_wrap(): open, or take an open array, into the parts of a typed handle.
 * wrap returns -EINVAL if `element` is not the array's element size.
 */
int fth_array_open_typed(struct fth_cache *cache, const char *uri, size_t element,
			 const struct fth_array_options *options, struct fth_array **out,
			 struct fth_array_look *look);
int fth_array_wrap(struct fth_array *array, size_t element, struct fth_array **out,
		   struct fth_array_look *look);

/* The number of elements of a typed handle's array. */
#define fth_count(typed) ((typed).look.count)

/* Typed: fth_open(&typed, cache, uri, options), fth_wrap(&typed, array). */
#define fth_open(typed, cache, uri, options)                                               \
	fth_array_open_typed((cache), (uri), sizeof(*(typed)->type_of_element), (options), \
			     &(typed)->base, &(typed)->look)
#define fth_wrap(typed, array) \
	fth_array_wrap((array), sizeof(*(typed)->type_of_element), &(typed)->base, &(typed)->look)

/* ---- single elements ---- */

/*
 * fth_get(typed, i, &value)   fth_set(typed, i, value)
 *
 * Get or set one element. A get from a hot line takes no reference. It makes no call for elements
 * of up to 8 bytes in a cache that is not compact and has less than 32 GiB; otherwise random gets
 * of hot elements take about 2.5 times as long (gather is as fast in caches of any size). After an
 * error *value is 0 or unchanged. A value of a struct type is given by its members in C
 * (fth_set(points, i, 1, 2)), and in C++ by its members, a braced list or an object.
 */
#define fth_get(typed, i, out)                                                              \
	fth_array_look_get((typed).base, (typed).look, (i), FTH_ARRAY_CHECKED_(typed, out), \
			   sizeof(*(typed).type_of_element))
#ifdef __cplusplus
#define fth_set(typed, i, ...) \
	fth_array_set_as_((typed).type_of_element, (typed).base, (i), __VA_ARGS__)
#else
#define fth_set(typed, i, ...)                                                                 \
	fth_array_set((typed).base, (i), &(__typeof__(*(typed).type_of_element)){__VA_ARGS__}, \
		      sizeof(*(typed).type_of_element))
#endif

/* Untyped. -EINVAL if `size` is not the array's element size. A constant `size` lets the compiler
 * choose the load. After an error the `size` bytes at `out` are 0 or unchanged. */
static inline int fth_array_get(struct fth_array *array, uint64_t i, void *out, size_t size);
int fth_array_set(struct fth_array *array, uint64_t i, const void *value, size_t size);

/* For fth_get(): `look` is the array's, and `size` its element size. Not part of the interface. */
static inline int fth_array_look_get(struct fth_array *array, struct fth_array_look look,
				     uint64_t i, void *out, size_t size);

/* ---- runs of elements ---- */

/*
 * Copy elements [first, first + n) out or in. A write fetches no line that it covers entirely.
 * After an error any part may have been copied.
 */
int fth_array_read(struct fth_array *array, uint64_t first, uint64_t n, void *out);
int fth_array_write(struct fth_array *array, uint64_t first, uint64_t n, const void *values);
/* Set elements [first, first + n) to one value. */
int fth_array_fill(struct fth_array *array, uint64_t first, uint64_t n, const void *value);

/* Typed, with checked pointers. fth_fill(typed, first, n, value): the value as for fth_set(). */
#define fth_read(typed, first, n, out) \
	fth_array_read((typed).base, (first), (n), FTH_ARRAY_CHECKED_(typed, out))
#define fth_write(typed, first, n, values) \
	fth_array_write((typed).base, (first), (n), FTH_ARRAY_CHECKED_(typed, values))
#ifdef __cplusplus
#define fth_fill(typed, first, n, ...) \
	fth_array_fill_as_((typed).type_of_element, (typed).base, (first), (n), __VA_ARGS__)
#else
#define fth_fill(typed, first, n, ...)             \
	fth_array_fill((typed).base, (first), (n), \
		       &(__typeof__(*(typed).type_of_element)){__VA_ARGS__})
#endif

/*
 * Make all changes of [first, first + n) durable that were made before the call; n may be
 * FTH_ARRAY_ALL. After an error the changes are still in the cache, and another flush tries again.
 */
int fth_array_flush(struct fth_array *array, uint64_t first, uint64_t n);
/* A hint: start to fetch the lines of [first, first + n). Ignores elements beyond the end, and
 * errors. Does not wait. */
void fth_array_prefetch(struct fth_array *array, uint64_t first, uint64_t n);

/* ---- many elements: all misses in flight together ---- */

/* out[k] = element indices[k], for k in [0, n). An index may occur more than once. -ERANGE, before
 * anything is read, if an index is out of range. */
int fth_array_gather(struct fth_array *array, const uint64_t *indices, size_t n, void *out);
/* element indices[k] = values[k]. If an index occurs more than once, any of its values is set. */
int fth_array_scatter(struct fth_array *array, const uint64_t *indices, size_t n,
		      const void *values);

/* Typed, with checked pointers. */
#define fth_gather(typed, indices, n, out) \
	fth_array_gather((typed).base, (indices), (n), FTH_ARRAY_CHECKED_(typed, out))
#define fth_scatter(typed, indices, n, values) \
	fth_array_scatter((typed).base, (indices), (n), FTH_ARRAY_CHECKED_(typed, values))

/* A run of elements, such as the neighbours of a vertex. */
struct fth_span {
	uint64_t first;
	uint64_t count;
};

/*
 * Called with a piece of span `which`: `n` elements in memory, from element `first` on. A span in
 * several lines comes in several pieces, in any order. The memory belongs to the cache and is valid
 * during the call. The function must not call into the cache. A negative result ends the walk.
 */
typedef int (*fth_array_piece_fn)(void *context, size_t which, uint64_t first, const void *elements,
				  uint64_t n);

/*
 * Call fn for all pieces of many spans, without copying. Sorted spans whose lines are adjacent on
 * the device share requests. Empty spans are skipped. Returns the first error or the negative
 * result of fn; -ERANGE, before any call, if a span is out of range.
 */
int fth_array_walk(struct fth_array *array, const struct fth_span *spans, size_t n,
		   fth_array_piece_fn fn, void *context);

/*
 * Rows: `count` records of `elements` elements each, one after the other from element `first` on.
 * A row may lie in several lines.
 */
struct fth_rows {
	uint64_t first;
	uint64_t elements;
	uint64_t count;
};

/*
 * Copy rows indices[0 .. n) to `out`, one after the other, with all misses in flight together. An
 * index may occur more than once. -ERANGE, before anything is read, if an index is not below
 * rows->count or the rows exceed the array; -EINVAL for rows of no elements.
 */
int fth_array_gather_rows(struct fth_array *array, const struct fth_rows *rows,
			  const uint64_t *indices, size_t n, void *out);
/*
 * Set rows indices[0 .. n) to the rows at `values`. Lines that one row covers are not fetched. If
 * an index occurs more than once, the last one wins. The same errors; after another error any part
 * may have been set.
 */
int fth_array_scatter_rows(struct fth_array *array, const struct fth_rows *rows,
			   const uint64_t *indices, size_t n, const void *values);
/*
 * A hint: start to fetch the lines of rows indices[0 .. n), at most as many lines as
 * fth_cache_prefetch_limit() says. Ignores rows out of range, and errors. Does not wait.
 */
void fth_array_prefetch_rows(struct fth_array *array, const struct fth_rows *rows,
			     const uint64_t *indices, size_t n);

/* ---- pointers into lines ---- */

/* Elements [first, first + count) in memory, at data. */
struct fth_array_pin {
	void *data;
	uint64_t first;
	uint64_t count;
	struct fth_cache_pin pin;
};

/*
 * Pin the line that holds element i, for FTH_CACHE_READ, _WRITE or _OVERWRITE; for the last, the
 * caller sets all elements of the pin. Other threads may read them with fth_array_get() or gather
 * meanwhile, so elements must be stored whole (with an atomic store, relaxed at least). The caller
 * unpins. Blocks while the line is fetched. Returns 0, -ERANGE, -EROFS for a read-only array, or an
 * error of fth_cache_pin().
 */
int fth_array_pin(struct fth_array *array, uint64_t i, enum fth_cache_mode mode,
		  struct fth_array_pin *out);
/* `changed`: elements were changed; ignored for FTH_CACHE_READ. */
void fth_array_unpin(struct fth_array_pin *pin, bool changed);

/*
 * A cursor: a moving window of one thread. It keeps the line of its last access pinned, so that an
 * access within a line costs a comparison (BaM 7.2.2, reference reuse). It prefetches while it
 * moves forward line by line. FTH_CACHE_OVERWRITE is for cursors that set every element of each
 * line they touch. Each line that a cursor for writing was on counts as changed. A zero-initialised
 * cursor may be closed.
 */
struct fth_cursor {
	uint8_t *data;	/* of element `first` */
	uint64_t first; /* elements [first, first + count) are pinned; count 0: none */
	uint64_t count;
	bool changed; /* the line is to be unpinned as changed */
	struct fth_array *array;
	enum fth_cache_mode mode;
	uint64_t ahead; /* prefetched up to this line */
	uint64_t reach; /* how many lines it prefetches */
	struct fth_cache_pin pin;
};

/*
 * Initialise a cursor, without I/O; close it, which unpins its line. Close all cursors before their
 * array.
 */
void fth_cursor_open(struct fth_cursor *cursor, struct fth_array *array, enum fth_cache_mode mode);
void fth_cursor_close(struct fth_cursor *cursor);

/* Slow path of the calls below: move the window to the line of element i. -EINVAL if `size` is not
 * the array's element size. */
int fth_cursor_move(struct fth_cursor *cursor, uint64_t i, size_t size);

/* The address of element i, valid until the cursor moves or is closed; NULL with *error set. `size`
 * is the element size, the same in all calls with one cursor. */
static inline void *fth_cursor_at(struct fth_cursor *cursor, uint64_t i, size_t size, int *error)
{
	if (__builtin_expect(i - cursor->first >= cursor->count, 0)) {
		*error = fth_cursor_move(cursor, i, size);
		if (*error < 0)
			return (void *)0;
	}
	return cursor->data + (i - cursor->first) * size;
}

/* The address of element i, and in *n how many elements from i on are in memory there; NULL with
 * *error set. For loops over plain memory. */
static inline void *fth_cursor_span(struct fth_cursor *cursor, uint64_t i, size_t size, uint64_t *n,
				    int *error)
{
	void *at = fth_cursor_at(cursor, i, size, error);

	*n = at ? cursor->count - (i - cursor->first) : 0;
	return at;
}

/* Copy one element out or in, not torn. -EROFS from store if the cursor was opened for reading. */
static inline int fth_cursor_load(struct fth_cursor *cursor, uint64_t i, void *out, size_t size);
static inline int fth_cursor_store(struct fth_cursor *cursor, uint64_t i, const void *value,
				   size_t size);

/*
 * Typed cursors:
 *
 *	FTH_CURSOR(uint64_t) c;
 *
 *	fth_start(&c, a, FTH_CACHE_READ);
 *	for (uint64_t i = 0; i < n && rc == 0; i++)
 *		rc = fth_cursor_get(&c, i, &v);
 *	fth_cursor_close(&c.base);
 */
#define FTH_CURSOR(type)                \
	struct {                        \
		struct fth_cursor base; \
		type *type_of_element;  \
	}
/* The element types of array and cursor must be the same. */
#define fth_start(cursor, typed, mode)                                                            \
	fth_cursor_open(&(cursor)->base +                                                         \
				0 * sizeof((cursor)->type_of_element == (typed).type_of_element), \
			(typed).base, (mode))
#define fth_cursor_get(cursor, i, out)                                            \
	fth_cursor_load(&(cursor)->base, (i), FTH_ARRAY_CHECKED_(*(cursor), out), \
			sizeof(*(cursor)->type_of_element))
/* The value as for fth_set(). */
#ifdef __cplusplus
#define fth_cursor_set(cursor, i, ...) \
	fth_cursor_set_as_((cursor)->type_of_element, &(cursor)->base, (i), __VA_ARGS__)
#else
#define fth_cursor_set(cursor, i, ...)                                           \
	fth_cursor_store(&(cursor)->base, (i),                                   \
			 &(__typeof__(*(cursor)->type_of_element)){__VA_ARGS__}, \
			 sizeof(*(cursor)->type_of_element))
#endif
/* fth_cursor_at() and fth_cursor_span() with typed pointers. */
#define fth_at(cursor, i, error)                               \
	((__typeof__((cursor)->type_of_element))fth_cursor_at( \
		&(cursor)->base, (i), sizeof(*(cursor)->type_of_element), (error)))
#define fth_at_span(cursor, i, n, error)                         \
	((__typeof__((cursor)->type_of_element))fth_cursor_span( \
		&(cursor)->base, (i), sizeof(*(cursor)->type_of_element), (n), (error)))

/* ---- atomics on elements of 4 and 8 bytes ---- */

/*
 * Atomic among all users of the array in this process, and sequentially consistent, except for a
 * minimum that changes nothing, which is an acquire load. *old is the value from before; old may be
 * NULL. -EINVAL if the array's elements have another size.
 */
int fth_array_add32(struct fth_array *array, uint64_t i, uint32_t amount, uint32_t *old);
int fth_array_add64(struct fth_array *array, uint64_t i, uint64_t amount, uint64_t *old);
int fth_array_xor64(struct fth_array *array, uint64_t i, uint64_t bits, uint64_t *old);
int fth_array_min32(struct fth_array *array, uint64_t i, uint32_t value, uint32_t *old);
int fth_array_min64(struct fth_array *array, uint64_t i, uint64_t value, uint64_t *old);
/* Compare and swap. Sets *expected to the value from before. Returns 1 if swapped, 0 if not, or a
 * negative errno. */
int fth_array_cas32(struct fth_array *array, uint64_t i, uint32_t *expected, uint32_t desired);
int fth_array_cas64(struct fth_array *array, uint64_t i, uint64_t *expected, uint64_t desired);
/* element indices[k] ^= values[k], all misses in flight together (the update of GUPS). */
int fth_array_xor64_many(struct fth_array *array, const uint64_t *indices, size_t n,
			 const uint64_t *values);

FTH_END_DECLS

#include "fathom/detail/array/inline.h"

#endif
