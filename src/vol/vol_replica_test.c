/* SPDX-License-Identifier: BSD-2-Clause */
/* Replicas: who is read, who is written, and what becomes of one that fails. */
#include "vol/open_object.h"
#include "vol/vol_fixture.h"

#include "fathom/dev/wrap.h"
#include "fathom/hd/atomic.h"
#include "fathom/hd/wait.h"

#include <pthread.h>

/* Its operations wait for each other: a repair may meet reads of the same block. */
#define MEDIUM	"fault(crash(mem:1M))"
#define SIZE	(96u << 10)
#define READS	(1u << FTH_DEV_READ)
#define WRITES	(1u << FTH_DEV_WRITE)
#define FLUSHES (1u << FTH_DEV_FLUSH)

static void begin_on(struct rack *rack, const char *uri, unsigned devices, uint32_t unit,
		     uint32_t replicas, uint64_t seed)
{
	struct fth_vol_object_options o = shape(unit, replicas, 0);
	struct fth_dev *dev;

	rack_format(rack, uri, devices);
	assert_ok(fth_vol_create(rack->vol, "x", SIZE, &o));
	dev = open_object(rack->vol, "x");
	write_all(dev, seed);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

static void begin(struct rack *rack, unsigned devices, uint32_t unit, uint32_t replicas,
		  uint64_t seed)
{
	begin_on(rack, MEDIUM, devices, unit, replicas, seed);
}

/* Where the only object of a volume of such devices begins, on each of them. */
#define DATA_START (VOL_AREA + VOL_SLOTS * VOL_SLOT_MIN)

/* Reads of [from, from + bytes) of the data fail; with a count, so many of them. */
static void make_unreadable(struct fth_dev *dev, uint64_t from, uint64_t bytes, uint64_t count)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = READS;
	plan.from = DATA_START + from;
	plan.to = plan.from + bytes;
	plan.every = 1;
	if (count)
		plan.count = count;
	assert_ok(fth_dev_fault_set(dev, &plan));
}

/* Repairs that were noted are done. */
static void settle(struct fth_dev *dev)
{
	wait_for_worker(((struct vol_dev *)dev)->obj->vol);
}

static void every_device_serves_reads(void **state)
{
	static const uint32_t shapes[][2] = {{4096, 1}, {4096, 2}, {16384, 2}, {512, 4}};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct rack rack;
		uint64_t before[4];
		struct fth_dev *dev;

		begin(&rack, 4, shapes[i][0], shapes[i][1], 3);
		for (unsigned d = 0; d < 4; d++)
			before[d] = fth_dev_stat(rack.devs[d], FTH_DEV_STAT_READS);
		dev = open_object(rack.vol, "x");
		assert_true(holds(dev, 3));
		fth_dev_close(dev);
		for (unsigned d = 0; d < 4; d++)
			assert_true(fth_dev_stat(rack.devs[d], FTH_DEV_STAT_READS) > before[d]);
		rack_release(&rack);
	}
}

/* With any one device unreadable everything can be read; and afterwards it is mended. */
static void a_read_error_is_served_by_another_and_repaired(void **state)
{
	(void)state;
	for (unsigned bad = 0; bad < 3; bad++) {
		struct rack rack;
		struct fth_dev *dev;
		uint64_t written, repairs;

		begin(&rack, 3, 4096, 2, 7);
		dev = open_object(rack.vol, "x");
		make_unreadable(rack.devs[bad], 0, 2 * SIZE / 3, 0);
		written = fth_dev_stat(rack.devs[bad], FTH_DEV_STAT_BYTES_WRITTEN);
		assert_true(holds(dev, 7));
		settle(dev);
		assert_true(fth_vol_counter(rack.vol, FTH_VOL_FAILOVERS) > 0);
		repairs = fth_vol_counter(rack.vol, FTH_VOL_REPAIRS);
		assert_true(repairs > 0);
		assert_int_equal(fth_dev_stat(rack.devs[bad], FTH_DEV_STAT_BYTES_WRITTEN),
				 written + 512 * repairs);
		fail_on(rack.devs[bad], READS, 1, 1);
		assert_true(holds(dev, 7));
		assert_true(fth_vol_counter(rack.vol, FTH_VOL_FAILOVERS) > 3);
		assert_ok(fth_dev_fault_disarm(rack.devs[bad]));
		assert_true(holds(dev, 7));
		fth_dev_close(dev);
		rack_close(&rack);
		assert_sound(&rack, FTH_VOL_CHECK_DATA);
		rack_release(&rack);
	}
}

