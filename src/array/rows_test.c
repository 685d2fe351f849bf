/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of any size: read, written and prefetched many at once; and locks on the file. */
#include "array_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE	 512u
#define MANY	 3000u
#define FIRST	 37u /* elements before row 0, as a header would take */
#define LONG_ROW 1700u

static struct fth_rows rows_of(uint64_t elements, uint64_t count)
{
	struct fth_rows rows = {FIRST, elements, (count - FIRST) / elements};

	return rows;
}

static void draw_indices(uint64_t *indices, size_t n, uint64_t below, uint64_t seed)
{
	struct fth_rng rng = {seed};

	for (size_t k = 0; k < n; k++)
		indices[k] = fth_rng_next(&rng) % below;
}

/* The bytes of row i of the model. */
static uint8_t *model_row(struct array_fixture *f, const struct fth_rows *rows, uint64_t i)
{
	return array_fixture_model(f, rows->first + i * rows->elements);
}

static void check_shape(const struct array_shape *shape, uint64_t elements, size_t n)
{
	struct fth_rows rows = rows_of(elements, shape->count);
	size_t bytes = elements * shape->element;
	uint64_t *indices = malloc(n * sizeof(*indices));
	uint8_t *buffer = malloc(n * bytes);
	struct array_fixture f;

	assert_non_null(indices);
	assert_non_null(buffer);
	array_fixture_open(&f, shape);
	draw_indices(indices, n, rows.count, elements);
	indices[0] = 0;
	indices[n - 1] = rows.count - 1;
	assert_ok(fth_array_gather_rows(f.array, &rows, indices, n, buffer));
	for (size_t k = 0; k < n; k++)
		assert_memory_equal(buffer + k * bytes, model_row(&f, &rows, indices[k]), bytes);
	array_fixture_bytes(buffer, n * bytes, elements + 1);
	assert_ok(fth_array_scatter_rows(f.array, &rows, indices, n, buffer));
	/* In the order of the list: the last of equal indices wins. */
	for (size_t k = 0; k < n; k++)
		memcpy(model_row(&f, &rows, indices[k]), buffer + k * bytes, bytes);
	array_fixture_compare(&f);
	array_fixture_close(&f);
	free(indices);
	free(buffer);
}

static void rows_of_all_sizes_are_read_and_written(void **state)
{
	static const uint64_t sizes[] = {1, 3, 7, 64, 100, 511, 512, 513, LONG_ROW};
	struct array_shape shape = {.line = LINE, .frames = 64, .element = 1, .count = 200000};

	(void)state;
	for (unsigned k = 0; k < sizeof(sizes) / sizeof(*sizes); k++)
		for (unsigned compact = 0; compact < 2; compact++) {
			shape.compact = compact;
			check_shape(&shape, sizes[k], k < 6 ? MANY : 200);
		}
}

static void rows_of_large_elements_are_read_and_written(void **state)
{
	struct array_shape shape = {.line = LINE, .frames = 64, .element = 16, .count = 20000};

	(void)state;
	check_shape(&shape, 1, 500);
	check_shape(&shape, 5, 500);
	check_shape(&shape, 96, 100);
}

/* Longer than a batch has places for lines: the row is left and entered again. */
static void one_row_may_be_everything(void **state)
{
	struct array_shape shape = {
		.line = LINE, .frames = 64, .element = 8, .count = 9000ull * LINE / 8};
	struct fth_rows all = {0, shape.count, 1};
	uint8_t *buffer = malloc(shape.count * 8);
	struct array_fixture f;
	uint64_t zero = 0;

	(void)state;
	assert_non_null(buffer);
	array_fixture_open(&f, &shape);
	assert_ok(fth_array_gather_rows(f.array, &all, &zero, 1, buffer));
	assert_memory_equal(buffer, f.model, f.bytes);
	array_fixture_bytes(buffer, f.bytes, 5);
	memcpy(f.model, buffer, f.bytes);
	assert_ok(fth_array_scatter_rows(f.array, &all, &zero, 1, buffer));
	array_fixture_close(&f);
	free(buffer);
}

static void covered_lines_are_not_fetched(void **state)
{
	struct array_shape shape = {.line = LINE, .frames = 256, .element = 1, .count = LINE * 100};
	struct fth_rows rows = {0, 4 * LINE, 25};
	uint64_t indices[] = {3, 20, 7};
	struct array_fixture f;
	uint8_t *buffer = malloc(3 * 4 * LINE);

	(void)state;
	assert_non_null(buffer);
	array_fixture_open(&f, &shape);
	array_fixture_bytes(buffer, 3 * 4 * LINE, 1);
	assert_ok(fth_array_scatter_rows(f.array, &rows, indices, 3, buffer));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), 0);
	for (unsigned k = 0; k < 3; k++)
		memcpy(model_row(&f, &rows, indices[k]), buffer + k * 4 * LINE, 4 * LINE);
	array_fixture_close(&f);
	free(buffer);
}

