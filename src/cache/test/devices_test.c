/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the cache asks of devices: retries line by line, flushes beside errors, memory that it maps.
 */
#include "model_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define LINE 512u
#define EACH (LINE / 8)

static struct fth_cache_range *open_range(const char *uri, struct fth_cache_options options,
					  uint32_t frames)
{
	options.line = LINE;
	options.timeout_ns = options.timeout_ns ? options.timeout_ns : PATIENCE;
	return model_open_cache(model_open_dev("%s", uri), &options, frames);
}

static void close_range(struct fth_cache_range *range)
{
	struct fth_dev *dev = fth_cache_dev(range);

	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
}

static struct fth_dev_fault_plan plan_of(enum fth_dev_op op)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = 1u << op;
	return plan;
}

static const struct fth_cache_options plain = FTH_CACHE_OPTIONS_INIT;

/* ---- one bad block ---- */

struct calls {
	unsigned of[64];
};

static int count_call(void *context, size_t which, uint8_t *data)
{
	struct calls *calls = context;

	calls->of[which]++;
	return model_in_place(model_load(data, 0), which * EACH) ? 0 : -EBADMSG;
}

/* Lines that share a request with a bad block are read without it. */
static void a_bad_block_fails_its_own_line(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_READ);
	uint64_t lines[16];

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		lines[i] = i;
	plan.every = 1;
	plan.from = 5 * LINE;
	plan.to = 6 * LINE;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = plain;
		struct fth_cache_range *range;
		struct calls calls = {{0}};
		uint64_t value;

		options.compact = compact;
		range = open_range("fault(mem:64K)", options, 64);
		assert_ok(fth_dev_fault_set(fth_cache_dev(range), &plan));
		assert_int_equal(
			fth_cache_visit(range, FTH_CACHE_READ, lines, 16, count_call, &calls),
			-EIO);
		/* Those before it were delivered; those after it are in the cache. */
		for (unsigned i = 0; i < 16; i++)
			assert_int_equal(calls.of[i], i < 5 ? 1 : 0);
		assert_int_equal(fth_cache_stat(fth_cache_of(range), FTH_CACHE_ERRORS), 1);
		for (unsigned i = 0; i < 16; i++)
			assert_int_equal(model_get(range, i * EACH, &value), i == 5 ? -EIO : 0);
		close_range(range);
	}
}

/* The shortest request for several lines is one for two. */
static void a_pair_with_a_bad_block_loses_one_line(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_READ);
	const uint64_t lines[2] = {5, 6};
	struct fth_cache_range *range;
	struct calls calls = {{0}};
	uint64_t value;

	(void)state;
	plan.every = 1;
	plan.from = 5 * LINE;
	plan.to = 6 * LINE;
	range = open_range("fault(mem:64K)", plain, 64);
	assert_ok(fth_dev_fault_set(fth_cache_dev(range), &plan));
	assert_int_equal(fth_cache_visit(range, FTH_CACHE_READ, lines, 2, count_call, &calls),
			 -EIO);
	assert_int_equal(fth_cache_stat(fth_cache_of(range), FTH_CACHE_ERRORS), 1);
	assert_ok(model_get(range, 6 * EACH, &value));
	assert_int_equal(fth_cache_stat(fth_cache_of(range), FTH_CACHE_HITS), 1);
	close_range(range);
}

/* Writes that share a request with a bad block reach the medium without it. */
static void a_bad_block_keeps_its_own_line_dirty(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_WRITE);

	(void)state;
	plan.every = 1;
	plan.from = 5 * LINE;
	plan.to = 6 * LINE;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = plain;
		struct fth_cache_range *range;
		struct fth_cache_footprint footprint;
		struct fth_dev *dev;

		options.compact = compact;
		range = open_range("fault(mem:64K)", options, 64);
		dev = fth_cache_dev(range);
		assert_ok(fth_dev_fault_set(dev, &plan));
		for (uint64_t i = 0; i < 16; i++)
			assert_ok(model_set(range, i * EACH, model_value(i * EACH, 1)));
		assert_int_equal(fth_cache_flush(range, 0, FTH_CACHE_TO_END), -EIO);
		fth_cache_footprint(fth_cache_of(range), &footprint);
		assert_int_equal(footprint.dirty, 1);
		for (uint64_t i = 0; i < 16; i++)
			assert_int_equal(model_on_medium(dev, i * EACH),
					 model_value(i * EACH, i == 5 ? 0 : 1));
		assert_ok(fth_dev_fault_disarm(dev));
		close_range(range);
	}
}

