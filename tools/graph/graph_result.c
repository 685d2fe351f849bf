/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_DEPTH UINT32_MAX

static void add_figure(struct graph_summary *summary, const char *name, double value)
{
	unsigned i = 0;

	while (summary->figures[i].name)
		i++;
	summary->figures[i].name = name;
	summary->figures[i].value = value;
}

void graph_result_release(struct graph_result *result)
{
	fth_graph_bfs_release(&result->bfs);
	fth_graph_cc_release(&result->cc);
	fth_graph_pagerank_release(&result->pagerank);
	fth_graph_sssp_release(&result->sssp);
	free(result->derived);
	memset(result, 0, sizeof(*result));
}

/* A table with a row for each vertex. */
static struct graph_table vertex_table(struct fth_graph *graph, const struct graph_result *result)
{
	return (struct graph_table){
		.graph = graph,
		.columns = 2,
		.names = {"vertex"},
		.kinds = {GRAPH_VERTEX, GRAPH_INTEGER, GRAPH_INTEGER},
		.order = 1,
		.every_vertex = true,
		.rows = fth_graph_info(graph)->vertices,
		.result = result,
	};
}

/* ---- breadth-first search ---- */

static int run_bfs(const struct graph_run *run, uint64_t source, struct graph_result *result,
		   struct graph_summary *summary)
{
	const struct fth_graph_bfs_options options = {
		.size = sizeof(options),
		.direction = run->parameters->direction,
		.transpose = run->parameters->transpose,
	};
	struct fth_graph_bfs *tree = &result->bfs;
	int rc = fth_graph_bfs_with(run->graph, source, &options, run->job, tree);

	if (rc == 0 && run->check_with)
		rc = fth_graph_check_bfs(run->check_with, source, tree);
	summary->work = tree->work;
	add_figure(summary, "reached", (double)tree->reached);
	add_figure(summary, "depth", (double)tree->depth);
	add_figure(summary, "bottom_up", (double)tree->bottom_up);
	return rc;
}

/*
 * The depth of v and of all above it: up to the first one whose depth is known, then once more to
 * write them down. Every vertex is passed twice at most in all calls together.
 */
static void find_depth(const uint32_t *parent, uint32_t *depth, uint32_t v)
{
	uint32_t steps = 0, known = v;

	for (; depth[known] == NO_DEPTH && parent[known] != known; known = parent[known])
		steps++;
	if (depth[known] == NO_DEPTH)
		depth[known] = 0;
	for (steps += depth[known]; v != known; v = parent[v])
		depth[v] = steps--;
}

static int find_depths(const struct fth_graph_bfs *tree, uint64_t vertices, uint32_t **out)
{
	uint32_t *depth = malloc(vertices * sizeof(*depth));

	*out = depth;
	if (!depth)
		return -ENOMEM;
	memset(depth, 0xff, vertices * sizeof(*depth));
	for (uint64_t v = 0; v < vertices; v++)
		if (tree->parent[v] != FTH_GRAPH_NONE)
			find_depth(tree->parent, depth, (uint32_t)v);
	return 0;
}

static bool bfs_row(const struct graph_table *table, uint64_t i,
		    union graph_value values[GRAPH_COLUMNS_MAX])
{
	const struct graph_result *result = table->result;
	bool reached = result->bfs.parent[i] != FTH_GRAPH_NONE;

	values[0].integer = (int64_t)i;
	values[1].integer = reached ? (int64_t)result->bfs.parent[i] : -1;
	values[2].integer = reached ? (int64_t)result->derived[i] : -1;
	return reached;
}

static int bfs_table(struct fth_graph *graph, struct graph_result *result, bool top,
		     struct graph_table *table)
{
	(void)top;
	*table = vertex_table(graph, result);
	table->columns = 3;
	table->names[1] = "parent";
	table->names[2] = "depth";
	table->kinds[1] = GRAPH_VERTEX;
	table->order = 2;
	table->row = bfs_row;
	return find_depths(&result->bfs, table->rows, &result->derived);
}

const struct graph_algorithm graph_bfs = {"bfs", true, run_bfs, bfs_table};

/* ---- connected components ---- */

static int run_cc(const struct graph_run *run, uint64_t source, struct graph_result *result,
		  struct graph_summary *summary)
{
	struct fth_graph_cc *cc = &result->cc;
	int rc = fth_graph_cc(run->graph, run->job, cc);

	(void)source;
	if (rc == 0 && run->check_with)
		rc = fth_graph_check_cc(run->check_with, cc);
	summary->work = cc->work;
	add_figure(summary, "components", (double)cc->components);
	add_figure(summary, "largest", (double)cc->largest);
	return rc;
}

