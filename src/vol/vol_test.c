/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalog: creating, removing, renaming, resizing, listing; and what is refused. */
#include "vol/vol_fixture.h"

static void a_new_volume_is_empty_and_says_what_it_is(void **state)
{
	struct rack rack;
	struct fth_vol_info info;
	char text[FTH_VOL_UUID_TEXT];

	(void)state;
	rack_format(&rack, "mem:2M", 3);
	fth_vol_info(rack.vol, &info);
	assert_int_equal(info.devices, 3);
	assert_int_equal(info.objects, 0);
	assert_int_equal(info.block, 512);
	assert_int_equal(info.unit, 65536);
	assert_int_equal(info.replicas, 1);
	assert_int_equal(info.total, info.free);
	assert_int_equal(strlen(fth_vol_uuid_text(info.uuid, text)), 36);
	assert_int_equal(text[14], '4');
	assert_null(fth_vol_dev(rack.vol, 3));
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_release(&rack);
}

struct listing {
	char names[256];
	int stop_after;
};

static int append_name(const struct fth_vol_object_info *info, void *user)
{
	struct listing *l = user;

	strcat(strcat(l->names, info->name), ";");
	return --l->stop_after == 0 ? 7 : 0;
}

static void expect_names(struct fth_vol *vol, const char *names)
{
	struct listing l = {.stop_after = -1};

	assert_ok(fth_vol_list(vol, append_name, &l));
	assert_string_equal(l.names, names);
}

static void objects_are_listed_by_name_and_survive_reopening(void **state)
{
	struct listing l = {.stop_after = 2};
	struct rack rack;

	(void)state;
	rack_format(&rack, "mem:2M", 2);
	assert_ok(fth_vol_create(rack.vol, "pear", 1000, NULL));
	assert_ok(fth_vol_create(rack.vol, "apple", 0, NULL));
	assert_ok(fth_vol_create(rack.vol, "fig/\xc3\xa4", 200000, NULL));
	expect_names(rack.vol, "apple;fig/\xc3\xa4;pear;");
	rack_reopen(&rack);
	expect_names(rack.vol, "apple;fig/\xc3\xa4;pear;");
	assert_int_equal(fth_vol_list(rack.vol, append_name, &l), 7);
	assert_string_equal(l.names, "apple;fig/\xc3\xa4;");
	assert_int_equal(fth_vol_create(rack.vol, "pear", 5, NULL), -EEXIST);
	assert_int_equal(fth_vol_remove(rack.vol, "plum"), -ENOENT);
	assert_ok(fth_vol_remove(rack.vol, "apple"));
	assert_ok(fth_vol_rename(rack.vol, "pear", "zucchini", false));
	assert_int_equal(fth_vol_rename(rack.vol, "zucchini", "fig/\xc3\xa4", false), -EEXIST);
	assert_int_equal(fth_vol_rename(rack.vol, "pear", "x", false), -ENOENT);
	rack_reopen(&rack);
	expect_names(rack.vol, "fig/\xc3\xa4;zucchini;");
	assert_ok(fth_vol_rename(rack.vol, "zucchini", "fig/\xc3\xa4", true));
	rack_reopen(&rack);
	expect_names(rack.vol, "fig/\xc3\xa4;");
	assert_sound(&rack, 0);
	rack_release(&rack);
}

static void names_are_utf8(void **state)
{
	/* of 1 to 4 bytes, each length's first and last character */
	static const char *const good[] = {" ",
					   "~",
					   "\xc2\x80",
					   "\xdf\xbf",
					   "\xe0\xa0\x80",
					   "\xed\x9f\xbf",
					   "\xee\x80\x80",
					   "\xef\xbf\xbd",
					   "\xf0\x90\x80\x80",
					   "\xf4\x8f\xbf\xbf"};
	struct rack rack;

	(void)state;
	rack_format(&rack, "mem:1M", 1);
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_ok(fth_vol_create(rack.vol, good[i], 1, NULL));
	rack_reopen(&rack);
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_ok(fth_vol_remove(rack.vol, good[i]));
	rack_release(&rack);
}

