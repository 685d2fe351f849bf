/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building graphs. Siblings: gen.c draws edges, text.c reads them, sort.c and
 * merge.c sort them, writer.c writes them.
 */
#include "graph/build/build.h"

#include "graph/format.h"
#include "graph/build/gen.h"
#include "graph/build/writer.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>

#define MEMORY_DEFAULT ((uint64_t)256 << 20)
#define BLOCK	       ((uint64_t)1 << 14) /* edges that a worker makes before it looks up */

uint64_t fth_graph_build_memory(const struct fth_graph_build *build)
{
	return build->memory ? build->memory : MEMORY_DEFAULT;
}

/* ---- sorted edges to the device ---- */

struct transfer {
	struct fth_edge_sort *sort;
	struct fth_graph_writer writer;
	const struct fth_graph_job *job;
	bool draw_weights;
	uint64_t seed;
};

static int copy_edge(struct transfer *t, uint64_t key, uint32_t weight)
{
	uint32_t from = (uint32_t)(key >> 32), to = (uint32_t)key;

	if (t->draw_weights)
		weight = fth_graph_gen_weight(t->seed, from, to);
	return fth_graph_writer_add(&t->writer, from, to, weight);
}

static int copy_edges(struct transfer *t, uint64_t total)
{
	uint64_t key, done = 0;
	uint32_t weight;
	int rc;

	while ((rc = fth_edge_sort_next(t->sort, &key, &weight)) > 0) {
		rc = copy_edge(t, key, weight);
		if (rc == 0 && ++done % BLOCK == 0 && t->job->progress)
			rc = t->job->progress(t->job->context, "writing the graph", done, total);
		if (rc < 0)
			break;
	}
	return rc;
}

int fth_graph_build_from(struct fth_edge_sort *sort, bool sort_has_weights, uint64_t seed,
			 struct fth_label_list *labels, const struct fth_graph_build *build,
			 const struct fth_graph_job *job, struct fth_graph_info *info)
{
	struct transfer t = {.sort = sort, .job = job, .seed = seed};
	uint64_t records;
	struct fth_dev *dev;
	int rc = fth_edge_sort_finish(sort, job);

	if (rc < 0)
		return rc;
	t.draw_weights = info->weighted && !sort_has_weights;
	records = fth_edge_sort_records(sort);
	fth_graph_lay_out(info, records);
	rc = build->open(build->context, info->bytes, &dev);
	if (rc < 0)
		return rc;
	rc = fth_graph_writer_open(&t.writer, dev, job, info);
	if (rc == 0 && labels)
		rc = fth_graph_writer_add_labels(&t.writer, labels);
	if (rc == 0)
		rc = copy_edges(&t, records);
	if (rc == 0)
		rc = fth_graph_writer_finish(&t.writer);
	fth_graph_writer_close(&t.writer);
	return rc;
}

/* ---- generating ---- */

struct generation {
	struct fth_graph_gen gen;
	struct fth_edge_sort *sort;
	uint64_t edges, next;
};

/* Both directions; loops are left out. */
static int add_both(struct fth_edge_buffer *buffer, uint32_t from, uint32_t to)
{
	int rc;

	if (from == to)
		return 0;
	rc = fth_edge_add(buffer, fth_edge_key(from, to), 0);
	return rc < 0 ? rc : fth_edge_add(buffer, fth_edge_key(to, from), 0);
}

static int generate_block(struct generation *g, struct fth_edge_buffer *buffer, uint64_t first)
{
	uint64_t end = g->edges - first < BLOCK ? g->edges : first + BLOCK;
	uint32_t from, to;
	int rc = 0;

	for (uint64_t e = first; e < end && rc == 0; e++) {
		fth_graph_gen_edge(&g->gen, e, &from, &to);
		rc = add_both(buffer, from, to);
	}
	return rc;
}

static int generate_worker(struct fth_graph_team *team, void *context, unsigned worker)
{
	struct generation *g = context;
	struct fth_edge_buffer *buffer = fth_edge_sort_buffer(g->sort, worker);
	uint64_t first;
	int rc = 0;

	while (rc == 0 && !fth_graph_team_failed(team) &&
	       (first = fth_graph_team_take(&g->next, BLOCK, g->edges)) < g->edges) {
		rc = fth_graph_team_tell(team, worker, "drawing edges", first, g->edges);
		if (rc == 0)
			rc = generate_block(g, buffer, first);
	}
	return rc;
}

static int check_generate(const struct fth_graph_generate *what)
{
	if (what->scale > 31)
		return fth_fail(EINVAL,
				"scale %u exceeds the maximum of 31: vertex numbers have 4 bytes",
				what->scale);
	if (what->kind != FTH_GRAPH_KRONECKER && what->kind != FTH_GRAPH_UNIFORM)
		return fth_fail(EINVAL, "unknown generator");
	return 0;
}

static void describe(const struct fth_graph_generate *what, unsigned degree,
		     struct fth_graph_info *info)
{
	*info = (struct fth_graph_info){
		.vertices = (uint64_t)1 << what->scale,
		.undirected = true,
		.weighted = what->weighted,
	};
	snprintf(info->made_by, sizeof(info->made_by), "%s, scale %u, degree %u, seed %llu",
		 what->kind == FTH_GRAPH_KRONECKER ? "Kronecker" : "uniform", what->scale, degree,
		 (unsigned long long)what->seed);
}

int fth_graph_generate(const struct fth_graph_generate *what, const struct fth_graph_build *build,
		       const struct fth_graph_job *job, struct fth_graph_info *out)
{
	unsigned degree = what->degree ? what->degree : 16, threads;
	struct generation g = {.edges = (uint64_t)degree << what->scale};
	struct fth_graph_info info;
	int rc = check_generate(what);

	if (rc < 0)
		return rc;
	if (!job)
		job = &fth_graph_no_job;
	threads = fth_graph_team_threads(job);
	rc = fth_edge_sort_new(fth_graph_build_memory(build), threads, false, build->directory,
			       &g.sort);
	if (rc < 0)
		return rc;
	fth_graph_gen_init(&g.gen, what->kind, what->scale, what->seed);
	describe(what, degree, &info);
	rc = fth_graph_team_run(job, threads, generate_worker, &g);
	if (rc == 0)
		rc = fth_graph_build_from(g.sort, false, what->seed, NULL, build, job, &info);
	fth_edge_sort_free(g.sort);
	if (rc == 0 && out)
		*out = info;
	return rc;
}
