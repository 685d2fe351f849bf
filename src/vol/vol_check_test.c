/* SPDX-License-Identifier: BSD-2-Clause */
/* fth_vol_check(): each kind of damage is called by its name, and mended where that is possible. */
#include "vol/vol_fixture.h"

#include "vol/catalog/catalog.h"

#define DEVICES 2
#define SLOT	16384u

static void begin(struct rack *rack)
{
	struct fth_vol_object_options o = shape(4096, 1, 0);

	rack_format(rack, "mem:512K", DEVICES);
	assert_ok(fth_vol_create(rack->vol, "one", 40000, &o)); /* the first record */
	assert_ok(fth_vol_create(rack->vol, "two", 40000, &o));
	rack_close(rack);
}

static uint64_t slot_at(unsigned slot)
{
	return VOL_AREA + (uint64_t)slot * SLOT;
}

/* Put `width` bytes at an offset of every catalog on every device, with checksums that hold. */
static void forge(struct rack *rack, unsigned offset, uint64_t value, unsigned width)
{
	static char buf[SLOT];

	for (unsigned i = 0; i < DEVICES; i++)
		for (unsigned slot = 0; slot < VOL_SLOTS; slot++) {
			struct vol_catalog_head head;
			uint64_t checksum;

			assert_ok(fth_dev_read(rack->devs[i], buf, SLOT, slot_at(slot),
					       FTH_DEV_TIMEOUT));
			memcpy(buf + offset, &value, width);
			memcpy(&head, buf, sizeof(head));
			checksum = vol_catalog_checksum(buf, head.bytes, i, slot);
			memcpy(buf + offsetof(struct vol_catalog_head, checksum), &checksum, 8);
			assert_ok(fth_dev_write(rack->devs[i], buf, SLOT, slot_at(slot),
						FTH_DEV_TIMEOUT));
		}
}

/* Where the fields of the first object lie. */
#define RECORD(field) (sizeof(struct vol_catalog_head) + offsetof(struct vol_record, field))
#define ROWS	      (sizeof(struct vol_catalog_head) + sizeof(struct vol_record))
#define EXTENT(i)     (ROWS + 8 + 8 * (i))
#define NAME	      (ROWS + 8 * 3)

static void contradictions_are_named(void **state)
{
	static const struct {
		unsigned offset, width;
		uint64_t value;
		enum fth_vol_finding_kind kind;
	} forgeries[] = {
		{RECORD(size), 8, 1 << 20, FTH_VOL_F_OBJECT},
		{RECORD(unit), 4, 5000, FTH_VOL_F_OBJECT},
		{RECORD(unit), 4, 256, FTH_VOL_F_OBJECT},
		{RECORD(width), 1, 0, FTH_VOL_F_OBJECT},
		{RECORD(replicas), 1, 3, FTH_VOL_F_OBJECT},
		{RECORD(id), 8, 0, FTH_VOL_F_OBJECT},
		{RECORD(id), 8, 2, FTH_VOL_F_OBJECT},	/* as the other one */
		{RECORD(id), 8, 999, FTH_VOL_F_OBJECT}, /* not given yet */
		{RECORD(stale), 8, 1, FTH_VOL_F_OBJECT},
		{RECORD(stale), 8, 4, FTH_VOL_F_OBJECT},
		{RECORD(first), 1, 2, FTH_VOL_F_OBJECT},
		{RECORD(flags), 1, 0x80, FTH_VOL_F_OBJECT},
		{RECORD(bytes), 4, 8, FTH_VOL_F_CATALOG},
		{RECORD(segments), 4, 2, FTH_VOL_F_CATALOG},
		{RECORD(name_bytes), 2, 60000, FTH_VOL_F_CATALOG},
		{offsetof(struct vol_catalog_head, objects), 4, 1, FTH_VOL_F_CATALOG},
		{offsetof(struct vol_catalog_head, objects), 4, 3, FTH_VOL_F_CATALOG},
		{offsetof(struct vol_catalog_head, objects), 4, UINT32_MAX, FTH_VOL_F_CATALOG},
		{offsetof(struct vol_catalog_head, next_id), 8, 0, FTH_VOL_F_CATALOG},
		{ROWS, 8, 0, FTH_VOL_F_EXTENT},
		{ROWS, 8, UINT64_MAX, FTH_VOL_F_EXTENT},
		{ROWS, 8, 1000, FTH_VOL_F_EXTENT},
		{EXTENT(0), 8, 4096, FTH_VOL_F_EXTENT}, /* in the catalog */
		{EXTENT(0), 8, 100, FTH_VOL_F_EXTENT},
		{EXTENT(1), 8, 508 << 10, FTH_VOL_F_EXTENT},
		{EXTENT(1), 8, UINT64_MAX - 4095, FTH_VOL_F_EXTENT},
		{NAME, 3, 0x6f7774, FTH_VOL_F_NAME}, /* "two" again */
		{NAME, 1, 'z', FTH_VOL_F_NAME},	     /* out of order */
		{NAME, 1, 0, FTH_VOL_F_NAME},
		{NAME, 1, 0xff, FTH_VOL_F_NAME},
		{NAME, 1, '\n', FTH_VOL_F_NAME},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
		struct findings f;
		struct rack rack;
		int rc;

		begin(&rack);
		forge(&rack, forgeries[i].offset, forgeries[i].value, forgeries[i].width);
		f = check(&rack, FTH_VOL_REPAIR | FTH_VOL_CHECK_DATA);
		if (f.serious_kinds[forgeries[i].kind] == 0)
			fail_msg("forgery %u: %u findings, the last: %s", i, f.serious, f.text);
		rc = fth_vol_open(rack.devs, DEVICES, 0, &rack.vol);
		assert_int_equal(rc, -EBADMSG);
		rack_release(&rack);
	}
}

