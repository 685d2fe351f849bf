/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows: the results of tasks that later tasks read. Columns have the narrowest type that holds the
 * range of their slot. Each thread appends with a writer of its own. Rows beyond the memory that
 * they may take go to the scratch file of the query.
 */
#ifndef FTH_QUERY_RESULT_ROWS_H
#define FTH_QUERY_RESULT_ROWS_H

#include "query/task/task.h"

struct rows;
struct rows_writer;
struct scratch;

/* Up to FTH_BATCH rows. */
struct rows_block {
	struct rows_block *next;
	unsigned n;
	struct fth_vec *columns;
};

/*
 * Up to about `room` bytes are kept in memory, the others in the scratch file. The columns must
 * outlive the rows. Returns 0 or -ENOMEM.
 */
int rows_new(struct fth_qmem *mem, const struct task_slot *columns, unsigned count,
	     struct scratch *scratch, uint64_t room, struct rows **out);
void rows_free(struct rows *rows); /* accepts NULL */

int rows_writer_open(struct rows *rows, struct rows_writer **out);
/*
 * Append the selected rows; columns[i] is the vector of column i. Returns 0, -ENOMEM or an error of
 * the scratch file.
 */
int rows_append(struct rows_writer *w, struct fth_vec *const *columns, struct fth_sel *sel);
/* Hand over what was appended. Accepts NULL. */
void rows_writer_close(struct rows_writer *w);

/* All writers are closed: no more rows will come. Returns 0 or an error of the scratch file. */
int rows_finish(struct rows *rows);

/* Valid after rows_finish(). Blocks are those in memory; bytes are what they take. */
uint64_t rows_count(const struct rows *rows);
uint64_t rows_bytes(const struct rows *rows);
const struct rows_block *rows_first(const struct rows *rows);
/*
 * Read the rows in the scratch file, which can be done more than once: `take` gets up to FTH_BATCH
 * of them at a time, valid until it returns, and ends the reading with a negative errno. Returns 0,
 * that errno, -ENOMEM or an error of the scratch file.
 */
int rows_read_spilled(struct rows *rows,
		      int (*take)(void *user, const struct fth_vec *columns, unsigned n),
		      void *user);

/* The physical type of values in a slot. */
enum fth_phys rows_phys(const struct task_slot *slot);
/* Row i of a column of text, whether it has a dictionary or not. */
static inline struct fth_str rows_text(const struct fth_vec *v, unsigned i)
{
	return v->dict ? v->dict->entries[(size_t)fth_vec_int(v, i)]
		       : ((const struct fth_str *)v->data)[i];
}

#endif
