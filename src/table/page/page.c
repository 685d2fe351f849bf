/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening pages: everything that decoding relies on is verified here, once. Siblings: page_int.c
 * decodes integers, page_text.c strings, sequence.c and bits.c what both are made of.
 *
 * What holds for an open page, whatever bytes it was opened from:
 *
 * 1. Every section lies inside chunk->head bytes, of rows and counts that the snapshot agrees with.
 * 2. Lengths of runs are at least 1 and their sum is `rows`; index entries say where each block
 *    begins.
 * 3. Offsets of a local dictionary ascend and end inside the image.
 * 4. Text blocks have ascending first rows, the first of them 0, and lie inside the chunk.
 *
 * Two things are verified when they are decoded, because that costs nothing there: that codes are
 * below the number of values, and that lengths of strings add up to their block's text.
 */
#include "table/page/page.h"

#include "table/page/bits.h"
#include "table/page/sequence.h"
#include "table/table.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

int page_bad(const struct fth_table_page *page, const char *what)
{
	return fth_fail(EBADMSG, "table %s, column %s, group %u: %s", fth_table_name(page->table),
			fth_table_schema(page->table)->column[page->column].name, page->group,
			what);
}

static uint64_t null_bytes(uint32_t rows)
{
	return ((uint64_t)rows + 63) / 64 * 8;
}

static bool count_nulls(const unsigned char *bits, uint32_t rows, uint32_t expected)
{
	uint64_t word;
	uint32_t n = 0;

	for (uint32_t i = 0; i < rows; i += 64) {
		memcpy(&word, bits + i / 8, sizeof(word));
		if (rows - i < 64)
			word &= ((uint64_t)1 << (rows - i)) - 1;
		n += (uint32_t)__builtin_popcountll(word);
	}
	return n == expected;
}

/* ---- sections by encoding ---- */

/* The head, and how far it was looked at. */
struct cursor {
	const unsigned char *head;
	uint64_t length, at;
	uint32_t count; /* of the header */
};

static bool take_bytes(struct cursor *c, uint64_t bytes, const unsigned char **out)
{
	if (c->at > c->length || c->length - c->at < bytes)
		return false;
	*out = c->head + c->at;
	c->at = align_up(c->at + bytes, 8);
	return true;
}

/* Whether the index says where every block of rows begins. */
static bool check_runs(const struct fth_table_page *page)
{
	uint32_t lengths[BITS_BLOCK], entry = 0;
	uint64_t row = 0;

	for (uint32_t at = 0; at < page->lengths.count; at += BITS_BLOCK) {
		uint32_t n = page->lengths.count - at < BITS_BLOCK ? page->lengths.count - at
								   : BITS_BLOCK;

		sequence_get(&page->lengths, at, at + n, lengths, sizeof(*lengths));
		for (uint32_t i = 0; i < n; i++) {
			if (lengths[i] == 0 || lengths[i] > page->rows - row)
				return false;
			for (; (uint64_t)entry * BITS_BLOCK < row + lengths[i]; entry++) {
				struct run_index index;

				memcpy(&index, page->index + (size_t)entry * sizeof(index),
				       sizeof(index));
				if (index.run != at + i ||
				    index.before != (uint64_t)entry * BITS_BLOCK - row)
					return false;
			}
			row += lengths[i];
		}
	}
	return row == page->rows;
}

static const char *open_runs(struct fth_table_page *page, struct cursor *c)
{
	uint64_t blocks = ((uint64_t)page->rows + BITS_BLOCK - 1) / BITS_BLOCK;

	if (c->count == 0 || c->count > page->rows ||
	    !sequence_find(c->head, c->length, &c->at, c->count, &page->values) ||
	    !sequence_find(c->head, c->length, &c->at, c->count, &page->lengths) ||
	    !take_bytes(c, blocks * sizeof(struct run_index), &page->index))
		return "its runs do not fit the page";
	return check_runs(page) ? NULL : "its runs do not add up";
}

static const char *open_wide(struct fth_table_page *page, struct cursor *c)
{
	return take_bytes(c, (uint64_t)page->rows * sizeof(struct fth_table_wide),
			  &page->values.packed)
		       ? NULL
		       : "its values do not fit the page";
}

static const char *open_values(struct fth_table_page *page, struct cursor *c)
{
	if (!sequence_find(c->head, c->length, &c->at, page->rows, &page->values))
		return "its values do not fit the page";
	if ((page->chunk->encoding == FTH_TABLE_DELTA) != (page->values.anchors != NULL))
		return "its values are not encoded as the manifest says";
	return NULL;
}

static const char *open_codes(struct fth_table_page *page, struct cursor *c)
{
	const char *fault = open_values(page, c);

	page->count = fth_table_facts(page->table, page->column)->dictionary;
	if (!fault &&
	    (page->values.base != 0 || page->values.factor != 1 || page->values.width > 31))
		fault = "its codes are invalid";
	return fault;
}

