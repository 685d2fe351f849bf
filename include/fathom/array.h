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
 * An array is a run of elements of one size (a power of two, at most a line) on part of a device
 * or volume object, seen through a cache. Any number of threads may use it at once; closing may not
 * overlap use. Elements of 1, 2, 4 and 8 bytes are read and set whole, never torn; ordering between
 * threads is the caller's, except for the atomics below.
 *
 * Every call checks bounds (-ERANGE) and returns errors; calls wait at most the cache's timeout.
 */
#ifndef FATHOM_ARRAY_H
#define FATHOM_ARRAY_H

#include "fathom/base/decls.h"
#include "fathom/cache.h"

FTH_BEGIN_DECLS

#define FTH_ARRAY_ALL UINT64_MAX

struct fth_array;

/* What a read of a hot line needs to know of its array. Not part of the interface. */
struct fth_array_look {
	uint64_t count;
	uint64_t *words; /* where nothing can be read so: one that is never HOT, for all elements */
	uint8_t *frames;
	uint64_t in_line;  /* mask: an element's place in its line */
	uint64_t *peeks;   /* where such reads are counted */
	uint32_t per_line; /* log2 of the elements in a line */
};

/*
 * A typed handle. Use a typedef of it to pass it on. base is the untyped array. It can be copied;
 * a loop that gets many elements one by one is fastest with a copy among its own variables, since
 * the compiler then knows that nobody changes it. Filled by fth_open() and fth_wrap().
 */
#define FTH_ARRAY(type)                     \
	struct {                            \
		struct fth_array *base;     \
		type *type_of_element;      \
		struct fth_array_look look; \
	}

/* The pointer p, if it points to what the typed handle's elements are; else a warning. */
#define FTH_ARRAY_CHECKED_(typed, p) ((p) + 0 * sizeof((p) == (typed).type_of_element))

/* ---- opening ---- */

/* Zero-initialise for the defaults. */
struct fth_array_options {
	uint64_t offset; /* bytes into the device where element 0 is; a multiple of its block */
	uint64_t count;	 /* elements; 0: as many whole ones as fit */
	bool readonly;
};

/*
 * Open on a device by URI: "file:/path", "vol(file:/a,file:/b)?object=name" or any other. The
 * device belongs to the array. options may be NULL.
 */
int fth_array_open(struct fth_cache *cache, const char *uri, size_t element,
		   const struct fth_array_options *options, struct fth_array **out);
/* The same on a device that is open already, and stays open after the array is closed. */
int fth_array_open_dev(struct fth_cache *cache, struct fth_dev *dev, size_t element,
		       const struct fth_array_options *options, struct fth_array **out);

/*
 * Flush, then close. Returns 0, or an error: then the array is still open, with all its changes,
 * and the caller may close it again, or discard it. Errors: the device's, -ETIMEDOUT, -EBUSY if
 * lines are pinned. Accepts NULL.
 */
int fth_array_close(struct fth_array *array);
/* The same without writing anything: changes that were not flushed are lost. Fails with -EBUSY or,
 * while the device has not ended its requests, -ETIMEDOUT. */
int fth_array_discard(struct fth_array *array);
/*
 * Close, or discard if that fails, for programs that end. Returns what closing returned. Sets
 * *array to NULL, unless discarding failed as well: then the array, its cache and its device are
 * still in use and must not be freed.
 */
int fth_array_finish(struct fth_array **array);

uint64_t fth_array_count(const struct fth_array *array);
size_t fth_array_element(const struct fth_array *array);
struct fth_cache *fth_array_cache(const struct fth_array *array);
struct fth_cache_range *fth_array_range(const struct fth_array *array);
struct fth_dev *fth_array_dev(const struct fth_array *array);

/* Open as above, or take an open array, into a typed handle: both parts of it. wrap gives -EINVAL
 * if elements are of another size. */
int fth_array_open_typed(struct fth_cache *cache, const char *uri, size_t element,
			 const struct fth_array_options *options, struct fth_array **out,
			 struct fth_array_look *look);
int fth_array_wrap(struct fth_array *array, size_t element, struct fth_array **out,
		   struct fth_array_look *look);

/* How many elements a typed handle's array has. */
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
 * Get and set one element; hot lines are read without a reference. The pointer must point to the
 * array's element type, which the compiler checks. Return 0 or a negative errno, which leaves no
 * more than a zero in *value.
 */
#define fth_get(typed, i, out)                                                              \
	fth_array_look_get((typed).base, (typed).look, (i), FTH_ARRAY_CHECKED_(typed, out), \
			   sizeof(*(typed).type_of_element))
