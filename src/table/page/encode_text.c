/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encoding strings: as codes of the column's dictionary, of one of the group, or as blocks of text.
 */
#include "table/page/bits.h"
#include "table/page/encode.h"
#include "table/page/sequence.h"
#include "table/facts/distinct_estimate.h"

#include "fathom/base/checksum.h"

#include <errno.h>
#include <lz4.h>
#include <lz4hc.h>
#include <string.h>

static bool is_null(const struct group_column *column, uint32_t i)
{
	return column->nulls && column->null[i];
}

static uint32_t length_of(const struct group_column *column, uint32_t i)
{
	return column->offsets[i + 1] - column->offsets[i];
}

static const char *string_at(const struct group_column *column, uint32_t i)
{
	return column->bytes ? column->bytes + column->offsets[i] : "";
}

/* Codes are stored with base 0, and wide enough for all of them. */
static void put_codes(struct encoder *e, uint32_t rows, struct fth_table_chunk *chunk)
{
	struct sequence_plan plan = {.factor = 1};
	unsigned char *to;
	uint64_t max = 0;

	for (uint32_t i = 0; i < rows; i++)
		max = (uint64_t)e->numbers[i] > max ? (uint64_t)e->numbers[i] : max;
	plan.width = bits_width(max);
	plan.bytes = sizeof(struct sequence_header) + bits_bytes(rows, plan.width);
	to = image_add(&e->image, plan.bytes, 8);
	if (to)
		sequence_write(e->numbers, rows, &plan, to);
	chunk->width = (uint8_t)plan.width;
}

/* ---- the column's dictionary ---- */

/* Codes of all rows into e->numbers. False if a string is not there. */
static bool look_up(struct encoder *e, const struct group_column *column, uint32_t rows,
		    const struct dict *dict)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < rows; i++) {
		uint32_t code = is_null(column, i) ? last
						   : dict_find(dict, string_at(column, i),
							       length_of(column, i));

		if (code == DICT_NONE)
			return false;
		e->numbers[i] = last = code;
	}
	return true;
}

/* Add the strings that are not there yet: all of them, or none if the dictionary has no room. */
static int add_missing(const struct group_column *column, uint32_t rows, struct dict *dict,
		       struct dict *missing)
{
	uint32_t code, used = dict->count ? dict->offsets[dict->count] : 0;
	int rc = 0;

	dict_clear(missing);
	for (uint32_t i = 0; rc == 0 && i < rows; i++) {
		const char *bytes = string_at(column, i);

		if (is_null(column, i) || dict_find(dict, bytes, length_of(column, i)) != DICT_NONE)
			continue;
		rc = dict_add(missing, bytes, length_of(column, i), &code);
		if (rc == 0 && (missing->count > dict->max_values - dict->count ||
				missing->offsets[missing->count] > dict->max_bytes - used))
			rc = -ENOSPC;
	}
	/* In order, so that a dictionary stays ordered if all that comes is larger. */
	if (rc == 0)
		rc = dict_sort(missing, NULL);
	for (uint32_t i = 0; rc == 0 && i < missing->count; i++)
		rc = dict_add(dict, missing->bytes + missing->offsets[i],
			      missing->offsets[i + 1] - missing->offsets[i], &code);
	return rc;
}

/* 1 if the group was encoded with the column's dictionary, 0 if that is not possible. */
static int encode_shared(struct encoder *e, const struct group_column *column, uint32_t rows,
			 struct shared_dict *shared, struct fth_table_chunk *chunk)
{
	bool found;
	size_t start;
	int rc = 0;

	/* All null needs a code too. */
	if (!shared->on || column->nulls == rows)
		return 0;
	pthread_rwlock_rdlock(&shared->lock);
	found = look_up(e, column, rows, &shared->dict);
	pthread_rwlock_unlock(&shared->lock);
	if (!found) {
		pthread_rwlock_wrlock(&shared->lock);
		rc = add_missing(column, rows, &shared->dict, &e->local);
		if (rc == 0)
			look_up(e, column, rows, &shared->dict);
		pthread_rwlock_unlock(&shared->lock);
	}
	if (rc < 0)
		return rc == -ENOSPC ? 0 : rc;
	start = chunk_begin(e, column, rows, FTH_TABLE_CODES, chunk);
	put_codes(e, rows, chunk);
	chunk_finish(e, start, 0, chunk);
	return 1;
}

/* ---- a dictionary of the group ---- */

/* Fill e->local and e->numbers; false as soon as there are too many different strings. */
static int collect_local(struct encoder *e, const struct group_column *column, uint32_t rows)
{
	uint32_t code, last = 0;
	int rc;

	dict_clear(&e->local);
	for (uint32_t i = 0; i < rows; i++) {
		if (!is_null(column, i)) {
			rc = dict_add(&e->local, string_at(column, i), length_of(column, i), &code);
			if (rc < 0)
				return rc == -ENOSPC ? 0 : rc;
			last = code;
		}
		e->numbers[i] = last;
		if (e->local.count > 64 + i / 6)
			return 0;
	}
	return e->local.count > 0;
}

static void put_local(struct encoder *e, const struct dict *dict)
{
	size_t n = ((size_t)dict->count + 1) * sizeof(uint32_t);
	unsigned char *to = image_add(&e->image, n, 8);

	if (to)
		memcpy(to, dict->offsets, n);
	n = dict->offsets[dict->count];
	to = image_add(&e->image, n, 8);
	if (to && n)
		memcpy(to, dict->bytes, n);
}

static int encode_local(struct encoder *e, const struct group_column *column, uint32_t rows,
			struct fth_table_chunk *chunk)
{
	int rc = column->nulls == rows ? 0 : collect_local(e, column, rows);
	size_t start;

