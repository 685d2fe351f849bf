/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index grows, is full, and gets another size with a restart: no change is refused, the oldest
 * items go first, and none comes back with an older value.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include <pthread.h>
#include <unistd.h>

static struct fth_kv_options durable(void)
{
	struct fth_kv_options o = small_options();

	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 1;
	return o;
}

/* Items with short values, one after the other. */
static void set_short(struct box *box, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		assert_ok(box_text(box, FTH_KV_SET, i, "short"));
}

static bool has_short(struct box *box, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	int rc = box_do(box, &op, i);

	assert_true(rc == -ENOENT || (rc == 0 && op.length == 5));
	fth_kv_release(box->worker, &op);
	return rc == 0;
}

static unsigned count_short(struct box *box, unsigned from, unsigned to)
{
	unsigned found = 0;

	for (unsigned i = from; i < to; i++)
		found += has_short(box, i);
	return found;
}

/* Larger: there is room for more. Smaller: the oldest items go, and what is left is right. */
static void the_size_of_the_index_changes_with_a_restart(void **state)
{
	struct fth_kv_options o = durable();

	(void)state;
	o.memory = 256 << 10; /* fewer items than any of these */
	for (unsigned crash = 0; crash < 2; crash++) {
		struct fth_dev *dev = open_dev("crash(mem:32M)");
		struct box box;

		o.items = 4000;
		o.format = true;
		box_open(&box, &o, dev);
		set_short(&box, 0, 4000);
		assert_int_equal(count_short(&box, 0, 4000), 4000);
		assert_ok(box_close(&box));
		o.items = 20000;
		o.format = false;
		box_open(&box, &o, dev);
		set_short(&box, 4000, 20000);
		wait_durable(&box);
		assert_int_equal(count_short(&box, 0, 20000), 20000);
		if (crash)
			lose_power_and_close(&box, dev, 1);
		else
			assert_ok(box_close(&box));
		o.items = 8000;
		box_open(&box, &o, dev);
		assert_int_equal(recovery_of(&box).clean, !crash);
		/* The newest chunks are those that stay. */
		assert_int_equal(count_short(&box, 15000, 20000), 5000);
		assert_int_equal(count_short(&box, 0, 8000), 0);
		set_short(&box, 20000, 30000);
		assert_ok(box_close(&box));
		o.items = 0;
		box_open(&box, &o, dev);
		assert_int_equal(count_short(&box, 29500, 30000), 500);
		set_short(&box, 30000, 90000);
		assert_int_equal(count_short(&box, 30000, 90000), 60000);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* With persistence too: the oldest items go, in the order of the log. */
static void a_full_index_refuses_nothing(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("mem:32M");
	struct fth_kv_usage usage;
	struct box box;

	(void)state;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++) {
		o.persistence = p;
		o.items = 20000;
		o.format = true;
		box_open(&box, &o, dev);
		set_short(&box, 0, 100000);
		fth_kv_usage(box.kv, &usage);
		assert_true(usage.items <= usage.index_items);
		/* In the order of the log: at most a few chunks are gone before their time. */
		assert_int_equal(count_short(&box, 85000, 100000), 15000);
		assert_true(box_stat(&box, FTH_KV_STAT_INDEX_RECLAIMED) > 0);
		assert_int_equal(box_stat(&box, FTH_KV_STAT_INDEX_DROPPED), 0);
		assert_true(box_stat(&box, FTH_KV_STAT_LOST) >= 100000 - usage.index_items);
		assert_true(box_stat(&box, FTH_KV_STAT_LOST) <= 85000);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

/* An index that is smaller than memory: items in memory go then. */
static void an_index_that_is_smaller_than_memory(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("mem:32M");
	struct box box;

	(void)state;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++) {
		o.persistence = p;
		o.items = 500;
		o.format = true;
		box_open(&box, &o, dev);
		set_short(&box, 0, 20000);
		assert_true(count_short(&box, 0, 20000) >= 500);
		assert_true(count_short(&box, 19900, 20000) >= 95);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

/* A crash does not bring back a key after a delete of it was answered with "not found". */
static void what_the_index_dropped_stays_deleted(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("crash(mem:32M)");
	unsigned back = 0;
	struct box box;

	(void)state;
	o.items = 10000;
	box_open(&box, &o, dev);
	set_short(&box, 0, 40000);
	for (unsigned i = 0; i < 20000; i += 2) {
		int rc = box_delete(&box, i);

		assert_true(rc == 0 || rc == -ENOENT);
	}
	wait_durable(&box);
	o.items = 0; /* so that nothing is dropped when the log is replayed */
	lose_power_and_close(&box, dev, 1);
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 20000; i++) {
		bool there = has_short(&box, i);

		assert_false(there && i % 2 == 0);
		back += there;
	}
	assert_true(back > 0); /* else this test shows nothing */
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* More items than the areas for the index have room for: the log has the rest. */
static void an_area_that_is_too_small_costs_no_item(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("crash(mem:64M)");
	struct box box;

	(void)state;
	o.items = 100; /* of which a piece holds 65536 */
	box_open(&box, &o, dev);
	assert_ok(box_close(&box));
	o.items = 0;
	box_open(&box, &o, dev);
	set_short(&box, 0, 100000);
	for (unsigned i = 0; i < 100000; i += 10)
		assert_ok(box_delete(&box, i));
	for (unsigned crash = 0; crash < 2; crash++) {
		wait_durable(&box);
		assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
		if (crash)
			lose_power_and_close(&box, dev, 1);
		else
			assert_ok(box_close(&box));
		box_open(&box, &o, dev);
		assert_int_equal(recovery_of(&box).clean, !crash);
		assert_int_equal(recovery_of(&box).damaged_chunks, 0);
		/* A part of the log was read, not all of it. */
		assert_true(recovery_of(&box).chunks_read > 5);
		assert_true(recovery_of(&box).chunks_read < 60);
		for (unsigned i = 0; i < 100000; i++)
			assert_int_equal(has_short(&box, i), i % 10 != 0);
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/*
 * What the index on the device leaves to the log was durable. If the end of that is damaged, it is
 * no crash: deletes in it must not be undone.
 */
static void damage_to_what_is_left_to_the_log(void **state)
{
	struct fth_kv_options o = durable();

	(void)state;
	for (unsigned crash = 0; crash < 2; crash++) {
		struct fth_dev *dev = open_dev("crash(mem:64M)");
		struct fth_kv_usage usage;
		struct kv_super super;
		struct box box;
		uint64_t at;

		o.items = 100;
		box_open(&box, &o, dev);
		assert_ok(box_close(&box));
		o.items = 0;
		box_open(&box, &o, dev);
		set_short(&box, 0, 100000);
		for (unsigned i = 0; i < 500; i++)
			assert_ok(box_delete(&box, i));
		fth_kv_usage(box.kv, &usage);
		assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
		if (crash)
			lose_power_and_close(&box, dev, 1);
		else
			assert_ok(box_close(&box));
		assert_int_equal(find_super(dev, &super, &at), 2);
		flip(dev, super.log_at + usage.flash_used / o.chunk * o.chunk + 16);
		box_open(&box, &o, dev);
		assert_int_equal(recovery_of(&box).damaged_chunks, 1);
		assert_false(recovery_of(&box).clean);
		assert_int_equal(count_short(&box, 0, 500), 0);
		set_short(&box, 0, 100000);
		assert_ok(box_close(&box));
		box_open(&box, &o, dev);
		assert_true(recovery_of(&box).clean);
		assert_int_equal(count_short(&box, 0, 100000), 100000);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/*
 * Items that have expired make room in the index for others, in memory, on flash and after a
 * restart.
 */
static void expired_items_release_their_entries(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("mem:32M");
	struct box box;

	(void)state;
	o.items = 2000;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++) {
		o.persistence = p;
		o.format = true;
		box_open(&box, &o, dev);
		set_short(&box, 0, 500);
		for (unsigned i = 1000; i < 50000; i++) {
			struct fth_kv_op op = {.verb = FTH_KV_SET,
					       .value = "long ago",
					       .value_length = 8,
					       .expires = 1};

			assert_ok(box_do(&box, &op, i));
			if (i == 25000 && p != FTH_KV_VOLATILE) {
				o.format = false;
				assert_ok(box_close(&box));
				box_open(&box, &o, dev);
			}
		}
		assert_int_equal(count_short(&box, 0, 500), 500);
		assert_int_equal(box_stat(&box, FTH_KV_STAT_LOST), 0);
		assert_int_equal(box_stat(&box, FTH_KV_STAT_INDEX_RECLAIMED), 0);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

/* ---- threads ---- */

#define THREADS	   4u
#define OF_EACH	   7000u
#define DELETED(i) ((i) % 7 == 3)

struct grower {
	struct box box;
	unsigned first;
};

static void *grow(void *context)
{
	struct grower *g = context;

	for (unsigned i = g->first; i < g->first + OF_EACH; i++) {
		assert_ok(box_text(&g->box, FTH_KV_SET, i, "other"));
		assert_ok(box_text(&g->box, FTH_KV_SET, i, "short"));
		if (DELETED(i))
			assert_ok(box_delete(&g->box, i));
		assert_true(has_short(&g->box, g->first + (i - g->first) / 7 * 7));
	}
	return NULL;
}

/* From 256 buckets to many more, beside threads that use it and while it is written. */
static void an_index_grows_beside_threads_and_checkpoints(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64M)");
	struct fth_kv_options o = durable();
	struct grower growers[THREADS];
	pthread_t threads[THREADS];
	struct fth_kv_usage usage;
	struct box box;

	(void)state;
	o.items = 0;
	o.checkpoint_ms = 1;
	box_open(&box, &o, dev);
	for (unsigned t = 0; t < THREADS; t++) {
		growers[t] = (struct grower){.box = {.kv = box.kv}, .first = t * OF_EACH};
		assert_ok(fth_kv_worker_open(box.kv, &growers[t].box.worker));
		assert_int_equal(pthread_create(&threads[t], NULL, grow, &growers[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_join(threads[t], NULL), 0);
		fth_kv_worker_close(growers[t].box.worker);
	}
	fth_kv_usage(box.kv, &usage);
	assert_true(usage.index_bytes >= usage.items * 16 && usage.index_bytes <= usage.items * 24);
	for (unsigned i = 0; i < THREADS * OF_EACH; i++)
		assert_int_equal(has_short(&box, i), !DELETED(i));
	wait_durable(&box);
	lose_power_and_close(&box, dev, 1);
	o.checkpoint_ms = 0;
	box_open(&box, &o, dev);
	assert_int_equal(recovery_of(&box).damaged_chunks, 0);
	for (unsigned i = 0; i < THREADS * OF_EACH; i++)
		assert_int_equal(has_short(&box, i), !DELETED(i));
	assert_int_equal(box_stat(&box, FTH_KV_STAT_LOST), 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_size_of_the_index_changes_with_a_restart),
		cmocka_unit_test(a_full_index_refuses_nothing),
		cmocka_unit_test(an_index_that_is_smaller_than_memory),
		cmocka_unit_test(what_the_index_dropped_stays_deleted),
		cmocka_unit_test(an_area_that_is_too_small_costs_no_item),
		cmocka_unit_test(damage_to_what_is_left_to_the_log),
		cmocka_unit_test(expired_items_release_their_entries),
		cmocka_unit_test(an_index_grows_beside_threads_and_checkpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
