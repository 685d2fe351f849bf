/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each operation with its Nth I/O failing, N = 1, 2, ... until it passes clean, on each of the
 * devices and on all at once: it happens or it does not, what it answers is true, and the volume is
 * sound afterwards.
 */
#include "vol/vol_fixture.h"

#define DEVICES 3
#define SIZE	(40u << 10)

static const struct fth_vol_object_options two = {sizeof(two), 4096, 2, 0, false, false, false};

static int create_one(struct fth_vol *vol)
{
	struct fth_vol_object_options o = two;

	o.zero = true;
	return fth_vol_create(vol, "new", SIZE, &o);
}

static int create_plain(struct fth_vol *vol)
{
	return fth_vol_create(vol, "new", SIZE, NULL);
}

static int import_one(struct fth_vol *vol)
{
	struct fth_vol_object_options o = two;
	struct fth_dev *dev;
	char *buf = malloc(SIZE);
	int rc;

	assert_non_null(buf);
	fill(buf, SIZE, 0, 77);
	o.whole = true;
	rc = fth_vol_object_new(vol, "new", SIZE, &o, &dev);
	if (rc == 0) {
		rc = fth_dev_write(dev, buf, SIZE, 0, FTH_DEV_TIMEOUT);
		if (rc == 0)
			rc = fth_vol_object_commit(dev);
		fth_dev_close(dev);
	}
	free(buf);
	return rc;
}

static int remove_one(struct fth_vol *vol)
{
	return fth_vol_remove(vol, "old");
}

static int rename_one(struct fth_vol *vol)
{
	return fth_vol_rename(vol, "old", "new", false);
}

static int rename_over(struct fth_vol *vol)
{
	return fth_vol_rename(vol, "old", "plain", true);
}

static int grow_one(struct fth_vol *vol)
{
	return fth_vol_resize(vol, "old", 3 * SIZE, true);
}

static int shrink_one(struct fth_vol *vol)
{
	return fth_vol_resize(vol, "old", SIZE / 4, false);
}

/* Writes what is there already, so that whatever part of it happened, the data is known. */
static int write_replicated(struct fth_vol *vol)
{
	struct fth_dev *dev;
	char *buf = malloc(SIZE);
	int rc = fth_vol_object_open(vol, "old", 0, &dev);

	assert_non_null(buf);
	if (rc == 0) {
		fill(buf, SIZE, 0, 5);
		rc = fth_dev_write(dev, buf, SIZE, 0, FTH_DEV_TIMEOUT);
		if (rc == 0)
			rc = fth_dev_flush(dev, FTH_DEV_TIMEOUT);
		fth_dev_close(dev);
	}
	free(buf);
	return rc;
}

static int read_replicated(struct fth_vol *vol)
{
	struct fth_dev *dev;
	char *buf = malloc(SIZE);
	int rc = fth_vol_object_open(vol, "old", FTH_VOL_READONLY, &dev);

	assert_non_null(buf);
	if (rc == 0) {
		rc = fth_dev_read(dev, buf, SIZE, 0, FTH_DEV_TIMEOUT);
		fth_dev_close(dev);
	}
	free(buf);
	return rc;
}

/* What is in the volume: name and size of each object. */
static int add_name(const struct fth_vol_object_info *info, void *user)
{
	char line[64];

	snprintf(line, sizeof(line), "%.20s=%llu ", info->name, (unsigned long long)info->size);
	strcat(user, line);
	return 0;
}

static const struct operation {
	const char *name;
	int (*run)(struct fth_vol *vol);
	const char *after;
	bool masks; /* one device that fails does not make it fail */
} operations[] = {
	{"create, zeroed", create_one, "new=40960 old=40960 plain=40960 ", false},
	{"create", create_plain, "new=40960 old=40960 plain=40960 ", true},
	{"import", import_one, "new=40960 old=40960 plain=40960 ", true},
	{"remove", remove_one, "plain=40960 ", true},
	{"rename", rename_one, "new=40960 plain=40960 ", true},
	{"rename over another", rename_over, "plain=40960 ", true},
	{"grow", grow_one, "old=122880 plain=40960 ", false},
	{"shrink", shrink_one, "old=10240 plain=40960 ", true},
	{"write", write_replicated, "old=40960 plain=40960 ", true},
	{"read", read_replicated, "old=40960 plain=40960 ", true},
};
static const char before[] = "old=40960 plain=40960 ";