static void objects_that_share_bytes_are_named(void **state)
{
	struct findings f;
	struct rack rack;
	uint64_t at;

	(void)state;
	begin(&rack);
	/* The second object lies behind the first one: move the first one up by a grain. */
	at = VOL_AREA + 2 * SLOT + 4096;
	forge(&rack, EXTENT(0), at, 8);
	f = check(&rack, 0);
	assert_int_equal(f.serious_kinds[FTH_VOL_F_OVERLAP], 1);
	assert_non_null(strstr(f.text, "\"one\" and \"two\" share bytes"));
	rack_release(&rack);
}

static void spoil(struct fth_dev *dev, uint64_t offset, unsigned blocks)
{
	char buf[512];

	memset(buf, 0xdb, sizeof(buf));
	for (unsigned i = 0; i < blocks; i++)
		assert_ok(
			fth_dev_write(dev, buf, sizeof(buf), offset + 512ull * i, FTH_DEV_TIMEOUT));
}

static void spoilt_catalogs_are_written_anew(void **state)
{
	struct findings f;
	struct rack rack;

	(void)state;
	for (unsigned mask = 1; mask < 16; mask++) {
		int rc;

		begin(&rack);
		for (unsigned k = 0; k < 4; k++)
			if (mask >> k & 1)
				spoil(rack.devs[k / 2], slot_at(k % 2), 1);
		rc = fth_vol_open(rack.devs, DEVICES, 0, &rack.vol);
		assert_int_equal(rc, mask == 15 ? -EBADMSG : 0);
		rack_close(&rack);
		f = check(&rack, 0);
		assert_true(f.kinds[FTH_VOL_F_SLOT] > 0);
		/* A device that has none left was not just interrupted. */
		assert_int_equal(f.serious > 0, (mask & 3) == 3 || (mask & 12) == 12);
		f = check(&rack, FTH_VOL_REPAIR);
		assert_int_equal(f.serious > 0, mask == 15);
		if (mask != 15)
			assert_int_equal(check(&rack, 0).kinds[FTH_VOL_F_SLOT], 0);
		rack_release(&rack);
	}
}

/* An object, one of whose replicas may have been overwritten behind the volume's back. */
static void begin_replicas(struct rack *rack, uint32_t replicas, bool spoilt)
{
	struct fth_vol_object_options o = shape(4096, replicas, 1);
	struct fth_dev *dev;

	rack_format(rack, "fault(mem:512K)", 3);
	assert_ok(fth_vol_create(rack->vol, "x", 32768, &o));
	dev = open_object(rack->vol, "x");
	write_all(dev, 8);
	fth_dev_close(dev);
	rack_close(rack);
	if (spoilt)
		spoil(rack->devs[1], VOL_AREA + 2 * SLOT + 8192, 2);
}