#define fth_set(typed, i, ...)                                                                 \
	fth_array_set((typed).base, (i), &(__typeof__(*(typed).type_of_element)){__VA_ARGS__}, \
		      sizeof(*(typed).type_of_element))

/* `size` is that of the element, a constant to let the compiler choose the load. -EINVAL from
 * set if it is another. */
static inline int fth_array_get(struct fth_array *array, uint64_t i, void *out, size_t size);
static inline int fth_array_look_get(struct fth_array *array, struct fth_array_look look,
				     uint64_t i, void *out, size_t size);
int fth_array_set(struct fth_array *array, uint64_t i, const void *value, size_t size);

/* ---- runs of elements ---- */

/* Copy elements [first, first + n). A write that covers whole lines fetches nothing. After an error
 * any part may have been copied. */
int fth_array_read(struct fth_array *array, uint64_t first, uint64_t n, void *out);
int fth_array_write(struct fth_array *array, uint64_t first, uint64_t n, const void *values);
/* Set them all to one value. */
int fth_array_fill(struct fth_array *array, uint64_t first, uint64_t n, const void *value);

/* Typed, with checked pointers; fth_fill(typed, first, n, value). */
#define fth_read(typed, first, n, out) \
	fth_array_read((typed).base, (first), (n), FTH_ARRAY_CHECKED_(typed, out))
#define fth_write(typed, first, n, values) \
	fth_array_write((typed).base, (first), (n), FTH_ARRAY_CHECKED_(typed, values))
#define fth_fill(typed, first, n, ...)             \
	fth_array_fill((typed).base, (first), (n), \
		       &(__typeof__(*(typed).type_of_element)){__VA_ARGS__})

/* Make changes durable. n may be FTH_ARRAY_ALL: to the end. */
int fth_array_flush(struct fth_array *array, uint64_t first, uint64_t n);
/* A hint: start bringing them in. What is outside is left out. */
void fth_array_prefetch(struct fth_array *array, uint64_t first, uint64_t n);

/* ---- many elements anywhere: all misses in flight together ---- */

/* out[k] = element indices[k], for k in [0, n). -ERANGE if any index is outside; then nothing was
 * read. The same index may come twice. */
int fth_array_gather(struct fth_array *array, const uint64_t *indices, size_t n, void *out);
/* element indices[k] = values[k]. For an index that comes twice either value may win. */
int fth_array_scatter(struct fth_array *array, const uint64_t *indices, size_t n,
		      const void *values);

/* Typed, with checked pointers. */
#define fth_gather(typed, indices, n, out) \
	fth_array_gather((typed).base, (indices), (n), FTH_ARRAY_CHECKED_(typed, out))
#define fth_scatter(typed, indices, n, values) \
	fth_array_scatter((typed).base, (indices), (n), FTH_ARRAY_CHECKED_(typed, values))

/* A run of elements, as the neighbours of a vertex are. */
struct fth_span {
	uint64_t first;
	uint64_t count;
};

/*
 * Called with a piece of span `which`: `n` elements in memory from element `first` on. A span that
 * lies in several lines comes in several pieces, in any order. The memory is the cache's and is
 * valid during the call, which must not call into the cache. Negative ends the walk.
 */
typedef int (*fth_array_piece_fn)(void *context, size_t which, uint64_t first, const void *elements,
				  uint64_t n);

/*
 * Look at many spans, without copying, all misses in flight together; sorted spans whose lines are
 * neighbours on the device share requests. Empty spans are skipped. -ERANGE before anything is
 * called if any span is outside.
 */
int fth_array_walk(struct fth_array *array, const struct fth_span *spans, size_t n,
		   fth_array_piece_fn fn, void *context);

/* ---- pointers into lines ---- */

/* A piece of the array held in memory: elements [first, first + count) at data. */
struct fth_array_pin {
	void *data;
	uint64_t first;
	uint64_t count;
	struct fth_cache_pin pin;
};

/*
 * Pin the line that holds element i. FTH_CACHE_READ, _WRITE or _OVERWRITE; in the last case the
 * caller sets all the elements of the pin. While other threads read them with fth_array_get() or
 * gather, elements are to be stored whole (an atomic store, relaxed at least).
 */
int fth_array_pin(struct fth_array *array, uint64_t i, enum fth_cache_mode mode,
		  struct fth_array_pin *out);
/* `changed`: for pins that may write. */
void fth_array_unpin(struct fth_array_pin *pin, bool changed);