static void names_that_are_none_are_refused(void **state)
{
	static const char *const bad[] = {"",
					  "a\nb",
					  "\x7f",
					  "\xff",
					  "\xc3",
					  "\xc0\x80",
					  "\xed\xa0\x80",
					  "\xf5\x80\x80\x80",
					  "\xe0\x80\x80",
					  "\xe0\x9f\xbf",
					  "\xed\xbf\xbf",
					  "\xe2\x82",
					  "\xe2\x82z",
					  "\xf0\x8f\xbf\xbf",
					  "\xf4\x90\x80\x80"};
	struct rack rack;
	char name[FTH_VOL_NAME_MAX + 2] = {0};

	(void)state;
	rack_format(&rack, "mem:1M", 1);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fth_vol_create(rack.vol, bad[i], 1, NULL), -EINVAL);
	memset(name, 'n', FTH_VOL_NAME_MAX + 1);
	assert_int_equal(fth_vol_create(rack.vol, name, 1, NULL), -EINVAL);
	name[FTH_VOL_NAME_MAX] = '\0';
	assert_ok(fth_vol_create(rack.vol, name, 1, NULL));
	assert_int_equal(fth_vol_rename(rack.vol, name, "a\tb", false), -EINVAL);
	rack_reopen(&rack);
	assert_ok(fth_vol_remove(rack.vol, name));
	rack_release(&rack);
}

static void shapes_that_can_not_be_are_refused(void **state)
{
	struct fth_vol_object_options o;
	struct rack rack;

	(void)state;
	rack_format(&rack, "mem:1M?block=4096", 2);
	o = shape(2048, 1, 1); /* less than a block */
	assert_int_equal(fth_vol_create(rack.vol, "x", 1, &o), -EINVAL);
	o = shape(12288, 1, 1);
	assert_int_equal(fth_vol_create(rack.vol, "x", 1, &o), -EINVAL);
	o = shape(4096, 3, 1);
	assert_int_equal(fth_vol_create(rack.vol, "x", 1, &o), -EINVAL);
	o = shape(4096, 1, 3);
	assert_int_equal(fth_vol_create(rack.vol, "x", 1, &o), -EINVAL);
	assert_int_equal(fth_vol_create(rack.vol, "x", 3 << 20, NULL), -ENOSPC);
	assert_int_equal(fth_vol_create(rack.vol, "x", UINT64_MAX, NULL), -ENOSPC);
	assert_int_equal(fth_vol_create(rack.vol, "x", UINT64_MAX / 2, NULL), -ENOSPC);
	expect_names(rack.vol, "");
	rack_release(&rack);
}

static void all_space_can_be_used_and_comes_back(void **state)
{
	struct fth_vol_object_options o = shape(4096, 1, 0);
	struct fth_vol_info before, info;
	struct rack rack;
	char name[16];

	(void)state;
	rack_format(&rack, "mem:1M", 3);
	fth_vol_info(rack.vol, &before);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "o%02u", i);
		assert_ok(fth_vol_create(rack.vol, name, 3 * 8192, &o));
	}
	/* Holes of 8 KiB on each device; what is larger is put together from them. */
	for (unsigned i = 0; i < 40; i += 2) {
		snprintf(name, sizeof(name), "o%02u", i);
		assert_ok(fth_vol_remove(rack.vol, name));
	}
	fth_vol_info(rack.vol, &info);
	assert_ok(fth_vol_create(rack.vol, "all", info.free, &o));
	fth_vol_info(rack.vol, &info);
	assert_int_equal(info.free, 0);
	assert_int_equal(fth_vol_create(rack.vol, "more", 1, &o), -ENOSPC);
	assert_ok(fth_vol_create(rack.vol, "nothing", 0, &o));
	rack_reopen(&rack);
	assert_sound(&rack, 0);
	assert_ok(fth_vol_remove(rack.vol, "all"));
	for (unsigned i = 1; i < 40; i += 2) {
		snprintf(name, sizeof(name), "o%02u", i);
		assert_ok(fth_vol_remove(rack.vol, name));
	}
	fth_vol_info(rack.vol, &info);
	assert_int_equal(info.free, before.free);
	rack_release(&rack);
}

