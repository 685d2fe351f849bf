/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All that can go wrong, together: an index that is too small, areas for it that are too small, a device that
 * fails and works again or loses what it has not flushed, crashes and damage. Whatever a key has then is its
 * last acknowledged value, that of a change that failed after it, or nothing.
 */
#include "kv_fixture.h"
#include "spoil_fixture.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/fault.h"
#include "fathom/dev/wrap.h"

#include "kv/kv_internal.h"

#include <pthread.h>
#include <unistd.h>

#define KIND(op) (1u << (op))
#define SHORTS	 70000u /* short items: more than the smallest area has room for */

static struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static struct fth_kv_options durable(enum fth_kv_persistence persistence)
{
	struct fth_kv_options o = small_options();

	o.persistence = persistence;
	o.window_ms = 1;
	o.items = 0;
	return o;
}

static void arm(struct fth_dev *dev, uint32_t kinds)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(dev, &plan));
}

static bool log_failed(struct box *box)
{
	struct fth_kv_usage usage;

	fth_kv_usage(box->kv, &usage);
	return usage.log_failed;
}

static void wait_for_log(struct box *box)
{
	for (unsigned n = 0; n < 60000 && log_failed(box); n++)
		usleep(1000);
	assert_false(log_failed(box));
}

static void lose_power_and_close(struct box *box, struct fth_dev *crash, uint64_t seed)
{
	assert_ok(fth_dev_crash_power_loss(crash, seed));
	fth_kv_worker_close(box->worker);
	(void)fth_kv_close(box->kv);
	assert_ok(fth_dev_crash_restart(crash));
}

/* A cache whose areas for the index have the smallest size, and any number of items. */
static void format_small_areas(struct fth_dev *dev)
{
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct box box;

	o.items = 100;
	o.format = true;
	box_open(&box, &o, dev);
	assert_ok(box_close(&box));
}

static void set_shorts(struct box *box, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		assert_ok(box_text(box, FTH_KV_SET, i, "short"));
}

static unsigned count_shorts(struct box *box, unsigned from, unsigned to)
{
	unsigned found = 0;

	for (unsigned i = from; i < to; i++) {
		struct fth_kv_op op = {.verb = FTH_KV_GET};

		found += box_do(box, &op, i) == 0;
		fth_kv_release(box->worker, &op);
	}
	return found;
}

/* ---- a log that goes on, with areas that are too small ---- */