static bool cc_row(const struct graph_table *table, uint64_t i,
		   union graph_value values[GRAPH_COLUMNS_MAX])
{
	const struct graph_result *result = table->result;

	values[0].integer = (int64_t)i;
	values[1].integer = result->cc.label[i];
	return true;
}

/* A component is the row of its first vertex; other rows have nothing. */
static bool component_row(const struct graph_table *table, uint64_t i,
			  union graph_value values[GRAPH_COLUMNS_MAX])
{
	const struct graph_result *result = table->result;

	values[0].integer = (int64_t)i;
	values[1].integer = result->derived[i];
	return result->derived[i] > 0;
}

static int cc_table(struct fth_graph *graph, struct graph_result *result, bool top,
		    struct graph_table *table)
{
	*table = vertex_table(graph, result);
	table->names[1] = "component";
	table->kinds[1] = GRAPH_VERTEX;
	table->row = cc_row;
	if (!top)
		return 0;
	table->names[0] = "component";
	table->names[1] = "vertices";
	table->kinds[1] = GRAPH_INTEGER;
	table->every_vertex = false;
	table->row = component_row;
	result->derived = calloc(table->rows, sizeof(*result->derived));
	if (!result->derived)
		return -ENOMEM;
	for (uint64_t v = 0; v < table->rows; v++)
		result->derived[result->cc.label[v]]++;
	return 0;
}

const struct graph_algorithm graph_cc = {"cc", false, run_cc, cc_table};

/* ---- PageRank ---- */

static int run_pagerank(const struct graph_run *run, uint64_t source, struct graph_result *result,
			struct graph_summary *summary)
{
	const struct fth_graph_pagerank_options options = {
		.size = sizeof(struct fth_graph_pagerank_options),
		.iterations = (unsigned)run->parameters->iterations,
		.tolerance = run->parameters->tolerance,
		.one_way = run->parameters->one_way,
	};
	struct fth_graph_pagerank *ranks = &result->pagerank;
	int rc = fth_graph_pagerank(run->graph, &options, run->job, ranks);

	(void)source;
	if (rc == 0 && run->check_with)
		rc = fth_graph_check_pagerank(run->check_with, &options, ranks);
	summary->work = ranks->work;
	add_figure(summary, "iterations", (double)ranks->work.rounds);
	add_figure(summary, "change", ranks->change);
	return rc;
}

static bool pagerank_row(const struct graph_table *table, uint64_t i,
			 union graph_value values[GRAPH_COLUMNS_MAX])
{
	const struct graph_result *result = table->result;

	values[0].integer = (int64_t)i;
	values[1].real = result->pagerank.rank[i];
	return true;
}

static int pagerank_table(struct fth_graph *graph, struct graph_result *result, bool top,
			  struct graph_table *table)
{
	(void)top;
	*table = vertex_table(graph, result);
	table->names[1] = "rank";
	table->kinds[1] = GRAPH_REAL;
	table->row = pagerank_row;
	return 0;
}

const struct graph_algorithm graph_pagerank = {"pagerank", false, run_pagerank, pagerank_table};

/* ---- shortest paths ---- */

static int run_sssp(const struct graph_run *run, uint64_t source, struct graph_result *result,
		    struct graph_summary *summary)
{
	struct fth_graph_sssp *paths = &result->sssp;
	int rc = fth_graph_sssp(run->graph, source, run->parameters->delta, run->job, paths);

	if (rc == 0 && run->check_with)
		rc = fth_graph_check_sssp(run->check_with, source, paths);
	summary->work = paths->work;
	add_figure(summary, "reached", (double)paths->reached);
	add_figure(summary, "rounds", (double)paths->work.rounds);
	return rc;
}

static bool sssp_row(const struct graph_table *table, uint64_t i,
		     union graph_value values[GRAPH_COLUMNS_MAX])
{
	const struct graph_result *result = table->result;
	bool reached = result->sssp.distance[i] != FTH_GRAPH_FAR;

	values[0].integer = (int64_t)i;
	values[1].integer = reached ? (int64_t)result->sssp.distance[i] : -1;
	return reached;
}

static int sssp_table(struct fth_graph *graph, struct graph_result *result, bool top,
		      struct graph_table *table)
{
	(void)top;
	*table = vertex_table(graph, result);
	table->names[1] = "distance";
	table->row = sssp_row;
	return 0;
}

const struct graph_algorithm graph_sssp = {"sssp", true, run_sssp, sssp_table};
