/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of persistent ranges. A region was made with a few records in its log that are not in
 * place. The input is a list of changes to the log, on blocks. What must hold, whatever was
 * changed:
 *
 *	- opening the region, with and without its log, never crashes, and an error comes with a
 *	  text;
 *	- the region is not changed by opening that fails;
 *	- unless checks were made to hold again, each record is in place as it was, or not at all,
 *	  and if one is not, none behind it is;
 *	- a second opening changes nothing, unless headers were forged.
 *
 * First byte: bit 0, make checks of headers hold again; bit 1, those of records. Then changes:
 * where (1 byte: 0 headers, else records), offset (2 bytes), how (1 byte: set, xor, add, or a
 * 64-bit edge value), value (1 byte).
 */
#include "fuzz_input.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/flat.h"
#include "flat/durable/persist_log.h"

#include <errno.h>
#include <string.h>

#define SIZE	    (384u << 10)
#define LOG_BYTES   (64u << 10)
#define REGION	    (SIZE - LOG_BYTES)
#define BUDGET	    (256u << 10)
#define HEADERS_AT  (SIZE - 2 * LOG_SLOT)
#define RECORDS	    12u
#define STEP	    5000u /* from one record's place in the region to the next */
#define LENGTH	    300u
#define CHANGES	    12
#define HEADER_SEED 0x666c61742d6c6f67u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fth_dev *dev;
static uint8_t *image, *copy, *seen;
static bool unavailable;

static void require_ok(int rc)
{
	require(rc == 0, fth_error_text(rc));
}

static int open_region(uint64_t log, struct fth_flat **out)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;

	options.log = log;
	options.foreground = true;
	return fth_flat_open_dev(dev, BUDGET, &options, out);
}

static void put(const uint8_t *bytes)
{
	require_ok(fth_dev_write(dev, bytes, SIZE, 0, FTH_DEV_TIMEOUT));
}

static void get(uint8_t *bytes)
{
	require_ok(fth_dev_read(dev, bytes, SIZE, 0, FTH_DEV_TIMEOUT));
}

/* Records for bytes that are not in place: a discard leaves them in the log. */
static void make_region(void)
{
	struct fth_flat *flat;
	int rc;

	image = aligned_alloc(4096, SIZE);
	copy = aligned_alloc(4096, SIZE);
	seen = aligned_alloc(4096, SIZE);
	require(image && copy && seen, "there is memory");
	require_ok(fth_dev_open("mem:384K", &dev));
	rc = open_region(LOG_BYTES, &flat);
	if (rc == -ENOTSUP) {
		unavailable = true;
		return;
	}
	require_ok(rc);
	require(fth_flat_persistent(flat, fth_flat_base(flat), REGION) >= 0, "it has a log");
	for (unsigned i = 0; i < RECORDS; i++) {
		uint8_t bytes[LENGTH], *at = (uint8_t *)fth_flat_base(flat) + i * STEP;

		memset(bytes, (int)i + 1, sizeof(bytes));
		require_ok(fth_flat_store(flat, at, bytes, sizeof(bytes)));
		require(fth_flat_persist(at, sizeof(bytes)) >= 0, "a record can be made");
	}
	fth_flat_discard(flat);
	get(image);
}

/* ---- changes ---- */

static void change(void)
{
	static const uint64_t edges[] = {
		0,	    1,	    UINT32_MAX,	     UINT64_MAX, INT64_MAX,
		LOG_BYTES,  REGION, UINT64_MAX - 63, 4096,	 LOG_BYTES - 2 * LOG_SLOT,
		SIZE - 8192};
	bool header = byte() == 0;
	uint32_t offset = (uint32_t)byte() | (uint32_t)byte() << 8;
	uint8_t how = byte() % 4, value = byte();
	uint8_t *at = header ? copy + HEADERS_AT + offset / 128 % 2 * LOG_SLOT +
				       offset % sizeof(struct log_header)
			     : copy + REGION + offset % (LOG_BYTES - 2 * LOG_SLOT);

	if (how == 0)
		*at = value;
	else if (how == 1)
		*at ^= value;
	else if (how == 2)
		*at += value;
	else
		memcpy(copy + (size_t)(at - copy) / 8 * 8, &edges[value % 11], 8);
}

static void seal_headers(void)
{
	for (unsigned slot = 0; slot < 2; slot++) {
		struct log_header *h =
			(struct log_header *)(void *)(copy + HEADERS_AT + slot * LOG_SLOT);

		h->sum = fth_checksum(&h->generation,
				      sizeof(*h) - offsetof(struct log_header, generation),
				      HEADER_SEED);
	}
}

/* Records begin at multiples of 512 here: each was written alone. */
static void seal_records(uint64_t id)
{
	struct flat_log log = {.id = id};

	for (uint64_t at = REGION; at + 512 <= HEADERS_AT; at += 512) {
		struct log_record *r = (struct log_record *)(void *)(copy + at);

		if (r->length > 0 && r->length <= LOG_PIECE &&
		    r->length <= HEADERS_AT - at - sizeof(*r))
			r->sum = log_record_sum(&log, r);
	}
}

static uint64_t newest_id(void)
{
	const struct log_header *h = (const void *)(copy + HEADERS_AT);
	const struct log_header *other = (const void *)(copy + HEADERS_AT + LOG_SLOT);

	return other->magic == h->magic && other->generation > h->generation ? other->id : h->id;
}

/* ---- what must hold ---- */

static bool is_all(const uint8_t *at, uint8_t value)
{
	for (unsigned i = 0; i < LENGTH; i++)
		if (at[i] != value)
			return false;
	return true;
}

static void check_records(void)
{
	bool ended = false;

	for (unsigned i = 0; i < RECORDS; i++) {
		const uint8_t *at = seen + i * STEP;
		bool there = is_all(at, (uint8_t)(i + 1));

		require(there || is_all(at, 0), "a record is in place as a whole, or not at all");
		require(!there || !ended, "no record is in place behind one that is not");
		ended |= !there;
	}
}

static bool use_region(uint64_t log)
{
	struct fth_flat *flat;
	int rc = open_region(log, &flat);

	if (rc == 0)
		fth_flat_discard(flat);
	else
		require(fth_error_text(rc)[0], "an error has a text");
	return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mode;

	if (!image)
		make_region();
	if (unavailable)
		return 0;
	input = data;
	input_left = size;
	mode = byte();
	memcpy(copy, image, SIZE);
	for (unsigned i = 0; i < CHANGES && input_left > 0; i++)
		change();
	if (mode & 1)
		seal_headers();
	if (mode & 2)
		seal_records(newest_id());
	put(copy);
	(void)use_region(0); /* without its log */
	get(seen);
	require(memcmp(seen, copy, SIZE) == 0, "without its log nothing is changed");
	if (!use_region(LOG_BYTES)) {
		get(seen);
		require(memcmp(seen, copy, REGION) == 0, "what is refused is not changed");
		return 0;
	}
	get(seen);
	if (!(mode & 3))
		check_records();
	memcpy(copy, seen, SIZE);
	require(use_region(LOG_BYTES) || mode & 3, "it opens again");
	get(seen);
	require(mode & 1 || memcmp(seen, copy, REGION) == 0, "and there is nothing left to do");
	return 0;
}
