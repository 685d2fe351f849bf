/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The journal of names. The input is a list of changes to a journal with a few creates, renames and
 * removes in it. What must hold, whatever was changed:
 *
 *	- opening ends without a crash, and an error comes with a text;
 *	- unless checks were made to hold again, the names are those after some operation, and no
 *	  others;
 *	- likewise, a journal that opens takes operations, and opens again with the same names.
 *
 * First byte: bit 0, make checks of headers hold again; bit 1, those of entries. Then changes:
 * where (1 byte: 0 headers, 1 and 2 the halves), offset (2 bytes), how (1 byte: set, xor, add, or a
 * 64-bit edge value), value (1 byte).
 */
#include "fuzz_input.h"

#include "workloads/names/names.h"
#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define SIZE	    (64u << 10)
#define HALF	    (28u << 10)
#define HALVES_AT   8192u
#define OPERATIONS  40u
#define CHANGES	    12
#define HEADER_SEED 0x6e616d65732d6864u
#define ENTRY_SEED  0x6e616d65732d656eu

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fth_dev *dev;
static uint8_t *image, *copy;
static uint64_t counts[OPERATIONS + 1]; /* names after so many operations */

static void require_ok(int rc)
{
	require(rc == 0, fth_error_text(rc));
}

static void name_of(char name[32], unsigned i)
{
	snprintf(name, 32, "name-%u-%.*s", i, (int)(i % 9), "longlonglong");
}

/* Operation i: mostly creates; every fourth a rename, every seventh a remove, of an older name. */
static void operate(struct fth_names *names, unsigned i)
{
	char name[32], other[32];

	name_of(name, i);
	if (i % 4 == 3) {
		name_of(other, i - 2);
		require_ok(fth_names_rename(names, other, name));
	} else if (i % 8 == 6) {
		name_of(other, i - 2);
		require_ok(fth_names_remove(names, other));
	} else {
		require_ok(fth_names_create(names, name, NULL));
	}
}

static int open_names(struct fth_durable **durable, struct fth_names **names)
{
	int rc;

	require_ok(fth_durable_open_blocks(dev, durable));
	rc = fth_names_open(*durable, names);
	if (rc < 0)
		fth_durable_close(*durable);
	return rc;
}

static void close_names(struct fth_durable *durable, struct fth_names *names)
{
	fth_names_close(names);
	fth_durable_close(durable);
}

static void make_journal(void)
{
	struct fth_durable *durable;
	struct fth_names *names;

	image = aligned_alloc(4096, SIZE);
	copy = aligned_alloc(4096, SIZE);
	require(image && copy, "there is memory");
	require_ok(fth_dev_open("mem:64K", &dev));
	require_ok(open_names(&durable, &names));
	for (unsigned i = 0; i < OPERATIONS; i++) {
		operate(names, i);
		counts[i + 1] = fth_names_count(names);
	}
	close_names(durable, names);
	require_ok(fth_dev_read(dev, image, SIZE, 0, FTH_DEV_TIMEOUT));
}

/* ---- changes ---- */

static void change(void)
{
	static const uint64_t edges[] = {
		0, 1, UINT32_MAX, UINT64_MAX, INT64_MAX, UINT64_MAX - 1, HALF, SIZE};
	unsigned where = byte() % 3;
	uint32_t offset = (uint32_t)byte() | (uint32_t)byte() << 8;
	uint8_t how = byte() % 4, value = byte();
	uint8_t *at = where == 0 ? copy + offset / 64 % 2 * 4096 + offset % 48
				 : copy + HALVES_AT + (where - 1) * HALF + offset % 4096;

	if (how == 0)
		*at = value;
	else if (how == 1)
		*at ^= value;
	else if (how == 2)
		*at += value;
	else
		memcpy(copy + (size_t)(at - copy) / 8 * 8, &edges[value % 8], 8);
}

static uint64_t load64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void store64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* A header: magic, sum, and 32 bytes that it covers. */
static void seal_headers(void)
{
	for (unsigned slot = 0; slot < 2; slot++)
		store64(copy + slot * 4096 + 8,
			fth_checksum(copy + slot * 4096 + 16, 32, HEADER_SEED));
}

/* An entry: sum, generation, sequence, inode, operation, two lengths, five bytes, two names. */
static void seal_entries(void)
{
	for (unsigned half = 0; half < 2; half++)
		for (uint64_t at = HALVES_AT + half * HALF, end = at + HALF; at + 40 <= end;) {
			uint64_t length = (40u + copy[at + 33] + copy[at + 34] + 7) / 8 * 8;

			if (load64(copy + at + 8) == 0 || length > end - at)
				break;
			store64(copy + at, fth_checksum(copy + at + 8, length - 8, ENTRY_SEED));
			at += length;
		}
}

/* ---- what must hold ---- */

static void check_known(struct fth_names *names)
{
	uint64_t operations = fth_names_operations(names);

	require(operations <= OPERATIONS, "no operation is invented");
	require(fth_names_count(names) == counts[operations], "as many names as there were then");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_durable *durable;
	struct fth_names *names;
	uint64_t count;
	uint8_t mode;
	int rc;

	if (!image)
		make_journal();
	input = data;
	input_left = size;
	mode = byte();
	memcpy(copy, image, SIZE);
	for (unsigned i = 0; i < CHANGES && input_left > 0; i++)
		change();
	if (mode & 1)
		seal_headers();
	if (mode & 2)
		seal_entries();
	require_ok(fth_dev_write(dev, copy, SIZE, 0, FTH_DEV_TIMEOUT));
	rc = open_names(&durable, &names);
	if (rc < 0) {
		require(fth_error_text(rc)[0], "an error has a text");
		return 0;
	}
	if (!(mode & 3))
		check_known(names);
	rc = fth_names_create(names, "one more", NULL);
	require(rc == 0 || (mode & 3), "it takes operations");
	count = fth_names_count(names);
	close_names(durable, names);
	rc = open_names(&durable, &names);
	require(rc == 0 || mode & 3, "it opens again");
	if (rc < 0)
		return 0;
	require(fth_names_count(names) == count || mode & 3, "with the same names");
	close_names(durable, names);
	return 0;
}
