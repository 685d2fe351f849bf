/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs in persistent memory. The input is a list of changes to the image of a small log,
 * hierarchical or conventional. What must hold, whatever was changed:
 *
 *	- opening comes to an end, without a crash, writes nothing, and an error comes with a text;
 *	- a log that opens can be read to the end, and what was not made to match again by this
 *	  target is an entry that was inserted;
 *	- it can be used: an entry is inserted, found and removed.
 *
 * First byte: bit 0, a conventional log; bit 1, the header's checksum is made to hold again. Then
 * changes: where (1 byte: header, epoch, or entries), offset (2 bytes), how (1 byte: set, xor, or
 * an edge value of 4 bytes), value (1 byte).
 */
#include "fuzz_input.h"

#include "fathom/base/error.h"
#include "pm/areas/log_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE	   (64u << 10)
#define ENTRY	   24u
#define CHANGES	   12
#define TIMEOUT_NS 1000000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t images[2][SIZE], before[SIZE];
static uint8_t *memory; /* aligned */
static struct fth_pm_control control;
static struct fth_pm_view view;

/* ---- the images ---- */

static void fill_entry(uint8_t *entry, uint32_t part, uint32_t number)
{
	for (uint32_t i = 0; i < ENTRY; i++)
		entry[i] = (uint8_t)(part * 7 + number * 31 + i);
	memcpy(entry, &part, sizeof(part));
	memcpy(entry + 4, &number, sizeof(number));
}

static void make_image(struct fth_pm_log_header *header, uint8_t *image)
{
	struct fth_pm_log *log;
	uint8_t entry[ENTRY];

	memset(memory, 0, SIZE);
	header->salt = 99;
	require(pm_log_make(&view, 0, header) == 0, "making a log");
	require(pm_log_open_view(&view, 0, &log) == 0, "opening it");
	for (uint32_t part = 0; part < 8; part++)
		for (uint32_t n = 0; n < part % 4; n++) {
			fill_entry(entry, part, n);
			require(fth_pm_log_insert(log, part, entry, ENTRY) == 0, "inserting");
		}
	fth_pm_log_close(log);
	memcpy(image, memory, SIZE);
}

static void make_images(void)
{
	struct fth_pm_log_shape shape = {2, 32, ENTRY, 3};
	struct fth_pm_log_header hcl = {.kind = FTH_PM_LOG_HCL,
					.bytes = fth_pm_log_hcl_bytes(&shape),
					.blocks = 2,
					.threads = 32,
					.entry_bytes = ENTRY,
					.entries = 3};
	struct fth_pm_log_header conv = {.kind = FTH_PM_LOG_CONV,
					 .bytes = fth_pm_log_conv_bytes(8, 512),
					 .partitions = 8,
					 .partition_bytes = 512};

	memory = aligned_alloc(4096, SIZE);
	require(memory, "memory");
	view = (struct fth_pm_view){.base = memory,
				    .size = SIZE,
				    .control = &control,
				    .mode = FTH_PM_MODE_FENCE,
				    .timeout_ns = TIMEOUT_NS};
	make_image(&hcl, images[0]);
	make_image(&conv, images[1]);
}

/* ---- changes ---- */

static void change(void)
{
	static const uint32_t edges[] = {0, 1, 0x7fffffff, 0x80000000u, UINT32_MAX, 0xfffffff8u};
	uint32_t where = byte() % 3, offset = byte() | (uint32_t)byte() << 8;
	uint32_t how = byte() % 3, value = byte();
	uint8_t *at;

	if (where == 0)
		at = memory + offset % sizeof(struct fth_pm_log_header);
	else if (where == 1)
		at = memory + FTH_PM_LOG_EPOCH + offset % 8;
	else
		at = memory + FTH_PM_LOG_DATA + offset % 16384;
	if (how == 0)
		*at = (uint8_t)value;
	else if (how == 1)
		*at ^= (uint8_t)value;
	else
		memcpy(memory + (at - memory) / 4 * 4, &edges[value % 6], 4);
}

/* ---- what must hold ---- */

/* An entry that is found was inserted. */
static void check_entry(const uint8_t *found, int64_t bytes, uint32_t part)
{
	uint8_t expected[ENTRY];
	uint32_t number;

	require(bytes == ENTRY, "the size of an entry");
	memcpy(&number, found + 4, sizeof(number));
	fill_entry(expected, part, number);
	require(number < part % 4 && memcmp(found, expected, ENTRY) == 0, "an entry was inserted");
}

static void read_all(struct fth_pm_log *log, bool genuine)
{
	static uint8_t entry[FTH_PM_LOG_ENTRY_MAX + SIZE];
	struct fth_pm_log_info info;

	fth_pm_log_info(log, &info);
	for (uint32_t part = 0; part < info.parts; part++) {
		uint64_t cursor = 0;
		int64_t bytes;

		while ((bytes = fth_pm_log_read(log, part, &cursor, entry, sizeof(entry))) >= 0)
			if (genuine)
				check_entry(entry, bytes, part);
		require(bytes == -ENOENT, "reading ends behind the newest entry");
	}
}

static void use_log(struct fth_pm_log *log)
{
	uint8_t entry[FTH_PM_LOG_ENTRY_MAX] = {7};
	uint32_t count = fth_pm_log_count(log, 1), after;
	struct fth_pm_log_info info;
	bool hcl;
	int rc;

	fth_pm_log_info(log, &info);
	hcl = info.kind == FTH_PM_LOG_HCL;
	rc = fth_pm_log_insert(log, 1, entry, hcl ? info.shape.entry_bytes : ENTRY);
	if (rc == -ENOSPC || rc == -EINVAL)
		return;
	require(rc == 0, "inserting");
	require(fth_pm_log_rescan(log) == 0, "looking for entries again");
	after = fth_pm_log_count(log, 1);
	/* Behind an entry of a partition whose length is damaged there may be others. */
	require(hcl ? after == count + 1 : after > count, "one more entry");
	require(fth_pm_log_remove(log, 1) == 0, "removing");
	require(fth_pm_log_count(log, 1) == after - 1, "one less entry");
	require(fth_pm_log_clear(log) == 0, "clearing");
	require(fth_pm_log_count(log, 1) == 0, "no entry is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_pm_log_header *header;
	struct fth_pm_log *log;
	uint32_t first;
	int rc;

	if (!memory)
		make_images();
	input = data;
	input_left = size;
	first = byte();
	memcpy(memory, images[first & 1], SIZE);
	for (unsigned i = 0; i < CHANGES && input_left > 0; i++)
		change();
	header = (struct fth_pm_log_header *)(void *)memory;
	if (first & 2)
		header->check = pm_log_header_sum(header);
	memcpy(before, memory, SIZE);
	rc = pm_log_open_view(&view, 0, &log);
	require(memcmp(before, memory, SIZE) == 0, "opening writes nothing");
	if (rc < 0) {
		require(*fth_error_text(rc), "an error has a text");
		return 0;
	}
	/* With another header, the salt included, all bytes mean something else. */
	read_all(log, memcmp(header, images[first & 1], sizeof(*header)) == 0);
	use_log(log);
	fth_pm_log_close(log);
	return 0;
}
