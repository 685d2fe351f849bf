/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes back after a restart, a crash, and on a medium that was damaged: all that must, and
 * never a value that is not the latest, unless nobody can know of a later one.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/base/error.h"
#include "fathom/dev/crash.h"
#include "fathom/dev/driver.h"
#include "fathom/dev/fault.h"

#include "kv/media/format.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static struct fth_kv_options durable(void)
{
	struct fth_kv_options o = small_options();

	o.persistence = FTH_KV_WRITE_THROUGH;
	return o;
}

static struct fth_kv_recovery recovery_of(const struct box *box)
{
	struct fth_kv_recovery recovery;

	fth_kv_recovery(box->kv, &recovery);
	return recovery;
}

static void lose_power_and_close(struct box *box, struct fth_dev *dev, uint64_t seed)
{
	assert_ok(fth_dev_crash_power_loss(dev, seed));
	fth_kv_worker_close(box->worker);
	(void)fth_kv_close(box->kv);
	assert_ok(fth_dev_crash_restart(dev));
}

/* The power goes; the cache is opened again on what is left. */
static void lose_power(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev,
		       uint64_t seed)
{
	lose_power_and_close(box, dev, seed);
	box_open(box, o, dev);
}

/* The second commit from now on has begun after all that was changed before. */
static void wait_durable(struct box *box)
{
	for (unsigned n = 0; n < 2; n++) {
		uint64_t commits = box_stat(box, FTH_KV_STAT_COMMITS);

		assert_ok(box_set(box, 900000 + n, 1));
		while (box_stat(box, FTH_KV_STAT_COMMITS) == commits)
			usleep(1000);
	}
}

static int flush_all(struct box *box, uint32_t when)
{
	struct fth_kv_op op = {.verb = FTH_KV_FLUSH_ALL, .expires = when};

	return fth_kv_do(box->worker, &op, KV_SECONDS(20));
}

enum { HEADER, BODY, PLACES };
enum { NEWEST = 1, OLDER = 2 };

static void spoil_index(struct fth_dev *dev, unsigned areas, unsigned place)
{
	struct kv_super super;
	uint64_t at;

	assert_int_equal(find_super(dev, &super, &at), 2);
	for (unsigned older = 0; older < 2; older++)
		if (areas & 1u << older)
			flip(dev, index_area(&super, older) + (place == HEADER ? 48 : 4096 + 700));
}

/* ---- options ---- */

