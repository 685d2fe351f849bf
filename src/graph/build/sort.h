/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An external sort of edges. Workers add edges, each to its own buffer; a full buffer is sorted and
 * written to a temporary file as a run; at the end all runs are merged, and duplicates dropped.
 *
 * An edge is a key, from << 32 | to, and perhaps a weight. The result is the set of edges by key;
 * of equal ones the lightest is kept. It does not depend on who added what when.
 */
#ifndef FTH_GRAPH_SORT_H
#define FTH_GRAPH_SORT_H

#include "fathom/graph.h"

#define FTH_EDGE_SORT_MEMORY_MIN ((uint64_t)1 << 20)

struct fth_edge_sort;

/* What one worker fills. words is 1, or 2 with weights. */
struct fth_edge_buffer {
	uint64_t *records;
	uint64_t *spare;	 /* as large, for the radix sort */
	uint64_t used, capacity; /* records */
	struct fth_edge_sort *sort;
	unsigned words;
};

static inline uint64_t fth_edge_key(uint32_t from, uint32_t to)
{
	return (uint64_t)from << 32 | to;
}

/* `memory` bounds all buffers together. directory: of temporary files; NULL for TMPDIR or /tmp. */
int fth_edge_sort_new(uint64_t memory, unsigned workers, bool weighted, const char *directory,
		      struct fth_edge_sort **out);
void fth_edge_sort_free(struct fth_edge_sort *sort);

/* Worker w's buffer. Used by one thread at a time. */
struct fth_edge_buffer *fth_edge_sort_buffer(struct fth_edge_sort *sort, unsigned w);

/* Sort the buffer, write it out, and empty it. */
int fth_edge_buffer_spill(struct fth_edge_buffer *buffer);

static inline int fth_edge_add(struct fth_edge_buffer *buffer, uint64_t key, uint32_t weight)
{
	uint64_t *record;

	if (buffer->used == buffer->capacity) {
		int rc = fth_edge_buffer_spill(buffer);

		if (rc < 0)
			return rc;
	}
	record = buffer->records + buffer->used++ * buffer->words;
	record[0] = key;
	if (buffer->words == 2)
		record[1] = weight;
	return 0;
}

/*
 * All edges are in: get ready to merge, which may take several passes over the file. Afterwards
 * records() counts them, duplicates included. An error of job->progress ends it.
 */
int fth_edge_sort_finish(struct fth_edge_sort *sort, const struct fth_graph_job *job);
uint64_t fth_edge_sort_records(const struct fth_edge_sort *sort);
/* How many runs went to files, those of earlier merges included. */
uint64_t fth_edge_sort_runs(const struct fth_edge_sort *sort);

/* The next edge: 1, or 0 at the end, or a negative errno. */
int fth_edge_sort_next(struct fth_edge_sort *sort, uint64_t *key, uint32_t *weight);

#endif
