/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The programs of the GAP Benchmark Suite (Beamer, Asanovic, Patterson, arXiv:1508.03619), if the
 * environment variable FTH_GAPBS names a folder that has them: bfs, cc and pr.
 */
#ifndef FTH_BENCH_GAPBS_H
#define FTH_BENCH_GAPBS_H

#include "fathom/graph.h"

struct gapbs {
	const char *folder; /* NULL: there is none */
	char graph[4096];   /* the file that the programs read */
	unsigned threads;
};

/* Write the graph as the suite serializes it (.sg). Does nothing without a folder. */
int gapbs_open(struct gapbs *gapbs, const char *directory, const struct fth_graph_memory *memory,
	       unsigned threads);
/* Remove the file. Accepts a zeroed one. */
void gapbs_close(struct gapbs *gapbs);

/*
 * Run a program `trials` times with further arguments, ended by NULL: the seconds of each trial.
 * With "-v" among the arguments a trial whose verification fails is an error. -EPROTO with a text if
 * the program fails or prints something else.
 */
int gapbs_run(const struct gapbs *gapbs, const char *program, unsigned trials,
	      const char *const *arguments, double *seconds);

#endif