static const char *open_local(struct fth_table_page *page, struct cursor *c)
{
	const char *fault = open_codes(page, c);
	const unsigned char *bytes;
	uint32_t before = 0, offset = 0;

	page->count = c->count;
	if (fault)
		return fault;
	if (c->count == 0 || c->count > page->rows ||
	    !take_bytes(c, ((uint64_t)c->count + 1) * sizeof(uint32_t), &page->string_offsets))
		return "its dictionary does not fit the page";
	for (uint32_t i = 0; i <= c->count; i++, before = offset) {
		memcpy(&offset, page->string_offsets + (size_t)i * sizeof(offset), sizeof(offset));
		if (offset < before)
			return "the offsets of its dictionary do not ascend";
	}
	if (!take_bytes(c, offset, &bytes))
		return "the strings of its dictionary do not fit the page";
	page->string_bytes = (const char *)bytes;
	return NULL;
}

static const char *open_blocks(struct fth_table_page *page, struct cursor *c)
{
	struct block_entry entry;
	uint32_t first = 0;

	page->count = c->count;
	if (!sequence_find(c->head, c->length, &c->at, page->rows, &page->lengths) ||
	    c->count == 0 || c->count > page->rows ||
	    !take_bytes(c, (uint64_t)c->count * sizeof(entry), &page->index))
		return "its directory of blocks does not fit the page";
	for (uint32_t i = 0; i < c->count; i++) {
		memcpy(&entry, page->index + (size_t)i * sizeof(entry), sizeof(entry));
		if (entry.first >= page->rows || (i == 0 ? entry.first != 0 : entry.first <= first))
			return "its blocks are not in the order of rows";
		if (entry.at < page->chunk->head || entry.at > page->chunk->bytes ||
		    entry.stored > page->chunk->bytes - entry.at || entry.stored > entry.text ||
		    entry.text > (uint32_t)INT32_MAX)
			return "a block of text is outside the chunk";
		first = entry.first;
	}
	return NULL;
}

static const char *open_sections(struct fth_table_page *page, struct cursor *c)
{
	bool string = page_kind(page) == FTH_TABLE_KIND_STRING;
	bool wide = page_kind(page) == FTH_TABLE_KIND_WIDE;

	switch ((enum fth_table_encoding)page->chunk->encoding) {
	case FTH_TABLE_PACKED:
	case FTH_TABLE_DELTA:
		return string ? "strings that are packed as integers" : open_values(page, c);
	case FTH_TABLE_RUNS:
		return string ? "strings that are packed as integers" : open_runs(page, c);
	case FTH_TABLE_WIDE:
		return wide ? open_wide(page, c) : "wide values of another type";
	case FTH_TABLE_CODES:
		return string ? open_codes(page, c) : "codes of another type than strings";
	case FTH_TABLE_LOCAL:
		return string ? open_local(page, c) : "codes of another type than strings";
	case FTH_TABLE_BLOCKS:
		return string ? open_blocks(page, c) : "text of another type than strings";
	}
	return "its encoding is unknown";
}

static const char *open_head(struct fth_table_page *page, const void *image)
{
	const struct manifest *m = &page->table->manifest;
	const struct fth_table_chunk *chunk = page->chunk;
	struct cursor c = {.head = image, .length = chunk->head, .at = sizeof(struct chunk_header)};
	struct chunk_header header;
	size_t skip = sizeof(header.checksum);

	memcpy(&header, image, sizeof(header));
	if (header.checksum != fth_checksum((const char *)image + skip, chunk->head - skip,
					    chunk_seed(m->id, page->column, chunk->offset)))
		return "its checksum is wrong";
	if (header.magic != CHUNK_MAGIC || header.head != chunk->head ||
	    header.rows != page->rows || header.nulls != chunk->nulls ||
	    header.encoding != chunk->encoding)
		return "its header does not agree with the manifest";
	c.count = header.count;
	if (chunk->nulls && chunk->nulls < page->rows &&
	    (!take_bytes(&c, null_bytes(page->rows), &page->nulls) ||
	     !count_nulls(page->nulls, page->rows, chunk->nulls)))
		return "its bitmap of nulls is wrong";
	return open_sections(page, &c);
}

int fth_table_page_open(struct fth_table_page *page, const struct fth_table *table, uint32_t column,
			uint32_t group, const void *image)
{
	const char *fault;

	*page = (struct fth_table_page){
		.table = table,
		.chunk = fth_table_chunk(table, column, group),
		.column = column,
		.group = group,
		.rows = fth_table_group(table, group)->rows,
	};
	fault = open_head(page, image);
	return fault ? page_bad(page, fault) : 0;
}

int page_range(const struct fth_table_page *page, uint32_t from, uint32_t to)
{
	if (from <= to && to <= page->rows)
		return 0;
	return fth_fail(ERANGE, "rows %u to %u are outside a group of %u rows", from, to,
			page->rows);
}

int fth_table_page_nulls(const struct fth_table_page *page, uint32_t from, uint32_t to,
			 uint64_t *bits)
{
	int rc = page_range(page, from, to);
	uint32_t n = to - from;

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n; i += 64) {
		uint64_t word = page->chunk->nulls ? ~(uint64_t)0 : 0;

		if (page->nulls) {
			uint32_t at = (from + i) / 64, shift = (from + i) % 64;

			memcpy(&word, page->nulls + (size_t)at * 8, sizeof(word));
			word >>= shift;
			if (shift && (uint64_t)(at + 1) * 64 < page->rows) {
				uint64_t next;

				memcpy(&next, page->nulls + (size_t)(at + 1) * 8, sizeof(next));
				word |= next << (64 - shift);
			}
		}
		if (n - i < 64)
			word &= ((uint64_t)1 << (n - i)) - 1;
		bits[i / 64] = word;
	}
	return 0;
}
