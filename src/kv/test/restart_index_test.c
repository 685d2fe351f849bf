/* SPDX-License-Identifier: BSD-2-Clause */
/* What a checkpoint brings back, also beside changes, and if it or a superblock is damaged. */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "kv/media/format.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* ---- checkpoints ---- */

struct changes {
	struct box box;
	struct fth_kv *kv;
	unsigned first;
	uint32_t latest[200];
	bool stop;
	int checkpoints;
};

static void *change_on(void *context)
{
	struct changes *c = context;

	for (uint32_t version = 1; version < 25; version++)
		for (unsigned i = 0; i < 200; i++)
			if ((i + version) % 9 == 0) {
				int rc = box_delete(&c->box, c->first + i);

				assert_true(rc == 0 || rc == -ENOENT);
				c->latest[i] = 0;
			} else {
				assert_ok(box_set(&c->box, c->first + i, version));
				c->latest[i] = version;
			}
	return NULL;
}

static void *checkpoint_on(void *context)
{
	struct changes *c = context;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		int rc = fth_kv_checkpoint(c->kv, KV_SECONDS(20));

		/* Too many entries moved: the next one may have more luck. */
		assert_true(rc == 0 || rc == -EAGAIN);
		c->checkpoints += rc == 0;
	}
	return NULL;
}

/* Two threads write checkpoints while others change items in an index that is nearly full. */
static void checkpoints_and_changes_at_once(void **state)
{
	struct fth_kv_options o = write_through();
	struct changes *c = calloc(4, sizeof(*c));
	pthread_t thread[4];

	(void)state;
	o.items = 380;
	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 1;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct fth_dev *dev = open_dev("crash(mem:64M)");
		struct box box;

		box_open(&box, &o, dev);
		for (unsigned t = 0; t < 4; t++) {
			memset(&c[t], 0, sizeof(c[t]));
			c[t].first = t * 1000;
			c[t].kv = c[t].box.kv = box.kv;
			if (t < 2)
				assert_ok(fth_kv_worker_open(box.kv, &c[t].box.worker));
			assert_int_equal(pthread_create(&thread[t], NULL,
							t < 2 ? change_on : checkpoint_on, &c[t]),
					 0);
		}
		for (unsigned t = 0; t < 4; t++) {
			pthread_join(thread[t], NULL);
			if (t == 1)
				for (unsigned k = 2; k < 4; k++)
					__atomic_store_n(&c[k].stop, true, __ATOMIC_RELAXED);
			fth_kv_worker_close(c[t].box.worker);
		}
		assert_true(c[2].checkpoints + c[3].checkpoints > 0);
		wait_durable(&box);
		lose_power(&box, &o, dev, seed);
		for (unsigned t = 0; t < 2; t++)
			for (unsigned i = 0; i < 200; i++)
				assert_int_equal(box_get(&box, c[t].first + i), c[t].latest[i]);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
	free(c);
}

/* ---- damage to checkpoints and superblocks ---- */

/* Changes of keys in no order; every sixth one is a delete. */
static void change_some(struct box *box, struct fth_rng *rng, uint32_t *latest, unsigned count)
{
	static uint32_t version;

	while (count-- > 0) {
		unsigned i = (unsigned)fth_rng_below(rng, 200);

		if (fth_rng_below(rng, 6) == 0) {
			int rc = box_delete(box, i);

			assert_int_equal(rc, latest[i] ? 0 : -ENOENT);
			latest[i] = 0;
		} else {
			latest[i] = ++version;
			assert_ok(box_set(box, i, version));
		}
	}
}

static void check_latest(struct box *box, const uint32_t *latest)
{
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(box_get(box, i), latest[i]);
}

/* Some lives, of which each ends with a loss of power. */
static void live(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev,
		 struct fth_rng *rng, uint32_t *latest)
{
	for (unsigned life = 0; life < 3; life++) {
		change_some(box, rng, latest, 150);
		assert_ok(fth_kv_checkpoint(box->kv, KV_SECONDS(20)));
		change_some(box, rng, latest, 150);
		lose_power(box, o, dev, fth_rng_next(rng));
		check_latest(box, latest);
	}
}

static void end_box(struct box *box, struct fth_dev *dev, bool crash)
{
	if (crash)
		assert_ok(fth_dev_crash_power_loss(dev, 5));
	fth_kv_worker_close(box->worker);
	assert_int_equal(fth_kv_close(box->kv) == 0, !crash);
	if (crash)
		assert_ok(fth_dev_crash_restart(dev));
}

