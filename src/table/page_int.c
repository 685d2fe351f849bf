/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoding integers, doubles and wide decimals. */
#include "table/bits.h"
#include "table/format.h"
#include "table/page.h"
#include "table/sequence.h"

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
	return fth_fail(ENOTSUP, "column %s, group %u: encoding %s has no %s",
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

#define DEFINE_FILL(TYPE)                                                          \
	static void fill_##TYPE(void *to, uint32_t at, uint32_t n, uint64_t value) \
	{                                                                          \
		TYPE *out = (TYPE *)to + at, v = (TYPE)value;                      \
		for (uint32_t i = 0; i < n; i++)                                   \
			out[i] = v;                                                \
	}
DEFINE_FILL(uint8_t)
DEFINE_FILL(uint16_t)
DEFINE_FILL(uint32_t)
DEFINE_FILL(uint64_t)

static void fill_run(void *to, uint32_t at, uint32_t n, int64_t value, unsigned size)
{
	switch (size) {
	case 1:
		fill_uint8_t(to, at, n, (uint64_t)value);
		break;
	case 2:
		fill_uint16_t(to, at, n, (uint64_t)value);
		break;
	case 4:
		fill_uint32_t(to, at, n, (uint64_t)value);
		break;
	default:
		fill_uint64_t(to, at, n, (uint64_t)value);
	}
}

/* Runs are decoded in pieces of PIECE, from the one that holds row `from` on. */
#define PIECE 256u

static void get_runs(const struct fth_table_page *page, uint32_t from, uint32_t to, void *out,
		     unsigned size)
{
	struct run_index index = run_of(page, from);
	uint32_t row = from / BITS_BLOCK * BITS_BLOCK - index.before, run = index.run;
	uint32_t lengths[PIECE];
	int64_t values[PIECE];

	while (row < to) {
		uint32_t n = page->lengths.count - run < PIECE ? page->lengths.count - run : PIECE;

		sequence_get(&page->lengths, run, run + n, lengths, sizeof(*lengths));
		sequence_get(&page->values, run, run + n, values, sizeof(*values));
		for (uint32_t i = 0; i < n && row < to; i++) {
			uint32_t first = row < from ? from : row, end = row + lengths[i];

			end = end < to ? end : to;
			if (end > first)
				fill_run(out, first - from, end - first, values[i], size);
			row += lengths[i];
		}
		run += n;
	}
}

static int64_t run_value_at(const struct fth_table_page *page, uint32_t row)
{
	int64_t value;

	get_runs(page, row, row + 1, &value, sizeof(value));
	return value;
}

uint32_t fth_table_page_run_count(const struct fth_table_page *page)
{
	return page->chunk->encoding == FTH_TABLE_RUNS ? page->lengths.count : 0;
}

int fth_table_page_runs(const struct fth_table_page *page, int64_t *values, uint32_t *lengths)
{
	if (page->chunk->encoding != FTH_TABLE_RUNS)
		return not_encoded(page, "runs");
	sequence_get(&page->values, 0, page->values.count, values, sizeof(*values));
	sequence_get(&page->lengths, 0, page->lengths.count, lengths, sizeof(*lengths));
	return 0;
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
		return fth_fail(EINVAL, "integers of %u bytes: expected 1, 2, 4 or 8", size);
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

int fth_table_page_offsets(const struct fth_table_page *page, uint32_t from, uint32_t to,
			   void *values, unsigned *size, int64_t *base, uint64_t *factor)
{
	int rc = page_range(page, from, to);

	if (rc == 0 && page->chunk->encoding != FTH_TABLE_PACKED)
		rc = not_encoded(page, "offsets from a base");
	if (rc < 0)
		return rc;
	sequence_get_packed(&page->values, from, to, values);
	*size = bits_size(page->values.width);
	*base = page->values.base;
	*factor = page->values.factor;
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