static void data_in_pieces_is_where_it_was_written(void **state)
{
	struct fth_vol_object_options o = shape(512, 1, 0);
	struct fth_vol_object_info info;
	struct fth_vol_info space;
	struct fth_dev *dev;
	struct rack rack;
	char name[16];

	(void)state;
	rack_format(&rack, "mem:512K", 2);
	for (unsigned i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "o%02u", i);
		assert_ok(fth_vol_create(rack.vol, name, 8192, &o));
	}
	for (unsigned i = 0; i < 60; i += 3) {
		snprintf(name, sizeof(name), "o%02u", i);
		assert_ok(fth_vol_remove(rack.vol, name));
	}
	/* All that lies behind them; the holes are left. */
	fth_vol_info(rack.vol, &space);
	assert_ok(fth_vol_create(rack.vol, "filler", space.free - 20 * 8192, &o));
	assert_ok(fth_vol_create(rack.vol, "pieces", 20 * 8192, &o));
	assert_ok(fth_vol_stat(rack.vol, "pieces", &info));
	assert_int_equal(info.segments, 20);
	dev = open_object(rack.vol, "pieces");
	write_all(dev, 5);
	assert_true(holds(dev, 5));
	fth_dev_close(dev);
	rack_reopen(&rack);
	dev = open_object(rack.vol, "pieces");
	assert_true(holds(dev, 5));
	fth_dev_close(dev);
	rack_release(&rack);
}

static void resizing_keeps_what_is_kept(void **state)
{
	static const uint64_t sizes[] = {300000, 4096, 1, 65537, 65536, 500000, 0, 70000};
	struct fth_vol_object_options o = shape(4096, 2, 0);
	struct fth_vol_object_info info;
	struct fth_dev *dev;
	struct rack rack;
	uint64_t before = 8192; /* bytes of data in it */
	char buf[512], want[512];

	(void)state;
	rack_format(&rack, "mem:1M", 3);
	assert_ok(fth_vol_create(rack.vol, "x", before, &o));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		dev = open_object(rack.vol, "x");
		if (before)
			write_all(dev, 9);
		assert_int_equal(fth_vol_resize(rack.vol, "x", sizes[i], true), -EBUSY);
		assert_int_equal(fth_vol_remove(rack.vol, "x"), -EBUSY);
		fth_dev_close(dev);
		assert_ok(fth_vol_resize(rack.vol, "x", sizes[i], true));
		rack_reopen(&rack);
		assert_ok(fth_vol_stat(rack.vol, "x", &info));
		assert_int_equal(info.size, sizes[i]);
		dev = open_object(rack.vol, "x");
		assert_int_equal(fth_dev_info(dev)->size, (sizes[i] + 511) / 512 * 512);
		for (uint64_t at = 0; at + 512 <= fth_dev_info(dev)->size; at += 512) {
			uint64_t kept = at > before ? 0 : before - at;

			fill(want, sizeof(want), at, 9);
			if (kept < sizeof(want))
				memset(want + kept, 0, sizeof(want) - kept);
			assert_ok(fth_dev_read(dev, buf, sizeof(buf), at, FTH_DEV_TIMEOUT));
			assert_memory_equal(buf, want, sizeof(buf));
		}
		fth_dev_close(dev);
		before = sizes[i];
	}
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	assert_int_equal(fth_vol_resize(rack.vol, "x", 1 << 30, false), -ENOSPC);
	rack_release(&rack);
}

