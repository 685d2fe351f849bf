/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the log brings back after a restart, a crash, and on a medium that was damaged: all that
 * must, and never a value that is not the latest, unless nobody can know of a later one.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/base/error.h"
#include "fathom/dev/driver.h"
#include "fathom/dev/fault.h"

#include "kv/media/format.h"

#include <time.h>
#include <unistd.h>

/* ---- options ---- */

/* Any limit of the index: as many items come back. */
static void an_index_of_any_size_comes_back(void **state)
{
	static const uint64_t items[] = {1, 8, 60, 100, 700, 744, 5000};
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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

/*
 * A crash may take the oldest chunks of a ring that is full; the crashes after it take nothing
 * more.
 */
static void crashes_do_not_add_up(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:8M)");
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	const uint64_t chunk = write_through().chunk;

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
	struct fth_kv_options o = write_through();
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
	struct fth_kv_options o = write_through();
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