static void prepare(struct rack *rack)
{
	struct fth_dev *dev;

	rack_format(rack, "fault(mem:512K)", DEVICES);
	assert_ok(fth_vol_create(rack->vol, "old", SIZE, &two));
	assert_ok(fth_vol_create(rack->vol, "plain", SIZE, NULL));
	dev = open_object(rack->vol, "old");
	write_all(dev, 5);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

/* The data of "old", by whatever name: the first bytes of it at least. */
static void verify_data(struct rack *rack)
{
	static const char *const candidates[] = {"old", "new", "plain"};
	struct fth_vol_object_info info;
	char buf[SIZE / 4], want[SIZE / 4];

	for (unsigned i = 0; i < 3; i++) {
		struct fth_dev *dev;

		if (fth_vol_stat(rack->vol, candidates[i], &info) < 0 || info.id != 1)
			continue;
		dev = open_object(rack->vol, candidates[i]);
		fill(want, sizeof(want), 0, 5);
		for (unsigned again = 0; again < 2; again++) {
			assert_ok(fth_dev_read(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
			assert_memory_equal(buf, want, sizeof(buf));
		}
		fth_dev_close(dev);
	}
	if (fth_vol_stat(rack->vol, "new", &info) == 0 && info.id == 3 && info.replicas == 2) {
		struct fth_dev *dev = open_object(rack->vol, "new");
		bool imported = holds(dev, 77);

		assert_ok(fth_dev_read(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
		memset(want, 0, sizeof(want));
		assert_true(imported || memcmp(buf, want, sizeof(buf)) == 0);
		fth_dev_close(dev);
	}
}

static void verify(struct rack *rack, const struct operation *op, uint64_t nth, int rc)
{
	char listing[256] = "";
	struct findings f;

	f = check(rack, 0);
	if (f.serious != f.serious_kinds[FTH_VOL_F_REPLICA])
		fail_msg("%s, I/O %llu: %s", op->name, (unsigned long long)nth, f.text);
	rack_open(rack);
	assert_ok(fth_vol_list(rack->vol, add_name, listing));
	if (strcmp(listing, op->after) != 0 && (rc == 0 || strcmp(listing, before) != 0))
		fail_msg("%s, I/O %llu, answered %d: %s", op->name, (unsigned long long)nth, rc,
			 listing);
	verify_data(rack);
	/* Life goes on. */
	assert_ok(fth_vol_create(rack->vol, "another", 1000, NULL));
	rack_close(rack);
	assert_int_equal(check(rack, FTH_VOL_REPAIR).serious, 0);
	assert_sound(rack, FTH_VOL_CHECK_DATA);
}

/* Fail the nth I/O of the devices in `victims`. False: there were fewer. */
static bool fail_nth(const struct operation *op, unsigned victims, uint64_t nth, bool on)
{
	bool injected = false;
	struct rack rack;
	int rc;

	prepare(&rack);
	for (unsigned d = 0; d < DEVICES; d++)
		if (victims >> d & 1)
			fail_on(rack.devs[d], FTH_DEV_FAULT_ALL_KINDS, nth, on);
	rc = op->run(rack.vol);
	rack_close(&rack);
	for (unsigned d = 0; d < DEVICES; d++) {
		struct fth_dev_fault_counts counts;

		assert_ok(fth_dev_fault_counts(rack.devs[d], &counts));
		injected = injected || counts.injected > 0;
		assert_ok(fth_dev_fault_disarm(rack.devs[d]));
	}
	if (!injected || (op->masks && victims != 7))
		if (rc < 0)
			fail_msg("%s, I/O %llu of device set %u: %s", op->name,
				 (unsigned long long)nth, victims, fth_error_text(rc));
	verify(&rack, op, nth, rc);
	rack_release(&rack);
	return injected;
}

static void every_io_of_every_operation_may_fail(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		for (unsigned victims = 1; victims < 8;
		     victims = victims < 4 ? victims * 2 : victims + 3)
			for (unsigned on = 0; on < 2; on++) {
				uint64_t nth = 1;

				while (fail_nth(&operations[i], victims, nth, on))
					nth++;
				assert_true(nth > 1);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_io_of_every_operation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
