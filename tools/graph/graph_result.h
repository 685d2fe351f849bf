/* SPDX-License-Identifier: BSD-2-Clause */
/* The graph algorithms behind one interface: run, a line of figures, a table of results. */
#ifndef FTH_TOOLS_GRAPH_RESULT_H
#define FTH_TOOLS_GRAPH_RESULT_H

#include "graph_table.h"

#define GRAPH_SUMMARY_MAX 4

struct graph_parameters {
	uint64_t iterations, delta;
	double tolerance;
	bool one_way;
	enum fth_graph_direction direction;
	struct fth_graph *transpose; /* NULL: none was given */
};

struct graph_run {
	struct fth_graph *graph;
	const struct fth_graph_job *job;
	const struct fth_graph_memory *check_with; /* NULL: do not check */
	const struct graph_parameters *parameters;
};

/* The figures that a run ends with; a name of NULL ends them. */
struct graph_summary {
	struct fth_graph_work work;
	struct {
		const char *name;
		double value;
	} figures[GRAPH_SUMMARY_MAX];
};

/* Zero-initialise. */
struct graph_result {
	struct fth_graph_bfs bfs;
	struct fth_graph_cc cc;
	struct fth_graph_pagerank pagerank;
	struct fth_graph_sssp sssp;
	uint32_t *derived; /* per vertex: the depth in the tree, or the size of its component */
};

struct graph_algorithm {
	const char *name;
	bool has_source;
	int (*run)(const struct graph_run *run, uint64_t source, struct graph_result *result,
		   struct graph_summary *summary);
	/* A table of the result, which has to stay; `top`: one to choose the largest rows of. */
	int (*table)(struct fth_graph *graph, struct graph_result *result, bool top,
		     struct graph_table *table);
};

extern const struct graph_algorithm graph_bfs, graph_cc, graph_pagerank, graph_sssp;

/* Free all of it; it can be used for the next run. */
void graph_result_release(struct graph_result *result);

#endif
