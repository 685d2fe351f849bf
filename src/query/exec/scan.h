/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading row groups of a table: each thread has a reader, which keeps the chunks of the next
 * groups on their way while the thread works on one.
 *
 *	scan_begin(reader, group, all) ...	up to spec.depth groups
 *	scan_next(reader, &now);		the oldest: its early columns are there and verified
 *	scan_late(reader, now);			the other columns, if rows are left that need them
 *	scan_done(reader, now);			its buffer is free for another scan_begin()
 *
 * A buffer keeps its group until it is needed for another one: a group that is begun again soon is
 * not read again. Whatever a reader needs is allocated when it is opened, and scan_memory() says
 * how much that is.
 */
#ifndef FTH_QUERY_SCAN_H
#define FTH_QUERY_SCAN_H

#include <stdatomic.h>

#include "fathom/table.h"
#include "query/mem/qmem.h"

#define SCAN_DEPTH_MAX 8u
#define SCAN_DEPTH     3u /* of scans of tasks */

struct scan_spec {
	struct fth_table *table;
	unsigned count;		 /* columns */
	const unsigned *columns; /* of the table */
	unsigned early;		 /* the first ones of them are read for every group */
	bool heads; /* of text in blocks only the heads are read; scan_blocks() reads the rest */
	unsigned depth;		      /* groups on their way at a time, 1 to SCAN_DEPTH_MAX */
	const atomic_bool *cancel[2]; /* one becomes true when the query is to end; or NULL */
};

struct scan_group {
	uint32_t group, rows;
	uint64_t first;		      /* row of the table */
	struct fth_table_page *pages; /* by position in spec.columns */
	const unsigned char **images; /* the chunks as stored */
};

struct scan_reader;

/* Bytes that a reader takes from its account, at most. */
uint64_t scan_memory(const struct scan_spec *spec);

/*
 * The spec and what it points to must outlive the reader. Returns 0, -ENOMEM or an error of the
 * device.
 */
int scan_open(const struct scan_spec *spec, struct fth_qmem *mem, struct scan_reader **out);
/* Waits for reads on their way. Accepts NULL. */
void scan_close(struct scan_reader *r);

/* Whether scan_begin() may be called. */
bool scan_room(const struct scan_reader *r);
/* Start reading the early columns of a group, or all. */
int scan_begin(struct scan_reader *r, uint32_t group, bool all);

/*
 * The group that was begun first and not taken yet. Returns 1; 0 if there is none; or a negative
 * errno, with a text that names table, column and group: -ECANCELED, -ETIMEDOUT, -EBADMSG for a
 * chunk that is damaged, an error of the device. Only one group is taken at a time.
 */
int scan_next(struct scan_reader *r, struct scan_group **out);
/* Read the columns of the group that are not there yet. Blocks; fails like scan_next(). */
int scan_late(struct scan_reader *r, struct scan_group *group);
/* Whether a column, by position, is there. */
bool scan_has(const struct scan_group *group, unsigned column);
/*
 * With spec.heads: read the text blocks for rows[0..n) of the group, ascending, of a column by
 * position.
 */
int scan_blocks(struct scan_reader *r, struct scan_group *group, unsigned column,
		const uint32_t *rows, unsigned n);
void scan_done(struct scan_reader *r, struct scan_group *group);

/* Bytes and chunks read so far. */
uint64_t scan_bytes(const struct scan_reader *r);
uint64_t scan_chunks(const struct scan_reader *r);

#endif
