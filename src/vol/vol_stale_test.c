/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that missed something, and are opened without those that know. */
#include "vol/vol_fixture.h"

#define SIZE 40960u

static void write_object(struct fth_vol *vol, uint64_t seed)
{
	struct fth_dev *dev = open_object(vol, "x");

	write_all(dev, seed);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

/* Device `victim` takes nothing any more while an object is overwritten: 1 becomes 2. */
static void leave_behind(struct rack *rack, unsigned devices, unsigned victim)
{
	struct fth_vol_object_options o = shape(4096, devices, 1);

	rack_format(rack, "fault(mem:512K)", devices);
	assert_ok(fth_vol_create(rack->vol, "x", SIZE, &o));
	write_object(rack->vol, 1);
	fail_on(rack->devs[victim], (1u << FTH_DEV_WRITE) | (1u << FTH_DEV_FLUSH), 1, 1);
	write_object(rack->vol, 2);
	rack_close(rack);
	assert_ok(fth_dev_fault_disarm(rack->devs[victim]));
}

static uint64_t version_in(struct fth_vol *vol)
{
	struct fth_dev *dev = open_object(vol, "x");
	uint64_t version = holds(dev, 1) ? 1 : holds(dev, 2) ? 2 : 0;

	fth_dev_close(dev);
	return version;
}

/* Open some of the devices with these flags, and look which version they give; 0: refused. */
static uint64_t version_of(const struct rack *rack, unsigned set, unsigned flags, bool warned)
{
	struct fth_dev *devs[RACK_MAX];
	struct fth_vol *vol;
	uint64_t version;
	unsigned n = 0;
	int rc;

	for (unsigned i = 0; i < rack->count; i++)
		if (set >> i & 1)
			devs[n++] = rack->devs[i];
	rc = fth_vol_open(devs, n, flags, &vol);
	if (rc == -ESTALE) {
		assert_non_null(strstr(fth_error_text(rc), "may hold newer data"));
		return 0;
	}
	assert_ok(rc);
	assert_int_equal(strstr(fth_vol_warning(vol), "out of date") != NULL, warned);
	assert_int_equal(fth_vol_warning(vol)[0] != 0, n < rack->count);
	version = version_in(vol);
	fth_vol_close(vol);
	return version;
}

/* Of two, one alone can not know: it is refused, or gives what it has with a warning. */
static void one_of_two_is_opened_with_a_warning_only(void **state)
{
	(void)state;
	for (unsigned victim = 0; victim < 2; victim++) {
		struct fth_dev *alone[1];
		struct findings f = {0};
		struct rack rack;

		leave_behind(&rack, 2, victim);
		alone[0] = rack.devs[victim];
		assert_int_equal(version_of(&rack, 3, FTH_VOL_READONLY, false), 2);
		assert_int_equal(version_of(&rack, 3, FTH_VOL_DEGRADED, false), 2);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(version_of(&rack, 1u << i, FTH_VOL_DEGRADED, false), 0);
		assert_int_equal(version_of(&rack, 1u << victim, FTH_VOL_MINORITY, true), 1);
		assert_int_equal(version_of(&rack, 1u << !victim, FTH_VOL_MINORITY, true), 2);
		/* Check says it too. */
		assert_true(fth_vol_check(alone, 1, 0, note_finding, NULL, &f) > 0);
		assert_int_equal(f.serious_kinds[FTH_VOL_F_DEVICE], 2);
		assert_non_null(strstr(f.text, "may hold newer data"));
		rack_release(&rack);
	}
}

/* Of three, any two know. The one that missed it is not read, and alone is refused. */
static void two_of_three_know_who_is_out_of_date(void **state)
{
	(void)state;
	for (unsigned victim = 0; victim < 3; victim++) {
		struct rack rack;

		leave_behind(&rack, 3, victim);
		for (unsigned set = 1; set < 8; set++) {
			unsigned here = (unsigned)__builtin_popcount(set);

			assert_int_equal(version_of(&rack, set, FTH_VOL_DEGRADED, false),
					 here > 1 ? 2 : 0);
			assert_int_equal(version_of(&rack, set, FTH_VOL_MINORITY, here < 2),
					 set == 1u << victim ? 1 : 2);
		}
		/* Mended, it counts again. */
		assert_int_equal(check(&rack, FTH_VOL_REPAIR).serious, 0);
		assert_int_equal(version_of(&rack, 1u << victim, FTH_VOL_MINORITY, true), 2);
		rack_release(&rack);
	}
}

/* A change that too few devices know of is not acknowledged. */
static void a_minority_does_not_acknowledge(void **state)
{
	struct fth_vol_object_options o = shape(4096, 3, 1);
	char buf[512] = {0};
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	rack_format(&rack, "fault(mem:512K)", 3);
	assert_ok(fth_vol_create(rack.vol, "x", SIZE, &o));
	dev = open_object(rack.vol, "x");
	fail_on(rack.devs[0], 1u << FTH_DEV_WRITE, 1, 1);
	assert_ok(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
	fail_on(rack.devs[1], 1u << FTH_DEV_WRITE, 1, 1);
	assert_int_equal(fth_dev_write(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(fth_vol_create(rack.vol, "y", 1, NULL), -EIO);
	fth_dev_close(dev);
	rack_release(&rack);
}

/* An update that was cut short, found and relied on, is on a quorum from then on. */
static void what_is_found_is_completed(void **state)
{
	struct fth_vol_object_info info;
	struct fth_dev *others[2];
	struct fth_vol *vol;
	struct rack rack;
	int rc;

	(void)state;
	rack_format(&rack, "fault(mem:512K)", 3);
	for (unsigned i = 1; i < 3; i++)
		fail_on(rack.devs[i], 1u << FTH_DEV_WRITE, 1, 1);
	rc = fth_vol_create(rack.vol, "y", 1, NULL);
	assert_int_equal(rc, -EIO);
	assert_non_null(strstr(fth_error_text(rc),
			       "the catalog was written to 1 of 3 devices, 2 are needed"));
	for (unsigned i = 1; i < 3; i++)
		assert_ok(fth_dev_fault_disarm(rack.devs[i]));
	others[0] = rack.devs[1];
	others[1] = rack.devs[2];
	rack_close(&rack);
	/* Those that only look see it or not, and change nothing. */
	assert_ok(fth_vol_open(others, 2, FTH_VOL_DEGRADED, &vol));
	assert_int_equal(fth_vol_stat(vol, "y", &info), -ENOENT);
	fth_vol_close(vol);
	rack_open(&rack);
	assert_ok(fth_vol_stat(rack.vol, "y", &info));
	rack_close(&rack);
	assert_ok(fth_vol_open(others, 2, FTH_VOL_DEGRADED, &vol));
	assert_ok(fth_vol_stat(vol, "y", &info));
	fth_vol_close(vol);
	rack_release(&rack);
}

/* How many devices must be there, for each number of them. */
static void the_quorum_fits_the_number_of_devices(void **state)
{
	static const unsigned quorum[] = {0, 1, 1, 2, 3, 3, 4}, needed[] = {0, 1, 2, 2, 2, 3, 3};

	(void)state;
	for (unsigned n = 1; n <= 6; n++) {
		struct fth_vol_info info;
		struct fth_vol *vol;
		struct rack rack;

		rack_format(&rack, "mem:512K", n);
		fth_vol_info(rack.vol, &info);
		assert_int_equal(info.quorum, quorum[n]);
		rack_close(&rack);
		for (unsigned here = 1; here <= n; here++) {
			int rc = fth_vol_open(rack.devs, here, FTH_VOL_DEGRADED, &vol);

			assert_int_equal(rc, here < needed[n] ? -ESTALE : 0);
			if (rc == 0)
				fth_vol_info(vol, &info);
			if (rc == 0)
				assert_int_equal(__builtin_popcountll(info.missing), n - here);
			fth_vol_close(vol);
		}
		rack_release(&rack);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_two_is_opened_with_a_warning_only),
		cmocka_unit_test(two_of_three_know_who_is_out_of_date),
		cmocka_unit_test(a_minority_does_not_acknowledge),
		cmocka_unit_test(what_is_found_is_completed),
		cmocka_unit_test(the_quorum_fits_the_number_of_devices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