static void differing_replicas_are_found_and_the_majority_wins(void **state)
{
	struct fth_dev *dev;
	struct findings f;
	struct rack rack;

	(void)state;
	begin_replicas(&rack, 3, true);
	assert_sound(&rack, 0);
	f = check(&rack, FTH_VOL_CHECK_DATA);
	assert_int_equal(f.serious_kinds[FTH_VOL_F_REPLICA], 1);
	assert_non_null(strstr(f.text, "differ on device 1"));
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.repaired, 1);
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_open(&rack);
	dev = open_object(rack.vol, "x");
	assert_true(holds(dev, 8));
	fth_dev_close(dev);
	rack_release(&rack);
	/* Of two nobody knows which one is right. */
	begin_replicas(&rack, 2, true);
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.serious_kinds[FTH_VOL_F_REPLICA], 1);
	assert_int_equal(f.repaired, 0);
	rack_release(&rack);
}

static void data_that_can_not_be_read_is_found(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct findings f;
	struct rack rack;

	(void)state;
	plan.kinds = 1u << FTH_DEV_READ;
	plan.from = VOL_AREA + 2 * SLOT;
	plan.to = plan.from + 4096;
	plan.every = 1;
	begin_replicas(&rack, 1, false);
	for (unsigned i = 0; i < 3; i++)
		assert_ok(fth_dev_fault_set(rack.devs[i], &plan));
	f = check(&rack, FTH_VOL_CHECK_DATA);
	assert_int_equal(f.serious_kinds[FTH_VOL_F_DATA], 1);
	rack_release(&rack);
	begin_replicas(&rack, 3, false);
	plan.count = 2; /* a block that is well again after it was written */
	assert_ok(fth_dev_fault_set(rack.devs[2], &plan));
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.kinds[FTH_VOL_F_DATA], 1);
	assert_int_equal(f.serious, 0);
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_release(&rack);
}

static void make_unreadable(struct fth_dev *dev, uint64_t from, uint64_t bytes)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = 1u << FTH_DEV_READ;
	plan.from = VOL_AREA + 2 * SLOT + from;
	plan.to = plan.from + bytes;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(dev, &plan));
}

/* Every block can be read somewhere: nothing is lost, and only what was bad is written. */
static void blocks_are_judged_one_by_one(void **state)
{
	struct fth_vol_object_options o = shape(65536, 2, 1);
	struct fth_dev *dev;
	struct findings f;
	struct rack rack;
	uint64_t written[2];

	(void)state;
	rack_format(&rack, "fault(mem:512K)", 2);
	assert_ok(fth_vol_create(rack.vol, "x", 65536, &o));
	dev = open_object(rack.vol, "x");
	write_all(dev, 8);
	fth_dev_close(dev);
	rack_close(&rack);
	make_unreadable(rack.devs[0], 3 * 512, 512);
	make_unreadable(rack.devs[1], 9 * 512, 1024);
	f = check(&rack, FTH_VOL_CHECK_DATA);
	assert_int_equal(f.serious_kinds[FTH_VOL_F_DATA], 2);
	assert_non_null(
		strstr(f.text, "1024 bytes cannot be read from device 1, the first at 4608"));
	for (unsigned i = 0; i < 2; i++)
		written[i] = fth_dev_stat(rack.devs[i], FTH_DEV_STAT_BYTES_WRITTEN);
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.serious, 0);
	assert_int_equal(f.repaired, 2);
	assert_int_equal(fth_dev_stat(rack.devs[0], FTH_DEV_STAT_BYTES_WRITTEN), written[0] + 512);
	assert_int_equal(fth_dev_stat(rack.devs[1], FTH_DEV_STAT_BYTES_WRITTEN), written[1] + 1024);
	/* One block that neither has is all that is lost. */
	make_unreadable(rack.devs[1], 3 * 512, 512);
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.serious, 1);
	assert_non_null(strstr(f.text, ": 512 bytes cannot be read, the first at 1536"));
	rack_release(&rack);
}

