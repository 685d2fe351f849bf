/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Write-ahead logs in persistent memory. The input is a list of changes to the image of a small log
 * whose entries go over the end of the ring. What must hold, whatever was changed:
 *
 *	- opening comes to an end, without a crash, and an error comes with a text; without a new
 *	  session it writes nothing;
 *	- a log that opens can be read to the end, and its entries are some that were appended, behind each other;
 *	- it can be used: an entry is appended, found and trimmed.
 *
 * First byte: bit 0, the checks of the records are made to hold again; bit 1, that of the header.
 * Then changes: where (1 byte: header, records, or ring), offset (2 bytes), how (1 byte: set, xor,
 * or an edge value of 8 bytes), value (1 byte).
 */
#include "fuzz_input.h"

#include "fathom/base/error.h"
#include "pm/areas/wal_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE	 (16u << 10)
#define CAPACITY 4096u
#define ENTRY	 56u
#define ENTRIES	 70u /* of which the first 20 were trimmed */
#define TRIMMED	 20u
#define CHANGES	 12

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t image[SIZE], before[SIZE];
static uint8_t *memory; /* aligned */
static struct fth_pm_control control;
static struct fth_pm_view view;

/* ---- the image ---- */

static void fill_entry(uint8_t *entry, uint64_t number)
{
	for (uint32_t i = 0; i < ENTRY; i++)
		entry[i] = (uint8_t)(number * 31 + i);
	memcpy(entry, &number, sizeof(number));
}

static void make_image(void)
{
	struct fth_pm_wal *wal;
	uint8_t entry[ENTRY];

	memory = aligned_alloc(4096, SIZE);
	require(memory, "memory");
	memset(memory, 0, SIZE);
	view = (struct fth_pm_view){.base = memory,
				    .size = SIZE,
				    .control = &control,
				    .mode = FTH_PM_MODE_FENCE,
				    .timeout_ns = 1000000000u};
	require(pm_wal_make(&view, 0, CAPACITY, 99) == 0, "making a log");
	require(pm_wal_open_view(&view, 0, true, &wal) == 0, "opening it");
	for (uint64_t n = 0; n < ENTRIES; n++) {
		fill_entry(entry, n);
		require(fth_pm_wal_append(wal, entry, ENTRY, NULL) == 0, "appending");
		if (n == TRIMMED)
			require(fth_pm_wal_trim(wal, wal->tail - ENTRY - FTH_PM_WAL_ENTRY) == 0,
				"trimming");
	}
	fth_pm_wal_close(wal);
	memcpy(image, memory, SIZE);
}

/* ---- changes ---- */

static void change(void)
{
	static const uint64_t edges[] = {0,	     1,		WAL_LENGTH_MAX, CAPACITY,
					 UINT32_MAX, INT64_MAX, UINT64_MAX,	2 * CAPACITY};
	uint32_t where = byte() % 3, offset = byte() | (uint32_t)byte() << 8;
	uint32_t how = byte() % 3, value = byte();
	uint8_t *at;

	if (where == 0)
		at = memory + offset % sizeof(struct wal_header);
	else if (where == 1)
		at = memory + WAL_RECORD + offset % (2 * WAL_RECORD);
	else
		at = memory + WAL_DATA + offset % CAPACITY;
	if (how == 0)
		*at = (uint8_t)value;
	else if (how == 1)
		*at ^= (uint8_t)value;
	else
		memcpy(memory + (at - memory) / 8 * 8, &edges[value % 8], 8);
}

/* An attacker who knows the salt. */
static void mend_records(void)
{
	struct wal_header header;
	struct fth_pm_wal wal = {0};

	memcpy(&header, memory, sizeof(header));
	wal.salt = header.salt;
	for (unsigned slot = 1; slot < 3; slot++) {
		struct wal_record record;

		memcpy(&record, memory + slot * WAL_RECORD, sizeof(record));
		record.check = pm_wal_record_sum(&wal, &record);
		memcpy(memory + slot * WAL_RECORD, &record, sizeof(record));
	}
}

static void mend_header(void)
{
	struct wal_header header;

	memcpy(&header, memory, sizeof(header));
	header.check = pm_wal_header_sum(&header);
	memcpy(memory, &header, sizeof(header));
}

/* ---- what must hold ---- */

static void read_all(struct fth_pm_wal *wal)
{
	uint8_t entry[SIZE], expected[ENTRY];
	uint64_t cursor = 0, number, last = 0;
	int64_t bytes;

	while ((bytes = fth_pm_wal_read(wal, &cursor, entry, sizeof(entry))) >= 0) {
		require(bytes == ENTRY, "the size of an entry");
		memcpy(&number, entry, sizeof(number));
		fill_entry(expected, number);
		require(number < ENTRIES && memcmp(entry, expected, ENTRY) == 0,
			"an entry was appended");
		require(last == 0 || number == last + 1, "entries are behind each other");
		last = number;
	}
	require(bytes == -ENOENT, "reading ends behind the newest entry");
}

static void use_wal(struct fth_pm_wal *wal, bool genuine)
{
	uint8_t entry[ENTRY] = {7}, found[ENTRY];
	uint64_t number, cursor;
	int rc = fth_pm_wal_append(wal, entry, ENTRY, &number);

	if (rc == -ENOSPC) {
		fth_pm_wal_close(wal);
		return;
	}
	require(rc == 0 && fth_pm_wal_wait(wal, number) == 0, "appending");
	cursor = number;
	require(fth_pm_wal_read(wal, &cursor, found, ENTRY) == ENTRY, "reading it");
	require(memcmp(entry, found, ENTRY) == 0, "the same bytes");
	require(fth_pm_wal_trim(wal, cursor) == 0, "trimming");
	fth_pm_wal_close(wal);
	rc = pm_wal_open_view(&view, 0, true, &wal);
	cursor = 0;
	/* A forged record makes entries of an old session count as those of the new one. */
	require(!genuine || rc == 0, "opening again");
	require(!genuine || fth_pm_wal_read(wal, &cursor, found, ENTRY) == -ENOENT,
		"nothing is left");
	fth_pm_wal_close(wal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_pm_wal *wal;
	uint32_t first;
	int rc;

	if (!memory)
		make_image();
	input = data;
	input_left = size;
	first = byte();
	memcpy(memory, image, SIZE);
	for (unsigned i = 0; i < CHANGES && input_left > 0; i++)
		change();
	if (first & 1)
		mend_records();
	if (first & 2)
		mend_header();
	memcpy(before, memory, SIZE);
	rc = pm_wal_open_view(&view, 0, false, &wal);
	require(memcmp(before, memory, SIZE) == 0, "opening for reading writes nothing");
	if (rc < 0) {
		require(*fth_error_text(rc), "an error has a text");
		return 0;
	}
	read_all(wal);
	fth_pm_wal_close(wal);
	rc = pm_wal_open_view(&view, 0, true, &wal);
	require(rc == 0 || rc == -EOVERFLOW, "opening for writing");
	if (rc == 0)
		use_wal(wal, !(first & 1));
	return 0;
}
