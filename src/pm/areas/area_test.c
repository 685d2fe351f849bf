/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding areas: all of them, damaged ones with the reason, and a lack of memory that is not
 * damage.
 */
#include "pm/pm_internal.h"
#include "fth_test.h"

#include "fathom/pm/area.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"
#include "fathom/pm/wal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES	(256u << 10)
#define CONV_AT 4096u
#define HCL_AT	(32u << 10)
#define CP_AT	(64u << 10)
#define TX_AT	(128u << 10)
#define WAL_AT	(160u << 10)
#define AREAS	5u

/* The nth call from here on fails; 0: none. */
static unsigned fail_at;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return fail_at && --fail_at == 0 ? NULL : __real_calloc(n, size);
}

static uint8_t *memory;
static struct fth_pm *pm;

static int setup(void **unused)
{
	static const struct fth_pm_log_shape hcl = {
		.blocks = 1, .threads = 32, .entry_bytes = 8, .entries = 2};
	static const struct fth_pm_checkpoint_shape shape = {
		.groups = 2, .buffers = 1, .bytes = 4096};
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm_checkpoint *cp;
	struct fth_pm_log *log;
	struct fth_pm_wal *wal;
	struct fth_pm_tx *tx;
	uint64_t word = 7;

	(void)unused;
	memory = aligned_alloc(4096, BYTES);
	memset(memory, 0, BYTES);
	options.flags = FTH_PM_CREATE;
	assert_ok(pm_map_memory(memory, BYTES, &options, &pm));
	assert_ok(fth_pm_log_create_conv(pm, CONV_AT, 3, 1024, &log));
	assert_ok(fth_pm_log_insert(log, 2, &word, sizeof(word)));
	fth_pm_log_close(log);
	assert_ok(fth_pm_log_create_hcl(pm, HCL_AT, &hcl, &log));
	fth_pm_log_close(log);
	assert_ok(fth_pm_checkpoint_create(pm, CP_AT, &shape, &cp));
	assert_ok(fth_pm_checkpoint_register(cp, 1, &word, sizeof(word)));
	assert_ok(fth_pm_checkpoint_save(cp, 1, 0));
	fth_pm_checkpoint_close(cp);
	assert_ok(fth_pm_tx_create(pm, TX_AT, 5, 1024, &tx));
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_wal_create(pm, WAL_AT, 8192, &wal));
	assert_ok(fth_pm_wal_append(wal, &word, sizeof(word), NULL));
	assert_ok(fth_pm_wal_append(wal, &word, sizeof(word), NULL));
	fth_pm_wal_close(wal);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	fth_pm_unmap(pm);
	free(memory);
	return 0;
}

struct found {
	struct fth_pm_area areas[AREAS + 1];
	unsigned count, damaged;
};

static int note_area(const struct fth_pm_area *area, void *user)
{
	struct found *found = user;

	assert_true(found->count < AREAS);
	found->areas[found->count++] = *area;
	found->damaged += area->damage != 0;
	assert_int_equal(area->text[0] != '\0', area->damage != 0);
	return 0;
}

static void areas_are_found(void **unused)
{
	static const struct fth_pm_area want[AREAS] = {
		{.kind = FTH_PM_AREA_CONV, .offset = CONV_AT, .parts = 3, .items = 1},
		{.kind = FTH_PM_AREA_HCL, .offset = HCL_AT, .parts = 32},
		{.kind = FTH_PM_AREA_CHECKPOINT, .offset = CP_AT, .parts = 2, .items = 1},
		{.kind = FTH_PM_AREA_TX, .offset = TX_AT, .parts = 5},
		{.kind = FTH_PM_AREA_WAL, .offset = WAL_AT, .parts = 1, .items = 2},
	};
	struct found found = {0};

	(void)unused;
	assert_ok(fth_pm_areas(pm, note_area, &found));
	assert_int_equal(found.count, AREAS);
	assert_int_equal(found.damaged, 0);
	for (unsigned i = 0; i < AREAS; i++) {
		assert_int_equal(found.areas[i].kind, want[i].kind);
		assert_int_equal(found.areas[i].offset, want[i].offset);
		assert_int_equal(found.areas[i].parts, want[i].parts);
		assert_int_equal(found.areas[i].items, want[i].items);
		assert_true(found.areas[i].bytes > 0);
	}
}

static void damaged_areas_are_told(void **unused)
{
	static const uint64_t at[AREAS] = {CONV_AT, HCL_AT, CP_AT, TX_AT, WAL_AT};

	(void)unused;
	for (unsigned i = 0; i < AREAS; i++) {
		uint8_t *header = (uint8_t *)fth_pm_base(pm) + at[i];
		struct found found = {0};

		header[12] ^= 1;
		assert_ok(fth_pm_areas(pm, note_area, &found));
		header[12] ^= 1;
		assert_int_equal(found.count, AREAS);
		assert_int_equal(found.damaged, 1);
		assert_int_equal(found.areas[i].damage, -EBADMSG);
	}
}

/* Whichever allocation fails: the search ends with that, and reports no damage. */
static void a_lack_of_memory_is_not_damage(void **unused)
{
	unsigned failures = 0;

	(void)unused;
	for (unsigned n = 1;; n++, failures++) {
		struct found found = {0};
		bool failed;
		int rc;

		fail_at = n;
		rc = fth_pm_areas(pm, note_area, &found);
		failed = fail_at == 0;
		fail_at = 0;
		assert_int_equal(found.damaged, 0);
		assert_int_equal(rc, failed ? -ENOMEM : 0);
		if (!failed)
			break;
		assert_true(found.count < AREAS);
	}
	assert_true(failures >= 4); /* of all logs and of the checkpoints */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(areas_are_found),
		cmocka_unit_test(damaged_areas_are_told),
		cmocka_unit_test(a_lack_of_memory_is_not_damage),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
