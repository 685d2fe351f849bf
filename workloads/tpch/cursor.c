/* SPDX-License-Identifier: BSD-2-Clause */
/* The seeds of all sequences, and cursors that go through the units of a table. */
#include "cursor.h"

#include "random.h"

#include <errno.h>
#include <stdlib.h>

#define LARGE_SCALE 30000000u /* in thousandths: keys are drawn from 64-bit sequences */

static const struct {
	uint32_t seed;
	unsigned uses; /* by a unit */
} streams[STREAMS] = {
	[R_COMMENT] = {1500869201, 2},
	[N_COMMENT] = {606179079, 2},
	[S_ADDRESS] = {706178559, 9},
	[S_NATION] = {110356601, 1},
	[S_PHONE] = {884434366, 3},
	[S_BALANCE] = {962338209, 1},
	[S_COMMENT] = {1341315363, 2},
	[S_REMARK] = {202794285, 1},
	[S_REMARK_KIND] = {753643799, 1},
	[S_REMARK_GAP] = {263032577, 1},
	[S_REMARK_PLACE] = {715851524, 1},
	[C_ADDRESS] = {881155353, 9},
	[C_NATION] = {1489529863, 1},
	[C_PHONE] = {1521138112, 3},
	[C_BALANCE] = {298370230, 1},
	[C_SEGMENT] = {1140279430, 1},
	[C_COMMENT] = {1335826707, 2},
	[P_NAME] = {709314158, 92},
	[P_MFGR] = {1, 1},
	[P_BRAND] = {46831694, 1},
	[P_TYPE] = {1841581359, 1},
	[P_SIZE] = {1193163244, 1},
	[P_CONTAINER] = {727633698, 1},
	[P_COMMENT] = {804159733, 2},
	[PS_QUANTITY] = {1671059989, TPCH_SUPPLIERS_PER_PART},
	[PS_COST] = {1051288424, TPCH_SUPPLIERS_PER_PART},
	[PS_COMMENT] = {1961692154, 2 * TPCH_SUPPLIERS_PER_PART},
	[O_CUSTOMER] = {851767375, 1},
	[O_PRIORITY] = {591449447, 1},
	[O_CLERK] = {1171034773, 1},
	[O_COMMENT] = {276090261, 2},
	[O_DATE] = {1066728069, 1},
	[O_LINES] = {1434868289, 1},
	[L_QUANTITY] = {209208115, TPCH_LINES_MAX},
	[L_DISCOUNT] = {554590007, TPCH_LINES_MAX},
	[L_TAX] = {721958466, TPCH_LINES_MAX},
	[L_PART] = {1808217256, TPCH_LINES_MAX},
	[L_SHIP] = {1769349045, TPCH_LINES_MAX},
	[L_SUPPLIER] = {2095021727, TPCH_LINES_MAX},
	[L_COMMIT] = {904914315, TPCH_LINES_MAX},
	[L_RECEIPT] = {373135028, TPCH_LINES_MAX},
	[L_FLAG] = {717419739, TPCH_LINES_MAX},
	[L_INSTRUCTION] = {1371272478, TPCH_LINES_MAX},
	[L_MODE] = {675466456, TPCH_LINES_MAX},
	[L_COMMENT] = {1095462486, 2 * TPCH_LINES_MAX},
};

static const struct {
	enum stream first, last;
} table_streams[FTH_TPCH_TABLES] = {
	[FTH_TPCH_REGION] = {R_COMMENT, R_COMMENT},
	[FTH_TPCH_NATION] = {N_COMMENT, N_COMMENT},
	[FTH_TPCH_SUPPLIER] = {S_ADDRESS, S_REMARK_PLACE},
	[FTH_TPCH_CUSTOMER] = {C_ADDRESS, C_COMMENT},
	[FTH_TPCH_PART] = {P_NAME, P_COMMENT},
	[FTH_TPCH_PARTSUPP] = {PS_QUANTITY, PS_COMMENT},
	[FTH_TPCH_ORDERS] = {O_CUSTOMER, L_SHIP},
	[FTH_TPCH_LINEITEM] = {O_DATE, L_COMMENT},
};

