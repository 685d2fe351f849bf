/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads, one array, a cache that is far too small. Each thread owns some elements and knows
 * what they hold; all of them look at all elements and add to shared counters.
 *
 * An element of the first part holds its index in the upper half and a number in the lower one, so
 * that anyone can tell it from another element, from a torn one and from another line's.
 */
#include "array_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS	 6u
#define OWNED	 3000u /* elements with an owner: index % THREADS */
#define COUNTERS 600u  /* after them */
#define COUNT	 (OWNED + COUNTERS)
#define BATCH	 40u
#define ROUNDS	 300u

struct worker {
	pthread_t thread;
	struct array_fixture *f;
	unsigned number;
	struct fth_rng rng;
	uint32_t mine[OWNED / THREADS]; /* the numbers in this thread's elements */
	uint64_t added;			/* to counters */
	const char *wrong;		/* what was seen and should not be; the thread ended */
	int error;			/* with it, if it was an error */
};

static uint64_t element(uint64_t i, uint32_t number)
{
	return i << 32 | number;
}

static uint64_t own_index(struct worker *w, uint64_t *k)
{
	*k = fth_rng_below(&w->rng, OWNED / THREADS);
	return *k * THREADS + w->number;
}

static void expect(struct worker *w, bool ok, const char *what)
{
	if (!ok && !w->wrong)
		w->wrong = what;
}

static void expect_ok(struct worker *w, int rc, const char *call)
{
	if (rc < 0 && !w->wrong) {
		w->wrong = call;
		w->error = rc;
	}
}

/* ---- what a thread does ---- */

static void get_any(struct worker *w)
{
	for (unsigned n = 0; n < BATCH; n++) {
		uint64_t i = fth_rng_below(&w->rng, OWNED), value = 0;

		expect_ok(w, fth_array_get(w->f->array, i, &value, 8), "get");
		expect(w, value >> 32 == i, "get: another element");
	}
}

static void get_and_set_own(struct worker *w)
{
	for (unsigned n = 0; n < BATCH; n++) {
		uint64_t k, i = own_index(w, &k), value = 0;

		expect_ok(w, fth_array_get(w->f->array, i, &value, 8), "get");
		expect(w, value == element(i, w->mine[k]), "get: not what was set");
		value = element(i, ++w->mine[k]);
		expect_ok(w, fth_array_set(w->f->array, i, &value, 8), "set");
	}
}

static void gather_any(struct worker *w)
{
	uint64_t indices[BATCH], values[BATCH];

	for (unsigned n = 0; n < BATCH; n++)
		indices[n] = fth_rng_below(&w->rng, OWNED);
	expect_ok(w, fth_array_gather(w->f->array, indices, BATCH, values), "gather");
	for (unsigned n = 0; n < BATCH; n++)
		expect(w, values[n] >> 32 == indices[n], "gather: another element");
}

static void scatter_own(struct worker *w)
{
	uint64_t indices[BATCH], values[BATCH], k;

	for (unsigned n = 0; n < BATCH; n++) {
		indices[n] = own_index(w, &k);
		/* The same element twice has the same number twice. */
		w->mine[k] = (uint32_t)k * 7 + 1;
		values[n] = element(indices[n], w->mine[k]);
	}
	expect_ok(w, fth_array_scatter(w->f->array, indices, BATCH, values), "scatter");
	expect_ok(w, fth_array_gather(w->f->array, indices, BATCH, values), "gather");
	for (unsigned n = 0; n < BATCH; n++)
		expect(w, values[n] == element(indices[n], w->mine[indices[n] / THREADS]),
		       "gather: not what was scattered");
}

static void add_to_counters(struct worker *w)
{
	for (unsigned n = 0; n < BATCH; n++) {
		uint64_t i = OWNED + fth_rng_below(&w->rng, COUNTERS);
		uint64_t amount = fth_rng_below(&w->rng, 100), old, seen = 0;
		int rc;

		if (n % 2) {
			rc = fth_array_add64(w->f->array, i, amount, &old);
		} else {
			rc = fth_array_get(w->f->array, i, &seen, 8);
			while (rc == 0) {
				rc = fth_array_cas64(w->f->array, i, &seen, seen + amount);
				if (rc != 0)
					break;
			}
			rc = rc > 0 ? 0 : rc;
		}
		expect_ok(w, rc, "add");
		w->added += amount;
	}
}

static int look(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	struct worker *w = context;
	const uint64_t *values = elements;

	(void)which;
	/* Their owners may be setting them. */
	for (uint64_t k = 0; k < n; k++)
		expect(w, fth_load_relaxed_dev64(&values[k]) >> 32 == first + k,
		       "walk: another element");
	return 0;
}