/* A volume of two devices, an object of one column on both. */
static struct fth_dev *begin_mirror(struct rack *rack, uint32_t unit)
{
	struct fth_vol_object_options o = shape(unit, 2, 1);
	struct fth_dev *dev;

	rack_format(rack, MEDIUM, 2);
	assert_ok(fth_vol_create(rack->vol, "x", SIZE, &o));
	dev = open_object(rack->vol, "x");
	write_all(dev, 7);
	return dev;
}

/* One bad block on each replica, or many, in the same stripe unit: each block is somewhere. */
static void blocks_are_read_from_where_they_can_be_read(void **state)
{
	static const uint64_t bad[][4] = {
		/* from and bytes on one device, and on the other */
		{512, 512, 1024, 512},
		{0, 512, SIZE - 512, 512},
		{0, 32768, 32768, SIZE - 32768},
		{4096, 8192, 12288, 1024},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (unsigned unit = 512; unit <= 65536; unit *= 128) {
			struct rack rack;
			struct fth_dev *dev = begin_mirror(&rack, unit);

			make_unreadable(rack.devs[0], bad[i][0], bad[i][1], 0);
			make_unreadable(rack.devs[1], bad[i][2], bad[i][3], 0);
			for (unsigned again = 0; again < 3; again++)
				assert_true(holds(dev, 7));
			fth_dev_close(dev);
			rack_release(&rack);
		}
}

/* However many blocks it has, and however many parts are free to read them. */
static void split_reads_are_whole(void **state)
{
	static char got[SIZE], want[SIZE];
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	dev = begin_mirror(&rack, 65536);
	make_unreadable(rack.devs[0], 0, 512, 0);
	make_unreadable(rack.devs[1], 512, 512, 0);
	fill(want, SIZE, 0, 7);
	for (uint64_t n = 1024; n <= 128 * 512; n += 512) {
		memset(got, 0x55, n);
		assert_ok(fth_dev_read(dev, got, n, 0, FTH_DEV_TIMEOUT));
		assert_memory_equal(got, want, n);
	}
	fth_dev_close(dev);
	rack_release(&rack);
}

/* Many at once, each of which has to be split, with pieces at odd places. */
static void split_reads_share_the_parts(void **state)
{
	static char got[16][6144], want[6144];
	struct fth_dev_req reqs[16], *list[16], *done[16];
	struct iovec pieces[16][3];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	dev = begin_mirror(&rack, 65536);
	make_unreadable(rack.devs[0], 0, SIZE / 2, 0);
	make_unreadable(rack.devs[1], SIZE / 2, SIZE / 2, 0);
	assert_ok(fth_dev_chan_open(dev, 16, &chan));
	for (unsigned i = 0; i < 16; i++) {
		pieces[i][0] = (struct iovec){got[i], 512};
		pieces[i][1] = (struct iovec){got[i] + 512, 3072};
		pieces[i][2] = (struct iovec){got[i] + 3584, 2560};
		/* Around the place where the good blocks change sides. */
		fth_dev_req_init(&reqs[i], FTH_DEV_READ, got[i], sizeof(got[i]),
				 SIZE / 2 - 5632 + 512 * (i % 11));
		reqs[i].iov = pieces[i];
		reqs[i].iov_count = 3;
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, 16), 16);
	assert_int_equal(fth_dev_reap(chan, done, 16, 16, FTH_NEVER), 16);
	for (unsigned i = 0; i < 16; i++) {
		assert_ok(reqs[i].result);
		fill(want, sizeof(want), reqs[i].offset, 7);
		assert_memory_equal(got[i], want, sizeof(want));
	}
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
	rack_release(&rack);
}

static void only_blocks_that_failed_are_written_back(void **state)
{
	struct fth_dev *dev;
	struct rack rack;
	uint64_t written[2];

	(void)state;
	dev = begin_mirror(&rack, 65536);
	make_unreadable(rack.devs[0], 512, 512, 0);
	make_unreadable(rack.devs[1], 2048, 512, 0);
	for (unsigned i = 0; i < 2; i++)
		written[i] = fth_dev_stat(rack.devs[i], FTH_DEV_STAT_BYTES_WRITTEN);
	assert_true(holds(dev, 7));
	settle(dev);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fth_dev_stat(rack.devs[i], FTH_DEV_STAT_BYTES_WRITTEN),
				 written[i] + 512);
	assert_int_equal(fth_vol_counter(rack.vol, FTH_VOL_REPAIRS), 2);
	fth_dev_close(dev);
	rack_release(&rack);
}

