/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call with its first read failing, then its second, and so on until it gets through; the same
 * for writes. A call that met a failure says so (one failed request for several lines may have been
 * put right by asking for each line), and leaves every element old or new; without failures it
 * then does what it should.
 */
#include "array_fixture.h"

#include <errno.h>
#include <string.h>

#define LINE  512u
#define COUNT 2000u /* elements of 8 bytes: 32 lines */
#define MANY  100u

static const struct array_shape shape = {.line = LINE, .frames = 6, .element = 8, .count = COUNT};
static struct array_shape compact_shape;
static uint64_t indices[MANY], values[MANY], got[COUNT];

/* What the calls make of the array: element i of those they change becomes this. */
static uint64_t new_value(uint64_t i)
{
	return i * 1000 + 1;
}

static bool chosen(uint64_t i)
{
	return i % (COUNT / MANY) == 3;
}

static uint64_t model(struct array_fixture *f, uint64_t i)
{
	return *(uint64_t *)array_fixture_model(f, i);
}

static int look(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	(void)context, (void)which;
	memcpy(&got[first], elements, n * 8);
	return 0;
}

/* ---- calls that read ---- */

static int call_get(struct array_fixture *f)
{
	int rc = 0;

	for (unsigned k = 0; k < MANY && rc == 0; k++)
		rc = fth_array_get(f->array, indices[k], &got[indices[k]], 8);
	return rc;
}

static int call_read(struct array_fixture *f)
{
	return fth_array_read(f->array, 0, COUNT, got);
}

static int call_gather(struct array_fixture *f)
{
	uint64_t out[MANY];
	int rc = fth_array_gather(f->array, indices, MANY, out);

	for (unsigned k = 0; k < MANY && rc == 0; k++)
		got[indices[k]] = out[k];
	return rc;
}

static int call_walk(struct array_fixture *f)
{
	const struct fth_span spans[] = {{0, COUNT / 2}, {COUNT / 2, 0}, {COUNT / 2, COUNT / 2}};

	return fth_array_walk(f->array, spans, 3, look, NULL);
}

static int call_cursor(struct array_fixture *f)
{
	struct fth_cursor cursor;
	int rc = 0;

	fth_cursor_open(&cursor, f->array, FTH_CACHE_READ);
	for (uint64_t i = 0; i < COUNT && rc == 0; i++)
		rc = fth_cursor_load(&cursor, i, &got[i], 8);
	fth_cursor_close(&cursor);
	return rc;
}

static int call_pin(struct array_fixture *f)
{
	struct fth_array_pin pin;
	int rc = 0;

	for (uint64_t i = 0; i < COUNT && rc == 0; i += LINE / 8) {
		rc = fth_array_pin(f->array, i, FTH_CACHE_READ, &pin);
		if (rc == 0)
			memcpy(&got[i], pin.data, pin.count * 8);
		fth_array_unpin(&pin, false);
	}
	return rc;
}

/* ---- calls that change the chosen elements ---- */

static int call_set(struct array_fixture *f)
{
	int rc = 0;

	for (unsigned k = 0; k < MANY && rc == 0; k++)
		rc = fth_array_set(f->array, indices[k], &values[k], 8);
	return rc;
}

static int call_scatter(struct array_fixture *f)
{
	return fth_array_scatter(f->array, indices, MANY, values);
}

static int call_write(struct array_fixture *f)
{
	int rc = 0;

	for (unsigned k = 0; k < MANY && rc == 0; k++)
		rc = fth_array_write(f->array, indices[k], 1, &values[k]);
	return rc;
}

static int call_swap(struct array_fixture *f)
{
	int rc = 0;

	for (unsigned k = 0; k < MANY && rc >= 0; k++) {
		uint64_t expected = model(f, indices[k]);

		rc = fth_array_cas64(f->array, indices[k], &expected, values[k]);
		/* The second time around it is there already. */
		if (rc == 0)
			assert_int_equal(expected, values[k]);
	}
	return rc < 0 ? rc : 0;
}

static int call_move(struct array_fixture *f)
{
	struct fth_cursor cursor;
	int rc = 0;

	fth_cursor_open(&cursor, f->array, FTH_CACHE_WRITE);
	for (unsigned k = 0; k < MANY && rc == 0; k++)
		rc = fth_cursor_store(&cursor, indices[k], &values[k], 8);
	fth_cursor_close(&cursor);
	return rc;
}

/* ---- the loop ---- */

struct call {
	int (*run)(struct array_fixture *f);
	bool all;     /* reads all elements, not only the chosen ones */
	bool changes; /* the chosen ones */
};

static const struct call calls[] = {
	{call_get, false, false}, {call_read, true, false},    {call_gather, false, false},
	{call_walk, true, false}, {call_cursor, true, false},  {call_pin, true, false},
	{call_set, false, true},  {call_scatter, false, true}, {call_write, false, true},
	{call_swap, false, true}, {call_move, false, true},
};

static void check_got(struct array_fixture *f, const struct call *call)
{
	for (uint64_t i = 0; i < COUNT; i++)
		if (call->all || chosen(i))
			assert_int_equal(got[i], model(f, i));
}

/* Each element is as it was, or a chosen one that is as it should become. */
static void check_old_or_new(struct array_fixture *f, const struct call *call)
{
	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t value;

		assert_ok(fth_array_get(f->array, i, &value, 8));
		if (value != model(f, i))
			assert_true(call->changes && chosen(i) && value == new_value(i));
	}
}

