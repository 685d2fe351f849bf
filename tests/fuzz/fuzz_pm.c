/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent memory with two logs, checkpoints and an open transaction in it. The input is a list
 * of changes to its image. What must hold, whatever was changed:
 *
 *	- mapping and looking at it changes nothing, comes to an end without a crash, and an error
 *	  comes with a text;
 *	- a checkpoint that restores is one that was saved, and an entry that is read was inserted,
 *	  unless checks were made to hold again;
 *	- recovery of transactions ends, stays inside of the memory, and finds nothing to do the
 *	  second time.
 *
 * First byte: which checks are made to hold again: bit 0 the header of the memory, bit 1 headers of
 * areas, bit 2 records of checkpoints, bit 3 the first entry of the transaction. Then changes:
 * which part (1 byte), offset (2 bytes), how (1 byte: set, xor, add, or a 64-bit edge value), value
 * (1 byte).
 */
#include "fuzz_input.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/detail/pm/checkpoint.h"
#include "fathom/detail/pm/tx.h"
#include "fathom/pm/area.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"
#include "pm/map/header.h"
#include "pm/areas/log_internal.h"
#include "pm/pm_internal.h"

#include <errno.h>
#include <string.h>

#define SIZE	(128u << 10)
#define HCL_AT	0u
#define CONV_AT (32u << 10)
#define CP_AT	(48u << 10)
#define TX_AT	(92u << 10)
#define DATA_AT (100u << 10)
#define ENTRY	16u
#define BUFFER	6000u
#define CHANGES 10

enum { FIX_MEMORY = 1, FIX_AREAS = 2, FIX_RECORDS = 4, FIX_ENTRY = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *image, *copy, *before;

/* ---- the memory ---- */

static void require_ok(int rc)
{
	require(rc == 0, "the image can be made");
}

static void fill(uint8_t *to, unsigned bytes, unsigned version)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (uint8_t)(version * 37 + i / 3);
}

static void make_logs(struct fth_pm *pm)
{
	struct fth_pm_log_shape shape = {
		.blocks = 1, .threads = 32, .entry_bytes = ENTRY, .entries = 4};
	struct fth_pm_log *log;
	uint8_t entry[ENTRY];

	require_ok(fth_pm_log_create_hcl(pm, HCL_AT, &shape, &log));
	for (unsigned i = 0; i < 60; i++) {
		fill(entry, ENTRY, i);
		require_ok(fth_pm_log_insert(log, i % 20, entry, ENTRY));
	}
	fth_pm_log_close(log);
	require_ok(fth_pm_log_create_conv(pm, CONV_AT, 2, 1024, &log));
	for (unsigned i = 0; i < 40; i++) {
		fill(entry, ENTRY, i);
		require_ok(fth_pm_log_insert(log, i % 2, entry, ENTRY));
	}
	fth_pm_log_close(log);
}

static void make_checkpoints(struct fth_pm *pm)
{
	static const struct fth_pm_checkpoint_shape shape = {
		.groups = 2, .buffers = 1, .bytes = 8192};
	static uint8_t buffer[BUFFER];
	struct fth_pm_checkpoint *cp;

	require_ok(fth_pm_checkpoint_create(pm, CP_AT, &shape, &cp));
	require_ok(fth_pm_checkpoint_register(cp, 1, buffer, BUFFER));
	for (unsigned version = 1; version <= 2; version++) {
		fill(buffer, BUFFER, version);
		require_ok(fth_pm_checkpoint_save(cp, 1, 0));
	}
	fth_pm_checkpoint_close(cp);
}

static void make_transaction(struct fth_pm *pm)
{
	uint8_t *data = (uint8_t *)fth_pm_base(pm) + DATA_AT;
	struct fth_pm_tx *tx;

	require_ok(fth_pm_tx_create(pm, TX_AT, 2, 1024, &tx));
	require_ok(fth_pm_tx_begin(tx, 0));
	require_ok(fth_pm_tx_add(tx, 0, data, 100));
	require_ok(fth_pm_tx_add(tx, 0, data + 50, 100));
	memset(data, 0xee, 150);
	fth_pm_tx_close(tx);
}

