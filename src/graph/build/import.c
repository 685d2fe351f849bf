/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From text to a graph: text.c reads, relabel.c numbers names, sort.c sorts,
 * graph/build.c writes.
 */
#include "graph/build/build.h"
#include "graph/build/relabel.h"
#include "graph/build/text.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define TELL_EVERY ((uint64_t)1 << 14)

struct import {
	const struct fth_graph_import *what;
	const struct fth_graph_build *build;
	const struct fth_graph_job *job;
	struct fth_graph_text_header header;
	struct fth_edge_sort *sort;
	struct fth_relabel *relabel; /* NULL if vertices are numbers */
	struct fth_graph_counts counts;
};

static int tell(struct import *import, const char *what, uint64_t done, uint64_t total)
{
	if (done % TELL_EVERY != 0 || !import->job->progress)
		return 0;
	return import->job->progress(import->job->context, what, done, total);
}

static int add(struct import *import, uint32_t from, uint32_t to, uint32_t weight)
{
	return fth_edge_add(fth_edge_sort_buffer(import->sort, 0), fth_edge_key(from, to), weight);
}

static bool both_ways(const struct import *import)
{
	return import->what->undirected || import->header.symmetric;
}

/* An edge between numbers goes to the sort. */
static int sort_edge(struct import *import, const struct fth_graph_text_edge *edge)
{
	uint32_t larger = edge->from > edge->to ? edge->from : edge->to;
	int rc;

	if (larger >= import->counts.vertices)
		import->counts.vertices = (uint64_t)larger + 1;
	if (edge->from == edge->to) {
		import->counts.loops++;
		return 0;
	}
	rc = both_ways(import) || !import->what->reversed
		     ? add(import, edge->from, edge->to, edge->weight)
		     : 0;
	if (rc == 0 && (both_ways(import) || import->what->reversed))
		rc = add(import, edge->to, edge->from, edge->weight);
	return rc;
}

static int add_edge(void *context, const struct fth_graph_text_edge *edge)
{
	struct import *import = context;
	int rc = tell(import, "reading edges", ++import->counts.edges, import->header.edges);

	if (rc < 0)
		return rc;
	return import->relabel ? fth_relabel_add(import->relabel, edge) : sort_edge(import, edge);
}

/* ---- names ---- */

static int sort_numbered(struct import *import)
{
	struct fth_graph_text_edge edge;
	uint64_t done = 0;
	int rc;

	while ((rc = fth_relabel_next(import->relabel, &edge)) > 0) {
		rc = sort_edge(import, &edge);
		if (rc == 0)
			rc = tell(import, "numbering edges", ++done, import->counts.edges);
		if (rc < 0)
			break;
	}
	return rc;
}

/* ---- all of it ---- */

/*
 * The memory is shared: names are sorted with a half of it and edges numbered with a quarter; then
 * the first half is free for the sort of numbered edges.
 */
static int open_import(struct import *import)
{
	uint64_t memory = fth_graph_build_memory(import->build);
	bool relabel = import->what->relabel;
	int rc = 0;

	if (relabel)
		rc = fth_relabel_new(memory, import->build->directory, import->what->weighted,
				     import->job, &import->relabel);
	else
		rc = fth_edge_sort_new(memory, 1, import->what->weighted, import->build->directory,
				       &import->sort);
	return rc;
}

static int number_names(struct import *import, struct fth_graph_info *info)
{
	uint64_t memory = fth_graph_build_memory(import->build) / 2;
	int rc = fth_relabel_number(import->relabel, info);

	if (memory < FTH_EDGE_SORT_MEMORY_MIN)
		memory = FTH_EDGE_SORT_MEMORY_MIN;
	if (rc == 0)
		rc = fth_edge_sort_new(memory, 1, import->what->weighted, import->build->directory,
				       &import->sort);
	return rc == 0 ? sort_numbered(import) : rc;
}

static int describe(struct import *import, struct fth_graph_info *info)
{
	const struct fth_graph_import *what = import->what;

	info->vertices = import->counts.vertices;
	info->undirected = both_ways(import);
	info->weighted = what->weighted;
	if (info->vertices < what->vertices)
		info->vertices = what->vertices;
	if (info->vertices < import->header.vertices)
		info->vertices = import->header.vertices;
	import->counts.vertices = info->vertices;
	import->counts.header = import->header.names;
	snprintf(info->made_by, sizeof(info->made_by), "%s of %llu edges",
		 what->format == FTH_GRAPH_MATRIX_MARKET ? "Matrix Market" : "edge list",
		 (unsigned long long)import->counts.edges);
	if (what->counts)
		*what->counts = import->counts;
	if (info->vertices)
		return 0;
	return fth_fail(EINVAL, "the file contains no vertices%s",
			import->header.names ? ": its only line was taken for a header" : "");
}

/* Of an undirected edge both directions are dropped together. */
static void count_duplicates(struct import *import, const struct fth_graph_info *info)
{
	uint64_t kept = info->edges / (both_ways(import) ? 2 : 1);

	import->counts.duplicates = import->counts.edges - import->counts.loops - kept;
	if (import->what->counts)
		*import->what->counts = import->counts;
}

static int run_import(struct import *import, struct fth_graph_info *info)
{
	int rc = fth_graph_text_read(import->what, &import->header, add_edge, import);

	if (rc == 0 && import->relabel && import->counts.edges > 0)
		rc = number_names(import, info);
	if (rc == 0)
		rc = describe(import, info);
	if (rc == 0)
		rc = fth_graph_build_from(import->sort, true, 0,
					  fth_relabel_labels(import->relabel), import->build,
					  import->job, info);
	if (rc == 0)
		count_duplicates(import, info);
	return rc;
}

static int check_import(const struct fth_graph_import *what)
{
	if (what->vertices > FTH_GRAPH_VERTICES_MAX)
		return fth_fail(EINVAL, "%llu vertices are too many: vertex numbers have 4 bytes",
				(unsigned long long)what->vertices);
	if (!isfinite(what->scale_weights) || what->scale_weights < 0)
		return fth_fail(EINVAL, "weight scale %g is not a number >= 0",
				what->scale_weights);
	if (what->delimiter == '"')
		return fth_fail(EINVAL, "the delimiter is a quote");
	if (what->relabel &&
	    (what->format != FTH_GRAPH_EDGE_LIST || what->one_based || what->vertices))
		return fth_fail(EINVAL,
				"relabel needs an edge list and excludes one_based and vertices");
	return 0;
}

int fth_graph_import(const struct fth_graph_import *what, const struct fth_graph_build *build,
		     const struct fth_graph_job *job, struct fth_graph_info *out)
{
	struct import import = {.what = what, .build = build, .job = job ? job : &fth_graph_no_job};
	struct fth_graph_info info = {0};
	int rc = check_import(what);

	if (rc == 0)
		rc = open_import(&import);
	if (rc == 0)
		rc = run_import(&import, &info);
	fth_edge_sort_free(import.sort);
	fth_relabel_free(import.relabel);
	if (rc == 0 && out)
		*out = info;
	return rc;
}
