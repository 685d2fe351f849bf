/* SPDX-License-Identifier: BSD-2-Clause */
/* From text to a graph: graph/text.c reads, graph/sort.c sorts, graph/build.c writes. */
#include "apps/graph/build.h"
#include "apps/graph/text.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define TELL_EVERY ((uint64_t)1 << 14)

struct import {
	const struct fth_graph_import *what;
	const struct fth_graph_job *job;
	struct fth_graph_text_header header;
	struct fth_edge_sort *sort;
	uint64_t vertices; /* one more than the largest that was named */
	uint64_t edges;
};

static int add(struct import *import, uint32_t from, uint32_t to, uint32_t weight)
{
	return fth_edge_add(fth_edge_sort_buffer(import->sort, 0), fth_edge_key(from, to), weight);
}

static int add_edge(void *context, const struct fth_graph_text_edge *edge)
{
	struct import *import = context;
	uint32_t larger = edge->from > edge->to ? edge->from : edge->to;
	int rc = 0;

	if (larger >= import->vertices)
		import->vertices = (uint64_t)larger + 1;
	if (++import->edges % TELL_EVERY == 0 && import->job->progress)
		rc = import->job->progress(import->job->context, "reading edges", import->edges,
					   import->header.edges);
	if (rc < 0 || edge->from == edge->to)
		return rc;
	rc = add(import, edge->from, edge->to, edge->weight);
	if (rc == 0 && (import->what->undirected || import->header.symmetric))
		rc = add(import, edge->to, edge->from, edge->weight);
	return rc;
}

static int describe(const struct import *import, struct fth_graph_info *info)
{
	const struct fth_graph_import *what = import->what;

	*info = (struct fth_graph_info){
		.vertices = import->vertices,
		.undirected = what->undirected || import->header.symmetric,
		.weighted = what->weighted,
	};
	if (info->vertices < what->vertices)
		info->vertices = what->vertices;
	if (info->vertices < import->header.vertices)
		info->vertices = import->header.vertices;
	snprintf(info->made_by, sizeof(info->made_by), "%s of %llu edges",
		 what->format == FTH_GRAPH_MATRIX_MARKET ? "Matrix Market" : "edge list",
		 (unsigned long long)import->edges);
	return info->vertices ? 0 : fth_fail(EINVAL, "there is no vertex in this file");
}

int fth_graph_import(const struct fth_graph_import *what, const struct fth_graph_build *build,
		     const struct fth_graph_job *job, struct fth_graph_info *out)
{
	struct import import = {.what = what, .job = job ? job : &fth_graph_no_job};
	struct fth_graph_info info;
	int rc;

	if (what->vertices > FTH_GRAPH_VERTICES_MAX)
		return fth_fail(EINVAL, "vertices have 4 bytes: %llu are too many",
				(unsigned long long)what->vertices);
	if (!isfinite(what->scale_weights) || what->scale_weights < 0)
		return fth_fail(EINVAL, "weight scale %g is not a number of at least 0",
				what->scale_weights);
	rc = fth_edge_sort_new(fth_graph_build_memory(build), 1, what->weighted, build->directory,
			       &import.sort);
	if (rc < 0)
		return rc;
	rc = fth_graph_text_read(what, &import.header, add_edge, &import);
	if (rc == 0)
		rc = describe(&import, &info);
	if (rc == 0)
		rc = fth_graph_build_from(import.sort, true, 0, build, import.job, &info);
	fth_edge_sort_free(import.sort);
	if (rc == 0 && out)
		*out = info;
	return rc;
}
