/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The result of a graph algorithm as a table: a row for each vertex, or for each component. It is
 * written as text or as an array of numpy, whole or its largest rows only, and never held twice:
 * rows are made one by one out of the result.
 *
 * As text: a line with the names of the columns, then a line for each row that has a value, fields
 * separated by tabs. A vertex is written as the edge list named it.
 *
 * As .npy: with one column beside the vertex, and a graph that was not relabelled, a plain array
 * whose index is the vertex. Otherwise an array of records with named fields. Integers are '<i8',
 * with -1 for none; ranks are '<f8'; vertices of a graph with labels that are no numbers are bytes,
 * 'S' and the length of the longest label.
 */
#ifndef FTH_TOOLS_GRAPH_TABLE_H
#define FTH_TOOLS_GRAPH_TABLE_H

#include "json.h"

#include "fathom/graph.h"

#define GRAPH_COLUMNS_MAX 3u

enum graph_kind { GRAPH_VERTEX, GRAPH_INTEGER, GRAPH_REAL };

union graph_value {
	int64_t integer; /* a number or a vertex; -1: none */
	double real;
};

struct graph_table {
	struct fth_graph *graph;
	unsigned columns; /* the first one is a vertex */
	const char *names[GRAPH_COLUMNS_MAX];
	enum graph_kind kinds[GRAPH_COLUMNS_MAX];
	unsigned order;	    /* the column that `top` looks at: the largest come first */
	bool every_vertex;  /* row i is vertex i */
	uint64_t rows;	    /* 0 to rows - 1 may have one */
	const void *result; /* of the algorithm */
	/* The values of row i. False: it has none, and is left out. */
	bool (*row)(const struct graph_table *table, uint64_t i,
		    union graph_value values[GRAPH_COLUMNS_MAX]);
};

/* The rows with the largest values, largest first; of equal ones those that come first. */
struct graph_top {
	uint64_t count;
	uint64_t *rows;
};
/* Choose up to n of them. free(top->rows) in any case. 0 or -ENOMEM. */
int graph_table_top(const struct graph_table *table, uint64_t n, struct graph_top *top);

/*
 * Write the table; `top` is NULL for all of it. Stops with -EINTR when the user wants to. Returns 0
 * or a negative errno with a text.
 */
int graph_table_text(const struct graph_table *table, const struct graph_top *top, FILE *out);
int graph_table_npy(const struct graph_table *table, const struct graph_top *top, FILE *out);
/* As an array of objects, a member of the open object. */
int graph_table_json(const struct graph_table *table, const struct graph_top *top,
		     struct fth_json *j);

#endif
