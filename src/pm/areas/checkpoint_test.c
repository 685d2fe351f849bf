/* SPDX-License-Identifier: BSD-2-Clause */
/* Checkpoints: versions, groups, incremental saves, and what is refused. */
#include "pm/areas/memory_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/detail/pm/checkpoint.h"
#include "fathom/pm/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST  20000u
#define SECOND 4097u

static uint8_t first[FIRST], second[SECOND], other[FIRST];
static const struct fth_pm_checkpoint_shape shape = {.groups = 3, .buffers = 2, .bytes = 36000};

static void fill(uint8_t *to, uint64_t bytes, uint64_t seed)
{
	struct fth_rng rng = {.state = seed};

	for (uint64_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)fth_rng_next(&rng);
}

static struct fth_pm_checkpoint *open_registered(struct fth_pm *pm)
{
	struct fth_pm_checkpoint *cp;

	assert_ok(fth_pm_checkpoint_open(pm, 4096, &cp));
	assert_ok(fth_pm_checkpoint_register(cp, 1, first, FIRST));
	assert_ok(fth_pm_checkpoint_register(cp, 1, second, SECOND));
	return cp;
}

static void expect(uint64_t seed)
{
	static uint8_t want[FIRST];

	fill(want, FIRST, seed);
	assert_memory_equal(first, want, FIRST);
	fill(want, SECOND, seed + 1);
	assert_memory_equal(second, want, SECOND);
}

static void set(uint64_t seed)
{
	fill(first, FIRST, seed);
	fill(second, SECOND, seed + 1);
}

static void versions_come_back(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_checkpoint *cp;

	(void)unused;
	assert_ok(fth_pm_checkpoint_create(pm, 4096, &shape, &cp));
	fth_pm_checkpoint_close(cp);
	for (uint64_t v = 1; v <= 5; v++) {
		cp = open_registered(pm);
		assert_int_equal(fth_pm_checkpoint_version(cp, 1), v - 1);
		if (v == 1)
			assert_int_equal(fth_pm_checkpoint_restore(cp, 1), -ENODATA);
		else
			assert_ok(fth_pm_checkpoint_restore(cp, 1));
		if (v > 1)
			expect((v - 1) * 10);
		set(v * 10);
		assert_ok(fth_pm_checkpoint_save(cp, 1, v % 2));
		assert_int_equal(fth_pm_checkpoint_version(cp, 1), v);
		assert_int_equal(fth_pm_checkpoint_version(cp, 0), 0);
		assert_int_equal(fth_pm_checkpoint_version(cp, 3), 0);
		memset(first, 0, FIRST);
		assert_ok(fth_pm_checkpoint_restore(cp, 1));
		expect(v * 10);
		assert_ok(fth_pm_checkpoint_verify(cp, 1));
		fth_pm_checkpoint_close(cp);
	}
	fth_pm_unmap(pm);
}

static void only_changes_are_written(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_checkpoint *cp = open_registered(pm);
	uint64_t before;

	(void)unused;
	assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
	assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
	before = fth_pm_checkpoint_written(cp);
	assert_int_equal(before, 2 * (5 + 2) * 4096);
	first[4096 * 3] ^= 1;
	assert_ok(fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL));
	assert_int_equal(fth_pm_checkpoint_written(cp), before + 4096);
	assert_ok(
		fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL)); /* the other copy */
	assert_int_equal(fth_pm_checkpoint_written(cp), before + 2 * 4096);
	assert_ok(fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL));
	assert_int_equal(fth_pm_checkpoint_written(cp), before + 2 * 4096);
	second[SECOND - 1] ^= 1;
	assert_ok(fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL));
	assert_int_equal(fth_pm_checkpoint_written(cp), before + 3 * 4096);
	memcpy(other, first, FIRST);
	memset(first, 0, FIRST);
	assert_ok(fth_pm_checkpoint_restore(cp, 1));
	assert_memory_equal(first, other, FIRST);
	fth_pm_checkpoint_close(cp);

	/* After open: what was restored is known, the other copy is not. */
	cp = open_registered(pm);
	assert_ok(fth_pm_checkpoint_restore(cp, 1));
	assert_ok(fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL));
	assert_int_equal(fth_pm_checkpoint_written(cp), 7 * 4096);
	assert_ok(fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL));
	assert_int_equal(fth_pm_checkpoint_written(cp), 7 * 4096);
	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
}

