/* SPDX-License-Identifier: BSD-2-Clause */
/* Encoding integers, and what all chunks share. Strings are in encode_text.c. */
#include "table/page/encode.h"

#include "table/page/bits.h"
#include "table/page/sequence.h"
#include "table/facts/distinct_estimate.h"

#include "fathom/base/checksum.h"

#include <errno.h>
#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>

unsigned char *image_add(struct image *image, size_t n, size_t align)
{
	size_t at = align_up(image->length, align), end = at + n;

	if (end > image->room && !image->failed) {
		size_t room = end + end / 2;
		unsigned char *grown = realloc(image->bytes, room);

		image->failed = !grown;
		image->bytes = grown ? grown : image->bytes;
		image->room = grown ? room : image->room;
	}
	if (image->failed)
		return NULL;
	memset(image->bytes + image->length, 0, end - image->length);
	image->length = end;
	return image->bytes + at;
}

int encoder_init(struct encoder *e, unsigned compression, uint32_t rows)
{
	int state = compression > 1 ? LZ4_sizeofStateHC() : LZ4_sizeofState();

	*e = (struct encoder){.compression = compression};
	e->numbers = malloc(rows * sizeof(*e->numbers));
	e->lengths = malloc(rows * sizeof(*e->lengths));
	e->order = malloc(rows * sizeof(*e->order));
	e->lz4 = malloc((size_t)state);
	dict_init(&e->local, rows, GROUP_TEXT_MAX);
	if (e->numbers && e->lengths && e->order && e->lz4)
		return 0;
	encoder_release(e);
	return -ENOMEM;
}

void encoder_release(struct encoder *e)
{
	free(e->image.bytes);
	free(e->numbers);
	free(e->lengths);
	free(e->order);
	free(e->lz4);
	dict_release(&e->local);
	*e = (struct encoder){0};
}

/* ---- chunks ---- */

static void put_nulls(unsigned char *to, const struct group_column *column, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++)
		to[i / 8] |= (unsigned char)((column->null[i] != 0) << i % 8);
}

size_t chunk_begin(struct encoder *e, const struct group_column *column, uint32_t rows,
		   enum fth_table_encoding encoding, struct fth_table_chunk *chunk)
{
	unsigned char *to = image_add(&e->image, sizeof(struct chunk_header), CHUNK_ALIGN);
	size_t start = e->image.length - sizeof(struct chunk_header);

	if (!to)
		return 0;
	chunk->encoding = (uint8_t)encoding;
	chunk->nulls = column->nulls;
	if (column->nulls && column->nulls < rows) {
		to = image_add(&e->image, ((size_t)rows + 63) / 64 * 8, 8);
		if (to)
			put_nulls(to, column, rows);
	}
	return start;
}

void chunk_finish(struct encoder *e, size_t start, uint32_t count, struct fth_table_chunk *chunk)
{
	if (e->image.failed)
		return;
	chunk->offset = start;
	chunk->head = (uint32_t)(e->image.length - start);
	chunk->bytes = chunk->head;
	memcpy(e->image.bytes + start + offsetof(struct chunk_header, count), &count,
	       sizeof(count));
}

void chunk_seal(unsigned char *head, const struct fth_table_chunk *chunk, uint64_t table_id,
		uint32_t column)
{
	struct chunk_header header;
	size_t skip = sizeof(header.checksum);

	memcpy(&header, head, sizeof(header));
	header.magic = CHUNK_MAGIC;
	header.head = chunk->head;
	header.nulls = chunk->nulls;
	header.encoding = chunk->encoding;
	memcpy(head, &header, sizeof(header));
	header.checksum = fth_checksum(head + skip, chunk->head - skip,
				       chunk_seed(table_id, column, chunk->offset));
	memcpy(head, &header, sizeof(header));
}

/* ---- integers ---- */

