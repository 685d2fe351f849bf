/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the result of a graph algorithm goes: --output, --top and --force. */
#ifndef FTH_TOOLS_GRAPH_OUTPUT_H
#define FTH_TOOLS_GRAPH_OUTPUT_H

#include "graph_table.h"
#include "output.h"

/* Zero-initialise; set path, top and file.force. */
struct graph_output {
	const char *path; /* "-": standard output; a name that ends in .npy: for numpy; or NULL */
	uint64_t top;	  /* this many rows only; 0: all */
	struct fth_output file;
	FILE *out;
	bool failed;		 /* the error is one of writing, and names the file */
	struct graph_top chosen; /* once the result is known, if top is set */
};

/* Does the result go to standard output? Then nothing else may. */
bool graph_output_is_stdout(const struct graph_output *output);

/*
 * Open the file before the work begins, so that a wrong name costs no time. Call
 * graph_output_close() in any case.
 */
int graph_output_open(struct graph_output *output);
/* Choose the largest rows, and write the table if there is a file for it. */
int graph_output_write(struct graph_output *output, const struct graph_table *table);
/* The file appears if rc is 0; otherwise nothing is left. Returns rc, or the error of that. */
int graph_output_close(struct graph_output *output, int rc);

#endif
