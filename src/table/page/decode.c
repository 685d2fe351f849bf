/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/page/decode.h"

#include "table/page/page.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void decoded_release(struct decoded *d)
{
	free(d->ints);
	free(d->wides);
	free(d->offsets);
	free(d->bytes);
	free(d->nulls);
	*d = (struct decoded){0};
}

/* Strings of codes, from either dictionary. */
static int expand_codes(const struct fth_table_page *page, const uint32_t *codes, struct decoded *d)
{
	struct fth_table_strings s;
	uint64_t bytes = 0;

	if (page->chunk->encoding == FTH_TABLE_LOCAL)
		fth_table_page_dictionary(page, &s);
	else
		fth_table_dictionary(page->table, page->column, &s);
	for (uint32_t i = 0; i < d->rows; i++)
		bytes += decoded_null(d, i) ? 0 : s.offsets[codes[i] + 1] - s.offsets[codes[i]];
	d->bytes = bytes <= UINT32_MAX ? malloc(bytes + 1) : NULL;
	if (!d->bytes)
		return -ENOMEM;
	d->offsets[0] = 0;
	for (uint32_t i = 0; i < d->rows; i++) {
		uint32_t n = decoded_null(d, i) ? 0 : s.offsets[codes[i] + 1] - s.offsets[codes[i]];

		memcpy(d->bytes + d->offsets[i], s.bytes + s.offsets[codes[i]], n);
		d->offsets[i + 1] = d->offsets[i] + n;
	}
	return 0;
}

static int decode_codes(const struct fth_table_page *page, struct decoded *d)
{
	uint32_t *codes = calloc(d->rows, sizeof(*codes));
	int rc = codes ? fth_table_page_codes(page, 0, d->rows, codes, sizeof(*codes)) : -ENOMEM;

	if (rc == 0)
		rc = expand_codes(page, codes, d);
	free(codes);
	return rc;
}

static int decode_blocks(const struct fth_table_page *page, const char *image, struct decoded *d)
{
	struct fth_table_block block;
	uint64_t bytes = 0, at = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < fth_table_page_block_count(page); i++) {
		rc = fth_table_page_block(page, i, &block);
		bytes += block.text;
	}
	d->bytes = bytes <= UINT32_MAX ? malloc(bytes + 1) : NULL;
	if (!d->bytes)
		return rc < 0 ? rc : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < fth_table_page_block_count(page); i++) {
		rc = fth_table_page_block(page, i, &block);
		if (rc == 0)
			rc = fth_table_page_unpack(page, i, image + block.at, d->bytes + at,
						   d->offsets + block.first);
		for (uint32_t r = 0; rc == 0 && r <= block.rows; r++)
			d->offsets[block.first + r] += (uint32_t)at;
		at += block.text;
	}
	return rc;
}

static int decode_page(const struct fth_table_page *page, const void *image, struct decoded *d)
{
	size_t rows = d->rows;
	int rc;

	d->nulls = calloc(rows / 64 + 1, sizeof(*d->nulls));
	if (!d->nulls)
		return -ENOMEM;
	rc = fth_table_page_nulls(page, 0, d->rows, d->nulls);
	if (rc < 0)
		return rc;
	switch (d->kind) {
	case FTH_TABLE_KIND_STRING:
		d->offsets = calloc(rows + 1, sizeof(*d->offsets));
		if (!d->offsets)
			return -ENOMEM;
		return page->chunk->encoding == FTH_TABLE_BLOCKS ? decode_blocks(page, image, d)
								 : decode_codes(page, d);
	case FTH_TABLE_KIND_WIDE:
		d->wides = calloc(rows, sizeof(*d->wides));
		return d->wides ? fth_table_page_wides(page, 0, d->rows, d->wides) : -ENOMEM;
	default:
		d->ints = calloc(rows, sizeof(*d->ints));
		return d->ints ? fth_table_page_ints(page, 0, d->rows, d->ints, sizeof(*d->ints))
			       : -ENOMEM;
	}
}

int decode_chunk(struct fth_table *table, uint32_t column, uint32_t group, struct decoded *out)
{
	struct fth_table_page page;
	void *image;
	int rc = fth_table_page_read(&page, table, column, group, &image);

	*out = (struct decoded){0};
	if (rc < 0)
		return rc;
	out->kind = page_kind(&page);
	out->rows = page.rows;
	rc = decode_page(&page, image, out);
	fth_table_page_free(table, column, group, image);
	return rc;
}
