/* SPDX-License-Identifier: BSD-2-Clause */
/* Formatting and opening: what is refused, why it says so, and that nothing was written. */
#include "vol/vol_fixture.h"

#include "fathom/dev/wrap.h"

#include <unistd.h>

/* Opening these devices fails with this error and these words, and writes nothing. */
static void refused(struct fth_dev *const *devs, unsigned n, unsigned flags, int error,
		    const char *words)
{
	uint64_t writes = 0, after = 0;
	struct fth_vol *vol;
	int rc;

	for (unsigned i = 0; i < n; i++)
		writes += fth_dev_stat(devs[i], FTH_DEV_STAT_WRITES);
	rc = fth_vol_open(devs, n, flags, &vol);
	if (rc != -error)
		fail_msg("%d (%s), expected %d", rc, rc < 0 ? fth_error_text(rc) : "opened",
			 -error);
	assert_null(vol);
	if (!strstr(fth_error_text(rc), words))
		fail_msg("\"%s\" does not say \"%s\"", fth_error_text(rc), words);
	for (unsigned i = 0; i < n; i++)
		after += fth_dev_stat(devs[i], FTH_DEV_STAT_WRITES);
	assert_int_equal(writes, after);
}

/* Change a copy of a device's label, with a checksum that holds. */
static void relabel(struct fth_dev *dev, void (*change)(struct vol_label *label))
{
	struct vol_labels labels;

	assert_ok(vol_labels_read(dev, &labels));
	for (unsigned i = 0; i < 2; i++) {
		struct vol_label label = labels.copy[i];

		change(&label);
		assert_ok(vol_label_write(dev, &label, i));
	}
}

static void spoil(struct fth_dev *dev, uint64_t offset)
{
	char buf[4096];

	assert_ok(fth_dev_read(dev, buf, sizeof(buf), offset / 4096 * 4096, FTH_DEV_TIMEOUT));
	buf[offset % 4096] ^= 0x10;
	assert_ok(fth_dev_write(dev, buf, sizeof(buf), offset / 4096 * 4096, FTH_DEV_TIMEOUT));
}

