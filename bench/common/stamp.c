/* SPDX-License-Identifier: BSD-2-Clause */
#include "stamp.h"

#include "fathom/base/rng.h"

#include <string.h>

#define WORDS (FTH_STAMP_SECTOR / sizeof(uint64_t))
#define FIRST (sizeof(struct fth_stamp) / sizeof(uint64_t)) /* word of a sector's body */

_Static_assert(sizeof(struct fth_stamp) == 16, "a stamp has no holes");

static char *sector(const void *buf, unsigned index)
{
	return (char *)(uintptr_t)buf + index * FTH_STAMP_SECTOR;
}

static uint64_t body_word(uint32_t body, unsigned index, unsigned word)
{
	return fth_mix64(((uint64_t)body << 32 | index << 16 | word) + 1);
}

void fth_stamp_renew(void *buf, const struct fth_stamp *stamp)
{
	for (unsigned i = 0; i < FTH_STAMP_SECTORS; i++)
		memcpy(sector(buf, i), stamp, sizeof(*stamp));
}

void fth_stamp_fill(void *buf, const struct fth_stamp *stamp)
{
	for (unsigned i = 0; i < FTH_STAMP_SECTORS; i++) {
		uint64_t *words = (uint64_t *)sector(buf, i);

		for (unsigned j = FIRST; j < WORDS; j++)
			words[j] = body_word(stamp->body, i, j);
	}
	fth_stamp_renew(buf, stamp);
}

static void read_stamp(const void *buf, unsigned index, struct fth_stamp *stamp)
{
	memcpy(stamp, sector(buf, index), sizeof(*stamp));
}

void fth_stamp_spoil(void *buf)
{
	static const struct fth_stamp nowhere = {.address = UINT64_MAX};

	memcpy(sector(buf, 0), &nowhere, sizeof(nowhere));
	memcpy(sector(buf, FTH_STAMP_SECTORS - 1), &nowhere, sizeof(nowhere));
}

static bool stamp_matches(const struct fth_stamp *stamp, uint64_t address, uint32_t generation)
{
	return stamp->address == address && stamp->generation == generation;
}

bool fth_stamp_ends_match(const void *buf, uint64_t address, uint32_t generation)
{
	struct fth_stamp first, last;

	read_stamp(buf, 0, &first);
	read_stamp(buf, FTH_STAMP_SECTORS - 1, &last);
	return stamp_matches(&first, address, generation) && first.body == last.body &&
	       stamp_matches(&last, address, generation);
}

bool fth_stamp_matches(const void *buf, uint64_t address, uint32_t generation)
{
	struct fth_stamp first, stamp;

	read_stamp(buf, 0, &first);
	for (unsigned i = 0; i < FTH_STAMP_SECTORS; i++) {
		const uint64_t *words = (const uint64_t *)sector(buf, i);

		read_stamp(buf, i, &stamp);
		if (!stamp_matches(&stamp, address, generation) || stamp.body != first.body)
			return false;
		for (unsigned j = FIRST; j < WORDS; j++)
			if (words[j] != body_word(stamp.body, i, j))
				return false;
	}
	return true;
}