	if (rc <= 0)
		return rc;
	rc = dict_sort(&e->local, e->order);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < rows; i++)
		e->numbers[i] = e->order[e->numbers[i]];
	start = chunk_begin(e, column, rows, FTH_TABLE_LOCAL, chunk);
	put_codes(e, rows, chunk);
	put_local(e, &e->local);
	chunk_finish(e, start, e->local.count, chunk);
	return 1;
}

/* ---- blocks of text ---- */

/* The row behind the block that begins at `first`. */
static uint32_t block_end(const uint32_t *offsets, uint32_t first, uint32_t rows)
{
	uint32_t end = first + 1;

	while (end < rows && offsets[end + 1] - offsets[first] <= BLOCK_TEXT)
		end++;
	return end;
}

static uint32_t count_blocks(const uint32_t *offsets, uint32_t rows)
{
	uint32_t n = 0;

	for (uint32_t first = 0; first < rows; first = block_end(offsets, first, rows))
		n++;
	return n;
}

static int compress(struct encoder *e, const char *text, uint32_t bytes, unsigned char *to)
{
	/* No more than is worth it: a block that saves less than a sixteenth stays plain. */
	int limit = (int)(bytes - bytes / 16);

	if (e->compression == 0 || bytes < 64)
		return 0;
	if (e->compression == 1)
		return LZ4_compress_fast_extState(e->lz4, text, (char *)to, (int)bytes, limit, 1);
	return LZ4_compress_HC_extStateHC(e->lz4, text, (char *)to, (int)bytes, limit,
					  (int)e->compression);
}

/* Add one block behind the image. */
static void put_block(struct encoder *e, const struct group_column *column, uint32_t first,
		      uint32_t end, size_t start, struct block_entry *entry)
{
	uint32_t bytes = column->offsets[end] - column->offsets[first];
	const char *text = string_at(column, first);
	unsigned char *to = image_add(&e->image, bytes, 1);
	int stored;

	if (!to)
		return;
	stored = compress(e, text, bytes, to);
	if (stored <= 0) {
		if (bytes)
			memcpy(to, text, bytes);
		stored = (int)bytes;
	}
	e->image.length -= bytes - (uint32_t)stored;
	*entry = (struct block_entry){
		.checksum = fth_checksum(to, (size_t)stored, BLOCK_SEED),
		.first = first,
		.at = (uint32_t)((size_t)(to - e->image.bytes) - start),
		.stored = (uint32_t)stored,
		.text = bytes,
	};
}

static void put_lengths(struct encoder *e, const struct group_column *column, uint32_t rows,
			struct fth_table_chunk *chunk)
{
	struct sequence_stats stats;
	struct sequence_plan plan;
	unsigned char *to;

	for (uint32_t i = 0; i < rows; i++)
		e->lengths[i] = length_of(column, i);
	sequence_measure(e->lengths, rows, &stats);
	sequence_choose(e->lengths, &stats, &plan);
	to = image_add(&e->image, plan.bytes, 8);
	if (to)
		sequence_write(e->lengths, rows, &plan, to);
	chunk->width = (uint8_t)plan.width;
}

static int encode_blocks(struct encoder *e, const struct group_column *column, uint32_t rows,
			 struct fth_table_chunk *chunk)
{
	uint32_t blocks = count_blocks(column->offsets, rows), i = 0;
	size_t start = chunk_begin(e, column, rows, FTH_TABLE_BLOCKS, chunk), at;
	struct block_entry entry;

	put_lengths(e, column, rows, chunk);
	image_add(&e->image, blocks * sizeof(entry), 8);
	at = e->image.length - blocks * sizeof(entry);
	chunk_finish(e, start, blocks, chunk);
	for (uint32_t first = 0, end; first < rows; first = end, i++) {
		end = block_end(column->offsets, first, rows);
		put_block(e, column, first, end, start, &entry);
		if (e->image.failed)
			return -ENOMEM;
		memcpy(e->image.bytes + at + i * sizeof(entry), &entry, sizeof(entry));
	}
	if (e->image.failed)
		return -ENOMEM;
	chunk->bytes = (uint32_t)(e->image.length - start);
	return 0;
}

/* ---- any of them ---- */

static void note_strings(struct encoder *e, const struct group_column *column, uint32_t rows,
			 bool sketch, struct fth_table_chunk *chunk, struct chunk_notes *notes)
{
	chunk->min = INT64_MAX;
	chunk->max = INT64_MIN;
	for (uint32_t i = 0; i < rows; i++) {
		const char *bytes = string_at(column, i);
		uint32_t length = length_of(column, i);
		int64_t key;

		if (is_null(column, i))
			continue;
		key = fth_table_string_key(bytes, length);
		chunk->min = key < chunk->min ? key : chunk->min;
		chunk->max = key > chunk->max ? key : chunk->max;
		notes->max_length = length > notes->max_length ? length : notes->max_length;
		notes->string_bytes += length;
		if (sketch)
			sketch_add(e->sketch, string_hash(bytes, length));
	}
}

int encode_strings(struct encoder *e, struct group_column *column, uint32_t rows,
		   struct shared_dict *dict, struct fth_table_chunk *chunk,
		   struct chunk_notes *notes)
{
	int rc = encode_shared(e, column, rows, dict, chunk);
	bool shared = rc == 1;

	if (rc == 0)
		rc = encode_local(e, column, rows, chunk);
	if (rc == 0)
		rc = encode_blocks(e, column, rows, chunk);
	if (rc < 0)
		return rc;
	/* Values of the column's dictionary are added to the sketch at the end. */
	note_strings(e, column, rows, !shared, chunk, notes);
	return e->image.failed ? -ENOMEM : 0;
}