/*
 * A cursor: one thread's moving window. It keeps the line of its last access pinned, so that
 * accesses within a line cost a comparison (BaM 7.2.2, reference reuse). Moving forward line by
 * line it prefetches ahead. FTH_CACHE_OVERWRITE is for cursors that set every element of each line
 * they touch. A line that a cursor for writing was on counts as changed. Zero-initialised it may
 * be closed.
 */
struct fth_cursor {
	uint8_t *data;	/* of element `first` */
	uint64_t first; /* elements [first, first + count) are pinned; count 0: none */
	uint64_t count;
	bool changed; /* how the line will be let go */
	struct fth_array *array;
	enum fth_cache_mode mode;
	uint64_t ahead; /* prefetched up to this line */
	uint64_t reach; /* how many lines it prefetches */
	struct fth_cache_pin pin;
};

void fth_cursor_open(struct fth_cursor *cursor, struct fth_array *array, enum fth_cache_mode mode);
void fth_cursor_close(struct fth_cursor *cursor);

/* Slow path: move the window to the line of element i. */
int fth_cursor_move(struct fth_cursor *cursor, uint64_t i);

/* The address of element i, valid until the cursor moves or closes; NULL with *error set. */
static inline void *fth_cursor_at(struct fth_cursor *cursor, uint64_t i, size_t size, int *error)
{
	if (__builtin_expect(i - cursor->first >= cursor->count, 0)) {
		*error = fth_cursor_move(cursor, i);
		if (*error < 0)
			return (void *)0;
	}
	return cursor->data + (i - cursor->first) * size;
}

/* The elements from i on that are in memory with it: their address, and how many in *n. For loops
 * over plain memory. NULL with *error set. */
static inline void *fth_cursor_span(struct fth_cursor *cursor, uint64_t i, size_t size, uint64_t *n,
				    int *error)
{
	void *at = fth_cursor_at(cursor, i, size, error);

	*n = at ? cursor->count - (i - cursor->first) : 0;
	return at;
}

/* Copy one element out or in, whole; 0 or a negative errno. */
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
/* The array's and the cursor's types must be the same. */
#define fth_start(cursor, typed, mode)                                                            \
	fth_cursor_open(&(cursor)->base +                                                         \
				0 * sizeof((cursor)->type_of_element == (typed).type_of_element), \
			(typed).base, (mode))
#define fth_cursor_get(cursor, i, out)                                            \
	fth_cursor_load(&(cursor)->base, (i), FTH_ARRAY_CHECKED_(*(cursor), out), \
			sizeof(*(cursor)->type_of_element))
#define fth_cursor_set(cursor, i, ...)                                           \
	fth_cursor_store(&(cursor)->base, (i),                                   \
			 &(__typeof__(*(cursor)->type_of_element)){__VA_ARGS__}, \
			 sizeof(*(cursor)->type_of_element))
/* A typed pointer to element i, NULL with *error set; fth_at_span() also says how many follow. */
#define fth_at(cursor, i, error)                               \
	((__typeof__((cursor)->type_of_element))fth_cursor_at( \
		&(cursor)->base, (i), sizeof(*(cursor)->type_of_element), (error)))
#define fth_at_span(cursor, i, n, error)                         \
	((__typeof__((cursor)->type_of_element))fth_cursor_span( \
		&(cursor)->base, (i), sizeof(*(cursor)->type_of_element), (n), (error)))

/* ---- atomics on elements of 4 and 8 bytes ---- */

/*
 * Atomic among all users of the array in this process; *old may be NULL. Sequentially consistent,
 * but for a minimum that changes nothing, which acquires only. -EINVAL for another element size.
 */
int fth_array_add32(struct fth_array *array, uint64_t i, uint32_t amount, uint32_t *old);
int fth_array_add64(struct fth_array *array, uint64_t i, uint64_t amount, uint64_t *old);
int fth_array_xor64(struct fth_array *array, uint64_t i, uint64_t bits, uint64_t *old);
int fth_array_min32(struct fth_array *array, uint64_t i, uint32_t value, uint32_t *old);
int fth_array_min64(struct fth_array *array, uint64_t i, uint64_t value, uint64_t *old);
/* *expected is set to what was found; 1 if it was swapped, 0 if not, or a negative errno. */
int fth_array_cas32(struct fth_array *array, uint64_t i, uint32_t *expected, uint32_t desired);
int fth_array_cas64(struct fth_array *array, uint64_t i, uint64_t *expected, uint64_t desired);
/* Many at once, misses in flight together: element indices[k] ^= values[k] (GUPS' update). */
int fth_array_xor64_many(struct fth_array *array, const uint64_t *indices, size_t n,
			 const uint64_t *values);

FTH_END_DECLS

#include "fathom/detail/array/inline.h"

#endif
