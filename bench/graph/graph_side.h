/* SPDX-License-Identifier: BSD-2-Clause */
/* One run of one side of `fathom bench graph`, in whatever process it is called. */
#ifndef FTH_BENCH_GRAPH_SIDE_H
#define FTH_BENCH_GRAPH_SIDE_H

#include "graph_digest.h"

enum graph_side { GRAPH_OURS, GRAPH_MMAP_RANDOM, GRAPH_MMAP_DEFAULT, GRAPH_SIDES };
enum graph_task { GRAPH_BFS, GRAPH_PAGERANK, GRAPH_TASKS };

/* What is to be done, the same for all sides. */
struct graph_work {
	const char *path, *uri; /* of the same file */
	struct fth_graph_info info;
	unsigned threads, iterations;
	const uint32_t *sources; /* where searches begin */
	unsigned source_count;
	struct fth_cache_options cache; /* ours only, as the next */
	bool one_way;
};

/* What came of it. */
struct graph_outcome {
	uint64_t ns;
	uint64_t cpu_ns;     /* of all threads, in the program and in the kernel for it */
	uint64_t bytes_read; /* ours only, as those below: the kernel counts for the others */
	uint64_t requests;
	double hit_rate;
	struct graph_digest digest;
};

/* *out is zeroed before. */
int graph_side_run(const struct graph_work *work, enum graph_side side, enum graph_task task,
		   struct graph_outcome *out);

#endif
