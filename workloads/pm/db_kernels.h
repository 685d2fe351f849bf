/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpDB: a persistent table of columns, after Virginian (Bakkum and Chakradhar, 2012). Inserting
 * writes rows behind the last one and then one word, the number of rows, so that nothing has to be
 * undone. Updating overwrites two columns of one row of twenty, whose old values are logged first;
 * an update that did not commit is undone.
 */
#ifndef FTH_WORKLOADS_PM_DB_KERNELS_H
#define FTH_WORKLOADS_PM_DB_KERNELS_H

#include "workloads/pm/lanes.h"
#include "workloads/pm/undo.h"
#include "fathom/base/rng.h"

#define PMW_DB_COLUMNS 8u
#define PMW_DB_ITEM    PMW_WARP /* rows */
#define PMW_DB_STRIDE  20u	/* an update changes one row of so many */

struct pmw_db_undo {
	uint64_t row;
	uint64_t balance, stamp;
};

struct pmw_db {
	struct fth_pm_view view;
	struct pmw_undo undo;
	uint64_t *table; /* persistent: PMW_DB_COLUMNS columns of `capacity` rows */
	uint64_t *copy;	 /* of the first two columns, where reading is cheap */
	uint64_t capacity;
	uint64_t rows;	 /* before this statement */
	uint64_t change; /* rows that it inserts, or that it updates */
	uint64_t seed;
	uint64_t number; /* of the statement */
};

FTH_HD uint64_t pmw_db_value(const struct pmw_db *p, uint64_t row, uint64_t column)
{
	return fth_mix64(p->seed + row * PMW_DB_COLUMNS + column);
}

/* Item: 32 rows to insert. */
FTH_HD void pmw_db_insert(const struct pmw_db *p, uint64_t item, uint32_t lane)
{
	uint64_t first = item * PMW_DB_ITEM,
		 end = first + PMW_DB_ITEM < p->change ? first + PMW_DB_ITEM : p->change;

	for (uint64_t column = 0; column < PMW_DB_COLUMNS; column++) {
		uint64_t *values = p->table + column * p->capacity + p->rows;

		for (uint64_t i = first + lane; i < end; i += PMW_LANES) {
			uint64_t value = pmw_db_value(p, p->rows + i, column);

			fth_pm_put64(&p->view, values + i, value);
			if (column < 2)
				p->copy[column * p->capacity + p->rows + i] = value;
			if (PMW_LANES > 1)
				fth_pm_flush_range(&p->view, values + i, sizeof(*values));
		}
		if (PMW_LANES == 1)
			fth_pm_flush_range(&p->view, values + first,
					   (end - first) * sizeof(*values));
	}
	fth_pm_fence(&p->view);
}

/* Which row of its twenty the statement changes. */
FTH_HD uint64_t pmw_db_row(const struct pmw_db *p, uint64_t i)
{
	return i * PMW_DB_STRIDE +
	       fth_mix64(p->seed + p->number * 0x9e3779b97f4a7c15u + i) % PMW_DB_STRIDE;
}

FTH_HD void pmw_db_write(const struct pmw_db *p, const struct pmw_db_undo *values)
{
	uint64_t *balance = p->table + values->row, *stamp = balance + p->capacity;

	fth_pm_put64(&p->view, balance, values->balance);
	fth_pm_flush_range(&p->view, balance, sizeof(*balance));
	fth_pm_put64(&p->view, stamp, values->stamp);
	fth_pm_flush_range(&p->view, stamp, sizeof(*stamp));
	fth_pm_fence(&p->view);
}

/*
 * Item: 32 rows to update: the first column grows by what the row is worth, the second says when.
 */
FTH_HD void pmw_db_update(const struct pmw_db *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_DB_ITEM + lane; i < p->change && i < (item + 1) * PMW_DB_ITEM;
	     i += PMW_LANES) {
		struct pmw_db_undo values;

		values.row = pmw_db_row(p, i);
		values.balance = p->copy[values.row];
		values.stamp = p->copy[p->capacity + values.row];
		if (!pmw_undo_log(&p->undo, i, &values, sizeof(values)))
			continue;
		values.balance += 1 + (values.row ^ p->number) % 1000;
		values.stamp = p->number;
		pmw_db_write(p, &values);
		p->copy[values.row] = values.balance;
		p->copy[p->capacity + values.row] = values.stamp;
	}
}

/* Item: 32 rows of an update that is to be undone. */
FTH_HD void pmw_db_undo_update(const struct pmw_db *p, uint64_t item, uint32_t lane)
{
	struct pmw_db_undo values;

	for (uint64_t i = item * PMW_DB_ITEM + lane; i < p->change && i < (item + 1) * PMW_DB_ITEM;
	     i += PMW_LANES)
		if (pmw_undo_read(&p->undo, i, &values, sizeof(values)) && values.row < p->rows)
			pmw_db_write(p, &values);
}

/* Item: 32 rows. */
FTH_HD void pmw_db_load(const struct pmw_db *p, uint64_t item, uint32_t lane)
{
	for (uint64_t row = item * PMW_DB_ITEM + lane;
	     row < p->rows && row < (item + 1) * PMW_DB_ITEM; row += PMW_LANES)
		for (uint64_t column = 0; column < 2; column++)
			p->copy[column * p->capacity + row] = p->table[column * p->capacity + row];
}

#endif
