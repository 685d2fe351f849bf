/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names: what their operations do, and which names are there after power losses, on regions
 * with a log on blocks and in the window, and on blocks of 4096 bytes. FTH_LONG_TESTS runs more
 * than 10,000 losses of each.
 */
#include "workloads/names/names.h"
#include "flat/test/flat_main_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET (512u << 10)
#define LOG    (64u << 10)

/* ---- the three media ---- */

static const struct medium {
	const char *uri;
	bool flat;
	uint64_t log;
} media[] = {
	{"crash(mem:1M)", true, LOG},
	{"crash(softnvme(mem:1M)?pmr=256K)", true, 0},
	{"crash(mem:1M)", false, 0},
};
#define MEDIA 3u

struct rig {
	const struct medium *medium;
	struct fth_dev *dev;
	struct fth_flat *flat;
	struct fth_durable *durable;
};

static void open_rig(struct rig *rig)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;

	rig->flat = NULL;
	options.log = rig->medium->log;
	if (rig->medium->flat) {
		assert_ok(fth_flat_open_dev(rig->dev, BUDGET, &options, &rig->flat));
		assert_ok(fth_durable_open_flat(rig->flat, &rig->durable));
	} else {
		assert_ok(fth_durable_open_blocks(rig->dev, &rig->durable));
	}
}

static void shut_rig(struct rig *rig)
{
	fth_durable_close(rig->durable);
	fth_flat_discard(rig->flat);
}

static unsigned losses(unsigned few)
{
	return getenv("FTH_LONG_TESTS") ? 10500 : few;
}

/* ---- names ---- */

static void names_are_made_moved_and_removed(void **unused)
{
	(void)unused;
	for (unsigned m = 0; m < MEDIA; m++) {
		struct rig rig = {.medium = &media[m]};
		char longest[FTH_NAMES_LENGTH_MAX + 2];
		struct fth_names *names;
		uint64_t a, b, found;

		memset(longest, 'x', sizeof(longest));
		longest[FTH_NAMES_LENGTH_MAX + 1] = 0;
		assert_ok(fth_dev_open(media[m].uri, &rig.dev));
		open_rig(&rig);
		assert_ok(fth_names_open(rig.durable, &names));
		assert_ok(fth_names_create(names, "a", &a));
		assert_ok(fth_names_create(names, "b", &b));
		assert_int_not_equal(a, b);
		assert_int_equal(fth_names_create(names, "a", NULL), -EEXIST);
		assert_int_equal(fth_names_create(names, "", NULL), -EINVAL);
		assert_int_equal(fth_names_create(names, longest, NULL), -EINVAL);
		longest[FTH_NAMES_LENGTH_MAX] = 0;
		assert_int_equal(fth_names_rename(names, "a", "b"), -EEXIST);
		assert_int_equal(fth_names_rename(names, "c", "d"), -ENOENT);
		assert_ok(fth_names_rename(names, "a", longest));
		assert_int_equal(fth_names_remove(names, "a"), -ENOENT);
		assert_ok(fth_names_remove(names, "b"));
		/* many times the size of the journal */
		for (unsigned i = 0; i < 12000; i++) {
			assert_ok(fth_names_create(names, "temporary file", NULL));
			assert_ok(fth_names_remove(names, "temporary file"));
		}
		fth_names_close(names);
		shut_rig(&rig);
		open_rig(&rig);
		assert_ok(fth_names_open(rig.durable, &names));
		assert_ok(fth_names_find(names, longest, &found));
		assert_int_equal(found, a);
		assert_int_equal(fth_names_count(names), 1);
		assert_int_equal(fth_names_operations(names), 24004);
		assert_true(fth_durable_asked(rig.durable) > 0);
		fth_names_close(names);
		shut_rig(&rig);
		fth_dev_close(rig.dev);
	}
}

