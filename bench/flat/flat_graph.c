/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * graph_plain.c, which knows nothing of regions, on a Kronecker graph that lies in one together
 * with everything known about the vertices: our policy, FlatFlash's and always paging in, with the
 * latencies of FlatFlash's Table 2. Results are compared with those of the checks of
 * fathom/graph.h, which share no code with it.
 */
#include "flat_rows.h"
#include "graph_plain.h"

#include "cli.h"
#include "flat/paging/latency_model.h"

#include "fathom/graph.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS 3u
#define DAMPING	   0.85
#define PAGE	   4096u

enum task { PAGERANK, COMPONENTS, TASKS };

static const struct {
	const char *name, *text;
} tasks[TASKS] = {
	{"pagerank", "edges, 3 iterations"},
	{"components", "edges of the graph, all sweeps"},
};

static const enum fth_flat_policy policies[] = {FTH_FLAT_COUNTERS, FTH_FLAT_PAPER, FTH_FLAT_ALWAYS};
#define SIDES 3u

/* ---- the graph ---- */

static int tell(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	fth_cli_progress(what, done, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int open_memory(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct fth_dev **dev = context;
	char uri[40];
	int rc;

	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)((bytes + PAGE) / PAGE * PAGE));
	rc = fth_dev_open(uri, dev);
	*out = *dev;
	return rc;
}

static int load(struct fth_dev *dev, struct fth_graph_memory *out)
{
	struct fth_graph *graph = NULL;
	struct fth_cache *cache;
	int rc = fth_cache_open(NULL, &cache), end;

	if (rc < 0)
		return rc;
	rc = fth_graph_open_dev(cache, dev, NULL, &graph);
	if (rc == 0)
		rc = fth_graph_load(graph, out);
	end = fth_graph_close(graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&cache);
	return rc < 0 ? rc : end;
}

static int make_graph(const struct flat_bench *b, struct fth_graph_memory *out)
{
	const struct fth_graph_generate what = {
		.kind = FTH_GRAPH_KRONECKER, .scale = (unsigned)b->graph_scale, .seed = b->seed};
	struct fth_dev *dev = NULL;
	const struct fth_graph_build build = {.open = open_memory, .context = &dev};
	const struct fth_graph_job job = {.progress = tell};
	int rc = fth_graph_generate(&what, &build, &job, NULL);

	fth_cli_progress_end();
	if (rc == 0)
		rc = load(dev, out);
	fth_dev_close(dev);
	return rc;
}

/* ---- the region: the graph, then what is known about vertices ---- */

struct layout {
	uint64_t offsets, neighbours, rank, give, next, label, size; /* bytes */
};

static uint64_t place(uint64_t *end, uint64_t bytes)
{
	uint64_t at = *end;

	*end += (bytes + PAGE - 1) / PAGE * PAGE;
	return at;
}

static struct layout lay_out(const struct fth_graph_memory *m)
{
	struct layout l = {0};

	l.offsets = place(&l.size, (m->vertices + 1) * sizeof(uint64_t));
	l.neighbours = place(&l.size, m->edges * sizeof(uint32_t));
	l.rank = place(&l.size, m->vertices * sizeof(double));
	l.give = place(&l.size, m->vertices * sizeof(float));
	l.next = place(&l.size, m->vertices * sizeof(float));
	l.label = place(&l.size, m->vertices * sizeof(uint32_t));
	return l;
}

static int check_ranks(const struct fth_graph_memory *m, const double *rank)
{
	struct fth_graph_pagerank_options options = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	struct fth_graph_pagerank ranks = {.rank = malloc(m->vertices * sizeof(double)),
					   .work.rounds = ITERATIONS};
	int rc = ranks.rank ? 0 : -ENOMEM;

	options.iterations = ITERATIONS;
	options.damping = DAMPING;
	if (rc == 0) {
		memcpy(ranks.rank, rank, m->vertices * sizeof(double));
		rc = fth_graph_check_pagerank(m, &options, &ranks);
	}
	free(ranks.rank);
	return rc;
}

