/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows in memory: the results of tasks that later tasks or the client read. Columns have the narrowest
 * type that holds the range of their slot. Each thread appends with a writer of its own.
 */
#ifndef FTH_QUERY_TASK_ROWS_H
#define FTH_QUERY_TASK_ROWS_H

#include "query/task/task.h"

struct rows;
struct rows_writer;

/* Up to FTH_BATCH rows. */
struct rows_block {
	struct rows_block *next;
	unsigned n;
	struct fth_vec *columns;
};

/* The columns must outlive the rows. Returns 0 or -ENOMEM. */
int rows_new(struct fth_qmem *mem, const struct task_slot *columns, unsigned count,
	     struct rows **out);
void rows_free(struct rows *rows); /* accepts NULL */

int rows_writer_open(struct rows *rows, struct rows_writer **out);
/* Append the selected rows; columns[i] is the vector of column i. Returns 0 or -ENOMEM. */
int rows_append(struct rows_writer *w, struct fth_vec *const *columns, struct fth_sel *sel);
/* Hand over what was appended. Accepts NULL. */
void rows_writer_close(struct rows_writer *w);

/* Valid when all writers are closed. */
uint64_t rows_count(const struct rows *rows);
const struct rows_block *rows_first(const struct rows *rows);

/* The number of a row that is none. A row's number is its block times FTH_BATCH, plus its place there. */
#define ROWS_NONE UINT32_MAX

/* All blocks, to find rows by number. Returns 0 or -ENOMEM. unlist accepts NULL. */
int rows_list(const struct rows *rows, const struct rows_block ***blocks, uint32_t *count);
void rows_unlist(const struct rows *rows, const struct rows_block **blocks, uint32_t count);

/*
 * Values of a column at the rows numbers[0..n), in values[] and nulls[], which have room for them. Where a
 * number is ROWS_NONE the value is null.
 */
void rows_gather(const struct rows_block *const *blocks, const struct task_slot *slot,
		 unsigned column, const uint32_t *numbers, unsigned n, struct fth_vec *out,
		 void *values, uint64_t *nulls);

/* The physical type of values in a slot. */
enum fth_phys rows_phys(const struct task_slot *slot);
/* Row i of a column of text, whether it has a dictionary or not. */
static inline struct fth_str rows_text(const struct fth_vec *v, unsigned i)
{
	return v->dict != NULL ? v->dict->entries[(size_t)fth_vec_int(v, i)]
			       : ((const struct fth_str *)v->data)[i];
}

#endif