static void open_or_create_keeps_what_is_there(void **unused)
{
	struct fth_pm_checkpoint_shape wider = shape;
	struct fth_pm *pm = map_again();
	uint64_t *magic = (uint64_t *)(void *)((uint8_t *)fth_pm_base(pm) + 4096);
	struct fth_pm_checkpoint *cp;

	(void)unused;
	memset(magic, 0, sizeof(struct fth_pm_cp_header));
	for (uint64_t run = 0; run < 2; run++) {
		assert_ok(fth_pm_checkpoint_open_or_create(pm, 4096, &shape, &cp));
		assert_int_equal(fth_pm_checkpoint_version(cp, 1), run);
		assert_ok(fth_pm_checkpoint_register(cp, 1, first, FIRST));
		assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
		fth_pm_checkpoint_close(cp);
	}
	for (unsigned bit = 0; bit < 64; bit++) {
		*magic ^= UINT64_C(1) << bit;
		assert_int_equal(fth_pm_checkpoint_open_or_create(pm, 4096, &shape, &cp), -EBADMSG);
		assert_null(cp);
		*magic ^= UINT64_C(1) << bit;
	}
	wider.groups++;
	assert_int_equal(fth_pm_checkpoint_open_or_create(pm, 4096, &wider, &cp), -EINVAL);
	assert_null(cp);
	assert_ok(fth_pm_checkpoint_open(pm, 4096, &cp));
	assert_int_equal(fth_pm_checkpoint_version(cp, 1), 2);
	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
}

/* Number, sizes and order of buffers are part of a checkpoint. */
static void others_are_refused(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_checkpoint *cp;

	(void)unused;
	memset(other, 9, FIRST);
	assert_ok(fth_pm_checkpoint_open(pm, 4096, &cp));
	assert_ok(fth_pm_checkpoint_register(cp, 1, other, SECOND));
	assert_int_equal(fth_pm_checkpoint_restore(cp, 1), -EINVAL);
	assert_ok(fth_pm_checkpoint_register(cp, 1, other, FIRST));
	assert_int_equal(fth_pm_checkpoint_restore(cp, 1), -EINVAL);
	assert_int_equal(other[5], 9);
	assert_int_equal(fth_pm_checkpoint_register(cp, 1, other, 8), -ENOSPC); /* the third */
	assert_ok(fth_pm_checkpoint_register(cp, 2, other, 8));
	assert_int_equal(fth_pm_checkpoint_register(cp, 2, other, 36000), -ENOSPC);
	assert_int_equal(fth_pm_checkpoint_register(cp, 3, other, 8), -EINVAL);
	assert_int_equal(fth_pm_checkpoint_register(cp, 2, other, 0), -EINVAL);
	assert_int_equal(fth_pm_checkpoint_save(cp, 0, 0), -EINVAL);
	assert_int_equal(fth_pm_checkpoint_save(cp, 2, 8), -EINVAL);
	fth_pm_checkpoint_close(cp);
	assert_int_equal(fth_pm_checkpoint_open(pm, 0, &cp), -ENOENT);
	assert_int_equal(fth_pm_checkpoint_open(pm, 17, &cp), -EINVAL);
	assert_int_equal(fth_pm_checkpoint_open(pm, MEMORY_BYTES, &cp), -ERANGE);
	assert_int_equal(fth_pm_checkpoint_create(pm, 17, &shape, &cp), -EINVAL);
	assert_int_equal(fth_pm_checkpoint_create(pm, MEMORY_BYTES, &shape, &cp), -ERANGE);
	assert_int_equal(fth_pm_checkpoint_create(pm, 0, &(struct fth_pm_checkpoint_shape){0}, &cp),
			 -EINVAL);
	fth_pm_unmap(pm);
}

