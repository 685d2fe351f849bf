/* SPDX-License-Identifier: BSD-2-Clause */
/* A table that is written. */
#ifndef TABLE_WRITER_H
#define TABLE_WRITER_H

#include "table/page/encode.h"
#include "table/write/row_group.h"
#include "table/place/manifest.h"
#include "table/facts/facts.h"
#include "table/place/place.h"

#include "fathom/base/error.h"
#include "fathom/table/write.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A group that was written. */
struct written_group {
	uint32_t rows, file;	       /* rows 0: not yet */
	struct fth_table_chunk *chunk; /* of each column */
};

struct writer_column {
	struct prover prover;
	struct shared_dict dict;
	bool all_codes; /* so far, earlier batches included */
};

/*
 * 1. Only the thread that appends touches `filling`, provers, cut_by and `numbers`.
 * 2. Under `lock`: the queue, free groups, written groups, sums in manifest.column, rc and text.
 * 3. A group is in the queue, with one worker, or free.
 */
struct fth_table_writer {
	struct output *output;
	struct manifest
		manifest; /* of the table as it was, with what this batch adds to its columns */
	struct writer_column *column;
	/* writer_memory.c */
	uint32_t group_rows;
	uint64_t group_text; /* bytes of all strings of a group */
	unsigned group_max;  /* groups at a time */
	uint64_t fact_memory;
	uint32_t dict_bytes;
	size_t block_bytes; /* of text that a thread loads at a time */
	unsigned threads, compression;
	bool decided;	/* the first group was looked at: cut_by and dictionaries */
	bool declared;	/* cut_by is the schema's */
	bool committed; /* or failed to */
	uint32_t cut_by;
	uint32_t numbers;  /* of groups so far */
	uint64_t rows;	   /* appended */
	size_t fact_spare; /* memory for proofs that no column needs now */
	struct group *filling;

	pthread_mutex_t lock;
	pthread_cond_t work, idle; /* for workers; for the thread that appends */
	struct group *queue, **queue_end;
	struct group *free;
	unsigned queued, busy;
	unsigned groups; /* all of them */
	bool stop;
	struct written_group *written;
	uint32_t written_room;
	int rc; /* the first error */
	char text[FTH_ERROR_TEXT_MAX];

	pthread_t *thread;
	unsigned started;
};

/* writer_check.c: whether values are inside their types. */
int writer_check(const struct fth_table_schema *schema, const struct fth_table_vector *columns,
		 uint32_t rows, uint64_t first);

/*
 * writer_memory.c: the least memory of a writer of such a table. Divide the memory, 0 for the
 * default, of which facts get up to so much for each column. Changes threads and group_rows.
 * -ENOMEM, with a text that names the least.
 */
uint64_t writer_least(const struct fth_table_schema *schema);
int writer_plan(struct fth_table_writer *w, const char *name, uint64_t memory, uint64_t facts);

/* writer_pool.c: threads that encode and write groups. */
int writer_start(struct fth_table_writer *w);
void writer_stop(struct fth_table_writer *w);
/* Hand a group over. Takes it in any case. */
int writer_push(struct fth_table_writer *w, struct group *group);
/* Wait until all groups are written. */
int writer_drain(struct fth_table_writer *w);
/*
 * An empty group; waits while there are as many as there may be, unless the writer has failed.
 * Returns 0 or -ENOMEM.
 */
int writer_take_group(struct fth_table_writer *w, struct group **out);
/* Remember the first error; returns rc. */
int writer_fail(struct fth_table_writer *w, int rc);
int writer_failed(struct fth_table_writer *w);

/* writer_commit.c: the manifest with what was written. */
int writer_finish(struct fth_table_writer *w);

#endif
