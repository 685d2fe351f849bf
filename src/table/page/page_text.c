/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoding strings: codes of dictionaries, and blocks of text. */
#include "table/page/bits.h"
#include "table/format.h"
#include "table/page/page.h"
#include "table/page/sequence.h"
#include "table/table.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <lz4.h>
#include <string.h>

static int wrong_encoding(const struct fth_table_page *page, const char *as)
{
	return fth_fail(ENOTSUP, "column %s, group %u: encoding %s cannot be read as %s",
			fth_table_schema(page->table)->column[page->column].name, page->group,
			fth_table_encoding_name((enum fth_table_encoding)page->chunk->encoding),
			as);
}

/* ---- codes ---- */

#define DEFINE_MAX(TYPE)                                          \
	static uint32_t max_##TYPE(const void *codes, uint32_t n) \
	{                                                         \
		const TYPE *in = codes;                           \
		TYPE max = 0;                                     \
		for (uint32_t i = 0; i < n; i++)                  \
			max = in[i] > max ? in[i] : max;          \
		return max;                                       \
	}
DEFINE_MAX(uint8_t)
DEFINE_MAX(uint16_t)
DEFINE_MAX(uint32_t)

static uint32_t max_code(const void *codes, uint32_t n, unsigned size)
{
	return size == 1   ? max_uint8_t(codes, n)
	       : size == 2 ? max_uint16_t(codes, n)
			   : max_uint32_t(codes, n);
}

int fth_table_page_codes(const struct fth_table_page *page, uint32_t from, uint32_t to, void *codes,
			 unsigned size)
{
	int rc = page_range(page, from, to);

	if (rc < 0)
		return rc;
	if (page->chunk->encoding != FTH_TABLE_CODES && page->chunk->encoding != FTH_TABLE_LOCAL)
		return wrong_encoding(page, "codes");
	if (size != 1 && size != 2 && size != 4)
		return fth_fail(EINVAL, "code size %u: expected 1, 2 or 4 bytes", size);
	if (size < 4 &&
	    ((uint64_t)page->count > (uint64_t)1 << (size * 8) || page->values.width > size * 8))
		return fth_fail(ERANGE, "codes of %u values do not fit %u bytes", page->count,
				size);
	sequence_get(&page->values, from, to, codes, size);
	if (from < to && max_code(codes, to - from, size) >= page->count)
		return page_bad(page, "a code is not in the dictionary");
	return 0;
}

void fth_table_page_dictionary(const struct fth_table_page *page, struct fth_table_strings *out)
{
	*out = (struct fth_table_strings){0};
	if (page->chunk->encoding != FTH_TABLE_LOCAL)
		return;
	out->offsets = (const uint32_t *)(const void *)page->string_offsets;
	out->bytes = page->string_bytes;
	out->count = page->count;
}

/* ---- blocks of text ---- */

uint32_t fth_table_page_block_count(const struct fth_table_page *page)
{
	return page->chunk->encoding == FTH_TABLE_BLOCKS ? page->count : 0;
}

static struct block_entry entry_of(const struct fth_table_page *page, uint32_t block)
{
	struct block_entry entry;

	memcpy(&entry, page->index + (size_t)block * sizeof(entry), sizeof(entry));
	return entry;
}

int fth_table_page_block(const struct fth_table_page *page, uint32_t block,
			 struct fth_table_block *out)
{
	struct block_entry entry;
	uint32_t end;

	if (block >= fth_table_page_block_count(page))
		return fth_fail(ERANGE, "text block %u is outside a chunk of %u blocks", block,
				fth_table_page_block_count(page));
	entry = entry_of(page, block);
	end = block + 1 < page->count ? entry_of(page, block + 1).first : page->rows;
	*out = (struct fth_table_block){
		.first = entry.first,
		.rows = end - entry.first,
		.at = entry.at,
		.stored = entry.stored,
		.text = entry.text,
	};
	return 0;
}

uint32_t fth_table_page_block_of(const struct fth_table_page *page, uint32_t row)
{
	uint32_t low = 0, high = page->count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (entry_of(page, middle).first <= row)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Lengths of the rows of a block into offsets; false if they do not add up to its text. */
static bool add_lengths(const struct fth_table_page *page, const struct fth_table_block *block,
			uint32_t *offsets)
{
	uint64_t sum = 0;

	sequence_get(&page->lengths, block->first, block->first + block->rows, offsets + 1,
		     sizeof(*offsets));
	offsets[0] = 0;
	for (uint32_t i = 1; i <= block->rows; i++) {
		sum += offsets[i];
		if (sum > block->text)
			return false;
		offsets[i] = (uint32_t)sum;
	}
	return sum == block->text;
}

static const char *unpack_text(const struct fth_table_block *block, const void *stored, char *text)
{
	if (block->stored == block->text) {
		if (block->text)
			memcpy(text, stored, block->text);
		return NULL;
	}
	if (LZ4_decompress_safe(stored, text, (int)block->stored, (int)block->text) !=
	    (int)block->text)
		return "a block of text does not unpack";
	return NULL;
}

int fth_table_page_unpack(const struct fth_table_page *page, uint32_t block, const void *stored,
			  char *text, uint32_t *offsets)
{
	struct fth_table_block info;
	const char *fault = NULL;
	int rc = fth_table_page_block(page, block, &info);

	if (rc < 0)
		return rc;
	if (text) {
		if (entry_of(page, block).checksum != fth_checksum(stored, info.stored, BLOCK_SEED))
			return page_bad(page, "checksum mismatch in a text block");
		fault = unpack_text(&info, stored, text);
	}
	if (!fault && offsets && !add_lengths(page, &info, offsets))
		fault = "the lengths of strings do not add up to their block";
	return fault ? page_bad(page, fault) : 0;
}