/* Growth begins at the byte where the object ended, not at the next block. */
static void what_is_added_within_a_block_reads_as_zeroes(void **state)
{
	static const uint64_t sizes[][2] = {
		{100, 8192}, {100, 200}, {4096 + 1, 4096 + 511}, {30000, 70000}, {511, 513}};
	struct fth_vol_object_info info;

	(void)state;
	for (unsigned replicas = 1; replicas < 3; replicas++)
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct fth_vol_object_options o = shape(4096, replicas, 0);
			static char got[70144], want[70144];
			struct fth_dev *dev;
			struct rack rack;
			uint64_t size;

			rack_format(&rack, "mem:1M", 3);
			assert_ok(fth_vol_create(rack.vol, "x", 70000, &o));
			dev = open_object(rack.vol, "x");
			write_all(dev, 9);
			fth_dev_close(dev);
			assert_ok(fth_vol_resize(rack.vol, "x", sizes[i][0], false));
			assert_ok(fth_vol_resize(rack.vol, "x", sizes[i][1], true));
			dev = open_object(rack.vol, "x");
			size = fth_dev_info(dev)->size;
			fill(want, sizeof(want), 0, 9);
			memset(want + sizes[i][0], 0, sizeof(want) - sizes[i][0]);
			assert_ok(fth_dev_read(dev, got, size, 0, FTH_DEV_TIMEOUT));
			assert_memory_equal(got, want, size);
			fth_dev_close(dev);
			assert_ok(fth_vol_stat(rack.vol, "x", &info));
			assert_false(info.unsynced);
			rack_close(&rack);
			assert_sound(&rack, FTH_VOL_CHECK_DATA);
			rack_release(&rack);
		}
}

static void a_full_catalog_is_said_and_nothing_is_lost(void **state)
{
	struct fth_vol_object_options o = shape(512, 1, 1);
	struct rack rack;
	char name[200];
	unsigned n = 0;
	int rc;

	(void)state;
	rack_format(&rack, "mem:2M", 1);
	memset(name, 'x', sizeof(name));
	do {
		snprintf(name + 190, 8, "%05u", n);
		rc = fth_vol_create(rack.vol, name, 100, &o);
		n += rc == 0;
	} while (rc == 0);
	assert_int_equal(rc, -ENOSPC);
	assert_non_null(strstr(fth_error_text(rc), "catalog is full"));
	assert_true(n > 50);
	snprintf(name + 190, 8, "%05u", 7);
	assert_ok(fth_vol_remove(rack.vol, name));
	assert_ok(fth_vol_create(rack.vol, name, 100, &o));
	rack_reopen(&rack);
	assert_sound(&rack, 0);
	rack_release(&rack);
}

static void new_objects_appear_with_their_data_or_not_at_all(void **state)
{
	struct fth_vol_object_options o = shape(4096, 1, 0);
	struct fth_vol_info before, after;
	struct fth_dev *dev, *other;
	struct rack rack;

	(void)state;
	rack_format(&rack, "mem:1M", 2);
	fth_vol_info(rack.vol, &before);
	assert_ok(fth_vol_object_new(rack.vol, "x", 100000, &o, &dev));
	write_all(dev, 1);
	expect_names(rack.vol, "");
	assert_ok(fth_vol_object_new(rack.vol, "x", 50000, &o, &other));
	write_all(other, 2);
	assert_ok(fth_vol_object_commit(dev));
	assert_int_equal(fth_vol_object_commit(dev), -EALREADY);
	assert_int_equal(fth_vol_object_commit(other), -EEXIST);
	assert_int_equal(fth_vol_object_commit(rack.devs[0]), -EINVAL);
	fth_dev_close(other);
	assert_true(holds(dev, 1));
	o.replace = true;
	assert_ok(fth_vol_object_new(rack.vol, "x", 30000, &o, &other));
	write_all(other, 3);
	assert_int_equal(fth_vol_object_commit(other), -EBUSY);
	fth_dev_close(dev);
	assert_ok(fth_vol_object_commit(other));
	fth_dev_close(other);
	rack_reopen(&rack);
	dev = open_object(rack.vol, "x");
	assert_true(holds(dev, 3));
	fth_dev_close(dev);
	assert_ok(fth_vol_remove(rack.vol, "x"));
	fth_vol_info(rack.vol, &after);
	assert_int_equal(before.free, after.free);
	assert_sound(&rack, 0);
	rack_release(&rack);
}

