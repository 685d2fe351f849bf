/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system's clock is set, back and forth: what has expired stays away, and what has not stays.
 */
#include "kv/test/kv_fixture.h"

#include <time.h>

static int64_t passed; /* seconds that have passed, for both clocks of the cache */
static int64_t set_by; /* seconds by which the system's clock was set */

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int rc = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_REALTIME_COARSE)
		ts->tv_sec += passed + set_by;
	else if (clock == CLOCK_MONOTONIC_COARSE)
		ts->tv_sec += passed;
	return rc;
}

static int set_until(struct box *box, unsigned i, uint32_t expires)
{
	struct fth_kv_op op = {.verb = FTH_KV_SET, .value = "", .flags = 1, .expires = expires};
	uint8_t value[KV_VALUE_MAX];

	op.value = value;
	op.value_length = value_length(i, 1);
	fill_value(i, 1, op.value_length, value);
	return box_do(box, &op, i);
}

static void check_clock(const char *flash)
{
	struct fth_kv_options o = small_options();
	struct fth_kv_op flush = {.verb = FTH_KV_FLUSH_ALL};
	struct box box;
	uint32_t now;

	o.flash = flash;
	box_open(&box, &o, NULL);
	now = (uint32_t)(time(NULL) + passed); /* the clock is as it was at first */
	assert_ok(set_until(&box, 1, now + 100));
	assert_ok(set_until(&box, 2, now + 100));
	assert_ok(set_until(&box, 3, now + 10000));
	if (flash)
		push_out(&box);
	assert_int_equal(box_get(&box, 1), 1);
	passed += 110;
	assert_int_equal(box_get(&box, 1), 0);
	assert_int_equal(box_delete(&box, 2), -ENOENT);
	set_by = -3600;
	assert_int_equal(box_get(&box, 1), 0);
	assert_int_equal(box_get(&box, 2), 0);
	assert_int_equal(box_get(&box, 3), 1);
	set_by = 86400;
	assert_int_equal(box_get(&box, 3), 1);
	/* A flush_all whose time has come stays in force. */
	flush.expires = now + 200;
	assert_ok(fth_kv_do(box.worker, &flush, KV_SECONDS(20)));
	assert_int_equal(box_get(&box, 3), 1);
	passed += 110;
	assert_int_equal(box_get(&box, 3), 0);
	set_by = -86400;
	assert_int_equal(box_get(&box, 3), 0);
	assert_ok(set_until(&box, 4, now + 300));
	assert_int_equal(box_get(&box, 4), 1);
	set_by = 0;
	assert_ok(box_close(&box));
}

static void items_in_memory(void **state)
{
	(void)state;
	check_clock(NULL);
}

static void items_on_flash(void **state)
{
	(void)state;
	check_clock("mem:32M");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_in_memory),
		cmocka_unit_test(items_on_flash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
