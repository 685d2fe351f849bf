/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom/gpu/array.h on CPU threads: elements, atomics, cursors and runs through a cache that is
 * smaller than the array, by typed handles.
 */
#include "gpu/cache/cache_warp_fixture.h"

#include "fathom/gpu/array.h"

/* The array of the bed as elements of another type. */
template <typename T> static fth_gpu_array<T> array_as(const struct bed *bed)
{
	fth_gpu_array<uint64_t> whole = array_of(bed);
	fth_gpu_array<T> a = {};

	a.words = whole.words;
	a.data = whole.data;
	a.count = whole.count * 8 / sizeof(T);
	a.cache = whole.cache;
	a.line_shift = whole.line_shift;
	return a;
}

template <typename T> static T part_of(uint64_t i)
{
	uint64_t value = value_of(i * sizeof(T) / 8);
	T part;

	memcpy(&part, (char *)&value + i * sizeof(T) % 8, sizeof(T));
	return part;
}

/* ---- single elements ---- */

/* Every element of lines that come and go, hot and cold. */
template <typename T> static void get_parts(struct client *me, uint32_t lane)
{
	fth_gpu_array<T> a = array_as<T>(me->bed);
	T v = 0;

	fixture_go_apart(1u << lane); /* some lanes hit, and others miss */
	for (uint32_t r = 0; r < 2; r++)
		for (uint64_t i = lane; i < a.count / 8; i += 32) {
			uint64_t at = (i * 37 + me->number) % a.count;
			int rc = fth_gpu_get(a, at, &v);

			note(me->bed, rc, v == part_of<T>(at));
		}
	note(me->bed, 0, fth_gpu_get(a, a.count, &v) == -ERANGE);
	note(me->bed, 0, fth_gpu_set(a, a.count, 0) == -ERANGE);
	note(me->bed, 0, fth_gpu_prefetch(a, a.count) == -ERANGE);
	note(me->bed, fth_gpu_prefetch(a, lane * 32), true);
}

static void test_elements(void **)
{
	static const struct shape s = {8, 512, 2, 1, 0, false};
	struct bed *bed = make_bed(&s);

	run_clients(bed, get_parts<uint8_t>);
	run_clients(bed, get_parts<uint16_t>);
	run_clients(bed, get_parts<uint32_t>);
	run_clients(bed, get_parts<uint64_t>);
	all_well(bed);
	release_bed(bed);
}

/* The second get of an element finds its line hot, and takes no other way. */
static void get_hot(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	uint64_t v = 0;

	fixture_go_apart(1u << lane);
	for (uint32_t r = 0; r < 2; r++) {
		int rc = fth_gpu_get(a, lane, &v);

		note(me->bed, rc, v == value_of(lane));
		__syncwarp();
	}
	v = 0;
	note(me->bed, 0, fth_gpu_try_get_(a, lane * 8, &v) && v == value_of(lane));
}

static void test_hot(void **)
{
	static const struct shape s = {4, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	run_clients(bed, get_hot);
	all_well(bed);
	release_bed(bed);
}

/* ---- changes ---- */

static void change(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint32_t> a = array_as<uint32_t>(me->bed);
	uint32_t before = 0, n = me->bed->shape->clients;

	fixture_go_apart(1u << lane);
	for (uint64_t i = me->number * 32 + lane; i < a.count; i += n * 32)
		note(me->bed, fth_gpu_set(a, i, (uint32_t)i), true);
	__syncwarp();
	for (uint64_t i = me->number * 32 + lane; i < a.count; i += n * 32) {
		uint32_t now = (uint32_t)(i + 5) ^ 1;
		int rc = fth_gpu_add(a, i, 5, &before);

		note(me->bed, rc, before == i);
		note(me->bed, fth_gpu_xor(a, i, 1, NULL), true);
		rc = fth_gpu_min(a, i, UINT32_MAX, &before);
		note(me->bed, rc, before == now);
		before = ~now;
		rc = fth_gpu_cas(a, i, &before, 3); /* it is another: nothing happens */
		note(me->bed, rc, before == now);
		note(me->bed, fth_gpu_cas(a, i, &before, (uint32_t)(i * 3)), true);
	}
}

static void test_changes(void **)
{
	static const struct shape s = {8, 512, 3, 1, 0, false};
	struct bed *bed = make_bed(&s);

	run_clients(bed, change);
	run_clients(bed, flush);
	all_well(bed);
	for (uint64_t i = 0; i < bed->elements * 2; i++)
		assert_int_equal(((uint32_t *)on_medium(bed, i / 2, 0))[i % 2], (uint32_t)(i * 3));
	release_bed(bed);
}

/* ---- cursors and runs ---- */

static uint64_t copies[CLIENTS_MAX][100];

static void walk(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	uint32_t each = me->bed->shape->line / 8, line;
	uint64_t *copy = copies[me->number];
	int rc = 0;

	for (uint32_t r = 0; r < 2 * LINES; r++) {
		const uint64_t *data;

		line = (r / 2 + me->number) % LINES;
		data = fth_gpu_cursor_line(a, &cursor, line, FTH_GPU_READ, &rc);
		note(me->bed, rc, data && data[lane] == value_of(line * each + lane));
	}
	note(me->bed, 0, !fth_gpu_cursor_line(a, &cursor, LINES, FTH_GPU_READ, &rc));
	note(me->bed, 0, rc == -ERANGE);
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_READ);
	note(me->bed, fth_gpu_warp_read(a, 30, 99, copy), true);
	__syncwarp();
	for (uint32_t k = lane; k < 99; k += 32)
		note(me->bed, 0, copy[k] == value_of(30 + k));
	note(me->bed, 0, fth_gpu_warp_read(a, a.count, 1, copy) == -ERANGE);
	note(me->bed, fth_gpu_warp_read(a, a.count, 0, copy), true);
}

static void test_cursors(void **)
{
	static const struct shape s = {8, 512, 2, 1, 0, false};
	struct bed *bed = make_bed(&s);

	run_clients(bed, walk);
	all_well(bed);
	release_bed(bed);
}

/* The first half by cursors, line by line; the rest in one run, which begins within a line. */
static uint64_t values[LINES * 64];

static void overwrite(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	int rc = 0;

	for (uint32_t line = 0; line < LINES / 2; line++) {
		uint64_t *data = fth_gpu_cursor_line(a, &cursor, line, FTH_GPU_OVERWRITE, &rc);

		note(me->bed, rc, data != NULL);
		for (uint32_t k = lane; data && k < 64; k += 32)
			data[k] = values[line * 64 + k];
	}
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_OVERWRITE);
	note(me->bed, fth_gpu_warp_write(a, 2100, a.count - 2100, values + 2100), true);
}

static void test_overwriting(void **)
{
	static const struct shape s = {8, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	for (uint32_t i = 0; i < LINES * 64; i++)
		values[i] = ~value_of(i);
	run_clients(bed, overwrite);
	run_clients(bed, flush);
	all_well(bed);
	for (uint64_t i = 0; i < bed->elements; i++)
		assert_int_equal(*on_medium(bed, i, 0),
				 i >= LINES / 2 * 64 && i < 2100 ? value_of(i) : values[i]);
	release_bed(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements), cmocka_unit_test(test_hot),
		cmocka_unit_test(test_changes),	 cmocka_unit_test(test_cursors),
		cmocka_unit_test(test_overwriting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
