/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpDB: a step is a statement. Inserting: items is rows of a statement. Updating: items is rows of
 * the table.
 */
#include "workloads/pm/db_kernels.h"

#include "workloads/pm/job.h"
#include "workloads/pm/transaction.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct db {
	struct pmw_db p;
	struct pmw_area table;
};

static uint64_t table_bytes(uint64_t rows)
{
	return rows * PMW_DB_COLUMNS * sizeof(uint64_t) + PMW_ALIGN;
}

static int db_open(struct pmw_job *job, uint64_t capacity)
{
	struct db *w = job->own;
	int rc = pmw_area(job, table_bytes(capacity) - PMW_ALIGN, &w->table);

	if (rc == 0)
		rc = pmw_take(job, 2 * capacity * sizeof(uint64_t), &w->p.copy);
	w->p.view = job->view;
	w->p.table = (uint64_t *)(void *)w->table.kernel;
	w->p.capacity = capacity;
	w->p.seed = job->options->seed;
	return rc;
}

/* Compare a column with what each row must have. */
static int check_column(struct pmw_job *job, uint64_t column, uint64_t rows,
			const uint64_t *expected)
{
	enum { ROWS = 1 << 16 };
	struct db *w = job->own;
	uint64_t *values = malloc(ROWS * sizeof(*values));
	int rc = values ? 0 : fth_fail(ENOMEM, "no memory to check the result");

	for (uint64_t first = 0; rc == 0 && first < rows; first += ROWS) {
		uint64_t count = rows - first < ROWS ? rows - first : ROWS;

		rc = pmw_download(job, values, w->p.table + column * w->p.capacity + first,
				  count * sizeof(*values));
		for (uint64_t i = 0; rc == 0 && i < count; i++) {
			uint64_t right = expected ? expected[first + i]
						  : pmw_db_value(&w->p, first + i, column);

			if (values[i] != right)
				rc = fth_fail(
					EILSEQ, "db: row %llu, column %llu is %llx, expected %llx",
					(unsigned long long)(first + i), (unsigned long long)column,
					(unsigned long long)values[i], (unsigned long long)right);
		}
	}
	free(values);
	return rc;
}

static int check_columns(struct pmw_job *job, uint64_t from, uint64_t rows)
{
	int rc = 0;

	for (uint64_t column = from; rc == 0 && column < PMW_DB_COLUMNS; column++)
		rc = check_column(job, column, rows, NULL);
	return rc;
}

/* ---- inserting ---- */

static uint64_t insert_bytes(uint64_t items, uint64_t steps)
{
	if (items > 0 && steps > (UINT64_C(1) << 40) / items)
		return UINT64_C(1) << 62; /* more than can be mapped */
	return table_bytes(items * steps);
}

static int insert_check(uint64_t items)
{
	return items >= 1 && items <= 1u << 28
		       ? 0
		       : fth_fail(EINVAL, "items (rows per statement) must be 1 to 2^28");
}

static int insert_open(struct pmw_job *job)
{
	struct db *w = job->own;
	int rc = db_open(job, job->items * job->steps);

	w->p.rows = job->state->done * job->items;
	return rc ? rc : pmw_launch(job, PMW_DB_LOAD, &w->p, pmw_groups(w->p.rows, PMW_DB_ITEM));
}

static uint64_t insert_done(struct pmw_job *job)
{
	return job->state->done;
}

static int insert_step(struct pmw_job *job, uint64_t step)
{
	struct db *w = job->own;
	uint64_t bytes = job->items * sizeof(uint64_t);
	int rc;

	w->p.rows = step * job->items;
	w->p.change = job->items;
	w->p.number = step;
	rc = pmw_launch(job, PMW_DB_INSERT, &w->p, pmw_groups(job->items, PMW_DB_ITEM));
	for (uint64_t column = 0; rc == 0 && column < PMW_DB_COLUMNS; column++)
		rc = pmw_persist_area(job, &w->table,
				      (column * w->p.capacity + w->p.rows) * sizeof(uint64_t),
				      bytes, bytes);
	if (rc == 0 && job->options->stop_before_end && step + 1 == job->steps)
		rc = fth_fail(ECANCELED, "stopped before the last commit, as requested");
	return rc ? rc : pmw_set_state(job, &job->state->done, step + 1);
}

static int insert_finish(struct pmw_job *job)
{
	struct db *w = job->own;
	int rc = check_columns(job, 0, job->items * job->steps);

	return rc ? rc : pmw_digest(job, w->table.kernel, w->table.bytes);
}