/*
 * After a crash, with replicas that differ everywhere: a block that the first can not give comes
 * from the second, and its neighbours from the first, however they are read.
 */
static void neighbours_of_a_bad_block_stay_with_the_first_replica(void **state)
{
	static char want[SIZE], got[SIZE], other[SIZE];
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	dev = begin_mirror(&rack, 65536);
	((struct vol_dev *)dev)->obj->unsynced = 1;
	fill(want, SIZE, 0, 1);
	fill(other, SIZE, 0, 2);
	/* The object has the id 1 and begins on device 1. */
	assert_ok(fth_dev_write(rack.devs[1], want, SIZE, DATA_START, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(rack.devs[0], other, SIZE, DATA_START, FTH_DEV_TIMEOUT));
	make_unreadable(rack.devs[1], 5 * 512, 512, 0);
	memcpy(want + 5 * 512, other + 5 * 512, 512);
	for (uint64_t step = 512; step <= SIZE; step *= 3)
		for (uint64_t at = 0; at < SIZE; at += step) {
			uint64_t n = SIZE - at < step ? SIZE - at : step;

			assert_ok(fth_dev_read(dev, got, n, at, FTH_DEV_TIMEOUT));
			assert_memory_equal(got, want + at, n);
		}
	/* What was read is what is written back: it stays when the device works again. */
	settle(dev);
	assert_ok(fth_dev_fault_disarm(rack.devs[1]));
	assert_ok(fth_dev_read(dev, got, SIZE, 0, FTH_DEV_TIMEOUT));
	assert_memory_equal(got, want, SIZE);
	fth_dev_close(dev);
	rack_release(&rack);
}

/* An error that goes away by itself: what was read once is still read again. */
static void after_a_crash_what_was_read_is_read_again(void **state)
{
	char first[512], again[512], other[SIZE];
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	dev = begin_mirror(&rack, 65536);
	((struct vol_dev *)dev)->obj->unsynced = 1;
	fill(other, SIZE, 0, 2);
	assert_ok(fth_dev_write(rack.devs[0], other, SIZE, DATA_START, FTH_DEV_TIMEOUT));
	make_unreadable(rack.devs[1], 512, 512, 1);
	assert_ok(fth_dev_read(dev, first, sizeof(first), 512, FTH_DEV_TIMEOUT));
	assert_memory_equal(first, other + 512, sizeof(first));
	settle(dev);
	assert_ok(fth_dev_read(dev, again, sizeof(again), 512, FTH_DEV_TIMEOUT));
	assert_memory_equal(first, again, sizeof(first));
	fth_dev_close(dev);
	rack_release(&rack);
}

/* A request that the worker answered is no longer in obj->changes. */
static void repairs_go_on_after_a_device_failed(void **state)
{
	struct fth_vol_object_options o = shape(4096, 3, 1);
	char buf[512] = {0};
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	rack_format(&rack, MEDIUM, 3);
	assert_ok(fth_vol_create(rack.vol, "x", SIZE, &o));
	dev = open_object(rack.vol, "x");
	write_all(dev, 7);
	fail_on(rack.devs[0], WRITES, 1, 0);
	assert_ok(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
	make_unreadable(rack.devs[1], 4096, 512, 0);
	for (unsigned i = 0; i < 8; i++) {
		assert_ok(fth_dev_read(dev, buf, sizeof(buf), 4096, FTH_DEV_TIMEOUT));
		make_unreadable(rack.devs[1 + i % 2], 4096, 512, 0);
		assert_ok(fth_dev_fault_disarm(rack.devs[2 - i % 2]));
	}
	settle(dev);
	assert_true(fth_vol_counter(rack.vol, FTH_VOL_REPAIRS) > 0);
	fth_dev_close(dev);
	rack_release(&rack);
}

/* A catalog write that timed out may still happen: that slot is left alone. */
static void a_device_whose_catalog_timed_out_gets_no_more(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_vol_info info;
	struct rack rack;
	uint64_t writes;

	(void)state;
	rack_format(&rack, MEDIUM, 2);
	plan.kinds = WRITES;
	plan.nth = 1;
	plan.error = ETIMEDOUT;
	assert_ok(fth_dev_fault_set(rack.devs[0], &plan));
	assert_ok(fth_vol_create(rack.vol, "a", 1, NULL));
	writes = fth_dev_stat(rack.devs[0], FTH_DEV_STAT_WRITES);
	assert_ok(fth_vol_create(rack.vol, "b", 1, NULL));
	assert_int_equal(fth_dev_stat(rack.devs[0], FTH_DEV_STAT_WRITES), writes);
	assert_int_equal(fth_vol_counter(rack.vol, FTH_VOL_COMMIT_FAILURES), 2);
	fth_vol_info(rack.vol, &info);
	assert_int_equal(info.behind, 1);
	rack_reopen(&rack);
	assert_ok(fth_vol_create(rack.vol, "c", 1, NULL));
	fth_vol_info(rack.vol, &info);
	assert_int_equal(info.behind, 0);
	rack_release(&rack);
}

/* A repair that timed out may still land on newer data: the device is out of date from then on. */
static void a_repair_that_timed_out_makes_the_device_stale(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_vol_object_info info;
	struct vol_object *obj;
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	dev = begin_mirror(&rack, 65536);
	obj = ((struct vol_dev *)dev)->obj;
	plan.kinds = WRITES;
	plan.nth = 1;
	plan.error = ETIMEDOUT;
	assert_ok(fth_dev_fault_set(rack.devs[1], &plan));
	vol_note_repair(obj, 4096, 512, 0); /* replica 0 is on device 1 */
	settle(dev);
	assert_int_equal(fth_vol_counter(rack.vol, FTH_VOL_REPAIR_FAILURES), 1);
	assert_ok(fth_vol_stat(rack.vol, "x", &info));
	assert_int_equal(info.stale, 1u << 1);
	assert_true(holds(dev, 7));
	fth_dev_close(dev);
	rack_release(&rack);
}

static void a_read_that_no_replica_can_serve_fails(void **state)
{
	struct rack rack;
	struct fth_dev *dev;
	char buf[512];

	(void)state;
	begin(&rack, 2, 4096, 2, 7);
	dev = open_object(rack.vol, "x");
	fail_on(rack.devs[0], READS, 1, 1);
	fail_on(rack.devs[1], READS, 1, 1);
	assert_int_equal(fth_dev_read(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_dev_fault_disarm(rack.devs[0]));
	assert_ok(fth_dev_read(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_fault_disarm(rack.devs[1]));
	assert_true(holds(dev, 7));
	fth_dev_close(dev);
	rack_release(&rack);
}

/* The heart of it: what a failed device holds is never read again, not even after a restart. */
static void a_device_that_missed_a_write_is_not_read_again(void **state)
{
	static const uint32_t kinds[] = {WRITES, FLUSHES};
	struct fth_vol_object_info info;

	(void)state;
	for (unsigned k = 0; k < 2; k++)
		for (unsigned bad = 0; bad < 3; bad++) {
			struct rack rack;
			struct fth_dev *dev;

			begin(&rack, 3, 4096, 2, 1);
			dev = open_object(rack.vol, "x");
			fail_on(rack.devs[bad], kinds[k], 1, 1);
			write_all(dev, 2);
			assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
			assert_ok(fth_vol_stat(rack.vol, "x", &info));
			assert_int_equal(info.stale, 1u << bad);
			assert_true(fth_vol_counter(rack.vol, FTH_VOL_DEGRADED_WRITES) > 0);
			assert_true(holds(dev, 2));
			/* The process ends here: what is on the media must be enough. */
			assert_ok(fth_dev_fault_disarm(rack.devs[bad]));
			fth_dev_close(dev);
			rack_reopen(&rack);
			assert_ok(fth_vol_stat(rack.vol, "x", &info));
			assert_int_equal(info.stale, 1u << bad);
			dev = open_object(rack.vol, "x");
			assert_true(holds(dev, 2));
			write_all(dev, 3);
			assert_true(holds(dev, 3));
			fth_dev_close(dev);
			rack_close(&rack);
			assert_int_equal(check(&rack, 0).serious, 1);
			assert_int_equal(check(&rack, FTH_VOL_REPAIR).serious, 0);
			assert_sound(&rack, FTH_VOL_CHECK_DATA);
			rack_open(&rack);
			assert_ok(fth_vol_stat(rack.vol, "x", &info));
			assert_int_equal(info.stale, 0);
			/* The mended device alone can serve its part now. */
			fail_on(rack.devs[(bad + 1) % 3], READS, 1, 1);
			dev = open_object(rack.vol, "x");
			assert_true(holds(dev, 3));
			fth_dev_close(dev);
			rack_release(&rack);
		}
}

static void a_write_that_no_replica_took_fails(void **state)
{
	struct fth_vol_object_info info;
	struct rack rack;
	struct fth_dev *dev;
	char buf[4096] = {0}, first[512], again[512];

	(void)state;
	begin(&rack, 2, 4096, 2, 1);
	dev = open_object(rack.vol, "x");
	fail_on(rack.devs[0], WRITES, 1, 0);
	fail_on(rack.devs[1], WRITES, 1, 0);
	assert_int_equal(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_vol_stat(rack.vol, "x", &info));
	assert_int_equal(info.stale, 0);
	assert_true(info.unsynced);
	/* What it holds there now nobody knows, but it is the same each time. */
	assert_ok(fth_dev_read(dev, first, sizeof(first), 0, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < 4; i++) {
		assert_ok(fth_dev_read(dev, again, sizeof(again), 0, FTH_DEV_TIMEOUT));
		assert_memory_equal(first, again, sizeof(first));
	}
	fth_dev_close(dev);
	rack_reopen(&rack);
	assert_ok(fth_vol_stat(rack.vol, "x", &info));
	assert_true(info.unsynced);
	rack_close(&rack);
	assert_int_equal(check(&rack, FTH_VOL_REPAIR).serious, 0);
	rack_open(&rack);
	assert_ok(fth_vol_stat(rack.vol, "x", &info));
	assert_false(info.unsynced);
	rack_release(&rack);
}

static void a_second_device_that_fails_is_an_error(void **state)
{
	struct rack rack;
	struct fth_dev *dev;
	char buf[512] = {0};

	(void)state;
	begin(&rack, 2, 4096, 2, 1);
	dev = open_object(rack.vol, "x");
	fail_on(rack.devs[0], WRITES, 1, 0);
	assert_ok(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
	fail_on(rack.devs[1], WRITES, 1, 0);
	assert_int_equal(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT), -EIO);
	fail_on(rack.devs[1], FLUSHES, 1, 0);
	assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -EIO);
	/* Nobody knows what that flush has lost: it is not forgotten. */
	assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -EIO);
	fth_dev_close(dev);
	dev = open_object(rack.vol, "x");
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
	rack_release(&rack);
}

static void a_flush_that_failed_for_one_object_failed_for_all(void **state)
{
	struct fth_vol_object_options o = shape(4096, 1, 0);
	struct fth_dev *a, *b;
	struct rack rack;

	(void)state;
	rack_format(&rack, "fault(mem:1M)", 2);
	assert_ok(fth_vol_create(rack.vol, "a", SIZE, &o));
	assert_ok(fth_vol_create(rack.vol, "b", SIZE, &o));
	a = open_object(rack.vol, "a");
	b = open_object(rack.vol, "b");
	write_all(a, 1);
	write_all(b, 1);
	fail_on(rack.devs[1], FLUSHES, 1, 0);
	assert_int_equal(fth_dev_flush(a, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(fth_dev_flush(b, FTH_DEV_TIMEOUT), -EIO);
	fth_dev_close(a);
	fth_dev_close(b);
	b = open_object(rack.vol, "b");
	assert_ok(fth_dev_flush(b, FTH_DEV_TIMEOUT));
	fth_dev_close(b);
	rack_release(&rack);
}

static void an_update_that_no_device_took_fails_the_volume(void **state)
{
	struct fth_dev *dev;
	struct rack rack;
	char buf[512] = {0};

	(void)state;
	begin(&rack, 2, 4096, 1, 1);
	dev = open_object(rack.vol, "x");
	fail_on(rack.devs[0], FLUSHES, 1, 1);
	assert_ok(fth_vol_create(rack.vol, "y", 1, NULL)); /* the other one took it */
	assert_int_equal(fth_vol_counter(rack.vol, FTH_VOL_COMMIT_FAILURES), 1);
	fail_on(rack.devs[1], FLUSHES, 1, 1);
	assert_int_equal(fth_vol_create(rack.vol, "z", 1, NULL), -EIO);
	assert_ok(fth_dev_fault_disarm(rack.devs[0]));
	assert_ok(fth_dev_fault_disarm(rack.devs[1]));
	assert_int_equal(fth_vol_create(rack.vol, "z", 1, NULL), -EIO);
	assert_int_equal(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -EIO);
	assert_true(holds(dev, 1));
	fth_dev_close(dev);
	rack_reopen(&rack);
	assert_ok(fth_vol_create(rack.vol, "zz", 1, NULL));
	rack_close(&rack);
	assert_sound(&rack, 0);
	rack_release(&rack);
}

/* ---- repairs against writes ---- */

struct race {
	struct fth_dev *dev;
	uint32_t stop;
};

static void *read_on(void *arg)
{
	struct race *race = arg;
	char buf[4096];
	struct fth_rng rng = {5};

	/* relaxed: it only has to be seen some time */
	while (!fth_load_relaxed_dev32(&race->stop))
		if (fth_dev_read(race->dev, buf, sizeof(buf),
				 fth_rng_below(&rng, SIZE / 4096) * 4096, FTH_DEV_TIMEOUT) < 0)
			return race;
	return NULL;
}

/* While one thread writes, another meets read errors and repairs: no write may be undone. */
static void a_repair_never_undoes_a_write(void **state)
{
	struct race race = {0};
	struct rack rack;
	pthread_t thread;
	struct fth_dev *dev;
	void *failed;

	(void)state;
	begin(&rack, 2, 4096, 2, 0);
	dev = open_object(rack.vol, "x");
	assert_ok(fth_vol_object_open(rack.vol, "x", 0, &race.dev));
	for (unsigned d = 0; d < 2; d++) {
		struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

		plan.kinds = READS;
		plan.rate = d ? 0 : 0.3;
		plan.nth = d ? 1000000000 : 0;
		assert_ok(fth_dev_fault_set(rack.devs[d], &plan));
	}
	assert_int_equal(pthread_create(&thread, NULL, read_on, &race), 0);
	for (unsigned round = 1; round < 40; round++) {
		write_all(dev, round);
		sched_yield();
	}
	fth_store_relaxed_dev32(&race.stop, 1);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_ok(fth_dev_fault_disarm(rack.devs[0]));
	assert_true(fth_vol_counter(rack.vol, FTH_VOL_FAILOVERS) > 0);
	assert_true(holds(dev, 39));
	fth_dev_close(dev);
	fth_dev_close(race.dev);
	rack_close(&rack);
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_release(&rack);
}

static void repairs_wait_for_changes_in_flight(void **state)
{
	struct vol_object *obj;
	struct rack rack;
	struct fth_dev *dev;

	(void)state;
	begin(&rack, 2, 4096, 2, 7);
	dev = open_object(rack.vol, "x");
	obj = ((struct vol_dev *)dev)->obj;
	assert_true(vol_change_begin(obj));
	vol_note_repair(obj, 0, 512, 1);
	vol_note_repair(obj, 0, 512, 1); /* once is enough */
	settle(dev);
	assert_int_equal(obj->repair_count, 1);
	vol_change_end(obj);
	settle(dev);
	assert_int_equal(obj->repair_count, 0);
	assert_int_equal(fth_vol_counter(rack.vol, FTH_VOL_REPAIRS), 1);
	assert_true(holds(dev, 7));
	/* One that nobody came back for is done when the object is closed. */
	vol_note_repair(obj, 4096, 512, 0);
	fth_dev_close(dev);
	assert_int_equal(fth_vol_counter(rack.vol, FTH_VOL_REPAIRS), 2);
	rack_release(&rack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_device_serves_reads),
		cmocka_unit_test(a_read_error_is_served_by_another_and_repaired),
		cmocka_unit_test(blocks_are_read_from_where_they_can_be_read),
		cmocka_unit_test(split_reads_are_whole),
		cmocka_unit_test(split_reads_share_the_parts),
		cmocka_unit_test(after_a_crash_what_was_read_is_read_again),
		cmocka_unit_test(repairs_go_on_after_a_device_failed),
		cmocka_unit_test(a_device_whose_catalog_timed_out_gets_no_more),
		cmocka_unit_test(a_repair_that_timed_out_makes_the_device_stale),
		cmocka_unit_test(only_blocks_that_failed_are_written_back),
		cmocka_unit_test(neighbours_of_a_bad_block_stay_with_the_first_replica),
		cmocka_unit_test(a_read_that_no_replica_can_serve_fails),
		cmocka_unit_test(a_device_that_missed_a_write_is_not_read_again),
		cmocka_unit_test(a_write_that_no_replica_took_fails),
		cmocka_unit_test(a_second_device_that_fails_is_an_error),
		cmocka_unit_test(a_flush_that_failed_for_one_object_failed_for_all),
		cmocka_unit_test(an_update_that_no_device_took_fails_the_volume),
		cmocka_unit_test(a_repair_never_undoes_a_write),
		cmocka_unit_test(repairs_wait_for_changes_in_flight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