/* The retries of a request whose lines all fail, on a device that takes its time for each. */
static void retries_of_a_slow_device_end_by_the_timeout(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_READ);
	struct fth_cache_options options = plain;
	struct fth_cache_range *range;
	struct calls calls = {{0}};
	uint64_t lines[16], value;
	unsigned timeouts = 0;
	struct fth_dev *dev;
	int rc;

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		lines[i] = i;
	plan.nth = 1;
	plan.every = 1;
	options.timeout_ns = SECOND / 50;
	range = open_range("fault(delay(mem:64K)?read_us=100000)", options, 64);
	dev = fth_cache_dev(range);
	assert_ok(fth_dev_fault_set(dev, &plan));
	rc = fth_cache_visit(range, FTH_CACHE_READ, lines, 16, count_call, &calls);
	assert_true(rc == -ETIMEDOUT || rc == -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	while ((rc = model_get(range, 3 * EACH, &value)) == -ETIMEDOUT)
		assert_true(++timeouts < 1000);
	while ((rc = fth_cache_close(fth_cache_of(range))) == -ETIMEDOUT)
		assert_true(++timeouts < 1000);
	assert_ok(rc);
	fth_dev_close(dev);
}

/* ---- errors beside flushes ---- */

struct user {
	struct fth_cache_range *range;
	pthread_t thread;
	unsigned number, rounds, failed;
	int rc;
};

static int look(void *context, size_t which, uint8_t *data)
{
	(void)context;
	(void)which;
	(void)data;
	return 0;
}

static void note(struct user *u, int rc)
{
	if (rc == -EIO)
		u->failed++;
	else if (rc < 0)
		u->rc = rc;
}

static void *visit_often(void *arg)
{
	struct user *u = arg;
	struct fth_rng rng = {u->number + 1};
	uint64_t lines[256];

	for (unsigned i = 0; i < u->rounds && u->rc == 0; i++) {
		uint64_t first = fth_rng_below(&rng, fth_cache_lines(u->range) - 1024);

		/* Many requests, of two lines each. */
		for (unsigned k = 0; k < 256; k++)
			lines[k] = first + k / 2 * 8 + k % 2;
		note(u, fth_cache_visit(u->range, FTH_CACHE_READ, lines, 256, look, NULL));
	}
	return NULL;
}

static void *set_and_flush(void *arg)
{
	struct user *u = arg;
	struct fth_rng rng = {u->number + 1};

	for (unsigned i = 0; i < u->rounds && u->rc == 0; i++) {
		uint64_t element = fth_rng_below(&rng, fth_cache_lines(u->range)) * EACH;

		note(u, model_set(u->range, element, model_value(element, 1)));
		note(u, fth_cache_flush(u->range, 0, FTH_CACHE_TO_END));
	}
	return NULL;
}