const struct fth_pmw_workload pmw_db_insert_workload = {
	.name = "insert",
	.kind = FTH_PMW_TRANSACTIONAL,
	.items = 1000,
	.steps = 10,
	.paper_items = 5000000,
	.paper_steps = 10,
	.own = sizeof(struct db),
	.bytes = insert_bytes,
	.check = insert_check,
	.open = insert_open,
	.done = insert_done,
	.step = insert_step,
	.finish = insert_finish,
};

/* ---- updating ---- */

static uint64_t changes_of(uint64_t items)
{
	return items / PMW_DB_STRIDE;
}

static uint64_t update_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return table_bytes(items) +
	       pmw_transaction_bytes(changes_of(items), sizeof(struct pmw_db_undo));
}

static int update_check(uint64_t items)
{
	return items >= PMW_DB_STRIDE && items <= UINT64_C(1) << 33
		       ? 0
		       : fth_fail(EINVAL, "items (rows of the table) must be %u to 2^33",
				  PMW_DB_STRIDE);
}

static int undo_update(struct pmw_job *job, const struct pmw_undo *undo)
{
	struct db *w = job->own;

	w->p.undo = *undo;
	return pmw_launch(job, PMW_DB_UNDO, &w->p, pmw_groups(w->p.change, PMW_DB_ITEM));
}

static int fill_table(struct pmw_job *job)
{
	struct db *w = job->own;
	struct pmw_db p = w->p;

	p.rows = 0;
	p.change = job->items;
	return pmw_launch(job, PMW_DB_INSERT, &p, pmw_groups(job->items, PMW_DB_ITEM));
}

static int update_open(struct pmw_job *job)
{
	struct db *w = job->own;
	int rc = db_open(job, job->items);

	w->p.rows = job->items;
	w->p.change = changes_of(job->items);
	if (rc == 0 && job->fresh)
		rc = fill_table(job);
	if (rc == 0)
		rc = pmw_transaction_open(job, w->p.change, sizeof(struct pmw_db_undo),
					  undo_update);
	return rc ? rc : pmw_launch(job, PMW_DB_LOAD, &w->p, pmw_groups(w->p.rows, PMW_DB_ITEM));
}

static int update_step(struct pmw_job *job, uint64_t step)
{
	struct db *w = job->own;
	int rc = pmw_transaction_begin(job, step, &w->p.undo);

	w->p.number = step + 1;
	if (rc == 0)
		rc = pmw_launch(job, PMW_DB_UPDATE, &w->p, pmw_groups(w->p.change, PMW_DB_ITEM));
	if (rc == 0) /* which rows changed only the kernel knows, so assisted: both columns */
		rc = pmw_persist_area(
			job, &w->table, 0, 2 * w->p.capacity * sizeof(uint64_t),
			w->p.change * (2 * sizeof(uint64_t) + sizeof(struct pmw_db_undo) + 4));
	return rc ? rc : pmw_transaction_commit(job, step);
}

/* Replay all statements on the CPU. */
static int update_finish(struct pmw_job *job)
{
	struct db *w = job->own;
	uint64_t *columns = malloc(2 * job->items * sizeof(*columns));
	struct pmw_db p = w->p;
	int rc;

	if (!columns)
		return fth_fail(ENOMEM, "no memory to check the result");
	for (uint64_t i = 0; i < 2 * job->items; i++)
		columns[i] = pmw_db_value(&p, i % job->items, i / job->items);
	for (p.number = 1; p.number <= job->steps; p.number++)
		for (uint64_t i = 0; i < p.change; i++) {
			uint64_t row = pmw_db_row(&p, i);

			columns[row] += 1 + (row ^ p.number) % 1000;
			columns[job->items + row] = p.number;
		}
	rc = check_column(job, 0, job->items, columns);
	if (rc == 0)
		rc = check_column(job, 1, job->items, columns + job->items);
	free(columns);
	if (rc == 0)
		rc = check_columns(job, 2, job->items);
	return rc ? rc : pmw_digest(job, w->table.kernel, w->table.bytes);
}

const struct fth_pmw_workload pmw_db_update_workload = {
	.name = "update",
	.kind = FTH_PMW_TRANSACTIONAL,
	.items = 20000,
	.steps = 10,
	.paper_items = 50000000,
	.paper_steps = 10,
	.own = sizeof(struct db),
	.bytes = update_bytes,
	.check = update_check,
	.open = update_open,
	.done = pmw_transaction_done,
	.step = update_step,
	.finish = update_finish,
};
