/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that writes checkpoints. restart_test.c looks at what they are good for. */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/fault.h"

#include <unistd.h>

static struct fth_kv_options every_ms(uint32_t ms)
{
	struct fth_kv_options o = small_options();

	o.persistence = FTH_KV_WRITE_THROUGH;
	o.checkpoint_ms = ms;
	return o;
}

/* Change something until so many more are written, or have failed. */
static void wait_for(struct box *box, enum fth_kv_stat which, uint64_t more)
{
	uint64_t begin = box_stat(box, which);

	for (uint32_t version = 1; box_stat(box, which) < begin + more; version++) {
		assert_ok(box_set(box, 0, version));
		usleep(1000);
	}
}

static void they_come_by_themselves(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:16M)");
	struct fth_kv_options o = every_ms(5);
	struct fth_kv_recovery recovery;
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	for (unsigned i = 1; i < 600; i++)
		assert_ok(box_set(&box, i, 1));
	wait_for(&box, FTH_KV_STAT_CHECKPOINTS, 2); /* the second one began after all these */
	assert_ok(fth_dev_crash_power_loss(dev, 1));
	fth_kv_worker_close(box.worker);
	(void)fth_kv_close(box.kv);
	assert_ok(fth_dev_crash_restart(dev));
	o.checkpoint_ms = 0;
	box_open(&box, &o, dev);
	fth_kv_recovery(box.kv, &recovery);
	assert_false(recovery.clean);
	/* Of these 600 items nothing was replayed: they fill more than ten chunks. */
	assert_true(recovery.chunks_read < 10);
	for (unsigned i = 1; i < 600; i++)
		assert_int_equal(box_get(&box, i), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_cache_at_rest_writes_none(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M");
	struct fth_kv_options o = every_ms(1);
	uint64_t before, now;
	unsigned changed = 0;
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	wait_for(&box, FTH_KV_STAT_CHECKPOINTS, 2);
	now = box_stat(&box, FTH_KV_STAT_CHECKPOINTS);
	for (unsigned n = 0; n < 20; n++) {
		before = now;
		usleep(20000);
		now = box_stat(&box, FTH_KV_STAT_CHECKPOINTS);
		changed += now != before;
	}
	/* One for the last change, and one for the padding of its block. */
	assert_true(changed <= 2);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* The one under way is given up; the one that closing writes has everything. */
static void closing_does_not_wait_for_one(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:64M)?write_us=5000");
	struct fth_kv_options o = every_ms(1);
	struct fth_kv_recovery recovery;
	struct box box;

	(void)state;
	o.items = 400000; /* ten pieces and more */
	for (unsigned n = 0; n < 12; n++) {
		o.persistence = n % 2 ? FTH_KV_WRITE_BACK : FTH_KV_WRITE_THROUGH;
		box_open(&box, &o, dev);
		fth_kv_recovery(box.kv, &recovery);
		assert_int_equal(recovery.clean, n > 0);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(box_get(&box, i), i + 1);
		assert_ok(box_set(&box, n, n + 1));
		usleep(n * 4000);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

static void one_that_fails_is_counted(void **state)
{
	struct fth_dev *dev = open_dev("fault(mem:16M)");
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT, none = plan;
	struct fth_kv_options o = every_ms(2);
	struct kv_super super;
	struct box box;
	uint64_t at;

	(void)state;
	box_open(&box, &o, dev);
	wait_for(&box, FTH_KV_STAT_CHECKPOINTS, 1);
	assert_int_equal(find_super(dev, &super, &at), 2);
	plan.kinds = 1u << FTH_DEV_WRITE;
	plan.every = 1;
	plan.from = super.index_at;
	plan.to = super.log_at;
	assert_ok(fth_dev_fault_set(dev, &plan));
	wait_for(&box, FTH_KV_STAT_CHECKPOINT_ERRORS, 3);
	assert_ok(fth_dev_fault_set(dev, &none));
	wait_for(&box, FTH_KV_STAT_CHECKPOINTS, 2);
	assert_ok(box_set(&box, 7, 7));
	assert_ok(box_close(&box));
	box_open(&box, &o, dev);
	assert_int_equal(box_get(&box, 7), 7);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void only_with_persistence(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M");
	struct fth_kv_options o = every_ms(5);
	struct box box;

	(void)state;
	o.persistence = FTH_KV_VOLATILE;
	assert_int_equal(box_try(&box, &o, dev), -EINVAL);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_come_by_themselves),
		cmocka_unit_test(a_cache_at_rest_writes_none),
		cmocka_unit_test(closing_does_not_wait_for_one),
		cmocka_unit_test(one_that_fails_is_counted),
		cmocka_unit_test(only_with_persistence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