/* Any limit of the index: as many items come back. */
static void an_index_of_any_size_comes_back(void **state)
{
	static const uint64_t items[] = {1, 8, 60, 100, 700, 744, 5000};
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("mem:16M");
	struct box box;

	(void)state;
	for (unsigned n = 0; n < sizeof(items) / sizeof(items[0]); n++) {
		unsigned want = (unsigned)(items[n] < 1000 ? items[n] : 1000);
		struct fth_kv_usage usage;

		o.items = items[n];
		o.format = true;
		box_open(&box, &o, dev);
		fth_kv_usage(box.kv, &usage);
		assert_true(usage.index_items >= items[n]);
		for (unsigned i = 0; i < want; i++)
			assert_ok(box_set(&box, i, i + 1));
		assert_ok(box_close(&box));
		o.format = false;
		box_open(&box, &o, dev);
		assert_true(recovery_of(&box).clean);
		for (unsigned i = 0; i < want; i++)
			assert_int_equal(box_get(&box, i), i + 1);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

static void another_layout_is_refused_by_its_version(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("mem:16M");
	struct kv_super super = {.magic = "FTHKVC0"};
	struct box box;

	(void)state;
	super.magic[7] = '1';
	assert_ok(fth_dev_write(dev, &super, sizeof(super), 0, FTH_DEV_TIMEOUT));
	assert_int_equal(box_try(&box, &o, dev), -EPROTONOSUPPORT);
	assert_non_null(strstr(fth_error_text(-EPROTONOSUPPORT), "layout version 01"));
	o.format = true;
	box_open(&box, &o, dev);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void values_must_fit_the_chunks_that_are_there(void **state)
{
	struct fth_kv_options o = durable();
	struct fth_dev *dev = open_dev("mem:16M");
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	assert_ok(box_close(&box));
	o.value_max = 100000;
	o.chunk = 262144;
	assert_int_equal(box_try(&box, &o, dev), -EINVAL);
	fth_dev_close(dev);
}

/* A crash takes the oldest chunks; of a short ring that must not be most of it. */
static void a_crash_leaves_most_of_a_short_ring(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:7M)");
	struct fth_kv_options o = durable();
	struct box box;

	(void)state;
	o.buffers = 1000;
	o.items = 100;
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 20; i++)
		assert_ok(box_set(&box, i, i + 1));
	lose_power(&box, &o, dev, 1);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(box_get(&box, i), i + 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* A crash may take the oldest chunks of a ring that is full; the crashes after it take nothing more. */
static void crashes_do_not_add_up(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = durable();
	unsigned first = 0, left = 0, items = 0;
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	while (box_stat(&box, FTH_KV_STAT_RECLAIMED) < 5)
		assert_ok(box_set(&box, items++, 1));
	for (unsigned i = 0; i < items; i++)
		first += box_get(&box, i) != 0;
	for (unsigned n = 1; n <= 10; n++) {
		lose_power(&box, &o, dev, n);
		assert_int_equal(recovery_of(&box).damaged_chunks, 0);
		assert_ok(box_set(&box, items, n));
	}
	for (unsigned i = 0; i < items; i++)
		left += box_get(&box, i) != 0;
	assert_int_equal(box_get(&box, items), 10);
	print_message("%u of %u items before, %u after 10 crashes\n", first, items, left);
	/* A quarter of the ring for the first one, a chunk for each: they were written anew. */
	assert_true(left > first / 2 && left < first);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_file_has_one_cache_at_a_time(void **state)
{
	char path[] = "/tmp/fathom-kv-XXXXXX", uri[128];
	struct fth_kv_options o = durable();
	struct box box, other;

	(void)state;
	close(mkstemp(path));
	assert_ok(truncate(path, 16 << 20));
	snprintf(uri, sizeof(uri), "fault(file:%s?direct=off)", path);
	o.flash = uri;
	box_open(&box, &o, NULL);
	assert_ok(box_set(&box, 1, 1));
	o.format = true; /* not even then */
	assert_int_equal(box_try(&other, &o, NULL), -EBUSY);
	o.format = false;
	assert_ok(box_close(&box));
	box_open(&box, &o, NULL);
	assert_int_equal(box_get(&box, 1), 1);
	assert_ok(box_close(&box));
	unlink(path);
}

/* ---- the log ---- */

/* More is written than the ring holds, and no checkpoint is made meanwhile. */
static void a_log_that_went_round_is_replayed(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = durable();
	uint32_t version = 0, latest[200];
	struct box box;

	(void)state;
	o.items = 400;
	o.persistence = FTH_KV_WRITE_BACK;
	o.window_ms = 1;
	box_open(&box, &o, dev);
	for (unsigned life = 0; life < 3; life++) {
		for (unsigned round = 0; round < 60; round++)
			for (unsigned i = 0; i < 200; i++) {
				latest[i] = ++version;
				assert_ok(box_set(&box, i, version));
			}
		for (unsigned i = 0; i < 200; i += 10) {
			latest[i] = 0;
			assert_ok(box_delete(&box, i));
		}
		assert_true(box_stat(&box, FTH_KV_STAT_RECLAIMED) > 0);
		wait_durable(&box);
		lose_power(&box, &o, dev, life);
		assert_false(recovery_of(&box).clean);
		assert_true(recovery_of(&box).went_round);
		assert_int_equal(recovery_of(&box).damaged_chunks, 0);
		assert_false(recovery_of(&box).index_damaged);
		for (unsigned i = 0; i < 200; i++)
			assert_int_equal(box_get(&box, i), latest[i]);
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static uint64_t log_at(struct fth_dev *dev)
{
	struct kv_super super;

	assert_ok(fth_dev_read(dev, &super, sizeof(super), 0, FTH_DEV_TIMEOUT));
	return super.log_at;
}

/*
 * A chunk in the midst of the log is spoilt: its header, a record, or the type of a record, which
 * then looks like the end of the chunk. Changes in it are lost, so older values must be, too.
 */
static void check_damage(unsigned chunk, uint64_t at)
{
	struct fth_dev *dev = open_dev("crash(mem:16M)");
	struct fth_kv_options o = durable();
	uint32_t latest[200] = {0}, version = 0;
	unsigned found = 0;
	struct box box;

	box_open(&box, &o, dev);
	for (unsigned n = 0; n < 1000; n++) {
		unsigned i = n % 200;

		if (n > 200 && n % 11 == 0) {
			int rc = box_delete(&box, i);

			assert_true(rc == 0 || rc == -ENOENT);
			latest[i] = 0;
		} else {
			assert_ok(box_set(&box, i, ++version));
			latest[i] = version;
		}
	}
	assert_ok(fth_dev_crash_power_loss(dev, 1));
	fth_kv_worker_close(box.worker);
	(void)fth_kv_close(box.kv);
	assert_ok(fth_dev_crash_restart(dev));
	flip(dev, log_at(dev) + chunk * o.chunk + at);
	box_open(&box, &o, dev);
	assert_int_equal(recovery_of(&box).damaged_chunks, 1);
	assert_false(recovery_of(&box).went_round);
	for (unsigned i = 0; i < 200; i++) {
		uint32_t got = box_get(&box, i);

		assert_true(got == 0 || got == latest[i]);
		found += got != 0;
	}
	assert_true(found > 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void damage_brings_back_no_old_value(void **state)
{
	(void)state;
	check_damage(5, 16);	/* its number */
	check_damage(5, 20000); /* somewhere */
	check_damage(5, sizeof(struct kv_chunk_header) + offsetof(struct kv_record, type));
	check_damage(0, 0);
}

/* The image of a cache that ended without being closed, on a device that can be made to fail. */
static struct fth_dev *image_of_a_crash(const struct fth_kv_options *o, uint32_t *latest)
{
	struct fth_dev *dev = open_dev("mem:16M"), *copy = open_dev("fault(mem:16M)");
	uint8_t *image = malloc(16 << 20);
	struct box box;

	assert_non_null(image);
	box_open(&box, o, dev);
	for (unsigned n = 0; n < 2; n++)
		assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	for (uint32_t n = 0; n < 1000; n++) {
		latest[n % 200] = n + 1;
		assert_ok(box_set(&box, n % 200, n + 1));
	}
	assert_ok(fth_dev_read(dev, image, 16 << 20, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(copy, image, 16 << 20, 0, FTH_DEV_TIMEOUT));
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(image);
	return copy;
}

static void check_unreadable(uint64_t from, uint64_t to, bool index, unsigned least)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_kv_options o = durable();
	uint32_t latest[200];
	struct fth_dev *dev = image_of_a_crash(&o, latest);
	unsigned found = 0;
	struct box box;

	if (index)
		spoil_index(dev, NEWEST | OLDER, HEADER); /* of an index without entries */
	plan.kinds = 1u << FTH_DEV_READ;
	plan.every = 1;
	plan.from = log_at(dev) + from;
	plan.to = log_at(dev) + to;
	assert_ok(fth_dev_fault_set(dev, &plan));
	box_open(&box, &o, dev);
	assert_int_equal(recovery_of(&box).index_damaged, index);
	assert_true(recovery_of(&box).unreadable > 0);
	for (unsigned i = 0; i < 200; i++) {
		uint32_t got = box_get(&box, i);

		assert_true(got == 0 || got == latest[i]);
		found += got != 0;
	}
	assert_true(found >= least && found <= 200);
	assert_ok(box_set(&box, 1, 2000));
	assert_int_equal(box_get(&box, 1), 2000);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* What cannot be read is missing, and what it may have changed is, too; the cache opens. */
static void an_unreadable_log_is_a_loss(void **state)
{
	const uint64_t chunk = durable().chunk;

	(void)state;
	for (unsigned index = 0; index < 2; index++) {
		check_unreadable(5 * chunk, 5 * chunk + 512, index, 100);
		check_unreadable(5 * chunk + 20000, 5 * chunk + 20512, index, 100);
		check_unreadable(5 * chunk, 6 * chunk, index, 100);
		check_unreadable(0, 100 * chunk, index, 0);
		for (unsigned n = 18; n < 28; n++) { /* nearly to the end of the log */
			check_unreadable(n * chunk + 30000, n * chunk + 30512, index, 0);
			check_unreadable(n * chunk, n * chunk + 512, index, 0);
		}
	}
}

/* A sparse file on a disk that is full can be opened again when there is space. */
static void a_full_disk_loses_nothing(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_kv_options o = durable();
	uint32_t latest[200];
	struct fth_dev *dev = image_of_a_crash(&o, latest);
	struct box box;

	(void)state;
	plan.error = ENOSPC;
	plan.every = 1;
	for (unsigned zero = 0; zero < 2; zero++) {
		plan.kinds = 1u << (zero ? FTH_DEV_ZERO : FTH_DEV_WRITE);
		assert_ok(fth_dev_fault_set(dev, &plan));
		assert_int_equal(box_try(&box, &o, dev), -ENOSPC);
		assert_non_null(strstr(fth_error_text(-ENOSPC), "has no space left for the index"));
	}
	assert_ok(fth_dev_fault_disarm(dev));
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(box_get(&box, i), latest[i]);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* An item that was spoilt after it was indexed is a miss, and counted. */
static void a_spoilt_item_is_a_miss(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M");
	struct fth_kv_options o = durable();
	unsigned missing = 0;
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 200; i++)
		assert_ok(box_set(&box, i, 1));
	assert_ok(box_close(&box));
	for (unsigned n = 0; n < 4; n++)
		flip(dev, log_at(dev) + n * o.chunk + 30000);
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 200; i++)
		missing += box_get(&box, i) == 0;
	assert_true(missing > 0 && missing <= 4);
	assert_int_equal(box_stat(&box, FTH_KV_STAT_BAD_ITEMS), missing);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

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
	struct fth_kv_options o = durable();
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
	struct fth_kv_options o = durable();
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
	struct fth_kv_options o = durable();

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
	struct fth_kv_options o = durable();
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
 * Power is lost twice, and a chunk that was written in between is not flushed: it may have overwritten a part
 * of the oldest chunk. That is the end of the ring, and no damage to it.
 */
static void check_two_crashes(uint64_t seed)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = durable();
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
	struct fth_kv_options o = durable();

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
	struct fth_kv_options o = durable();
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
	struct fth_kv_options o = durable();
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
	struct fth_kv_options o = durable();
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
	struct fth_kv_options o = durable();
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
		cmocka_unit_test(an_index_of_any_size_comes_back),
		cmocka_unit_test(another_layout_is_refused_by_its_version),
		cmocka_unit_test(values_must_fit_the_chunks_that_are_there),
		cmocka_unit_test(a_crash_leaves_most_of_a_short_ring),
		cmocka_unit_test(crashes_do_not_add_up),
		cmocka_unit_test(a_file_has_one_cache_at_a_time),
		cmocka_unit_test(a_log_that_went_round_is_replayed),
		cmocka_unit_test(damage_brings_back_no_old_value),
		cmocka_unit_test(an_unreadable_log_is_a_loss),
		cmocka_unit_test(a_full_disk_loses_nothing),
		cmocka_unit_test(a_spoilt_item_is_a_miss),
		cmocka_unit_test(checkpoints_and_changes_at_once),
		cmocka_unit_test(a_damaged_checkpoint_costs_no_item),
		cmocka_unit_test(one_superblock_is_enough),
		cmocka_unit_test(a_ring_is_replayed_without_an_index),
		cmocka_unit_test(two_crashes_are_no_damage),
		cmocka_unit_test(flush_all_and_expiry_survive),
		cmocka_unit_test(a_later_flush_all_takes_no_earlier_one_back),
		cmocka_unit_test(cas_numbers_are_not_given_twice),
		cmocka_unit_test(write_back_loses_a_window_at_most),
		cmocka_unit_test(write_back_waits_for_a_slow_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