static void read_only_is_read_only(void **state)
{
	struct fth_dev *dev;
	struct rack rack;
	char buf[512] = {0};

	(void)state;
	rack_format(&rack, "mem:1M", 1);
	assert_ok(fth_vol_create(rack.vol, "x", 4096, NULL));
	dev = open_object(rack.vol, "x");
	write_all(dev, 3);
	fth_dev_close(dev);
	assert_ok(fth_vol_object_open(rack.vol, "x", FTH_VOL_READONLY, &dev));
	assert_int_equal(fth_dev_write(dev, buf, 512, 0, FTH_DEV_TIMEOUT), -EROFS);
	assert_int_equal(fth_dev_zero(dev, 512, 0, FTH_DEV_TIMEOUT), -EROFS);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_true(holds(dev, 3));
	fth_dev_close(dev);
	rack_close(&rack);
	assert_ok(fth_vol_open(rack.devs, 1, FTH_VOL_READONLY, &rack.vol));
	assert_int_equal(fth_vol_create(rack.vol, "y", 1, NULL), -EROFS);
	assert_int_equal(fth_vol_remove(rack.vol, "x"), -EROFS);
	assert_int_equal(fth_vol_object_new(rack.vol, "y", 1, NULL, &dev), -EROFS);
	assert_null(dev);
	assert_ok(fth_vol_object_open(rack.vol, "x", 0, &dev));
	assert_int_equal(fth_dev_write(dev, buf, 512, 0, FTH_DEV_TIMEOUT), -EROFS);
	fth_dev_close(dev);
	assert_int_equal(fth_vol_object_open(rack.vol, "y", 0, &dev), -ENOENT);
	rack_release(&rack);
}

static void an_open_object_may_be_renamed(void **state)
{
	struct fth_vol_object_options o = shape(4096, 2, 0);
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	rack_format(&rack, "mem:1M", 2);
	assert_ok(fth_vol_create(rack.vol, "x", 8192, &o));
	dev = open_object(rack.vol, "x");
	write_all(dev, 4);
	assert_ok(fth_vol_rename(rack.vol, "x", "y", false));
	fth_dev_close(dev);
	dev = open_object(rack.vol, "y");
	assert_true(holds(dev, 4));
	fth_dev_close(dev);
	rack_close(&rack);
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_release(&rack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_volume_is_empty_and_says_what_it_is),
		cmocka_unit_test(objects_are_listed_by_name_and_survive_reopening),
		cmocka_unit_test(names_are_utf8),
		cmocka_unit_test(names_that_are_none_are_refused),
		cmocka_unit_test(shapes_that_can_not_be_are_refused),
		cmocka_unit_test(all_space_can_be_used_and_comes_back),
		cmocka_unit_test(data_in_pieces_is_where_it_was_written),
		cmocka_unit_test(resizing_keeps_what_is_kept),
		cmocka_unit_test(what_is_added_within_a_block_reads_as_zeroes),
		cmocka_unit_test(a_full_catalog_is_said_and_nothing_is_lost),
		cmocka_unit_test(new_objects_appear_with_their_data_or_not_at_all),
		cmocka_unit_test(read_only_is_read_only),
		cmocka_unit_test(an_open_object_may_be_renamed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
