/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries and the catalog in memory. Sibling: catalog_media.c, its form on the media. */
#include "vol/catalog/catalog.h"

#include "base/utf8.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

int vol_name_check(const char *name, size_t bytes)
{
	if (bytes == 0)
		return fth_fail(EINVAL, "the name of an object is empty");
	if (bytes > FTH_VOL_NAME_MAX)
		return fth_fail(EINVAL, "the name has %zu bytes, the limit is %u", bytes,
				FTH_VOL_NAME_MAX);
	for (size_t i = 0; i < bytes;) {
		unsigned n = utf8_length(name + i, bytes - i);

		if (n == 0)
			return fth_fail(EINVAL, "the name is not valid UTF-8");
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return fth_fail(EINVAL, "the name contains a control character");
		i += n;
	}
	return 0;
}

/* ---- entries ---- */

struct vol_entry *vol_entry_new(uint32_t width, uint32_t replicas, uint32_t segments)
{
	struct vol_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->width = width;
	entry->replicas = replicas;
	entry->segments = segments;
	entry->rows = calloc(segments + 1, sizeof(entry->rows[0]));
	entry->at = calloc((size_t)segments * vol_strands(entry) + 1, sizeof(entry->at[0]));
	if (entry->rows && entry->at)
		return entry;
	vol_entry_free(entry);
	return NULL;
}

struct vol_entry *vol_entry_clone(const struct vol_entry *entry)
{
	struct vol_entry *copy = vol_entry_new(entry->width, entry->replicas, entry->segments);
	uint64_t *rows, *at;

	if (!copy)
		return NULL;
	rows = copy->rows;
	at = copy->at;
	memcpy(rows, entry->rows, entry->segments * sizeof(rows[0]));
	memcpy(at, entry->at, (size_t)entry->segments * vol_strands(entry) * sizeof(at[0]));
	*copy = *entry;
	copy->rows = rows;
	copy->at = at;
	return copy;
}

void vol_entry_free(struct vol_entry *entry)
{
	if (!entry)
		return;
	free(entry->rows);
	free(entry->at);
	free(entry);
}

uint64_t *vol_entry_add_segment(struct vol_entry *entry)
{
	unsigned strands = vol_strands(entry);
	uint64_t *rows = realloc(entry->rows, (entry->segments + 1) * sizeof(rows[0])), *at;

	if (!rows)
		return NULL;
	entry->rows = rows;
	at = realloc(entry->at, (size_t)(entry->segments + 1) * strands * sizeof(at[0]));
	if (!at)
		return NULL;
	entry->at = at;
	rows[entry->segments] = 0;
	memset(at + (size_t)entry->segments * strands, 0, strands * sizeof(at[0]));
	return at + (size_t)entry->segments++ * strands;
}

uint64_t vol_rows_needed(const struct vol_entry *entry, uint64_t size)
{
	uint64_t row = (uint64_t)entry->unit * entry->width;

	return size / row + (size % row != 0);
}

uint64_t vol_rows_held(const struct vol_entry *entry)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < entry->segments; i++)
		sum += entry->rows[i];
	return sum;
}

bool vol_entry_survives(const struct vol_entry *entry, uint64_t gone, unsigned devices)
{
	for (unsigned column = 0; column < entry->width; column++) {
		unsigned good = 0;

		for (unsigned r = 0; r < entry->replicas; r++) {
			unsigned strand = column * entry->replicas + r;

			good += !(gone >> vol_strand_device(entry, strand, devices) & 1);
		}
		if (good == 0)
			return false;
	}
	return true;
}

/* ---- the catalog ---- */

struct vol_entry *vol_catalog_find(const struct vol_catalog *cat, const char *name, unsigned *at)
{
	unsigned low = 0, high = cat->count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		int order = strcmp(cat->entries[middle]->name, name);

		if (order == 0) {
			if (at)
				*at = middle;
			return cat->entries[middle];
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (at)
		*at = low;
	return NULL;
}

int vol_catalog_change(const struct vol_catalog *cat, const struct vol_entry *drop,
		       struct vol_entry *add, struct vol_catalog *out)
{
	struct vol_entry **entries = calloc(cat->count + 2, sizeof(*entries));
	unsigned n = 0, at;

	if (!entries)
		return -ENOMEM;
	*out = *cat;
	for (unsigned i = 0; i < cat->count; i++)
		if (cat->entries[i] != drop)
			entries[n++] = cat->entries[i];
	out->entries = entries;
	out->count = n;
	if (add) {
		(void)vol_catalog_find(out, add->name, &at);
		memmove(entries + at + 1, entries + at, (n - at) * sizeof(*entries));
		entries[at] = add;
		out->count++;
	}
	return 0;
}

void vol_catalog_forget(struct vol_catalog *cat)
{
	free(cat->entries);
	cat->entries = NULL;
	cat->count = 0;
}

void vol_catalog_release(struct vol_catalog *cat)
{
	for (unsigned i = 0; i < cat->count; i++)
		vol_entry_free(cat->entries[i]);
	vol_catalog_forget(cat);
}