static void check_spoilt_index(unsigned areas, unsigned place, bool crash)
{
	struct fth_dev *dev = open_dev("crash(mem:16M)");
	struct fth_kv_options o = write_through();
	struct fth_rng rng = {areas * 10 + place * 2 + crash};
	uint32_t latest[200] = {0};
	struct box box;

	box_open(&box, &o, dev);
	live(&box, &o, dev, &rng, latest);
	change_some(&box, &rng, latest, 100);
	end_box(&box, dev, crash);
	spoil_index(dev, areas, place);
	box_open(&box, &o, dev);
	assert_true(recovery_of(&box).found);
	assert_int_equal(recovery_of(&box).index_damaged, (areas & NEWEST) != 0);
	assert_int_equal(recovery_of(&box).clean, !crash && !(areas & NEWEST));
	assert_int_equal(recovery_of(&box).damaged_chunks, 0);
	check_latest(&box, latest);
	/* It goes on from there, and again after a crash. */
	change_some(&box, &rng, latest, 100);
	lose_power(&box, &o, dev, 1);
	assert_false(recovery_of(&box).index_damaged);
	check_latest(&box, latest);
	end_box(&box, dev, false);
	spoil_index(dev, NEWEST | OLDER, place);
	box_open(&box, &o, dev);
	assert_true(recovery_of(&box).index_damaged);
	check_latest(&box, latest);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_damaged_checkpoint_costs_no_item(void **state)
{
	(void)state;
	for (unsigned place = HEADER; place < PLACES; place++)
		for (unsigned areas = NEWEST; areas <= (NEWEST | OLDER); areas++)
			for (unsigned crash = 0; crash < 2; crash++)
				check_spoilt_index(areas, place, crash);
}

/* The newer one is lost: what the older one says is out of date, that it was closed too. */
static void one_superblock_is_enough(void **state)
{
	struct fth_kv_options o = write_through();

	(void)state;
	for (unsigned kind = 0; kind < 8; kind++) {
		struct fth_dev *dev = open_dev("crash(mem:16M)");
		bool newer = kind & 1, crash = kind & 2, both = kind & 4;
		struct fth_rng rng = {kind};
		uint32_t latest[200] = {0};
		struct kv_super super;
		struct box box;
		uint64_t at;

		box_open(&box, &o, dev);
		live(&box, &o, dev, &rng, latest);
		assert_ok(box_close(&box));
		box_open(&box, &o, dev);
		assert_true(recovery_of(&box).clean);
		change_some(&box, &rng, latest, 300);
		end_box(&box, dev, crash);
		if (both)
			spoil_index(dev, NEWEST | OLDER, BODY);
		assert_int_equal(find_super(dev, &super, &at), 2);
		flip(dev, (newer ? at : KV_SUPER_AGAIN - at) + 90);
		box_open(&box, &o, dev);
		assert_int_equal(recovery_of(&box).index_damaged, both);
		assert_int_equal(recovery_of(&box).damaged_chunks, 0);
		check_latest(&box, latest);
		change_some(&box, &rng, latest, 50);
		lose_power(&box, &o, dev, 1);
		check_latest(&box, latest);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* Neither what was deleted before the oldest chunk comes back nor what was flushed. */
static void a_ring_is_replayed_without_an_index(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = write_through();
	uint32_t latest[200] = {0}, now = (uint32_t)time(NULL);
	struct fth_rng rng = {77};
	struct box box;

	(void)state;
	o.items = 400;
	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 1;
	box_open(&box, &o, dev);
	for (unsigned n = 0; n < 2; n++)
		assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	assert_ok(flush_all(&box, now + 3));
	while (box_stat(&box, FTH_KV_STAT_RECLAIMED) < 20)
		change_some(&box, &rng, latest, 500);
	/* What was stored since then goes when the time comes, and the rest of it not. */
	while ((uint32_t)time(NULL) <= now + 3)
		usleep(100000);
	for (unsigned i = 0; i < 200; i += 2)
		assert_ok(box_set(&box, i, 1000000 + i));
	wait_durable(&box);
	for (unsigned i = 0; i < 200; i++)
		latest[i] = box_get(&box, i);
	end_box(&box, dev, true);
	spoil_index(dev, NEWEST | OLDER, HEADER);
	box_open(&box, &o, dev);
	assert_true(recovery_of(&box).index_damaged);
	assert_int_equal(recovery_of(&box).damaged_chunks, 0);
	check_latest(&box, latest);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/*
 * Power is lost twice, and a chunk that was written in between is not flushed: it may have
 * overwritten a part of the oldest chunk. That is the end of the ring, and no damage to it.
 */
static void check_two_crashes(uint64_t seed)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = write_through();
	struct box box;

	o.items = 1000;
	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 1;
	box_open(&box, &o, dev);
	while (box_stat(&box, FTH_KV_STAT_RECLAIMED) < 5)
		assert_ok(box_set(&box, 0, 1));
	for (unsigned i = 0; i < 200; i++)
		assert_ok(box_set(&box, i, 2));
	wait_durable(&box);
	o.window_ms = 60000;
	lose_power(&box, &o, dev, seed);
	while (box_stat(&box, FTH_KV_STAT_CHUNKS) == 0)
		assert_ok(box_set(&box, 1000, 1));
	while (box_stat(&box, FTH_KV_STAT_CHUNK_BYTES) == 0)
		usleep(1000);
	lose_power_and_close(&box, dev, seed);
	spoil_index(dev, NEWEST | OLDER, BODY);
	box_open(&box, &o, dev);
	assert_true(recovery_of(&box).index_damaged);
	assert_int_equal(recovery_of(&box).damaged_chunks, 0);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(box_get(&box, i), 2);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void two_crashes_are_no_damage(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++)
		check_two_crashes(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checkpoints_and_changes_at_once),
		cmocka_unit_test(a_damaged_checkpoint_costs_no_item),
		cmocka_unit_test(one_superblock_is_enough),
		cmocka_unit_test(a_ring_is_replayed_without_an_index),
		cmocka_unit_test(two_crashes_are_no_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