static void put_sequence(struct encoder *e, const int64_t *values, uint32_t n,
			 const struct sequence_plan *plan)
{
	unsigned char *to = image_add(&e->image, plan->bytes, 8);

	if (to)
		sequence_write(values, n, plan, to);
}

/* Runs of values into e->numbers and e->lengths. */
static uint32_t split_runs(struct encoder *e, const int64_t *values, uint32_t rows)
{
	uint32_t n = 0, from = 0;

	for (uint32_t i = 1; i <= rows; i++) {
		if (i < rows && values[i] == values[i - 1])
			continue;
		e->numbers[n] = values[i - 1];
		e->lengths[n++] = i - from;
		from = i;
	}
	return n;
}

static void put_run_index(struct encoder *e, uint32_t runs, uint32_t rows)
{
	size_t blocks = ((size_t)rows + BITS_BLOCK - 1) / BITS_BLOCK;
	unsigned char *to = image_add(&e->image, blocks * sizeof(struct run_index), 8);
	uint64_t row = 0, block = 0;

	for (uint32_t run = 0; to && run < runs; run++) {
		for (; block * BITS_BLOCK < row + (uint64_t)e->lengths[run] && block < blocks;
		     block++) {
			struct run_index index = {run, (uint32_t)(block * BITS_BLOCK - row)};

			memcpy(to + block * sizeof(index), &index, sizeof(index));
		}
		row += (uint64_t)e->lengths[run];
	}
}

/* Encode as runs if that is smaller than `bytes`. */
static bool encode_runs(struct encoder *e, const struct group_column *column, const int64_t *values,
			uint32_t rows, uint64_t bytes, struct fth_table_chunk *chunk)
{
	struct sequence_stats stats, length_stats;
	struct sequence_plan plan, length_plan;
	uint32_t runs = split_runs(e, values, rows);
	size_t start;

	sequence_measure(e->numbers, runs, &stats);
	sequence_measure(e->lengths, runs, &length_stats);
	sequence_choose(e->numbers, &stats, &plan);
	sequence_choose(e->lengths, &length_stats, &length_plan);
	if (plan.bytes + length_plan.bytes + (uint64_t)rows / BITS_BLOCK * 8 >= bytes)
		return false;
	start = chunk_begin(e, column, rows, FTH_TABLE_RUNS, chunk);
	put_sequence(e, e->numbers, runs, &plan);
	put_sequence(e, e->lengths, runs, &length_plan);
	put_run_index(e, runs, rows);
	chunk->width = (uint8_t)plan.width;
	chunk_finish(e, start, runs, chunk);
	return true;
}

int encode_ints(struct encoder *e, struct group_column *column, int64_t *values, uint32_t rows,
		struct fth_table_chunk *chunk)
{
	struct sequence_stats stats;
	struct sequence_plan plan;
	size_t start;

	sequence_measure(values, rows, &stats);
	sequence_choose(values, &stats, &plan);
	chunk->min = column->nulls == rows ? INT64_MAX : stats.min;
	chunk->max = column->nulls == rows ? INT64_MIN : stats.max;
	if (stats.runs < rows / 2 && plan.width > 1 &&
	    encode_runs(e, column, values, rows, plan.bytes * 9 / 10, chunk))
		return e->image.failed ? -ENOMEM : 0;
	start = chunk_begin(e, column, rows, plan.delta ? FTH_TABLE_DELTA : FTH_TABLE_PACKED,
			    chunk);
	put_sequence(e, values, rows, &plan);
	chunk->width = (uint8_t)plan.width;
	chunk_finish(e, start, 0, chunk);
	return e->image.failed ? -ENOMEM : 0;
}

/*
 * Give null rows the value before them, or the first one: it is inside min and max and makes runs.
 */
static void fill_nulls(struct group_column *column, uint32_t rows)
{
	int64_t value = 0;

	if (!column->nulls)
		return;
	for (uint32_t i = 0; i < rows; i++) {
		if (!column->null[i]) {
			value = column->ints[i];
			break;
		}
	}
	for (uint32_t i = 0; i < rows; i++) {
		if (column->null[i])
			column->ints[i] = value;
		else
			value = column->ints[i];
	}
}

