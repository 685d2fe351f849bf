/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a crash leaves behind the end of the log is never taken for a part of it, and what the cache
 * has said to be gone does not come back.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/kv/image.h"

#include <unistd.h>

/* Power losses of a test; ThreadSanitizer makes each of them take seconds. */
#ifdef __SANITIZE_THREAD__
#define SEEDS(n) ((n) / 6)
#else
#define SEEDS(n) (n)
#endif

/* Nothing is flushed by itself. */
static struct fth_kv_options lazy(void)
{
	struct fth_kv_options o = small_options();

	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 600000;
	return o;
}

/* The same items, until so many chunks are full and written, but not flushed. */
static void fill_chunks(struct box *box, unsigned *next, uint64_t chunks)
{
	while (box_stat(box, FTH_KV_STAT_CHUNKS) < chunks)
		assert_ok(box_set(box, 1000 + (*next)++, 1));
	while (box_stat(box, FTH_KV_STAT_CHUNK_BYTES) < chunks * 60000)
		usleep(1000);
}

/*
 * The first chunk is lost, the second one survives and is no part of the log. Then the first one is
 * written again, byte for byte, and survives another crash: the second one still is none.
 */
static void what_was_lost_stays_lost(void **state)
{
	struct fth_kv_options o = lazy();
	unsigned tried = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS(60); seed++) {
		struct fth_dev *dev = open_dev("crash(mem:8M)");
		unsigned next = 0;
		struct box box;

		box_open(&box, &o, dev);
		assert_ok(box_set(&box, 5, 1));
		assert_ok(box_close(&box));
		box_open(&box, &o, dev);
		fill_chunks(&box, &next, 1);
		assert_ok(box_set(&box, 5, 99));
		fill_chunks(&box, &next, 2);
		lose_power_and_close(&box, dev, seed);
		box_open(&box, &o, dev);
		if (box_get(&box, 5) == 1) {
			next = 0;
			fill_chunks(&box, &next, 1);
			lose_power_and_close(&box, dev, seed + 1000);
			box_open(&box, &o, dev);
			assert_int_equal(box_get(&box, 5), 1);
			tried++;
		}
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
	assert_true(tried > SEEDS(60) / 6);
}

/* Fill the ring, all of it durable. The first key that is in its oldest chunk is returned. */
static unsigned fill_ring(struct box *box, unsigned *items)
{
	unsigned first = 0;

	for (*items = 0; box_stat(box, FTH_KV_STAT_RECLAIMED) < 5; ++*items)
		assert_ok(box_set(box, *items, 1));
	assert_ok(fth_kv_checkpoint(box->kv, KV_SECONDS(20)));
	while (box_get(box, first) == 0)
		first++;
	return first;
}

/*
 * A chunk was opened in the place of the oldest one. That it was lost in a crash brings nothing
 * back.
 */
static void what_was_gone_stays_gone(void **state)
{
	struct fth_kv_options o = lazy();

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS(12); seed++) {
		struct fth_dev *dev = open_dev("crash(mem:8M)");
		unsigned items, first;
		struct box box;

		box_open(&box, &o, dev);
		first = fill_ring(&box, &items);
		while (box_get(&box, first) == 1)
			assert_ok(box_set(&box, items++, 1));
		assert_int_equal(box_delete(&box, first), -ENOENT);
		lose_power_and_close(&box, dev, seed);
		box_open(&box, &o, dev);
		assert_int_equal(box_get(&box, first), 0);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* A full ring after a crash: no part of it is damaged, before and after the cache is closed. */
static void a_crash_is_no_damage(void **state)
{
	struct fth_kv_options o = lazy();

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS(6); seed++) {
		struct fth_dev *dev = open_dev("crash(mem:8M)");
		struct fth_kv_image_visit visit = FTH_KV_IMAGE_VISIT_INIT;
		struct fth_kv_image *image;
		struct box box;
		unsigned items;

		box_open(&box, &o, dev);
		(void)fill_ring(&box, &items);
		lose_power_and_close(&box, dev, seed);
		for (unsigned closed = 0; closed < 2; closed++) {
			assert_ok(fth_kv_image_open_dev(dev, &image));
			assert_int_equal(fth_kv_image_walk(image, &visit, NULL), 0);
			fth_kv_image_close(image);
			box_open(&box, &o, dev);
			assert_ok(box_close(&box));
		}
		fth_dev_close(dev);
	}
}

/* The oldest chunk is overwritten in part, and there is no index. */
static void a_torn_chunk_is_the_end_of_the_ring(void **state)
{
	struct fth_kv_options o = lazy();

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS(30); seed++) {
		struct fth_dev *dev = open_dev("crash(mem:8M)");
		struct fth_kv_recovery recovery;
		struct kv_super super;
		unsigned items, next = 0;
		struct box box;
		uint64_t at;

		box_open(&box, &o, dev);
		(void)fill_ring(&box, &items);
		assert_ok(box_close(&box));
		box_open(&box, &o, dev);
		fill_chunks(&box, &next, 1);
		lose_power_and_close(&box, dev, seed);
		assert_int_equal(find_super(dev, &super, &at), 2);
		flip(dev, index_area(&super, 0) + 4096 + 700);
		flip(dev, index_area(&super, 1) + 4096 + 700);
		box_open(&box, &o, dev);
		fth_kv_recovery(box.kv, &recovery);
		assert_true(recovery.index_damaged);
		assert_int_equal(recovery.damaged_chunks, 0);
		assert_int_equal(box_get(&box, items - 1), 1);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* The checkpoint before a damaged one is used: little is replayed. */
static void an_older_checkpoint_saves_time(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = lazy();
	struct fth_kv_recovery recovery;
	struct kv_super super;
	unsigned items;
	struct box box;
	uint64_t at;

	(void)state;
	box_open(&box, &o, dev);
	(void)fill_ring(&box, &items);
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	lose_power_and_close(&box, dev, 1);
	assert_int_equal(find_super(dev, &super, &at), 2);
	flip(dev, index_area(&super, 0) + 4096 + 700);
	box_open(&box, &o, dev);
	fth_kv_recovery(box.kv, &recovery);
	assert_true(recovery.index_damaged);
	assert_true(recovery.chunks_read < 5);
	assert_int_equal(box_get(&box, items - 1), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* A cache that may have more chunks in flight than the one before it says so on the device. */
static void more_buffers_are_on_the_device(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M");
	struct fth_kv_options o = lazy();
	struct kv_super super;
	struct box box;
	uint64_t at, flight;

	(void)state;
	box_open(&box, &o, dev);
	assert_ok(box_close(&box));
	(void)find_super(dev, &super, &at);
	flight = super.flight;
	o.buffers *= 2;
	box_open(&box, &o, dev);
	(void)find_super(dev, &super, &at);
	assert_int_equal(super.flight, 2 * flight);
	assert_ok(box_close(&box));
	o.buffers /= 2;
	box_open(&box, &o, dev);
	(void)find_super(dev, &super, &at);
	assert_int_equal(super.flight, 2 * flight);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_lost_stays_lost),
		cmocka_unit_test(what_was_gone_stays_gone),
		cmocka_unit_test(a_crash_is_no_damage),
		cmocka_unit_test(a_torn_chunk_is_the_end_of_the_ring),
		cmocka_unit_test(an_older_checkpoint_saves_time),
		cmocka_unit_test(more_buffers_are_on_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