/* Two checkpoints: of 1000, and of 2000. The version of the second. */
static uint64_t save_two(struct fth_pm_checkpoint *cp)
{
	set(1000);
	assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
	set(2000);
	assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
	return fth_pm_checkpoint_version(cp, 1);
}

/* A record of group 1. */
static uint8_t *record_at(uint8_t *area, uint64_t copy, uint32_t which)
{
	return area + fth_pm_cp_record_at((const struct fth_pm_cp_header *)(const void *)area, 1,
					  (uint32_t)copy, which);
}

/*
 * One damaged record loses nothing. If both are, restore says that this is not the newest
 * checkpoint.
 */
static void a_lost_version_is_told(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_checkpoint *cp = open_registered(pm);
	uint8_t *area = (uint8_t *)fth_pm_base(pm) + 4096;
	uint64_t version = save_two(cp), copy = (version - 1) % 2;

	(void)unused;
	for (unsigned bit = 0; bit < 4 * 64 * 8; bit++) { /* of both copies */
		uint8_t *at = record_at(area, bit / 1024, bit / 512 % 2) + bit / 8 % 64;

		*at ^= (uint8_t)(1u << bit % 8);
		set(3000);
		assert_ok(fth_pm_checkpoint_restore(cp, 1));
		expect(2000);
		assert_int_equal(fth_pm_checkpoint_version(cp, 1), version);
		*at ^= (uint8_t)(1u << bit % 8);
	}
	/* An older one that is damaged is of no matter. */
	for (uint32_t which = 0; which < 2; which++)
		record_at(area, !copy, which)[8] ^= 1;
	assert_ok(fth_pm_checkpoint_restore(cp, 1));
	for (uint32_t which = 0; which < 2; which++)
		record_at(area, !copy, which)[8] ^= 1;
	record_at(area, copy, 0)[8] ^= 1;
	record_at(area, copy, 1)[24] ^= 1;
	assert_int_equal(fth_pm_checkpoint_verify(cp, 1), FTH_PM_CHECKPOINT_OLDER);
	assert_int_equal(fth_pm_checkpoint_restore(cp, 1), FTH_PM_CHECKPOINT_OLDER);
	expect(1000);
	assert_int_equal(fth_pm_checkpoint_version(cp, 1), version - 1);
	/* The next save takes its place. */
	set(4000);
	assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
	assert_ok(fth_pm_checkpoint_restore(cp, 1));
	expect(4000);
	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
}

static void damage_is_found(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_checkpoint *cp = open_registered(pm);
	uint8_t *area = (uint8_t *)fth_pm_base(pm) + 4096, *data;
	const void *found;

	(void)unused;
	save_two(cp);
	set(1000);
	assert_int_equal(fth_pm_checkpoint_data(cp, 1, &found), 7 * 4096);
	data = area + ((const uint8_t *)found - area);
	for (unsigned i = 0; i < 7 * 4096; i += 509) {
		data[i] ^= 0x10;
		assert_int_equal(fth_pm_checkpoint_restore(cp, 1), -EBADMSG);
		assert_int_equal(fth_pm_checkpoint_verify(cp, 1), -EBADMSG);
		data[i] ^= 0x10;
	}
	expect(1000);
	assert_ok(fth_pm_checkpoint_restore(cp, 1));
	expect(2000);
	fth_pm_checkpoint_close(cp);
	for (unsigned bit = 0; bit < 64 * 8; bit++) {
		area[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (bit / 8 < 40 || bit / 8 >= 56)
			assert_int_equal(fth_pm_checkpoint_open(pm, 4096, &cp), -EBADMSG);
		area[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	fth_pm_unmap(pm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_come_back),
		cmocka_unit_test(only_changes_are_written),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test(a_lost_version_is_told),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(open_or_create_keeps_what_is_there),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
