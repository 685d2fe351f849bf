/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call, at random, against a plain copy of the array: all element sizes, all line sizes, both
 * kinds of cache, each too small for the data; with an offset, and a last line and block that the
 * elements do not fill.
 */
#include "array_fixture.h"

#include <stdlib.h>
#include <string.h>

#define MANY	 300 /* elements or spans of one call at most */
#define SCRATCH	 (MANY * 4096)
#define OPS	 120
#define SPAN_MAX 700

static struct fth_rng rng = {2024};
static uint8_t *scratch;

/* A place, and a length of up to `max` from there. */
static uint64_t choose(const struct array_fixture *f, uint64_t max, uint64_t *n)
{
	uint64_t first = fth_rng_below(&rng, f->shape.count), room = f->shape.count - first;

	*n = fth_rng_below(&rng, (room < max ? room : max) + 1);
	return first;
}

static void choose_indices(const struct array_fixture *f, uint64_t *indices, size_t n)
{
	uint64_t near = fth_rng_below(&rng, f->shape.count);

	for (size_t k = 0; k < n; k++)
		indices[k] = fth_rng_below(&rng, 4) ? fth_rng_below(&rng, f->shape.count)
						    : (near + k / 2) % f->shape.count;
}

static void get_and_set(struct array_fixture *f)
{
	uint64_t i = fth_rng_below(&rng, f->shape.count);
	size_t size = f->shape.element;

	assert_ok(fth_array_get(f->array, i, scratch, size));
	assert_memory_equal(scratch, array_fixture_model(f, i), size);
	array_fixture_bytes(array_fixture_model(f, i), size, fth_rng_next(&rng));
	assert_ok(fth_array_set(f->array, i, array_fixture_model(f, i), size));
}

static void read_run(struct array_fixture *f)
{
	uint64_t n, first = choose(f, SCRATCH / f->shape.element, &n);

	assert_ok(fth_array_read(f->array, first, n, scratch));
	assert_memory_equal(scratch, array_fixture_model(f, first), n * f->shape.element);
}

static void write_run(struct array_fixture *f)
{
	uint64_t n, first = choose(f, SCRATCH / f->shape.element, &n);

	array_fixture_bytes(array_fixture_model(f, first), n * f->shape.element,
			    fth_rng_next(&rng));
	assert_ok(fth_array_write(f->array, first, n, array_fixture_model(f, first)));
}

static void fill_run(struct array_fixture *f)
{
	uint64_t n, first = choose(f, f->shape.count, &n);

	array_fixture_bytes(scratch, f->shape.element, fth_rng_next(&rng));
	for (uint64_t k = 0; k < n; k++)
		memcpy(array_fixture_model(f, first + k), scratch, f->shape.element);
	assert_ok(fth_array_fill(f->array, first, n, scratch));
}

static void gather(struct array_fixture *f)
{
	uint64_t indices[MANY];
	size_t n = fth_rng_below(&rng, MANY), size = f->shape.element;

	choose_indices(f, indices, n);
	assert_ok(fth_array_gather(f->array, indices, n, scratch));
	for (size_t k = 0; k < n; k++)
		assert_memory_equal(scratch + k * size, array_fixture_model(f, indices[k]), size);
}

static void scatter(struct array_fixture *f)
{
	uint64_t indices[MANY];
	size_t n = fth_rng_below(&rng, MANY), size = f->shape.element;

	choose_indices(f, indices, n);
	/* The value follows from the index, so it is the same where an index comes twice. */
	for (size_t k = 0; k < n; k++) {
		array_fixture_bytes(scratch + k * size, size, indices[k] + n);
		memcpy(array_fixture_model(f, indices[k]), scratch + k * size, size);
	}
	assert_ok(fth_array_scatter(f->array, indices, n, scratch));
}

/* ---- spans ---- */

struct seen {
	struct array_fixture *f;
	const struct fth_span *spans;
	uint64_t elements;
};

static int see(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	struct seen *seen = context;
	const struct fth_span *span = &seen->spans[which];

	assert_true(n > 0);
	assert_true(first >= span->first && first + n <= span->first + span->count);
	assert_memory_equal(elements, array_fixture_model(seen->f, first),
			    n * seen->f->shape.element);
	seen->elements += n;
	return 0;
}

