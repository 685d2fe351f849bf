/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoding integers, doubles and wide decimals. */
#include "table/page/bits.h"
#include "table/format.h"
#include "table/page/page.h"
#include "table/page/sequence.h"

#include "fathom/base/error.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static bool is_integer(const struct fth_table_page *page)
{
	return page->chunk->encoding == FTH_TABLE_PACKED ||
	       page->chunk->encoding == FTH_TABLE_DELTA || page->chunk->encoding == FTH_TABLE_RUNS;
}

static int not_encoded(const struct fth_table_page *page, const char *as)
{
	return fth_fail(ENOTSUP, "column %s, group %u: encoding %s cannot be read as %s",
			fth_table_schema(page->table)->column[page->column].name, page->group,
			fth_table_encoding_name((enum fth_table_encoding)page->chunk->encoding),
			as);
}

/* ---- runs ---- */

static struct run_index run_of(const struct fth_table_page *page, uint32_t row)
{
	struct run_index index;

	memcpy(&index, page->index + (size_t)(row / BITS_BLOCK) * sizeof(index), sizeof(index));
	return index;
}

/*
 * Runs are short as a rule: STEP values are stored at a time, of which those behind the end of a
 * run are overwritten by the next one. Only where that would pass the end of the output, values are
 * stored one by one.
 */
#define STEP 8u
#define DEFINE_EXPAND(TYPE)                                                                       \
	static uint32_t expand_##TYPE(TYPE *out, uint32_t at, uint32_t room,                      \
				      const int64_t *values, const uint32_t *lengths, uint32_t n) \
	{                                                                                         \
		for (uint32_t i = 0; i < n && at < room; i++) {                                   \
			uint32_t end = lengths[i] < room - at ? at + lengths[i] : room;           \
			TYPE v = (TYPE)values[i];                                                 \
			for (; at < end && room - at >= STEP; at += STEP)                         \
				for (unsigned k = 0; k < STEP; k++)                               \
					out[at + k] = v;                                          \
			for (; at < end; at++)                                                    \
				out[at] = v;                                                      \
			at = end;                                                                 \
		}                                                                                 \
		return at;                                                                        \
	}
DEFINE_EXPAND(uint8_t)
DEFINE_EXPAND(uint16_t)
DEFINE_EXPAND(uint32_t)
DEFINE_EXPAND(uint64_t)

/* Write runs to out[at] and behind, up to out[room - 1]; returns where the next one goes. */
static uint32_t expand_runs(void *out, uint32_t at, uint32_t room, const int64_t *values,
			    const uint32_t *lengths, uint32_t n, unsigned size)
{
	switch (size) {
	case 1:
		return expand_uint8_t(out, at, room, values, lengths, n);
	case 2:
		return expand_uint16_t(out, at, room, values, lengths, n);
	case 4:
		return expand_uint32_t(out, at, room, values, lengths, n);
	default:
		return expand_uint64_t(out, at, room, values, lengths, n);
	}
}

/* Drop the `rows` first rows of n runs; returns how many whole runs these are. */
static uint32_t skip_rows(uint32_t *lengths, uint32_t n, uint32_t *rows)
{
	uint32_t i = 0;

	while (i < n && *rows >= lengths[i])
		*rows -= lengths[i++];
	if (i < n) {
		lengths[i] -= *rows;
		*rows = 0;
	}
	return i;
}

/* Runs are decoded block by block, from the one that holds row `from` on. */
static void get_runs(const struct fth_table_page *page, uint32_t from, uint32_t to, void *out,
		     unsigned size)
{
	struct run_index index = run_of(page, from);
	uint32_t skip = from % BITS_BLOCK + index.before, run = index.run, at = 0;
	uint32_t lengths[BITS_BLOCK];
	int64_t values[BITS_BLOCK];

	while (at < to - from) {
		uint32_t end = (run / BITS_BLOCK + 1) * BITS_BLOCK, first;

		if (end > page->lengths.count)
			end = page->lengths.count;
		/* A run has at least one row. */
		if (end - run > to - from - at + skip)
			end = run + to - from - at + skip;
		sequence_get(&page->lengths, run, end, lengths, sizeof(*lengths));
		sequence_get(&page->values, run, end, values, sizeof(*values));
		first = skip_rows(lengths, end - run, &skip);
		at = expand_runs(out, at, to - from, values + first, lengths + first,
				 end - run - first, size);
		run = end;
	}
}