static void walk_any(struct worker *w)
{
	struct fth_span spans[8];

	for (unsigned n = 0; n < 8; n++)
		spans[n] = (struct fth_span){fth_rng_below(&w->rng, OWNED - 200),
					     fth_rng_below(&w->rng, 200)};
	expect_ok(w, fth_array_walk(w->f->array, spans, 8, look, w), "walk");
}

static void read_and_flush(struct worker *w)
{
	uint64_t values[150], first = fth_rng_below(&w->rng, OWNED - 150);

	expect_ok(w, fth_array_read(w->f->array, first, 150, values), "read");
	for (unsigned n = 0; n < 150; n++)
		expect(w, values[n] >> 32 == first + n, "read: another element");
	if (fth_rng_below(&w->rng, 8) == 0)
		expect_ok(w, fth_array_flush(w->f->array, first, 150), "flush");
}

static void run_cursor(struct worker *w)
{
	uint64_t first = fth_rng_below(&w->rng, OWNED - 300), value = 0;
	struct fth_cursor cursor;

	fth_cursor_open(&cursor, w->f->array, FTH_CACHE_READ);
	for (uint64_t i = first; i < first + 300; i++) {
		expect_ok(w, fth_cursor_load(&cursor, i, &value, 8), "cursor");
		expect(w, value >> 32 == i, "cursor: another element");
	}
	fth_cursor_close(&cursor);
}

static void *work(void *arg)
{
	static void (*const things[])(struct worker *) = {
		get_any,	 get_and_set_own, gather_any,	  scatter_own,
		add_to_counters, walk_any,	  read_and_flush, run_cursor};
	struct worker *w = arg;

	for (unsigned n = 0; n < ROUNDS && !w->wrong; n++)
		things[fth_rng_below(&w->rng, sizeof(things) / sizeof(things[0]))](w);
	return NULL;
}

/* ---- the test ---- */

static void prepare(struct array_fixture *f)
{
	uint64_t zero = 0;

	for (uint64_t i = 0; i < OWNED; i++)
		*(uint64_t *)array_fixture_model(f, i) = element(i, 0);
	assert_ok(fth_array_write(f->array, 0, OWNED, f->model));
	assert_ok(fth_array_fill(f->array, OWNED, COUNTERS, &zero));
}

/* From what the threads know to what the array should hold. */
static void check(struct array_fixture *f, const struct worker *workers)
{
	uint64_t sum = 0, added = 0, value;

	for (unsigned t = 0; t < THREADS; t++) {
		if (workers[t].wrong)
			fail_msg("%s: %s", workers[t].wrong, strerror(-workers[t].error));
		added += workers[t].added;
		for (uint64_t k = 0; k < OWNED / THREADS; k++)
			*(uint64_t *)array_fixture_model(f, k * THREADS + t) =
				element(k * THREADS + t, workers[t].mine[k]);
	}
	for (uint64_t i = OWNED; i < COUNT; i++) {
		assert_ok(fth_array_get(f->array, i, &value, 8));
		*(uint64_t *)array_fixture_model(f, i) = value;
		sum += value;
	}
	assert_int_equal(sum, added);
	array_fixture_compare(f);
}

static void everyone_sees_their_own(const struct array_shape *shape)
{
	struct worker *workers = calloc(THREADS, sizeof(*workers));
	struct array_fixture f;

	assert_non_null(workers);
	array_fixture_open(&f, shape);
	prepare(&f);
	for (unsigned t = 0; t < THREADS; t++) {
		workers[t].f = &f;
		workers[t].number = t;
		workers[t].rng.state = t;
		assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	check(&f, workers);
	assert_true(fth_cache_stat(f.cache, FTH_CACHE_EVICTIONS) > 0);
	array_fixture_close(&f);
	free(workers);
}

static void with_a_word_for_each_line(void **state)
{
	const struct array_shape shape = {.line = 512, .frames = 20, .element = 8, .count = COUNT};

	(void)state;
	everyone_sees_their_own(&shape);
}

static void with_a_compact_cache(void **state)
{
	const struct array_shape shape = {
		.line = 512, .frames = 20, .compact = true, .element = 8, .count = COUNT};

	(void)state;
	everyone_sees_their_own(&shape);
}

static void with_larger_lines(void **state)
{
	/* Eight lines would hold it all. */
	const struct array_shape shape = {.line = 4096, .frames = 6, .element = 8, .count = COUNT};

	(void)state;
	everyone_sees_their_own(&shape);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_a_word_for_each_line),
		cmocka_unit_test(with_a_compact_cache),
		cmocka_unit_test(with_larger_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