/* The device's command ids are few, and all threads want them. */
static void errors_beside_flushes_do_not_hang(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_READ);
	struct fth_cache_range *range;
	struct user users[4];

	(void)state;
	plan.every = 100;
	range = open_range("fault(softnvme(mem:8M)?depth=64)", plain, 2048);
	assert_ok(fth_dev_fault_set(fth_cache_dev(range), &plan));
	for (unsigned i = 0; i < 4; i++) {
		users[i] = (struct user){.range = range, .number = i, .rounds = 100};
		assert_int_equal(pthread_create(&users[i].thread, NULL,
						i < 2 ? visit_often : set_and_flush, &users[i]),
				 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(users[i].thread, NULL);
	for (unsigned i = 0; i < 4; i++)
		assert_ok(users[i].rc);
	assert_true(users[0].failed > 0);
	assert_ok(fth_dev_fault_disarm(fth_cache_dev(range)));
	close_range(range);
}

/* ---- memory that devices know of ---- */

static uint64_t mapped; /* bytes, by the one thread of these tests */
static unsigned maps, refuse_from;

int __real_fth_dev_map(struct fth_dev *dev, void *addr, size_t len);
int __real_fth_dev_unmap(struct fth_dev *dev, void *addr, size_t len);
int __wrap_fth_dev_map(struct fth_dev *dev, void *addr, size_t len);
int __wrap_fth_dev_unmap(struct fth_dev *dev, void *addr, size_t len);

int __wrap_fth_dev_map(struct fth_dev *dev, void *addr, size_t len)
{
	if (refuse_from && maps + 1 >= refuse_from)
		return -ENOSPC;
	maps++;
	mapped += len;
	return __real_fth_dev_map(dev, addr, len);
}

int __wrap_fth_dev_unmap(struct fth_dev *dev, void *addr, size_t len)
{
	maps--;
	mapped -= len;
	return __real_fth_dev_unmap(dev, addr, len);
}

#define MIB ((uint64_t)1 << 20)

/* Frames become known to the device as they come into use. */
static void memory_is_mapped_as_it_comes_into_use(void **state)
{
	struct fth_cache_options options = plain;
	struct fth_dev *devs[2] = {model_open_dev("mem:64M"), model_open_dev("mem:1M")};
	struct fth_cache_range *range, *second;
	uint64_t value, one;

	(void)state;
	options.line = 4096;
	mapped = maps = refuse_from = 0;
	range = model_open_cache(devs[0], &options, 80 * 256); /* 80 MiB */
	assert_int_equal(mapped, 0);
	assert_ok(model_get(range, 0, &value));
	one = mapped;
	assert_true(one > 0 && one <= 16 * MIB);
	for (uint64_t at = 0; at < 40 * MIB; at += 4096)
		assert_ok(model_get(range, at / 8, &value));
	assert_true(mapped >= 40 * MIB && mapped <= 40 * MIB + one);
	/* A device that comes later learns of all that is in use. */
	assert_ok(fth_cache_add(fth_cache_of(range), devs[1], 0, FTH_CACHE_TO_END, 0, &second));
	assert_true(mapped >= 2 * 40 * MIB);
	assert_ok(fth_cache_remove(second));
	assert_true(mapped <= 40 * MIB + one);
	assert_ok(fth_cache_close(fth_cache_of(range)));
	assert_int_equal(mapped, 0);
	assert_int_equal(maps, 0);
	fth_dev_close(devs[0]);
	fth_dev_close(devs[1]);
}

/* A device whose table is full is not asked again and again, and works all the same. */
static void a_full_table_costs_speed_only(void **state)
{
	struct fth_cache_options options = plain;
	struct fth_cache_range *range;
	uint64_t value;

	(void)state;
	options.line = 4096;
	mapped = maps = 0;
	refuse_from = 2;
	range = model_open_cache(model_open_dev("mem:64M"), &options, 80 * 256);
	for (uint64_t at = 0; at < 40 * MIB; at += 4096)
		assert_ok(model_get(range, at / 8, &value));
	assert_int_equal(maps, 1);
	close_range(range);
	assert_int_equal(maps, 0);
	refuse_from = 0;
}

/* A large cache has few slabs: tables of devices are short. */
static void a_large_cache_is_mapped_in_few_parts(void **state)
{
	struct fth_cache_options options = plain;
	struct fth_cache_range *range;
	uint64_t value;

	(void)state;
	options.line = 65536;
	mapped = maps = 0;
	range = model_open_cache(model_open_dev("mem:1M"), &options, 4096 * 16); /* 4 GiB */
	assert_ok(model_get(range, 0, &value));
	assert_int_equal(maps, 1);
	assert_true(mapped * 64 >= 4096 * MIB && mapped <= 64 * MIB);
	close_range(range);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_block_fails_its_own_line),
		cmocka_unit_test(a_pair_with_a_bad_block_loses_one_line),
		cmocka_unit_test(a_bad_block_keeps_its_own_line_dirty),
		cmocka_unit_test(retries_of_a_slow_device_end_by_the_timeout),
		cmocka_unit_test(errors_beside_flushes_do_not_hang),
		cmocka_unit_test(memory_is_mapped_as_it_comes_into_use),
		cmocka_unit_test(a_full_table_costs_speed_only),
		cmocka_unit_test(a_large_cache_is_mapped_in_few_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