static void copy_dev(struct fth_dev *from, struct fth_dev *to)
{
	uint64_t size = fth_dev_info(from)->size;
	char *buf = malloc(size);

	assert_non_null(buf);
	assert_ok(fth_dev_read(from, buf, size, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(to, buf, size, 0, FTH_DEV_TIMEOUT));
	free(buf);
}

static void devices_may_come_in_any_order(void **state)
{
	struct fth_dev *swapped[3], *dev;
	struct rack rack;
	struct fth_vol *vol;

	(void)state;
	rack_format(&rack, "mem:1M", 3);
	assert_ok(fth_vol_create(rack.vol, "x", 100000, NULL));
	dev = open_object(rack.vol, "x");
	write_all(dev, 1);
	fth_dev_close(dev);
	rack_close(&rack);
	for (unsigned i = 0; i < 3; i++)
		swapped[i] = rack.devs[(i + 2) % 3];
	assert_ok(fth_vol_open(swapped, 3, 0, &vol));
	assert_ptr_equal(fth_vol_dev(vol, 0), rack.devs[0]);
	dev = open_object(vol, "x");
	assert_true(holds(dev, 1));
	fth_dev_close(dev);
	fth_vol_close(vol);
	rack_release(&rack);
}

static void set_version(struct vol_label *label)
{
	label->version = 7;
}

static void set_index(struct vol_label *label)
{
	label->index = 1;
}

static void set_count(struct vol_label *label)
{
	label->count = 3;
}

static void set_block(struct vol_label *label)
{
	label->block = 768;
}

static void wrong_labels_are_refused(void **state)
{
	static const struct {
		void (*change)(struct vol_label *);
		int error;
		const char *words;
	} ways[] = {
		{set_version, EPROTONOSUPPORT, "format version 7, this library knows 2"},
		{set_index, ENOTUNIQ, "are both device 1 of the volume"},
		{set_count, ENOTUNIQ, "have the same uuid, but belong to different volumes"},
		{set_block, EBADMSG, "both copies of the label are damaged"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct rack rack;

		rack_format(&rack, "mem:1M", 2);
		rack_close(&rack);
		relabel(rack.devs[0], ways[i].change);
		refused(rack.devs, 2, 0, ways[i].error, ways[i].words);
		assert_true(check(&rack, 0).serious > 0);
		rack_release(&rack);
	}
}

/* Each field of a label at the edge of what it can be, and one beyond. */
static void labels_are_bounded(void **state)
{
#define FIELD(name) offsetof(struct vol_label, name), sizeof(((struct vol_label *)0)->name)
	static const struct {
		size_t at, bytes;
		uint64_t good, bad; /* 0 for good: whatever it is now */
	} fields[] = {
		{FIELD(index), 0, 2},
		{FIELD(index), 0, UINT32_MAX},
		{FIELD(count), 64, 65},
		{FIELD(count), 0, 1}, /* not above the index */
		{FIELD(bytes), 512, 511},
		{FIELD(block), 4096, 8192},
		{FIELD(block), 512, 256},
		{FIELD(unit), 512, 256},
		{FIELD(unit), FTH_VOL_UNIT_MAX, 2 * FTH_VOL_UNIT_MAX},
		{FIELD(unit), 0, 65537},
		{FIELD(replicas), 2, 3},
		{FIELD(replicas), 1, 0},
		{FIELD(quorum), 2, 3},
		{FIELD(quorum), 1, 0},
		{FIELD(slot_bytes), 0, 12288},
		{FIELD(slot_bytes), 0, 16385},
		{FIELD(data_start), 0, 4096},
		{FIELD(data_end), 0, 1 << 20},
		{FIELD(size), 0, (1 << 20) - 4095},
		{FIELD(size), 0, 4096},
	};
#undef FIELD

	(void)state;
	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		for (unsigned bad = 0; bad < 2; bad++) {
			struct vol_labels labels;
			struct rack rack;

			rack_format(&rack, "mem:1M", 2);
			rack_close(&rack);
			assert_ok(vol_labels_read(rack.devs[1], &labels));
			for (unsigned k = 0; k < 2; k++) {
				struct vol_label label = labels.copy[k];
				uint64_t offset = vol_label_offset(1 << 20, k);
				const void *value = bad ? &fields[i].bad : &fields[i].good;
				char area[VOL_AREA] = {0};

				if (bad || fields[i].good)
					memcpy((char *)&label + fields[i].at, value,
					       fields[i].bytes);
				label.checksum = vol_label_checksum(&label);
				memcpy(area, &label, sizeof(label));
				assert_ok(fth_dev_write(rack.devs[1], area, sizeof(area), offset,
							FTH_DEV_TIMEOUT));
			}
			assert_ok(vol_labels_read(rack.devs[1], &labels));
			if ((labels.state[0] == VOL_FOUND) == bad)
				fail_msg("field %u, %s: %s", i, bad ? "bad" : "good",
					 labels.why[0]);
			if (bad)
				refused(rack.devs, 2, 0, EBADMSG, "both copies of the label");
			rack_release(&rack);
		}
}

static void missing_foreign_and_double_devices_are_named(void **state)
{
	struct fth_dev *devs[3];
	struct rack rack, other;
	struct fth_dev *blank;

	(void)state;
	rack_format(&rack, "mem:1M", 2);
	rack_format(&other, "mem:1M", 2);
	assert_ok(fth_dev_open("mem:1M", &blank));
	rack_close(&rack);
	rack_close(&other);
	refused(rack.devs, 1, 0, ENODEV, "device 1 of 2 of the volume is missing");
	refused(rack.devs + 1, 1, 0, ENODEV, "device 0 of 2");
	devs[0] = rack.devs[0];
	devs[1] = other.devs[1];
	refused(devs, 2, 0, EXDEV, "belongs to volume");
	devs[1] = blank;
	refused(devs, 2, 0, EMEDIUMTYPE, "is not part of a volume");
	refused(devs, 2, FTH_VOL_DEGRADED, EMEDIUMTYPE, "is not part of a volume");
	devs[1] = rack.devs[1];
	devs[2] = rack.devs[0];
	refused(devs, 3, 0, ENOTUNIQ, "are both device 0");
	refused(devs, 0, 0, EINVAL, "1 to 64 devices");
	fth_dev_close(blank);
	rack_release(&rack);
	rack_release(&other);
}

/* A copy of both devices lived on by itself; now one of each is given. */
static void two_volumes_with_one_uuid_are_told_apart(void **state)
{
	struct fth_dev *mixed[2];
	struct rack rack, clone;

	(void)state;
	rack_format(&rack, "mem:1M", 2);
	assert_ok(fth_vol_create(rack.vol, "x", 100, NULL));
	rack_close(&rack);
	rack_init(&clone, "mem:1M", 2);
	for (unsigned i = 0; i < 2; i++)
		copy_dev(rack.devs[i], clone.devs[i]);
	rack_open(&rack);
	rack_open(&clone);
	for (unsigned i = 0; i < 4; i++) {
		char name[8];

		/* Histories of the same length, and of different ones. */
		snprintf(name, sizeof(name), "r%u", i);
		assert_ok(fth_vol_create(rack.vol, name, 100, NULL));
		snprintf(name, sizeof(name), "c%u", i);
		if (i < 2)
			assert_ok(fth_vol_create(clone.vol, name, 100, NULL));
		rack_close(&rack);
		rack_close(&clone);
		mixed[0] = rack.devs[0];
		mixed[1] = clone.devs[1];
		refused(mixed, 2, 0, ENOTUNIQ, "different histories");
		assert_true(fth_vol_check(mixed, 2, FTH_VOL_REPAIR, NULL, NULL, NULL) > 0);
		refused(mixed, 2, 0, ENOTUNIQ, "different histories");
		rack_open(&rack);
		rack_open(&clone);
	}
	rack_release(&rack);
	rack_release(&clone);
}

static void a_device_that_shrank_is_refused_and_one_that_grew_is_not(void **state)
{
	char path[] = "/tmp/fathom-vol-XXXXXX", uri[64];
	int fd = mkstemp(path), rc;
	struct fth_dev *dev;
	struct fth_vol *vol;

	(void)state;
	assert_true(fd >= 0);
	snprintf(uri, sizeof(uri), "file:%s?direct=off", path);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	rc = fth_dev_open(uri, &dev);
	if (rc == -EPERM || rc == -ENOSYS) {
		unlink(path);
		close(fd);
		skip(); /* no io_uring here */
	}
	assert_ok(rc);
	assert_ok(fth_vol_format(&dev, 1, NULL));
	fth_dev_close(dev);
	assert_int_equal(ftruncate(fd, 2 << 20), 0);
	assert_ok(fth_dev_open(uri, &dev));
	assert_ok(fth_vol_open(&dev, 1, 0, &vol));
	fth_vol_close(vol);
	assert_int_equal(fth_vol_check(&dev, 1, 0, NULL, NULL, NULL), 0);
	fth_dev_close(dev);
	assert_int_equal(ftruncate(fd, (1 << 20) - 4096), 0);
	assert_ok(fth_dev_open(uri, &dev));
	refused(&dev, 1, 0, ERANGE, "its label says 1048576");
	fth_dev_close(dev);
	close(fd);
	unlink(path);
}

static void either_copy_of_the_label_is_enough(void **state)
{
	struct vol_labels labels;
	struct findings f;
	struct rack rack;

	(void)state;
	for (unsigned copy = 0; copy < 2; copy++) {
		uint64_t at = vol_label_offset(1 << 20, copy);

		rack_format(&rack, "mem:1M", 2);
		rack_close(&rack);
		spoil(rack.devs[1], at + 40);
		rack_open(&rack);
		rack_close(&rack);
		f = check(&rack, 0);
		assert_int_equal(f.kinds[FTH_VOL_F_LABEL], 1);
		assert_int_equal(f.serious, 1);
		f = check(&rack, FTH_VOL_REPAIR);
		assert_int_equal(f.repaired, 1);
		assert_int_equal(check(&rack, 0).kinds[FTH_VOL_F_LABEL], 0);
		rack_release(&rack);
	}
	rack_format(&rack, "mem:1M", 1);
	rack_close(&rack);
	/* Copies that both verify and differ: the first one counts. */
	assert_ok(vol_labels_read(rack.devs[0], &labels));
	labels.copy[0].unit = 4096;
	assert_ok(vol_label_write(rack.devs[0], &labels.copy[0], 0));
	assert_int_equal(check(&rack, 0).kinds[FTH_VOL_F_LABEL], 1);
	assert_int_equal(check(&rack, FTH_VOL_REPAIR).repaired, 1);
	assert_sound(&rack, 0);
	spoil(rack.devs[0], 40);
	spoil(rack.devs[0], vol_label_offset(1 << 20, 1) + 40);
	refused(rack.devs, 1, 0, EBADMSG, "both copies");
	assert_int_equal(check(&rack, FTH_VOL_REPAIR).serious, 1);
	rack_release(&rack);
}

static void formatting_over_a_volume_needs_force(void **state)
{
	struct fth_vol_format_options o = FTH_VOL_FORMAT_OPTIONS_INIT;
	struct rack rack;
	struct fth_vol_info before, after;

	(void)state;
	rack_format(&rack, "mem:1M", 2);
	assert_ok(fth_vol_create(rack.vol, "x", 100, NULL));
	fth_vol_info(rack.vol, &before);
	rack_close(&rack);
	assert_int_equal(fth_vol_format(rack.devs, 2, NULL), -EEXIST);
	rack_open(&rack);
	assert_ok(fth_vol_remove(rack.vol, "x"));
	rack_close(&rack);
	o.force = true;
	assert_ok(fth_vol_format(rack.devs, 2, &o));
	rack_open(&rack);
	fth_vol_info(rack.vol, &after);
	assert_memory_not_equal(before.uuid, after.uuid, 16);
	assert_int_equal(after.sequence, 1);
	rack_close(&rack);
	assert_sound(&rack, 0);
	rack_release(&rack);
}

static void formatting_refuses_what_can_not_be(void **state)
{
	struct fth_vol_format_options o = FTH_VOL_FORMAT_OPTIONS_INIT;
	struct fth_dev *twice[2];
	struct rack rack, small, large;

	(void)state;
	rack_init(&rack, "mem:1M", 2);
	rack_init(&small, "mem:64K", 1);
	rack_init(&large, "mem:1M?block=8192", 1);
	twice[0] = twice[1] = rack.devs[0];
	assert_int_equal(fth_vol_format(twice, 2, NULL), -ENOTUNIQ);
	assert_int_equal(fth_vol_format(small.devs, 1, NULL), -ENOSPC);
	assert_int_equal(fth_vol_format(large.devs, 1, NULL), -EINVAL);
	assert_int_equal(fth_vol_format(rack.devs, 0, NULL), -EINVAL);
	o.block = 1000;
	assert_int_equal(fth_vol_format(rack.devs, 2, &o), -EINVAL);
	o.block = 0;
	o.unit = 100;
	assert_int_equal(fth_vol_format(rack.devs, 2, &o), -EINVAL);
	o.unit = 0;
	o.replicas = 3;
	assert_int_equal(fth_vol_format(rack.devs, 2, &o), -EINVAL);
	o.replicas = 0;
	o.catalog = 100;
	assert_int_equal(fth_vol_format(rack.devs, 2, &o), -EINVAL);
	o.catalog = 0;
	refused(rack.devs, 2, 0, EMEDIUMTYPE, "not part of a volume");
	o.block = 4096;
	o.unit = 16384;
	o.replicas = 2;
	o.catalog = 100000;
	assert_ok(fth_vol_format(rack.devs, 2, &o));
	rack_open(&rack);
	rack_release(&rack);
	rack_release(&small);
	rack_release(&large);
}

static void a_degraded_volume_can_be_read(void **state)
{
	struct fth_vol_object_options two = shape(4096, 2, 0), one = shape(4096, 1, 0);
	struct fth_dev *dev;
	struct rack rack;
	struct fth_vol *vol;

	(void)state;
	rack_format(&rack, "mem:1M", 3);
	assert_ok(fth_vol_create(rack.vol, "two", 200000, &two));
	assert_ok(fth_vol_create(rack.vol, "one", 200000, &one));
	dev = open_object(rack.vol, "two");
	write_all(dev, 6);
	fth_dev_close(dev);
	rack_close(&rack);
	for (unsigned gone = 0; gone < 3; gone++) {
		struct fth_dev *left[2] = {rack.devs[(gone + 1) % 3], rack.devs[(gone + 2) % 3]};

		refused(left, 2, 0, ENODEV, "missing");
		assert_ok(fth_vol_open(left, 2, FTH_VOL_DEGRADED, &vol));
		assert_null(fth_vol_dev(vol, gone));
		assert_int_equal(fth_vol_remove(vol, "one"), -EROFS);
		dev = open_object(vol, "two");
		assert_true(holds(dev, 6));
		fth_dev_close(dev);
		assert_int_equal(fth_vol_object_open(vol, "one", 0, &dev), -ENODEV);
		fth_vol_close(vol);
		assert_int_equal(fth_vol_check(left, 2, FTH_VOL_CHECK_DATA, NULL, NULL, NULL),
				 1 + 1);
	}
	rack_release(&rack);
}

static void files_are_locked_against_a_second_opener(void **state)
{
	char path[] = "/tmp/fathom-vol-XXXXXX", uri[96];
	const char *uris[1] = {uri}, *both[2] = {uri, uri};
	int fd = mkstemp(path), rc;
	struct fth_vol *vol, *second;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	snprintf(uri, sizeof(uri), "fault(file:%s)", path);
	rc = fth_vol_format_uris(uris, 1, NULL);
	if (rc == -EPERM || rc == -ENOSYS) {
		unlink(path);
		skip(); /* no io_uring here */
	}
	assert_ok(rc);
	assert_int_equal(fth_vol_open_uris(both, 2, 0, &vol), -EBUSY);
	assert_ok(fth_vol_open_uris(uris, 1, 0, &vol));
	assert_int_equal(fth_vol_open_uris(uris, 1, 0, &second), -EBUSY);
	assert_int_equal(fth_vol_open_uris(uris, 1, FTH_VOL_READONLY, &second), -EBUSY);
	assert_int_equal(fth_vol_check_uris(uris, 1, 0, NULL, NULL, NULL), -EBUSY);
	assert_int_equal(fth_vol_format_uris(uris, 1, NULL), -EBUSY);
	fth_vol_close(vol);
	assert_ok(fth_vol_open_uris(uris, 1, FTH_VOL_READONLY, &vol));
	assert_ok(fth_vol_open_uris(uris, 1, FTH_VOL_READONLY, &second));
	fth_vol_close(vol);
	fth_vol_close(second);
	assert_int_equal(fth_vol_check_uris(uris, 1, 0, NULL, NULL, NULL), 0);
	unlink(path);
}

static void lists_of_devices_are_split_at_outer_commas(void **state)
{
	const char **uris;
	unsigned n;

	(void)state;
	assert_ok(fth_vol_split_uris("a,fault(b,c)?x=1,vol(d,(e,f)),", &uris, &n));
	assert_int_equal(n, 4);
	assert_string_equal(uris[0], "a");
	assert_string_equal(uris[1], "fault(b,c)?x=1");
	assert_string_equal(uris[2], "vol(d,(e,f))");
	assert_string_equal(uris[3], "");
	free(uris);
}

static void the_scheme_refuses_what_makes_no_sense(void **state)
{
	static const char *const uris[] = {
		"vol(mem:1M)",
		"vol(mem:1M)?object=x",
		"vol(mem:1M)?object=x&format=on",
		"vol(mem:1M)?object=x&format=on&create=1M",
		"vol(mem:1M)?object=x&format=on&create=4K&bogus=1",
		"vol(mem:1M)?object=x&format=on&create=4K&readonly=on",
		"vol(mem:1M)?object=x&format=on&create=4K&replicas=2",
		"vol(mem:1M,)?object=x",
		"vol()?object=x",
		"vol:x",
	};
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
		int rc = fth_dev_open(uris[i], &dev);

		if (rc >= 0)
			fail_msg("%s was opened", uris[i]);
		assert_null(dev);
		assert_true(fth_error_text(rc)[0] != '\0');
	}
	assert_ok(fth_dev_open("vol(mem:1M,mem:1M)?object=x&format=on&create=5000", &dev));
	assert_int_equal(fth_dev_info(dev)->size, 5120);
	assert_non_null(strstr(fth_dev_uri(dev), "object=x"));
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_may_come_in_any_order),
		cmocka_unit_test(wrong_labels_are_refused),
		cmocka_unit_test(labels_are_bounded),
		cmocka_unit_test(missing_foreign_and_double_devices_are_named),
		cmocka_unit_test(two_volumes_with_one_uuid_are_told_apart),
		cmocka_unit_test(a_device_that_shrank_is_refused_and_one_that_grew_is_not),
		cmocka_unit_test(either_copy_of_the_label_is_enough),
		cmocka_unit_test(formatting_over_a_volume_needs_force),
		cmocka_unit_test(formatting_refuses_what_can_not_be),
		cmocka_unit_test(a_degraded_volume_can_be_read),
		cmocka_unit_test(files_are_locked_against_a_second_opener),
		cmocka_unit_test(lists_of_devices_are_split_at_outer_commas),
		cmocka_unit_test(the_scheme_refuses_what_makes_no_sense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