/* Three replicas, and in each another block overwritten: the majority is right about each. */
static void each_block_has_its_own_majority(void **state)
{
	struct findings f;
	struct rack rack;

	(void)state;
	begin_replicas(&rack, 3, false);
	for (unsigned i = 0; i < 3; i++)
		spoil(rack.devs[i], VOL_AREA + 2 * SLOT + 4096 + 512 * i, 1);
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.serious, 0);
	assert_int_equal(f.repaired, 3);
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_release(&rack);
}

/* After a crash the first replica is right, whatever the others say. */
static void after_a_crash_the_first_replica_counts(void **state)
{
	static char image[512 << 10], want[512];
	struct fth_vol_object_options o = shape(4096, 3, 1);
	struct rack rack, copy;
	struct fth_dev *dev;

	(void)state;
	rack_format(&rack, "mem:512K", 3);
	assert_ok(fth_vol_create(rack.vol, "x", 32768, &o));
	dev = open_object(rack.vol, "x");
	write_all(dev, 8);
	rack_init(&copy, "mem:512K", 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(fth_dev_read(rack.devs[i], image, sizeof(image), 0, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_write(copy.devs[i], image, sizeof(image), 0, FTH_DEV_TIMEOUT));
	}
	fth_dev_close(dev);
	/* The object has the id 1 and begins on device 1. */
	spoil(copy.devs[1], VOL_AREA + 2 * SLOT + 8192, 1);
	assert_int_equal(check(&copy, FTH_VOL_REPAIR).serious, 0);
	assert_sound(&copy, FTH_VOL_CHECK_DATA);
	rack_open(&copy);
	dev = open_object(copy.vol, "x");
	assert_ok(fth_dev_read(dev, image, 512, 8192, FTH_DEV_TIMEOUT));
	memset(want, 0xdb, sizeof(want));
	assert_memory_equal(image, want, sizeof(want));
	fth_dev_close(dev);
	rack_release(&copy);
	rack_release(&rack);
}

/* One block can not be written: those beside it are mended all the same. */
static void a_block_that_can_not_be_written_stands_alone(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct findings f;
	struct rack rack;

	(void)state;
	begin_replicas(&rack, 3, false);
	spoil(rack.devs[1], VOL_AREA + 2 * SLOT + 8192, 5);
	plan.kinds = 1u << FTH_DEV_WRITE;
	plan.from = VOL_AREA + 2 * SLOT + 8192 + 1024;
	plan.to = plan.from + 512;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(rack.devs[1], &plan));
	f = check(&rack, FTH_VOL_CHECK_DATA | FTH_VOL_REPAIR);
	assert_int_equal(f.serious, 1);
	assert_ok(fth_dev_fault_disarm(rack.devs[1]));
	f = check(&rack, FTH_VOL_CHECK_DATA);
	assert_int_equal(f.serious, 1);
	assert_non_null(strstr(f.text, ": 512 bytes differ on device 1, the first at 9216"));
	rack_release(&rack);
}

static int stop_at_once(uint64_t done, uint64_t total, void *user)
{
	assert_true(done > 0 && done <= total);
	(*(unsigned *)user)++;
	return 1;
}

static void a_check_can_be_stopped(void **state)
{
	unsigned calls = 0;
	struct rack rack;

	(void)state;
	begin_replicas(&rack, 3, false);
	assert_int_equal(
		fth_vol_check(rack.devs, 3, FTH_VOL_CHECK_DATA, NULL, stop_at_once, &calls),
		-ECANCELED);
	assert_int_equal(calls, 1);
	rack_release(&rack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contradictions_are_named),
		cmocka_unit_test(objects_that_share_bytes_are_named),
		cmocka_unit_test(spoilt_catalogs_are_written_anew),
		cmocka_unit_test(differing_replicas_are_found_and_the_majority_wins),
		cmocka_unit_test(data_that_can_not_be_read_is_found),
		cmocka_unit_test(blocks_are_judged_one_by_one),
		cmocka_unit_test(each_block_has_its_own_majority),
		cmocka_unit_test(after_a_crash_the_first_replica_counts),
		cmocka_unit_test(a_block_that_can_not_be_written_stands_alone),
		cmocka_unit_test(a_check_can_be_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