static void finish(struct array_fixture *f, const struct call *call)
{
	int rc;

	assert_ok(call->run(f));
	if (!call->changes)
		check_got(f, call);
	for (uint64_t i = 0; call->changes && i < COUNT; i++)
		if (chosen(i))
			*(uint64_t *)array_fixture_model(f, i) = new_value(i);
	/* The first flush may tell of a write-back that failed before. */
	rc = fth_array_flush(f->array, 0, FTH_ARRAY_ALL);
	assert_true(rc == 0 || rc == -EIO);
	assert_ok(fth_array_flush(f->array, 0, FTH_ARRAY_ALL));
	array_fixture_compare(f);
	array_fixture_close(f);
}

/* What fails: one request, or all from there on. */
struct fault {
	enum fth_dev_op op;
	bool all_later;
};

/* True once nothing failed. */
static bool try_with(const struct call *call, const struct array_shape *s, struct fault fault,
		     uint64_t nth)
{
	struct array_fixture f;
	bool failed;
	int rc;

	array_fixture_open(&f, s);
	array_fixture_fail(&f, 1u << fault.op, nth, fault.all_later);
	rc = call->run(&f);
	failed = array_fixture_failed(&f) > 0;
	assert_true(rc == 0 || rc == -EIO);
	if (!failed)
		assert_int_equal(rc, 0);
	else if (fault.all_later)
		assert_int_equal(rc, -EIO);
	if (rc == 0 && !call->changes)
		check_got(&f, call);
	array_fixture_fail(&f, 1u << fault.op, 0, false);
	check_old_or_new(&f, call);
	finish(&f, call);
	return !failed;
}

static void each_call_with(struct fault fault)
{
	for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
		for (unsigned s = 0; s < 2; s++) {
			uint64_t nth = 1;

			while (!try_with(&calls[c], s ? &compact_shape : &shape, fault, nth))
				nth++;
			/* Every call has something to fetch, so something has failed. */
			assert_true(fault.op != FTH_DEV_READ || nth > 1);
		}
}

static void the_nth_read_fails(void **state)
{
	(void)state;
	each_call_with((struct fault){FTH_DEV_READ, false});
}

static void from_the_nth_read_on_all_fail(void **state)
{
	(void)state;
	each_call_with((struct fault){FTH_DEV_READ, true});
}

static void the_nth_write_fails(void **state)
{
	(void)state;
	each_call_with((struct fault){FTH_DEV_WRITE, false});
}

static void a_flush_that_failed_is_not_forgotten(void **state)
{
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shape);
	assert_ok(fth_array_set(f.array, 3, &values[0], 8));
	*(uint64_t *)array_fixture_model(&f, 3) = values[0];
	array_fixture_fail(&f, 1u << FTH_DEV_FLUSH, 1, false);
	assert_int_equal(fth_array_flush(f.array, 0, FTH_ARRAY_ALL), -EIO);
	assert_ok(fth_array_flush(f.array, 0, FTH_ARRAY_ALL));
	array_fixture_close(&f);
}

/* A close that fails leaves the array open: it can be used, and closed again. */
static void a_failed_close_can_be_repeated(void **state)
{
	static const enum fth_dev_op ops[] = {FTH_DEV_WRITE, FTH_DEV_FLUSH};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct array_fixture f;

		array_fixture_open(&f, &shape);
		assert_ok(fth_array_set(f.array, 3, &values[0], 8));
		*(uint64_t *)array_fixture_model(&f, 3) = values[0];
		array_fixture_fail(&f, 1u << ops[i], 1, true);
		assert_int_equal(fth_array_close(f.array), -EIO);
		assert_ok(fth_array_set(f.array, 4, &values[1], 8));
		*(uint64_t *)array_fixture_model(&f, 4) = values[1];
		assert_ok(fth_dev_fault_disarm(f.dev));
		array_fixture_close(&f);
	}
}

/* With a device of its own, which is closed with the array and not before. */
static void an_array_that_cannot_be_flushed_is_discarded(void **state)
{
	(void)state;
	for (unsigned finish = 0; finish < 2; finish++) {
		struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
		struct fth_cache *cache;
		struct fth_array *a;
		uint64_t value = 5;

		assert_ok(fth_cache_open(&options, &cache));
		assert_ok(fth_array_open(cache, "fault(mem:64K)?kind=write&every=1", 8, NULL, &a));
		assert_ok(fth_array_set(a, 3, &value, 8));
		assert_int_equal(fth_array_flush(a, 0, FTH_ARRAY_ALL), -EIO);
		if (finish) {
			assert_int_equal(fth_array_finish(&a), -EIO);
			assert_null(a);
		} else {
			assert_int_equal(fth_array_close(a), -EIO);
			assert_ok(fth_array_discard(a));
		}
		assert_ok(fth_cache_finish(&cache));
		assert_null(cache);
	}
	assert_ok(fth_array_discard(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_read_fails),
		cmocka_unit_test(from_the_nth_read_on_all_fail),
		cmocka_unit_test(the_nth_write_fails),
		cmocka_unit_test(a_flush_that_failed_is_not_forgotten),
		cmocka_unit_test(a_failed_close_can_be_repeated),
		cmocka_unit_test(an_array_that_cannot_be_flushed_is_discarded),
	};

	compact_shape = shape;
	compact_shape.compact = true;
	for (uint64_t i = 0, k = 0; i < COUNT; i++)
		if (chosen(i)) {
			indices[k] = i;
			values[k++] = new_value(i);
		}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
