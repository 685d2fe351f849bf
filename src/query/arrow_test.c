/* SPDX-License-Identifier: BSD-2-Clause */
/* Results as Arrow streams: types, values, nulls, errors, and ends at any time. */
#include "table/test/table_fixture.h"

#include "fathom/base/error.h"
#include "fathom/query/arrow.h"

struct db {
	struct table_fixture f;
	struct fth_query_db *db;
	struct fth_query *query;
};

static void open_db(struct db *d)
{
	fixture_open(&d->f);
	assert_ok(fth_query_open(d->f.path, NULL, &d->db));
	assert_ok(fth_query_new(d->db, &d->query));
}

static void close_db(struct db *d)
{
	fth_query_free(d->query);
	fth_query_close(d->db);
	fixture_close(&d->f);
}

static void sql(struct db *d, const char *text)
{
	assert_ok(fth_query_run(d->query, text, NULL, NULL));
}

static bool valid(const struct ArrowArray *a, int64_t i)
{
	return ((const uint8_t *)a->buffers[0])[i / 8] >> i % 8 & 1;
}

static void all_types(void **state)
{
	static const char *const formats[] = {"b", "i", "l", "d:12,3", "tdD",
					      "g", "u", "u", "d:38,16"};
	struct ArrowArrayStream stream;
	struct ArrowSchema schema;
	struct ArrowArray a;
	struct db d;
	const int32_t *offsets;
	__extension__ __int128 wide;

	(void)state;
	open_db(&d);
	sql(&d, "create table t (n int, a boolean, b int, c bigint, d decimal(12,3), e date,"
		" f double precision, g varchar, h char(5))");
	sql(&d, "insert into t values (1, true, -7, 9000000000, -1.125, date '2000-01-01', 2.5, "
		"'xyz', 'ab'),"
		" (2, null, null, null, null, null, null, null, null), (3, false, 8, -1, 2, date "
		"'1969-12-31', 0,"
		" '', '')");
	assert_ok(fth_query_arrow(
		d.query, "select a, b, c, d, e, f, g, h, d / 3 as q from t order by n", &stream));
	assert_int_equal(stream.get_schema(&stream, &schema), 0);
	assert_string_equal(schema.format, "+s");
	assert_int_equal(schema.n_children, 9);
	for (int i = 0; i < 9; i++) {
		assert_string_equal(schema.children[i]->format, formats[i]);
		assert_int_equal(schema.children[i]->flags, ARROW_FLAG_NULLABLE);
	}
	assert_string_equal(schema.children[8]->name, "q");
	schema.release(&schema);
	assert_null(schema.release);
	assert_int_equal(stream.get_next(&stream, &a), 0);
	assert_int_equal(a.length, 3);
	assert_int_equal(a.n_children, 9);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(a.children[i]->null_count, 1);
		assert_true(valid(a.children[i], 0) && !valid(a.children[i], 1) &&
			    valid(a.children[i], 2));
	}
	assert_int_equal(((const uint8_t *)a.children[0]->buffers[1])[0] & 5, 1);
	assert_int_equal(((const int32_t *)a.children[1]->buffers[1])[0], -7);
	assert_int_equal(((const int64_t *)a.children[2]->buffers[1])[0], 9000000000);
	memcpy(&wide, a.children[3]->buffers[1], 16);
	assert_true(wide == -1125);
	assert_int_equal(((const int32_t *)a.children[4]->buffers[1])[0], 10957);
	assert_int_equal(((const int32_t *)a.children[4]->buffers[1])[2], -1);
	assert_true(((const double *)a.children[5]->buffers[1])[0] == 2.5);
	offsets = a.children[6]->buffers[1];
	assert_true(offsets[0] == 0 && offsets[1] == 3 && offsets[2] == 3 && offsets[3] == 3);
	assert_memory_equal(a.children[6]->buffers[2], "xyz", 3);
	assert_memory_equal(a.children[7]->buffers[2], "ab", 2);
	memcpy(&wide, a.children[8]->buffers[1], 16);
	assert_true(wide == -3750000000000000);
	/* A child may be moved out. */
	{
		struct ArrowArray moved = *a.children[6];

		a.children[6]->release = NULL;
		a.release(&a);
		assert_memory_equal(moved.buffers[2], "xyz", 3);
		moved.release(&moved);
	}
	assert_int_equal(stream.get_next(&stream, &a), 0);
	assert_null(a.release);
	assert_null(stream.get_last_error(&stream));
	stream.release(&stream);
	assert_null(stream.release);
	close_db(&d);
}

static void fill_numbers(struct db *d)
{
	enum { ROWS = 300000 };
	int64_t *values = malloc(ROWS * sizeof(*values));

	for (int i = 0; i < ROWS; i++)
		values[i] = i;
	fixture_create(&d->f, "numbers", "n bigint not null");
	fixture_append_ints(&d->f, "numbers", values, NULL, ROWS, NULL);
	free(values);
}

static void many_batches(void **state)
{
	struct ArrowArrayStream stream;
	struct ArrowArray a;
	int64_t rows = 0, sum = 0;
	struct db d;

	(void)state;
	open_db(&d);
	fill_numbers(&d);
	assert_ok(fth_query_arrow(d.query, "select n from numbers where n % 3 = 0", &stream));
	while (stream.get_next(&stream, &a) == 0 && a.release) {
		rows += a.length;
		for (int64_t i = 0; i < a.length; i++)
			sum += ((const int64_t *)a.children[0]->buffers[1])[i];
		a.release(&a);
	}
	assert_int_equal(rows, 100000);
	assert_int_equal(sum, 14999850000);
	stream.release(&stream);
	/* Released at the beginning and in the middle. */
	for (int taken = 0; taken < 3; taken++) {
		assert_ok(fth_query_arrow(d.query, "select n from numbers", &stream));
		for (int i = 0; i < taken; i++) {
			assert_int_equal(stream.get_next(&stream, &a), 0);
			assert_non_null(a.release);
			a.release(&a);
		}
		stream.release(&stream);
	}
	close_db(&d);
}

static void errors(void **state)
{
	struct ArrowArrayStream stream;
	struct ArrowArray a;
	struct db d;
	int rc;

	(void)state;
	open_db(&d);
	fill_numbers(&d);
	assert_int_equal(fth_query_arrow(d.query, "select m from numbers", &stream), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "line 1, column 8"));
	assert_null(stream.release);
	assert_int_equal(fth_query_arrow(d.query, "create table x (a int)", &stream), -EINVAL);
	assert_ok(fth_query_arrow(d.query, "select 1 / (n - 200000) from numbers", &stream));
	while ((rc = stream.get_next(&stream, &a)) == 0 && a.release)
		a.release(&a);
	assert_int_equal(rc, EDOM);
	assert_string_equal(stream.get_last_error(&stream), "division by zero");
	stream.release(&stream);
	close_db(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_types),
		cmocka_unit_test(many_batches),
		cmocka_unit_test(errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
