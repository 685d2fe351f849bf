/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a writer keeps to its memory. A part each is for facts, for dictionaries and for blocks of
 * text that are loaded; the rest is for groups: those that are filled, wait or are encoded, and the
 * image of each that is encoded. The bytes of a group are those of its rows and of their text, for
 * which a group has so much room and is cut before it is exceeded.
 *
 * With less memory a writer has fewer groups that wait, then smaller groups, then fewer threads,
 * and at last groups of few rows.
 */
#include "table/write/writer.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <lz4.h>
#include <lz4hc.h>

#define MEMORY_PER_THREAD ((uint64_t)256 << 20) /* by default */
#define PART_OF_FACTS	  16u
#define PART_OF_DICTS	  8u
#define PART_OF_LOAD	  16u
#define BLOCK_COPIES \
	8u /* of a block of text: its values, at two characters each, and its strings */
#define BLOCK_MIN      ((size_t)16 << 10)
#define BLOCK_MAX      ((size_t)2 << 20)
#define TEXT_OF_STRING 16u	   /* bytes of a string, for which a group has room at least */
#define THREAD_FIXED   (96u << 10) /* stack, and what malloc() takes for a thread */
#define DICT_MIN       (8u << 10)
#define ROWS_MIN       256u
#define ROWS_GOOD      16384u /* of a group: rather fewer threads than smaller groups */

/* Bytes of a row. */
struct row_cost {
	uint64_t group;	  /* in a group, without text */
	uint64_t encoder; /* of a thread that encodes it: its image, numbers, a dictionary */
	uint64_t text;	  /* of its strings */
};

static struct row_cost cost_of_row(const struct fth_table_schema *schema)
{
	struct row_cost cost = {0};

	for (uint32_t c = 0; c < schema->columns; c++) {
		enum fth_table_kind kind = fth_table_kind(&schema->column[c]);

		cost.group += 1; /* null or not */
		cost.group += kind == FTH_TABLE_KIND_WIDE     ? sizeof(struct fth_table_wide)
			      : kind == FTH_TABLE_KIND_STRING ? sizeof(uint32_t)
							      : sizeof(int64_t);
		cost.text += kind == FTH_TABLE_KIND_STRING ? TEXT_OF_STRING : 0;
	}
	cost.encoder = cost.group + 2 * sizeof(int64_t) + sizeof(uint32_t) + sizeof(uint64_t);
	return cost;
}

/*
 * Of one byte of text: in each group, and in the image and in half of a dictionary of each that is
 * encoded.
 */
static uint64_t text_copies(unsigned threads, unsigned groups)
{
	return groups + threads + (threads + 1) / 2;
}

static uint64_t rows_bytes(const struct fth_table_schema *schema, unsigned threads, unsigned groups)
{
	struct row_cost cost = cost_of_row(schema);

	return groups * cost.group + threads * cost.encoder +
	       text_copies(threads, groups) * cost.text;
}

static uint64_t thread_bytes(const struct fth_table_writer *w)
{
	int state = w->compression > 1 ? LZ4_sizeofStateHC() : LZ4_sizeofState();

	return THREAD_FIXED + (uint64_t)state;
}

/* The rows of a group if so many bytes are for `threads` threads and `groups` groups. */
static uint64_t rows_for(const struct fth_table_writer *w, uint64_t bytes, unsigned threads,
			 unsigned groups)
{
	uint64_t fixed = threads * thread_bytes(w);

	return bytes <= fixed ? 0
			      : (bytes - fixed) / rows_bytes(&w->manifest.schema, threads, groups);
}

static uint64_t for_groups(uint64_t memory)
{
	return memory - memory / PART_OF_FACTS - memory / PART_OF_DICTS - memory / PART_OF_LOAD;
}

/* One thread and two groups of few rows. */
uint64_t writer_least(const struct fth_table_schema *schema)
{
	uint64_t bytes =
		THREAD_FIXED + (uint64_t)LZ4_sizeofState() + ROWS_MIN * rows_bytes(schema, 1, 2);

	return (bytes / for_groups(1u << 10) + 2) << 10;
}

/* Long strings get what is left. */
static uint64_t text_for(const struct fth_table_writer *w, uint64_t bytes)
{
	struct row_cost cost = cost_of_row(&w->manifest.schema);
	uint64_t others = w->threads * thread_bytes(w) +
			  w->group_rows * (w->group_max * cost.group + w->threads * cost.encoder);
	uint64_t least = w->group_rows * cost.text, text;

	text = bytes < others ? 0 : (bytes - others) / text_copies(w->threads, w->group_max);
	return text > least ? text : least;
}

static void plan_groups(struct fth_table_writer *w, uint64_t bytes)
{
	uint64_t good = w->group_rows < ROWS_GOOD ? w->group_rows : ROWS_GOOD, rows;

	while (w->threads > 1 && rows_for(w, bytes, w->threads, w->threads + 1) < good)
		w->threads /= 2;
	/* The tables of a slow compression are worth no more than a part. */
	if (w->compression > 1 && thread_bytes(w) > bytes / 4)
		w->compression = 1;
	rows = rows_for(w, bytes, w->threads, w->threads + 1);
	rows = rows < ROWS_MIN ? ROWS_MIN : rows - rows % ROWS_MIN;
	if (rows < w->group_rows)
		w->group_rows = (uint32_t)rows;
	/* One is filled, the others wait or are encoded. */
	w->group_max = w->threads + 1;
	while (w->group_max < 2 * w->threads + 2 &&
	       rows_for(w, bytes, w->threads, w->group_max + 1) >= w->group_rows)
		w->group_max++;
	w->group_text = text_for(w, bytes);
}

static uint64_t within(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static uint32_t string_columns(const struct fth_table_schema *schema)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < schema->columns; c++)
		n += fth_table_kind(&schema->column[c]) == FTH_TABLE_KIND_STRING;
	return n;
}

int writer_plan(struct fth_table_writer *w, const char *name, uint64_t memory, uint64_t facts)
{
	uint32_t strings = string_columns(&w->manifest.schema),
		 columns = w->manifest.schema.columns;
	uint64_t least = writer_least(&w->manifest.schema);

	memory = memory ? memory : w->threads * MEMORY_PER_THREAD;
	if (memory < least)
		return fth_fail(
			ENOMEM,
			"%s: appending needs at least %llu KiB of memory, the limit is %llu KiB",
			name, (unsigned long long)(least >> 10),
			(unsigned long long)(memory >> 10));
	plan_groups(w, for_groups(memory));
	w->fact_memory = within(facts, 0, memory / PART_OF_FACTS / columns);
	/* A dictionary is there twice while the batch is committed. */
	w->dict_bytes = (uint32_t)within(memory / PART_OF_DICTS / 2 / (strings ? strings : 1),
					 DICT_MIN, DICT_BYTES_MAX);
	w->block_bytes = (size_t)within(memory / PART_OF_LOAD / BLOCK_COPIES / w->threads,
					BLOCK_MIN, BLOCK_MAX);
	return 0;
}