static void make_image(void)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	image = aligned_alloc(4096, SIZE);
	copy = aligned_alloc(4096, SIZE);
	before = aligned_alloc(4096, SIZE);
	require(image && copy && before, "there is memory");
	memset(image, 0, SIZE);
	options.flags = FTH_PM_CREATE;
	require_ok(pm_map_memory(image, SIZE, &options, &pm));
	make_logs(pm);
	make_checkpoints(pm);
	make_transaction(pm);
	fth_pm_unmap(pm);
}

/* ---- changes ---- */

static void change(void)
{
	static const uint64_t edges[] = {0,	     1,		0x7fffffff, 0x80000000,
					 UINT32_MAX, INT64_MAX, UINT64_MAX, SIZE};
	static const uint32_t parts[] = {0,
					 4096 + HCL_AT,
					 4096 + HCL_AT + FTH_PM_LOG_DATA,
					 4096 + CONV_AT,
					 4096 + CONV_AT + FTH_PM_LOG_DATA,
					 4096 + CP_AT,
					 4096 + CP_AT + 4096,
					 4096 + TX_AT,
					 4096 + TX_AT + 64};
	uint32_t part = byte() % 10;
	uint32_t at = byte(), how, value;

	at |= (uint32_t)byte() << 8;
	how = byte();
	value = byte();
	at = part == 9 ? at * 2 : parts[part] + at % 1024;
	if (how % 4 == 0)
		copy[at] = (uint8_t)value;
	else if (how % 4 == 1)
		copy[at] ^= (uint8_t)value;
	else if (how % 4 == 2)
		copy[at] = (uint8_t)(copy[at] + value);
	else
		memcpy(copy + at / 8 * 8, &edges[value % 8], 8);
}

static void fix_checks(unsigned fix)
{
	struct pm_header *h = (struct pm_header *)(void *)copy;
	struct fth_pm_log_header *hcl = (struct fth_pm_log_header *)(void *)(copy + 4096 + HCL_AT);
	struct fth_pm_log_header *conv =
		(struct fth_pm_log_header *)(void *)(copy + 4096 + CONV_AT);
	struct fth_pm_cp_header *cp = (struct fth_pm_cp_header *)(void *)(copy + 4096 + CP_AT);
	struct fth_pm_tx_header *tx = (struct fth_pm_tx_header *)(void *)(copy + 4096 + TX_AT);

	if (fix & FIX_MEMORY)
		h->checksum = fth_checksum(&h->version,
					   offsetof(struct pm_header, checksum) -
						   offsetof(struct pm_header, version),
					   PM_HEADER_SEED);
	if (fix & FIX_AREAS) {
		hcl->check = pm_log_header_sum(hcl);
		conv->check = pm_log_header_sum(conv);
		cp->check = fth_pm_cp_header_check(cp);
		tx->check = fth_pm_tx_header_check(tx);
	}
	for (uint32_t i = 0; i < 4 && (fix & FIX_RECORDS); i++) {
		struct fth_pm_cp_record *r =
			(struct fth_pm_cp_record *)(void *)(copy + 4096 + CP_AT + 4096 +
							    i * sizeof(*r));

		r->check = fth_pm_cp_record_check(r, cp->salt, i / 2, i % 2);
	}
}

/* The first entry of log 0: offset, length and place may be anything. */
static void fix_entry(struct fth_pm *pm)
{
	struct fth_pm_tx_header *h = (struct fth_pm_tx_header *)(void *)(copy + 4096 + TX_AT);
	struct fth_pm_tx_entry *e = (struct fth_pm_tx_entry *)(void *)(copy + 4096 + TX_AT + 128);
	struct fth_pm_view view = fth_pm_view(pm);
	struct fth_pm_undo log;

	if (h->check != fth_pm_tx_header_check(h) || h->logs == 0 || h->log_bytes > 8192)
		return;
	fth_pm_undo_init(&log, &view, copy + 4096 + TX_AT, 0);
	e->sequence = log.sequence;
	if (e->length < 4096)
		e->check = fth_pm_tx_check_(&log, e, (const uint8_t *)(e + 1));
}