/* ---- part keys at large scale factors ---- */

bool tpch_uses_part_keys(const struct fth_tpch *tpch, enum fth_tpch_table table)
{
	return tpch->thousandths >= LARGE_SCALE &&
	       (table == FTH_TPCH_ORDERS || table == FTH_TPCH_LINEITEM);
}

void tpch_part_keys_init(struct tpch_part_keys *keys)
{
	*keys = (struct tpch_part_keys){0, streams[O_LINES].seed, streams[L_PART].seed};
}

void tpch_part_keys_follow(struct tpch_part_keys *keys, uint64_t order)
{
	for (; keys->order < order; keys->order++) {
		uint64_t lines = (uint64_t)tpch_draw(&keys->lines_seed, 1, TPCH_LINES_MAX);

		keys->seed = tpch_advance64(keys->seed, lines);
		keys->seed = tpch_leave_out64(keys->seed, TPCH_LINES_MAX - lines);
	}
}

/* ---- cursors ---- */

/* Go on to the next unit, and let seed[] be where the one after it begins. */
static void begin_unit(struct fth_tpch_cursor *c)
{
	if (c->large && c->row)
		c->part_seed = tpch_leave_out64(c->part_seed, TPCH_LINES_MAX - c->lines);
	for (unsigned s = table_streams[c->table].first; s <= table_streams[c->table].last; s++) {
		c->draw[s] = c->seed[s];
		c->seed[s] = tpch_multiply(c->seed[s], c->step[s]);
	}
	c->unit++;
	c->row = 0;
	c->rows = tpch_rows_per_unit(c->table);
}

bool fth_tpch_next(struct fth_tpch_cursor *c, union fth_tpch_row *row)
{
	if (c->row == c->rows) {
		if (c->unit == c->end)
			return false;
		begin_unit(c);
	}
	c->used = 0;
	tpch_make_row(c, row);
	c->row++;
	return true;
}

static void init_limits(struct fth_tpch_cursor *c)
{
	c->parts = (int64_t)fth_tpch_units(c->tpch, FTH_TPCH_PART);
	c->suppliers = (int64_t)fth_tpch_units(c->tpch, FTH_TPCH_SUPPLIER);
	c->customers = (int64_t)fth_tpch_units(c->tpch, FTH_TPCH_CUSTOMER);
	c->clerks = c->tpch->thousandths < 1000 ? 1000 : (int64_t)c->tpch->thousandths;
}

int tpch_cursor_open_at(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			uint64_t count, const struct tpch_part_keys *keys,
			struct fth_tpch_cursor **out)
{
	uint64_t units = fth_tpch_units(tpch, table);
	struct fth_tpch_cursor *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	if (first > units)
		first = units;
	c->tpch = tpch;
	c->table = table;
	c->unit = first;
	c->end = count < units - first ? first + count : units;
	c->large = keys != NULL;
	init_limits(c);
	for (unsigned s = table_streams[table].first; s <= table_streams[table].last; s++) {
		c->step[s] = tpch_power(streams[s].uses);
		c->seed[s] = tpch_multiply(streams[s].seed, tpch_power(first * streams[s].uses));
	}
	if (keys) {
		c->part_seed = keys->seed;
		c->customer_seed = tpch_advance64(streams[O_CUSTOMER].seed, first);
	}
	*out = c;
	return 0;
}

int fth_tpch_cursor_open(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			 uint64_t count, struct fth_tpch_cursor **out)
{
	uint64_t units = fth_tpch_units(tpch, table);
	struct tpch_part_keys keys;

	if (!tpch_uses_part_keys(tpch, table))
		return tpch_cursor_open_at(tpch, table, first, count, NULL, out);
	tpch_part_keys_init(&keys);
	tpch_part_keys_follow(&keys, first < units ? first : units);
	return tpch_cursor_open_at(tpch, table, first, count, &keys, out);
}

void fth_tpch_cursor_close(struct fth_tpch_cursor *cursor)
{
	free(cursor);
}
