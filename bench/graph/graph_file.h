/* SPDX-License-Identifier: BSD-2-Clause */
/* The graph of a benchmark, in a file: one that the user names and keeps, or one of its own. */
#ifndef FTH_BENCH_GRAPH_FILE_H
#define FTH_BENCH_GRAPH_FILE_H

#include "fathom/graph.h"

struct graph_file {
	/* Set before graph_file_open(). */
	const char *path;      /* NULL: a temporary one */
	const char *directory; /* of temporary files; NULL: TMPDIR or /tmp */
	uint64_t scale, degree, seed, threads;

	char own_path[4096], uri[8192];
	bool made;
	struct fth_graph_info info;
};

/* Choose the name; false, and an error is printed, if it has characters that URIs use. */
bool graph_file_name(struct graph_file *file);

/* Read what the file is, or draw a Kronecker graph into a new one. -EINVAL for a directed graph. */
int graph_file_open(struct graph_file *file);

/* Remove a temporary file, and after a failure also one that was made under the user's name. */
void graph_file_remove(struct graph_file *file, bool failed);

/* `count` vertices to begin searches at, picked by the seed. */
int graph_file_sources(const struct graph_file *file, uint64_t count, uint32_t *out);

#endif