/* Only the oldest items go that an area has no room for; those of refused changes do not come back. */
static void check_going_on_with_small_areas(uint32_t kind, bool crash)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:32M))");
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct fth_kv_recovery recovery;
	struct box box;

	format_small_areas(dev);
	box_open(&box, &o, dev);
	set_shorts(&box, 0, SHORTS);
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	arm(dev, KIND(kind));
	while (box_text(&box, FTH_KV_SET, 0, "short") == 0)
		; /* write-back notices it late */
	for (unsigned i = SHORTS - 100; i < SHORTS; i++)
		assert_int_equal(box_delete(&box, i), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_ok(box_text(&box, FTH_KV_SET, SHORTS, "short"));
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	if (crash)
		lose_power_and_close(&box, fth_dev_inner(dev), 1);
	else
		assert_ok(box_close(&box));
	box_open(&box, &o, dev);
	fth_kv_recovery(box.kv, &recovery);
	assert_int_equal(recovery.damaged_chunks, 0);
	assert_int_equal(count_shorts(&box, SHORTS - 100, SHORTS), 0);
	assert_int_equal(count_shorts(&box, SHORTS - 50000, SHORTS - 100), 49900);
	assert_int_equal(count_shorts(&box, SHORTS, SHORTS + 1), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_log_goes_on_with_areas_that_are_too_small(void **state)
{
	(void)state;
	for (unsigned crash = 0; crash < 2; crash++) {
		check_going_on_with_small_areas(FTH_DEV_WRITE, crash);
		check_going_on_with_small_areas(FTH_DEV_FLUSH, crash);
	}
}

/* A refused change has removed the item, and a delete finds nothing: it must be in the log all the same. */
static void a_delete_after_a_failure_stays(void **state)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:16M))"), *crash = fth_dev_inner(dev);
	struct fth_kv_options o = durable(FTH_KV_WRITE_THROUGH);
	struct kv_super super;
	struct box box;
	uint64_t at;

	(void)state;
	box_open(&box, &o, dev);
	assert_ok(box_set(&box, 1, 1));
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	arm(dev, KIND(FTH_DEV_WRITE));
	assert_int_equal(box_set(&box, 2, 1), -EIO);
	assert_int_equal(box_set(&box, 1, 2), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_int_equal(box_delete(&box, 1), -ENOENT);
	lose_power_and_close(&box, crash, 1);
	assert_int_equal(find_super(crash, &super, &at), 2);
	flip(crash, index_area(&super, 0) + 40);
	box_open(&box, &o, dev);
	assert_int_equal(box_get(&box, 1), 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* That nothing is there is no success while the log may still have it. */
static void a_delete_that_finds_nothing_is_refused_too(void **state)
{
	struct fth_kv_options o = durable(FTH_KV_WRITE_THROUGH);

	(void)state;
	for (unsigned flush = 0; flush < 2; flush++) {
		struct fth_dev *dev = open_dev("fault(crash(mem:16M))");
		struct box box;

		box_open(&box, &o, dev);
		assert_ok(box_set(&box, 1, 1));
		arm(dev, KIND(flush ? FTH_DEV_FLUSH : FTH_DEV_WRITE));
		if (!flush)
			assert_int_equal(box_set(&box, 2, 1), -EIO);
		/* The first is refused, or is in the log and does not become durable. */
		for (unsigned n = 0; n < 3; n++)
			assert_int_equal(box_delete(&box, 1), -EIO);
		assert_int_equal(box_get(&box, 1), 0);
		assert_ok(fth_dev_fault_disarm(dev));
		wait_for_log(&box);
		assert_int_equal(box_delete(&box, 1), -ENOENT);
		lose_power_and_close(&box, fth_dev_inner(dev), 1);
		box_open(&box, &o, dev);
		assert_int_equal(box_get(&box, 1), 0);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* ---- a log that goes on, beside an index that grows ---- */

#define LOST	5000u
#define THREADS 3u
#define OF_EACH 20000u

struct grower {
	struct box box;
	unsigned first;
};

static void *grow(void *context)
{
	struct grower *g = context;

	for (unsigned i = g->first; i < g->first + OF_EACH;) {
		int rc = box_text(&g->box, FTH_KV_SET, i, "short");

		assert_true(rc == 0 || rc == -EIO); /* until the log goes on */
		i += rc == 0;
	}
	return NULL;
}

static unsigned count_without_place(struct fth_kv *kv)
{
	unsigned count = 0;

	for (uint32_t b = 0; b < kv_bucket_count(kv); b++) {
		kv_lock_two(kv, b, b);
		for (unsigned w = 0; w < KV_WAYS; w++) {
			const struct kv_entry *e = &kv->buckets[b].way[w];

			if (kv_kind(e) == KV_MEMORY)
				count += kv_slot_at(kv, kv_place(e))->position == KV_NOWHERE;
		}
		kv_unlock_two(kv, b, b);
	}
	return count;
}

/* Entries move while items whose places a failed flush has cost get new ones: none is left out. */
static void check_places(void)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:64M))");
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct grower growers[THREADS];
	pthread_t threads[THREADS];
	unsigned left = 1;
	struct box box;

	o.memory = 64 << 20; /* nothing leaves it */
	o.window_ms = 60000; /* nothing is committed until the checkpoint */
	box_open(&box, &o, dev);
	set_shorts(&box, 0, LOST);
	arm(dev, KIND(FTH_DEV_FLUSH));
	assert_int_equal(fth_kv_checkpoint(box.kv, KV_SECONDS(20)), -EIO);
	for (unsigned t = 0; t < THREADS; t++) {
		growers[t] = (struct grower){{.kv = box.kv}, 1000000 * (t + 1)};
		assert_ok(fth_kv_worker_open(box.kv, &growers[t].box.worker));
		assert_int_equal(pthread_create(&threads[t], NULL, grow, &growers[t]), 0);
	}
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	for (unsigned t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_join(threads[t], NULL), 0);
		fth_kv_worker_close(growers[t].box.worker);
	}
	for (unsigned n = 0; n < 3000 && left; n++) {
		left = count_without_place(box.kv);
		if (left)
			usleep(1000);
	}
	assert_int_equal(left, 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void items_get_places_beside_an_index_that_grows(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 4; n++)
		check_places();
}

#define FEW 200u /* more than the buffers hold */

/* A cache is closed before all of them have new places: they get them first. */
static void items_get_places_before_a_close(void **state)
{
	struct fth_dev *dev = open_dev("fault(delay(mem:16M)?write_us=20000)");
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct box box;

	(void)state;
	o.memory = 16 << 20;
	o.window_ms = UINT32_MAX; /* closing does not wait for its end */
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < FEW; i++)
		assert_ok(box_set(&box, i, 1));
	arm(dev, KIND(FTH_DEV_FLUSH));
	assert_int_equal(fth_kv_checkpoint(box.kv, KV_SECONDS(20)), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_ok(box_close(&box));
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < FEW; i++)
		assert_int_equal(box_get(&box, i), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_goes_on_with_areas_that_are_too_small),
		cmocka_unit_test(a_delete_after_a_failure_stays),
		cmocka_unit_test(a_delete_that_finds_nothing_is_refused_too),
		cmocka_unit_test(items_get_places_beside_an_index_that_grows),
		cmocka_unit_test(items_get_places_before_a_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