static int64_t run_value_at(const struct fth_table_page *page, uint32_t row)
{
	int64_t value;

	get_runs(page, row, row + 1, &value, sizeof(value));
	return value;
}

/* ---- integers ---- */

static bool fits(const struct fth_table_chunk *chunk, unsigned size)
{
	int64_t limit = size == 8 ? INT64_MAX : ((int64_t)1 << (size * 8 - 1)) - 1;

	return chunk->min > chunk->max || (chunk->min >= -limit - 1 && chunk->max <= limit);
}

static int check_size(const struct fth_table_page *page, unsigned size)
{
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return fth_fail(EINVAL, "integer size %u: expected 1, 2, 4 or 8 bytes", size);
	if (!fits(page->chunk, size))
		return fth_fail(ERANGE, "values from %lld to %lld do not fit %u bytes",
				(long long)page->chunk->min, (long long)page->chunk->max, size);
	return 0;
}

int fth_table_page_ints(const struct fth_table_page *page, uint32_t from, uint32_t to, void *values,
			unsigned size)
{
	int rc = page_range(page, from, to);

	if (rc == 0 && !is_integer(page))
		rc = not_encoded(page, "integers");
	if (rc == 0)
		rc = check_size(page, size);
	if (rc < 0)
		return rc;
	if (from == to)
		return 0;
	if (page->chunk->encoding == FTH_TABLE_RUNS)
		get_runs(page, from, to, values, size);
	else
		sequence_get(&page->values, from, to, values, size);
	return 0;
}

int64_t fth_table_page_int_at(const struct fth_table_page *page, uint32_t row)
{
	assert(row < page->rows && is_integer(page));
	return page->chunk->encoding == FTH_TABLE_RUNS ? run_value_at(page, row)
						       : sequence_at(&page->values, row);
}

/* ---- doubles, wide decimals ---- */

int fth_table_page_doubles(const struct fth_table_page *page, uint32_t from, uint32_t to,
			   double *values)
{
	int64_t *keys = (int64_t *)(void *)values;
	int rc;

	if (page_kind(page) != FTH_TABLE_KIND_DOUBLE)
		return not_encoded(page, "doubles");
	rc = fth_table_page_ints(page, from, to, keys, sizeof(*keys));
	for (uint32_t i = 0; rc == 0 && i < to - from; i++) {
		int64_t key;
		double value;

		memcpy(&key, &values[i], sizeof(key));
		value = fth_table_double_of_key(key);
		memcpy(&values[i], &value, sizeof(value));
	}
	return rc;
}

int fth_table_page_wides(const struct fth_table_page *page, uint32_t from, uint32_t to,
			 struct fth_table_wide *values)
{
	int64_t narrow[BITS_BLOCK];
	int rc = page_range(page, from, to);

	if (rc == 0 && page->chunk->encoding == FTH_TABLE_WIDE) {
		memcpy(values, page->values.packed + (size_t)from * sizeof(*values),
		       (size_t)(to - from) * sizeof(*values));
		return 0;
	}
	while (rc == 0 && from < to) {
		uint32_t n = to - from < BITS_BLOCK ? to - from : BITS_BLOCK;

		rc = fth_table_page_ints(page, from, from + n, narrow, sizeof(*narrow));
		for (uint32_t i = 0; rc == 0 && i < n; i++)
			values[i] = (struct fth_table_wide){(uint64_t)narrow[i],
							    narrow[i] < 0 ? -1 : 0};
		values += n;
		from += n;
	}
	return rc;
}