static void wrong_rows_are_refused_before_anything_is_done(void **state)
{
	struct array_shape shape = {.line = LINE, .frames = 64, .element = 1, .count = 1000};
	struct fth_rows rows = {0, 10, 100}, none = {0, 0, 5}, beyond = {1, 10, 100};
	struct fth_rows huge = {0, UINT64_MAX / 2, 4};
	uint64_t indices[] = {0, 99, 100};
	struct array_fixture f;
	uint8_t buffer[30];

	(void)state;
	array_fixture_open(&f, &shape);
	memset(buffer, 7, sizeof(buffer));
	assert_int_equal(fth_array_gather_rows(f.array, &rows, indices, 3, buffer), -ERANGE);
	assert_int_equal(fth_array_scatter_rows(f.array, &rows, indices, 3, buffer), -ERANGE);
	assert_int_equal(fth_array_gather_rows(f.array, &none, indices, 1, buffer), -EINVAL);
	assert_int_equal(fth_array_gather_rows(f.array, &beyond, indices, 1, buffer), -ERANGE);
	assert_int_equal(fth_array_gather_rows(f.array, &huge, indices, 1, buffer), -EINVAL);
	for (unsigned k = 0; k < sizeof(buffer); k++)
		assert_int_equal(buffer[k], 7);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 0);
	assert_ok(fth_array_gather_rows(f.array, &rows, indices, 0, NULL));
	array_fixture_compare(&f);
	array_fixture_close(&f);
}

static void prefetched_rows_are_no_misses(void **state)
{
	struct array_shape shape = {.line = LINE, .frames = 512, .element = 1, .count = LINE * 999};
	struct fth_rows rows = rows_of(LONG_ROW, shape.count);
	uint64_t indices[] = {200, 5, 17, 5, 1u << 30};
	struct array_fixture f;
	uint8_t *buffer = malloc(4 * LONG_ROW);

	(void)state;
	assert_non_null(buffer);
	array_fixture_open(&f, &shape);
	fth_array_prefetch_rows(f.array, &rows, indices, 5);
	assert_true(fth_cache_stat(f.cache, FTH_CACHE_PREFETCHES) >= 12);
	assert_ok(fth_array_gather_rows(f.array, &rows, indices, 4, buffer));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 0);
	for (unsigned k = 0; k < 4; k++)
		assert_memory_equal(buffer + k * LONG_ROW, model_row(&f, &rows, indices[k]),
				    LONG_ROW);
	array_fixture_close(&f);
	free(buffer);
}

/* The first read fails, then the second, ... until all get through. */
static void failed_reads_are_reported_and_do_no_harm(void **state)
{
	struct array_shape shape = {.line = LINE, .frames = 6, .element = 1, .count = LINE * 40};
	struct fth_rows rows = rows_of(700, shape.count);
	uint64_t indices[] = {0, 9, 3, 20, 11}, failures = 0;
	uint8_t *buffer = malloc(5 * 700);

	(void)state;
	assert_non_null(buffer);
	for (uint64_t nth = 1; nth < 100; nth++) {
		struct array_fixture f;
		int rc;

		array_fixture_open(&f, &shape);
		array_fixture_fail(&f, 1u << FTH_DEV_READ, nth, true);
		rc = fth_array_gather_rows(f.array, &rows, indices, 5, buffer);
		assert_true(rc == 0 || rc == -EIO);
		failures += rc < 0;
		array_fixture_fail(&f, 1u << FTH_DEV_READ, 0, false);
		assert_ok(fth_array_gather_rows(f.array, &rows, indices, 5, buffer));
		for (unsigned k = 0; k < 5; k++)
			assert_memory_equal(buffer + k * 700, model_row(&f, &rows, indices[k]),
					    700);
		array_fixture_close(&f);
		if (rc == 0)
			break;
		assert_true(nth < 99);
	}
	assert_true(failures > 1);
	free(buffer);
}

static void a_locked_file_has_one_writer_or_many_readers(void **state)
{
	char path[] = "/tmp/fathom-rows-XXXXXX", uri[80];
	struct fth_array_options read = FTH_ARRAY_OPTIONS_INIT, write = FTH_ARRAY_OPTIONS_INIT;
	struct fth_array *a, *b, *c;
	struct fth_cache *cache;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	close(fd);
	snprintf(uri, sizeof(uri), "file:%s", path);
	read.readonly = read.lock = write.lock = true;
	assert_ok(fth_cache_open(NULL, &cache));
	assert_ok(fth_array_open(cache, uri, 1, &read, &a));
	assert_ok(fth_array_open(cache, uri, 1, &read, &b));
	assert_int_equal(fth_array_open(cache, uri, 1, &write, &c), -EBUSY);
	assert_null(c);
	assert_ok(fth_array_close(a));
	assert_ok(fth_array_close(b));
	assert_ok(fth_array_open(cache, uri, 1, &write, &c));
	assert_int_equal(fth_array_open(cache, uri, 1, &read, &a), -EBUSY);
	assert_ok(fth_array_close(c));
	assert_ok(fth_cache_close(cache));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_all_sizes_are_read_and_written),
		cmocka_unit_test(rows_of_large_elements_are_read_and_written),
		cmocka_unit_test(one_row_may_be_everything),
		cmocka_unit_test(covered_lines_are_not_fetched),
		cmocka_unit_test(wrong_rows_are_refused_before_anything_is_done),
		cmocka_unit_test(prefetched_rows_are_no_misses),
		cmocka_unit_test(failed_reads_are_reported_and_do_no_harm),
		cmocka_unit_test(a_locked_file_has_one_writer_or_many_readers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