static int by_first(const void *a, const void *b)
{
	const struct fth_span *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

static void walk(struct array_fixture *f)
{
	struct fth_span spans[MANY];
	struct seen seen = {f, spans, 0};
	size_t n = fth_rng_below(&rng, MANY);
	uint64_t sum = 0;

	for (size_t k = 0; k < n; k++) {
		spans[k].first = choose(f, fth_rng_below(&rng, 8) ? 9 : SPAN_MAX, &spans[k].count);
		sum += spans[k].count;
	}
	if (fth_rng_below(&rng, 2))
		qsort(spans, n, sizeof(spans[0]), by_first);
	assert_ok(fth_array_walk(f->array, spans, n, see, &seen));
	assert_int_equal(seen.elements, sum);
}

/* ---- pointers ---- */

static void pin(struct array_fixture *f)
{
	uint64_t i = fth_rng_below(&rng, f->shape.count);
	struct fth_array_pin p;
	bool change = fth_rng_below(&rng, 2);

	assert_ok(fth_array_pin(f->array, i, change ? FTH_CACHE_OVERWRITE : FTH_CACHE_READ, &p));
	assert_true(i >= p.first && i - p.first < p.count);
	if (change) {
		array_fixture_bytes(array_fixture_model(f, p.first), p.count * f->shape.element,
				    fth_rng_next(&rng));
		memcpy(p.data, array_fixture_model(f, p.first), p.count * f->shape.element);
	} else {
		assert_memory_equal(p.data, array_fixture_model(f, p.first),
				    p.count * f->shape.element);
	}
	fth_array_unpin(&p, change);
}

static void run_cursor(struct array_fixture *f)
{
	uint64_t n, first = choose(f, f->shape.count, &n);
	size_t size = f->shape.element;
	bool change = fth_rng_below(&rng, 2);
	struct fth_cursor cursor;

	fth_cursor_open(&cursor, f->array, change ? FTH_CACHE_WRITE : FTH_CACHE_READ);
	for (uint64_t i = first; i < first + n; i++) {
		assert_ok(fth_cursor_load(&cursor, i, scratch, size));
		assert_memory_equal(scratch, array_fixture_model(f, i), size);
		if (!change)
			continue;
		array_fixture_bytes(array_fixture_model(f, i), size, i + n);
		assert_ok(fth_cursor_store(&cursor, i, array_fixture_model(f, i), size));
	}
	fth_cursor_close(&cursor);
}

/* A cursor that sets everything from the first element of a line to the end. */
static void overwrite_with_cursor(struct array_fixture *f)
{
	size_t size = f->shape.element;
	uint64_t in_line = f->shape.line / size;
	uint64_t i = fth_rng_below(&rng, f->shape.count) / in_line * in_line;
	struct fth_cursor cursor;

	fth_cursor_open(&cursor, f->array, FTH_CACHE_OVERWRITE);
	for (; i < f->shape.count; i++) {
		array_fixture_bytes(array_fixture_model(f, i), size, i + 5);
		assert_ok(fth_cursor_store(&cursor, i, array_fixture_model(f, i), size));
	}
	fth_cursor_close(&cursor);
}

static void flush_or_prefetch(struct array_fixture *f)
{
	uint64_t n, first = choose(f, f->shape.count, &n);

	if (fth_rng_below(&rng, 2))
		fth_array_prefetch(f->array, first, n);
	else if (fth_rng_below(&rng, 2))
		assert_ok(fth_array_flush(f->array, first, n));
	else
		assert_ok(fth_cache_evict(fth_array_range(f->array), 0, UINT64_MAX));
}

static void do_anything(struct array_fixture *f)
{
	static void (*const ops[])(struct array_fixture *) = {
		get_and_set,	  read_run, write_run, fill_run,   gather,
		scatter,	  walk,	    pin,       run_cursor, overwrite_with_cursor,
		flush_or_prefetch};

	ops[fth_rng_below(&rng, sizeof(ops) / sizeof(ops[0]))](f);
}

static void runs_as_the_model_does(uint32_t line, size_t element, bool compact)
{
	struct array_shape shape = {
		.line = line, .frames = 10, .compact = compact, .element = element, .offset = 1536};
	struct array_fixture f;

	/* About three times the cache, and neither lines nor blocks are full at the end. */
	shape.count = 30 * line / element + 3;
	array_fixture_open(&f, &shape);
	for (unsigned i = 0; i < OPS; i++)
		do_anything(&f);
	array_fixture_compare(&f);
	array_fixture_close(&f);
}

static void all_sizes_of_elements(void **state)
{
	(void)state;
	for (size_t element = 1; element <= 4096; element *= element < 16 ? 2 : 16)
		for (int compact = 0; compact < 2; compact++)
			runs_as_the_model_does(4096, element, compact);
}

static void all_sizes_of_lines(void **state)
{
	(void)state;
	for (uint32_t line = FTH_CACHE_LINE_MIN; line <= FTH_CACHE_LINE_MAX; line *= 2)
		runs_as_the_model_does(line, line >= 16384 ? 64 : 8, line & 0xaaaaaaaa);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_sizes_of_elements),
		cmocka_unit_test(all_sizes_of_lines),
	};
	int failed;

	scratch = malloc(SCRATCH);
	if (!scratch)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(scratch);
	return failed;
}