static int check_labels(const struct fth_graph_memory *m, const uint32_t *label)
{
	struct fth_graph_cc cc = {.label = malloc(m->vertices * sizeof(uint32_t))};
	uint64_t *members = calloc(m->vertices, sizeof(*members));
	int rc = cc.label && members ? 0 : -ENOMEM;

	if (rc == 0)
		memcpy(cc.label, label, m->vertices * sizeof(uint32_t));
	for (uint64_t v = 0; v < m->vertices && rc == 0; v++) {
		if (cc.label[v] >= m->vertices) {
			rc = fth_fail(EILSEQ, "the label of vertex %llu is out of range",
				      (unsigned long long)v);
			break;
		}
		cc.components += cc.label[v] == v;
		if (++members[cc.label[v]] > cc.largest)
			cc.largest = members[cc.label[v]];
	}
	if (rc == 0)
		rc = fth_graph_check_cc(m, &cc);
	free(members);
	free(cc.label);
	return rc;
}

/* Run one task in the region and check its result; *ns: how long it took. */
static int run_task(uint8_t *base, const struct layout *l, const struct fth_graph_memory *m,
		    enum task task, struct fth_flat *flat, const struct flat_latency_model *model,
		    uint64_t *ns)
{
	struct graph_plain graph = {.vertices = m->vertices,
				    .offsets = (uint64_t *)(base + l->offsets),
				    .neighbours = (uint32_t *)(base + l->neighbours)};
	uint64_t start;

	latency_set(flat, model);
	start = fth_now_ns();
	if (task == PAGERANK)
		graph_plain_pagerank(&graph, ITERATIONS, DAMPING, (double *)(base + l->rank),
				     (float *)(base + l->give), (float *)(base + l->next));
	else
		(void)graph_plain_components(&graph, (uint32_t *)(base + l->label));
	*ns = fth_now_ns() - start;
	latency_set(flat, NULL);
	return task == PAGERANK ? check_ranks(m, (double *)(base + l->rank))
				: check_labels(m, (uint32_t *)(base + l->label));
}

static int measure(const struct flat_bench *b, const struct fth_graph_memory *m, enum task task,
		   struct flat_row *row, unsigned side, uint64_t round)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct flat_latency_model model = FLAT_LATENCY_PAPER;
	struct layout l = lay_out(m);
	uint64_t ns = 1, moved, written;
	struct fth_flat *flat;
	uint8_t *base;
	char uri[40];
	int rc;

	options.policy = policies[side];
	options.foreground = b->foreground || policies[side] == FTH_FLAT_ALWAYS;
	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)l.size);
	rc = fth_flat_open(uri, l.size / b->graph_times, &options, &flat);
	if (rc < 0)
		return rc;
	base = fth_flat_base(flat);
	memcpy(base + l.offsets, m->offsets, (m->vertices + 1) * sizeof(uint64_t));
	memcpy(base + l.neighbours, m->neighbours, m->edges * sizeof(uint32_t));
	rc = fth_flat_sync(flat, FTH_DEV_TIMEOUT);
	moved = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS);
	written = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS);
	if (rc == 0)
		rc = run_task(base, &l, m, task, flat, b->no_model ? NULL : &model, &ns);
	row->rate[side][round] =
		(double)m->edges * (task == PAGERANK ? ITERATIONS : 1) * 1e9 / (double)ns;
	row->moved[side] = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS) - moved;
	row->written[side] = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS) - written;
	fth_flat_discard(flat);
	return rc;
}

int flat_graph_rows(struct flat_bench *b)
{
	static const char *const sides[FLAT_SIDES] = {"ours", "paper", "paging"};
	struct fth_graph_memory m = {0};
	struct flat_row *rows[TASKS];
	int rc = make_graph(b, &m);

	for (unsigned t = 0; t < TASKS && rc == 0; t++) {
		rows[t] = flat_row_add(b, tasks[t].name, tasks[t].text, sides);
		rc = rows[t] ? 0 : -ENOMEM;
	}
	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (unsigned t = 0; t < TASKS && rc == 0; t++)
			for (unsigned s = 0; s < SIDES && rc == 0; s++) {
				fth_cli_progress("graph", (round * TASKS + t) * SIDES + s,
						 b->rounds * TASKS * SIDES);
				rc = measure(b, &m, (enum task)t, rows[t], s, round);
				if (fth_cli_stopped())
					rc = -EINTR;
			}
	fth_cli_progress_end();
	fth_graph_unload(&m);
	return rc;
}