/* ---- what must hold ---- */

static int seen(const struct fth_pm_area *area, void *user)
{
	(void)user;
	require(area->damage == 0 || area->text[0], "damage comes with a text");
	return 0;
}

static bool was_inserted(const uint8_t *entry, unsigned count)
{
	uint8_t want[ENTRY];

	for (unsigned i = 0; i < count; i++) {
		fill(want, ENTRY, i);
		if (memcmp(entry, want, ENTRY) == 0)
			return true;
	}
	return false;
}

static void look_at_log(struct fth_pm *pm, uint64_t at, unsigned count, bool fixed)
{
	struct fth_pm_log_info info;
	struct fth_pm_log *log;
	static uint8_t entry[SIZE];

	if (fth_pm_log_open(pm, at, &log) < 0)
		return;
	fth_pm_log_info(log, &info);
	for (uint32_t part = 0; part < info.parts && part < 100; part++) {
		uint64_t cursor = 0;
		int64_t n;

		while ((n = fth_pm_log_read(log, part, &cursor, entry, sizeof entry)) >= 0)
			require(fixed || (n == ENTRY && was_inserted(entry, count)),
				"an entry that is read was inserted");
	}
	fth_pm_log_close(log);
}

static void look_at_checkpoints(struct fth_pm *pm, bool fixed)
{
	static uint8_t buffer[BUFFER], want[BUFFER];
	struct fth_pm_checkpoint *cp;

	if (fth_pm_checkpoint_open(pm, CP_AT, &cp) < 0)
		return;
	if (fth_pm_checkpoint_register(cp, 1, buffer, BUFFER) == 0 &&
	    fth_pm_checkpoint_restore(cp, 1) >= 0 && !fixed) {
		fill(want, BUFFER, (unsigned)fth_pm_checkpoint_version(cp, 1));
		require(memcmp(buffer, want, BUFFER) == 0, "a checkpoint is one that was saved");
	}
	fth_pm_checkpoint_close(cp);
}

static void recover(struct fth_pm *pm)
{
	struct fth_pm_tx *tx;

	if (fth_pm_tx_open(pm, TX_AT, &tx) < 0)
		return;
	fth_pm_tx_close(tx);
	/*
	 * An entry may lie about its place and undo the log itself; whatever it did, there is an
	 * end.
	 */
	if (fth_pm_tx_open(pm, TX_AT, &tx) == 0)
		fth_pm_tx_close(tx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;
	unsigned fix;

	if (!image)
		make_image();
	input = data;
	input_left = size;
	memcpy(copy, image, SIZE);
	fix = byte();
	for (unsigned i = 0; i < CHANGES && input_left; i++)
		change();
	fix_checks(fix);
	options.flags = FTH_PM_READ_ONLY;
	memcpy(before, copy, SIZE);
	if (pm_map_memory(copy, SIZE, &options, &pm) == 0) {
		require_ok(fth_pm_areas(pm, seen, NULL));
		look_at_log(pm, HCL_AT, 60, fix & FIX_AREAS);
		look_at_log(pm, CONV_AT, 40, fix & FIX_AREAS);
		look_at_checkpoints(pm, fix & (FIX_AREAS | FIX_RECORDS));
		fth_pm_unmap(pm);
	}
	require(memcmp(copy, before, SIZE) == 0, "looking changes nothing");
	options.flags = 0;
	if (pm_map_memory(copy, SIZE, &options, &pm) == 0) {
		if (fix & FIX_ENTRY)
			fix_entry(pm);
		recover(pm);
		fth_pm_unmap(pm);
	}
	return 0;
}