static void too_many_names_are_refused(void **unused)
{
	struct rig rig = {.medium = &media[2]};
	struct fth_names *names;
	char name[100];
	unsigned n = 0;
	int rc = 0;

	(void)unused;
	assert_ok(fth_dev_open("mem:64K", &rig.dev));
	assert_ok(fth_durable_open_blocks(rig.dev, &rig.durable));
	assert_ok(fth_names_open(rig.durable, &names));
	while (rc == 0) {
		snprintf(name, sizeof(name), "file %u", n);
		rc = fth_names_create(names, name, NULL);
		n += rc == 0;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_true(n > 300);
	assert_ok(fth_names_remove(names, "file 0")); /* there was room for one */
	fth_names_close(names);
	assert_ok(fth_names_open(rig.durable, &names));
	assert_int_equal(fth_names_count(names), n - 1);
	fth_names_close(names);
	fth_durable_close(rig.durable);
	fth_dev_close(rig.dev);
}

#define FILES 24u

struct names_run {
	struct rig rig;
	struct fth_names *names;
	struct fth_rng rng;
	/*
	 * bits of the files that are there, after the operations that returned and after the next
	 */
	uint64_t state, next;
	uint64_t done; /* operations */
	unsigned errors, ahead;
};

static void name_of(char name[40], unsigned i)
{
	snprintf(name, 40, "folder/file number %u", i);
}

/* One operation at random that is allowed. */
static void operate(struct names_run *r)
{
	unsigned i = (unsigned)fth_rng_below(&r->rng, FILES), k = (i + 7) % FILES;
	bool has_i = r->state >> i & 1, has_k = r->state >> k & 1;
	char name[40], to[40];
	int rc;

	name_of(name, i);
	name_of(to, k);
	r->next = r->state ^ (uint64_t)1 << i;
	if (!has_i) {
		rc = fth_names_create(r->names, name, NULL);
	} else if (has_k) {
		rc = fth_names_remove(r->names, name);
	} else {
		r->next ^= (uint64_t)1 << k;
		rc = fth_names_rename(r->names, name, to);
	}
	if (rc < 0) {
		r->errors++;
		return;
	}
	r->state = r->next;
	r->done++;
}

static void operate_until_power_goes(struct names_run *r)
{
	while (fth_dev_crash_powered(r->rig.dev))
		operate(r);
}

/* Exactly the operations that returned, or one more. */
static void check_names(struct names_run *r)
{
	uint64_t operations = fth_names_operations(r->names), state = 0;
	char name[40];

	for (unsigned i = 0; i < FILES; i++) {
		name_of(name, i);
		if (fth_names_find(r->names, name, NULL) == 0)
			state |= (uint64_t)1 << i;
	}
	if (operations == r->done) {
		assert_int_equal(state, r->state);
	} else {
		assert_int_equal(operations, r->done + 1);
		assert_int_equal(state, r->next);
		r->ahead++;
	}
	assert_int_equal(fth_names_count(r->names), __builtin_popcountll(state));
	r->done = operations;
	r->state = state;
}

static void names_are_a_prefix_after_a_power_loss(void **unused)
{
	(void)unused;
	for (unsigned m = 0; m < MEDIA; m++) {
		struct names_run r = {.rig = {.medium = &media[m]}, .rng = {m + 1}};

		assert_ok(fth_dev_open(media[m].uri, &r.rig.dev));
		open_rig(&r.rig);
		assert_ok(fth_names_open(r.rig.durable, &r.names));
		for (unsigned i = 0; i < losses(60); i++) {
			assert_ok(fth_dev_crash_at(r.rig.dev, 1 + i % 97, fth_rng_next(&r.rng)));
			operate_until_power_goes(&r);
			fth_names_close(r.names);
			shut_rig(&r.rig);
			assert_ok(fth_dev_crash_restart(r.rig.dev));
			open_rig(&r.rig);
			assert_ok(fth_names_open(r.rig.durable, &r.names));
			check_names(&r);
		}
		assert_true(r.errors > 0 && r.done > 100);
		fth_names_close(r.names);
		shut_rig(&r.rig);
		fth_dev_close(r.rig.dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_made_moved_and_removed),
		cmocka_unit_test(too_many_names_are_refused),
		cmocka_unit_test(names_are_a_prefix_after_a_power_loss),
	};

	return FLAT_RUN(tests);
}
