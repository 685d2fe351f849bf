/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where new bytes go: first fit, in segments as long as can be.
 *
 * The free space of a device is what no entry uses, neither of the catalog nor of an object that is
 * not committed yet or being resized. It is computed anew each time: allocating is rare, and there
 * is nothing on the media, and nothing in memory, that could disagree with the extents.
 */
#include "vol/open_object.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gap {
	uint64_t start, end;
};

/* The used, later the free, parts of one device. */
struct gaps {
	struct gap *list;
	size_t count, room;
	unsigned wanted; /* strands of a segment that this device is to hold */
};

static int add(struct gaps *gaps, uint64_t start, uint64_t end)
{
	if (gaps->count == gaps->room) {
		size_t room = gaps->room ? 2 * gaps->room : 16;
		struct gap *grown = realloc(gaps->list, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		gaps->list = grown;
		gaps->room = room;
	}
	gaps->list[gaps->count++] = (struct gap){start, end};
	return 0;
}

static int add_entry(struct fth_vol *vol, struct gaps *used, const struct vol_entry *entry)
{
	unsigned strands = vol_strands(entry);
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < (size_t)entry->segments * strands; k++) {
		unsigned device = vol_strand_device(entry, (unsigned)(k % strands), vol->count);
		uint64_t bytes = vol_rows_bytes(entry, entry->rows[k / strands]);

		rc = add(&used[device], entry->at[k], entry->at[k] + bytes);
	}
	return rc;
}

static int by_start(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* From what is used to what is free, in place: between two used parts lies one free one. */
static int invert(struct gaps *gaps, uint64_t start, uint64_t end)
{
	uint64_t at = start;
	size_t n = 0, used = gaps->count;
	int rc = add(gaps, end, end);

	if (rc < 0)
		return rc;
	qsort(gaps->list, used, sizeof(gaps->list[0]), by_start);
	for (size_t i = 0; i <= used; i++) {
		struct gap next = gaps->list[i];

		if (next.start > at)
			gaps->list[n++] = (struct gap){at, next.start};
		if (next.end > at)
			at = next.end;
	}
	gaps->count = n;
	return 0;
}

static void release(struct gaps *gaps, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		free(gaps[i].list);
}

/* The free space of every device, with what `growing` has got so far taken off. */
static int find_gaps(struct fth_vol *vol, const struct vol_entry *growing, struct gaps *gaps)
{
	int rc = 0;

	memset(gaps, 0, vol->count * sizeof(*gaps));
	for (unsigned i = 0; rc == 0 && i < vol->cat.count; i++)
		rc = add_entry(vol, gaps, vol->cat.entries[i]);
	for (struct vol_object *o = vol->objects; rc == 0 && o; o = o->next)
		if (o->pending)
			rc = add_entry(vol, gaps, o->entry);
	if (rc == 0 && growing)
		rc = add_entry(vol, gaps, growing);
	for (unsigned i = 0; rc == 0 && i < vol->count; i++)
		rc = invert(&gaps[i], vol->space.device[i].start, vol->space.device[i].end);
	if (rc < 0)
		release(gaps, vol->count);
	return rc;
}

/* Do all strands of a segment fit when each takes `bytes`? More never fit better. */
static bool fits(const struct fth_vol *vol, const struct gaps *gaps, uint64_t bytes)
{
	for (unsigned i = 0; i < vol->count; i++) {
		uint64_t places = 0;

		for (size_t g = 0; places < gaps[i].wanted && g < gaps[i].count; g++)
			places += (gaps[i].list[g].end - gaps[i].list[g].start) / bytes;
		if (places < gaps[i].wanted)
			return false;
	}
	return true;
}

/* The most rows, up to `rows`, that fit as one segment; 0: not even one. */
static uint64_t most_rows(const struct fth_vol *vol, const struct gaps *gaps,
			  const struct vol_entry *entry, uint64_t rows)
{
	uint64_t low = 0, high = rows;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (fits(vol, gaps, vol_rows_bytes(entry, middle)))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* The first place for so many bytes; there is one. */
static uint64_t take(struct gaps *gaps, uint64_t bytes)
{
	for (size_t g = 0; g < gaps->count; g++) {
		struct gap *gap = &gaps->list[g];

		if (gap->end - gap->start >= bytes) {
			gap->start += bytes;
			return gap->start - bytes;
		}
	}
	return 0;
}

static int append(struct fth_vol *vol, struct gaps *gaps, struct vol_entry *entry, uint64_t rows)
{
	uint64_t *at = vol_entry_add_segment(entry), bytes = vol_rows_bytes(entry, rows);

	if (!at)
		return -ENOMEM;
	entry->rows[entry->segments - 1] = rows;
	for (unsigned s = 0; s < vol_strands(entry); s++)
		at[s] = take(&gaps[vol_strand_device(entry, s, vol->count)], bytes);
	return 0;
}

int vol_allocate(struct fth_vol *vol, struct vol_entry *entry, uint64_t rows)
{
	struct gaps gaps[FTH_VOL_DEVICES_MAX];
	uint64_t held = vol_rows_held(entry);
	/* No device has more, and rows * unit stays far from overflow. */
	uint64_t limit = ((uint64_t)1 << 54) / entry->unit;
	int rc = rows > limit ? fth_fail(ENOSPC, "%llu stripe rows exceed the limit of a volume",
					 (unsigned long long)rows)
			      : 0;

	if (rc == 0)
		rc = find_gaps(vol, entry, gaps);
	if (rc < 0)
		return rc;
	for (unsigned s = 0; s < vol_strands(entry); s++)
		gaps[vol_strand_device(entry, s, vol->count)].wanted++;
	while (rc == 0 && held < rows) {
		uint64_t n = most_rows(vol, gaps, entry, rows - held);

		if (n == 0)
			rc = fth_fail(ENOSPC, "the volume is full: no space for %llu more bytes",
				      (unsigned long long)((rows - held) * entry->unit *
							   vol_strands(entry)));
		else
			rc = append(vol, gaps, entry, n);
		held += n;
	}
	release(gaps, vol->count);
	return rc;
}

uint64_t vol_free_bytes(struct fth_vol *vol)
{
	struct gaps gaps[FTH_VOL_DEVICES_MAX];
	uint64_t sum = 0;

	if (find_gaps(vol, NULL, gaps) < 0)
		return 0;
	for (unsigned i = 0; i < vol->count; i++)
		for (size_t g = 0; g < gaps[i].count; g++)
			sum += gaps[i].list[g].end - gaps[i].list[g].start;
	release(gaps, vol->count);
	return sum;
}