/* ---- wide decimals ---- */

static int64_t clamp_wide(const struct fth_table_wide *value)
{
	if (value->high == ((int64_t)value->low < 0 ? -1 : 0))
		return (int64_t)value->low;
	return value->high < 0 ? INT64_MIN : INT64_MAX;
}

static int encode_plain_wides(struct encoder *e, struct group_column *column, uint32_t rows,
			      struct fth_table_chunk *chunk)
{
	size_t start = chunk_begin(e, column, rows, FTH_TABLE_WIDE, chunk), bytes;
	unsigned char *to;

	bytes = rows * sizeof(struct fth_table_wide);
	to = image_add(&e->image, bytes, 8);
	if (to)
		memcpy(to, column->wides, bytes);
	chunk->width = 128;
	chunk_finish(e, start, 0, chunk);
	return e->image.failed ? -ENOMEM : 0;
}

static int encode_wides(struct encoder *e, struct group_column *column, uint32_t rows,
			struct fth_table_chunk *chunk)
{
	struct group_column narrow = *column;
	bool fits = true;

	chunk->min = INT64_MAX;
	chunk->max = INT64_MIN;
	for (uint32_t i = 0; i < rows; i++) {
		int64_t value = clamp_wide(&column->wides[i]);

		if (column->nulls && column->null[i]) {
			column->wides[i] = (struct fth_table_wide){0};
			e->numbers[i] = 0;
			continue;
		}
		fits &= value != INT64_MIN && value != INT64_MAX;
		e->numbers[i] = value;
		chunk->min = value < chunk->min ? value : chunk->min;
		chunk->max = value > chunk->max ? value : chunk->max;
		sketch_add(e->sketch, fth_mix64(column->wides[i].low) ^
					      fth_mix64((uint64_t)column->wides[i].high + 1));
	}
	if (!fits)
		return encode_plain_wides(e, column, rows, chunk);
	narrow.ints = e->numbers;
	fill_nulls(&narrow, rows);
	{
		struct sequence_stats stats;
		struct sequence_plan plan;
		size_t start;

		sequence_measure(narrow.ints, rows, &stats);
		sequence_choose(narrow.ints, &stats, &plan);
		start = chunk_begin(e, column, rows,
				    plan.delta ? FTH_TABLE_DELTA : FTH_TABLE_PACKED, chunk);
		put_sequence(e, narrow.ints, rows, &plan);
		chunk->width = (uint8_t)plan.width;
		chunk_finish(e, start, 0, chunk);
	}
	return e->image.failed ? -ENOMEM : 0;
}

/* ---- any column ---- */

static void put_rows(struct encoder *e, const struct fth_table_chunk *chunk, uint32_t rows)
{
	memcpy(e->image.bytes + chunk->offset + offsetof(struct chunk_header, rows), &rows,
	       sizeof(rows));
}

int encode_column(struct encoder *e, struct group_column *column, uint32_t rows,
		  struct shared_dict *dict, struct fth_table_chunk *chunk,
		  struct chunk_notes *notes)
{
	int rc;

	*chunk = (struct fth_table_chunk){0};
	*notes = (struct chunk_notes){0};
	if (column->kind == FTH_TABLE_KIND_STRING) {
		rc = encode_strings(e, column, rows, dict, chunk, notes);
	} else if (column->kind == FTH_TABLE_KIND_WIDE) {
		rc = encode_wides(e, column, rows, chunk);
	} else {
		fill_nulls(column, rows);
		if (column->nulls < rows)
			sketch_add_ints(e->sketch, column->ints, rows);
		rc = encode_ints(e, column, column->ints, rows, chunk);
	}
	if (rc == 0)
		put_rows(e, chunk, rows);
	return rc;
}
