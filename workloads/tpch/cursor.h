/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cursor and the random sequences that it draws from.
 *
 * A unit takes a fixed number of draws from each sequence of its table, whether it needs them or
 * not. seed[] is where the next unit begins; draw[] is the present unit's own copy.
 */
#ifndef FTH_WORKLOADS_TPCH_CURSOR_H
#define FTH_WORKLOADS_TPCH_CURSOR_H

#include "tpch_internal.h"

#define TPCH_SUPPLIERS_PER_PART 4

/* The sequences. Those of a table lie together; orders and lineitem share a part of theirs. */
enum stream {
	R_COMMENT,
	N_COMMENT,
	S_ADDRESS,
	S_NATION,
	S_PHONE,
	S_BALANCE,
	S_COMMENT,
	S_REMARK, /* does the comment tell of complaints or recommendations? */
	S_REMARK_KIND,
	S_REMARK_GAP,
	S_REMARK_PLACE,
	C_ADDRESS,
	C_NATION,
	C_PHONE,
	C_BALANCE,
	C_SEGMENT,
	C_COMMENT,
	P_NAME,
	P_MFGR,
	P_BRAND,
	P_TYPE,
	P_SIZE,
	P_CONTAINER,
	P_COMMENT,
	PS_QUANTITY,
	PS_COST,
	PS_COMMENT,
	O_CUSTOMER,
	O_PRIORITY,
	O_CLERK,
	O_COMMENT,
	O_DATE,
	O_LINES,
	L_QUANTITY,
	L_DISCOUNT,
	L_TAX,
	L_PART,
	L_SHIP,
	L_SUPPLIER,
	L_COMMIT,
	L_RECEIPT,
	L_FLAG,
	L_INSTRUCTION,
	L_MODE,
	L_COMMENT,
	STREAMS
};

struct fth_tpch_cursor {
	const struct fth_tpch *tpch;
	enum fth_tpch_table table;
	uint64_t unit, end;	/* the present unit, from 1 on; the last one */
	unsigned row, rows;	/* of the present unit: rows done, rows in all */
	int64_t order_date;	/* of the present order, as days since 1992-01-01 */
	unsigned lines;		/* of the present order */
	uint64_t part_seed;	/* of the present order, where part keys have 64 bits */
	uint64_t customer_seed; /* of customer keys, likewise */
	bool large;
	int64_t parts, suppliers, customers, clerks;
	uint32_t seed[STREAMS], draw[STREAMS], step[STREAMS];
	size_t used; /* of room, by the present row */
	char room[512];
};

/* Make row number c->row of the present unit, in rows.c; sets c->rows of an order. */
void tpch_make_row(struct fth_tpch_cursor *c, union fth_tpch_row *row);

#endif
