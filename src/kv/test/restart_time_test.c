/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expiry, flush_all and numbers of items after a restart, and what the window of write-back may
 * lose.
 */
#include "kv/test/kv_fixture.h"

#include "kv/media/format.h"

#include <time.h>
#include <unistd.h>

/* ---- time ---- */

static int set_until(struct box *box, unsigned i, uint32_t expires)
{
	uint8_t value[KV_VALUE_MAX];
	struct fth_kv_op op = {.verb = FTH_KV_SET, .value = value, .flags = 1, .expires = expires};

	op.value_length = value_length(i, 1);
	fill_value(i, 1, op.value_length, value);
	return box_do(box, &op, i);
}

static void reopen(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev, bool crash)
{
	if (crash) {
		lose_power(box, o, dev, 1);
		return;
	}
	assert_ok(box_close(box));
	box_open(box, o, dev);
}

static void flush_all_and_expiry_survive(void **state)
{
	struct fth_kv_options o = write_through();

	(void)state;
	for (unsigned crash = 0; crash < 2; crash++) {
		struct fth_dev *dev = open_dev("crash(mem:16M)");
		uint32_t now = (uint32_t)time(NULL);
		struct box box;

		box_open(&box, &o, dev);
		assert_ok(set_until(&box, 1, now + 1000));
		assert_ok(set_until(&box, 2, now + 2));
		assert_ok(flush_all(&box, 0));
		assert_int_equal(box_get(&box, 1), 0);
		assert_ok(set_until(&box, 3, now + 1000));
		assert_ok(set_until(&box, 4, now + 2));
		assert_ok(flush_all(&box, now + 500)); /* not yet */
		assert_int_equal(box_get(&box, 1), 0); /* and that takes nothing back */
		assert_int_equal(box_get(&box, 3), 1);
		reopen(&box, &o, dev, crash);
		assert_int_equal(box_get(&box, 1), 0);
		assert_int_equal(box_get(&box, 2), 0);
		assert_int_equal(box_get(&box, 3), 1);
		while ((uint32_t)time(NULL) < now + 3)
			usleep(100000);
		assert_int_equal(box_get(&box, 4), 0);
		reopen(&box, &o, dev, crash);
		assert_int_equal(box_get(&box, 1), 0);
		assert_int_equal(box_get(&box, 3), 1);
		assert_int_equal(box_get(&box, 4), 0);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* A flush_all whose time has come stays in force when another one is set. */
static void a_later_flush_all_takes_no_earlier_one_back(void **state)
{
	struct fth_kv_options o = write_through();
	struct fth_dev *dev = open_dev("crash(mem:16M)");
	uint32_t now = (uint32_t)time(NULL);
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	assert_ok(set_until(&box, 1, 0));
	assert_ok(flush_all(&box, now + 2));
	assert_int_equal(box_get(&box, 1), 1);
	while ((uint32_t)time(NULL) < now + 3)
		usleep(100000);
	assert_int_equal(box_get(&box, 1), 0);
	assert_ok(set_until(&box, 2, 0));
	assert_ok(flush_all(&box, now + 1000));
	assert_int_equal(box_get(&box, 1), 0);
	assert_int_equal(box_get(&box, 2), 1);
	for (unsigned crash = 0; crash < 2; crash++) {
		reopen(&box, &o, dev, crash);
		assert_int_equal(box_get(&box, 1), 0);
		assert_int_equal(box_get(&box, 2), 1);
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* Numbers that were given for changes that a crash took back are not given again. */
static void cas_numbers_are_not_given_twice(void **state)
{
	struct fth_kv_options o = write_through();
	struct fth_dev *dev = open_dev("crash(mem:16M)");
	struct fth_kv_op op = {.verb = FTH_KV_SET, .value = "1", .value_length = 1};
	uint64_t cas;
	struct box box;

	(void)state;
	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 10000;
	box_open(&box, &o, dev);
	assert_ok(box_do(&box, &op, 1));
	cas = op.item_cas;
	lose_power(&box, &o, dev, 3);
	memset(&op, 0, sizeof(op));
	op = (struct fth_kv_op){.verb = FTH_KV_SET, .value = "2", .value_length = 1};
	assert_ok(box_do(&box, &op, 1));
	assert_true(op.item_cas > cas);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* ---- the window of write-back ---- */

struct change {
	uint64_t when; /* it was acknowledged */
	uint32_t version;
};

/* What was acknowledged a window before the last change began is there. */
static void check_window(uint64_t seed)
{
	struct fth_dev *dev = open_dev("crash(mem:32M)");
	struct fth_kv_options o = write_through();
	struct change *changes = calloc(20 * 4000, sizeof(*changes));
	unsigned counts[20] = {0};
	struct fth_rng rng = {seed};
	uint64_t end, last = 0, window;
	struct box box;

	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 20;
	window = o.window_ms * UINT64_C(1000000);
	box_open(&box, &o, dev);
	end = fth_now_ns() + 30000000 + fth_rng_below(&rng, 60000000);
	for (uint32_t version = 1; fth_now_ns() < end; version++) {
		unsigned i = (unsigned)fth_rng_below(&rng, 20);

		if (counts[i] == 4000)
			break;
		last = fth_now_ns();
		assert_ok(box_set(&box, i, version));
		changes[i * 4000 + counts[i]++] = (struct change){fth_now_ns(), version};
	}
	assert_ok(fth_dev_crash_power_loss(dev, seed));
	fth_kv_worker_close(box.worker);
	(void)fth_kv_close(box.kv);
	assert_ok(fth_dev_crash_restart(dev));
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 20; i++) {
		uint32_t got = box_get(&box, i), least = 0;

		for (unsigned n = 0; n < counts[i]; n++)
			if (changes[i * 4000 + n].when + window < last)
				least = changes[i * 4000 + n].version;
		assert_true(got >= least);
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(changes);
}

static void write_back_loses_a_window_at_most(void **state)
{
	unsigned rounds = getenv("FTH_LONG_TESTS") ? 300 : 20;

	(void)state;
	for (uint64_t seed = 1; seed <= rounds; seed++)
		check_window(seed);
}

/* Where the device takes longer than the window, changes wait for it. */
static void write_back_waits_for_a_slow_device(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:32M)?flush_us=200000");
	struct fth_kv_options o = write_through();
	uint64_t begin, commits;
	struct box box;

	(void)state;
	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 10;
	box_open(&box, &o, dev);
	commits = box_stat(&box, FTH_KV_STAT_COMMITS);
	begin = fth_now_ns();
	/* For a second: without waiting these would be many more than commits. */
	for (unsigned n = 0; fth_now_ns() - begin < 1000000000; n++) {
		uint64_t before = fth_now_ns();

		assert_ok(box_set(&box, n % 20, n + 1));
		if (fth_now_ns() - before > 100000000)
			commits = 0; /* one has waited */
	}
	assert_int_equal(commits, 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flush_all_and_expiry_survive),
		cmocka_unit_test(a_later_flush_all_takes_no_earlier_one_back),
		cmocka_unit_test(cas_numbers_are_not_given_twice),
		cmocka_unit_test(write_back_loses_a_window_at_most),
		cmocka_unit_test(write_back_waits_for_a_slow_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
