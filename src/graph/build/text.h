/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads edges from text. Errors name the line. */
#ifndef FTH_GRAPH_TEXT_H
#define FTH_GRAPH_TEXT_H

#include "fathom/graph.h"

struct fth_graph_text_edge {
	uint32_t from, to; /* from 0 on; unless labels are read: */
	const char *label[2];
	uint32_t length[2]; /* of the labels of both ends */
	uint32_t weight;    /* 0 if none is wanted */
};

/* What a file says about all of its edges. */
struct fth_graph_text_header {
	uint64_t vertices; /* 0: does not say */
	uint64_t edges;	   /* 0: does not say */
	bool symmetric;	   /* each is meant in both directions */
	uint64_t names; /* the line of an edge list that names columns, 0: none; set at the end */
};

/* Called for each edge, loops included. Negative ends the reading. */
typedef int (*fth_graph_text_fn)(void *context, const struct fth_graph_text_edge *edge);

/*
 * Read what->in to its end. header is set before the first edge is handed out. -EINVAL with a text
 * that begins with the number of the line; or fn's error, or one of reading.
 */
int fth_graph_text_read(const struct fth_graph_import *what, struct fth_graph_text_header *header,
			fth_graph_text_fn fn, void *context);

#endif
