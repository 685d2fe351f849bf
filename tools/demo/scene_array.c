/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scene: arrays. PageRank on a graph in a file: with all edges in memory, with a cache of a quarter of them, and the same
 * algorithm over mmap() in a memory cgroup of the size that ours takes. Ranks are compared with those of the reference.
 */
#include "demo.h"

#include "cgroup.h"
#include "cli.h"

#include "base/team.h"
#include "fathom/graph.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCALE	     20u
#define SCALE_LEAST  12u
#define SHARE	     4u
#define ITERATIONS   5u
#define LINE	     65536u
#define LINE_LEAST   4096u
#define DAMPING	     0.85
#define OTHER_MEMORY (8u << 20) /* of a process */
#define TOLERANCE    1e-6	/* of single ranks, as a share */

struct array_scene {
	struct demo *demo;
	char folder[DEMO_PATH_MAX], path[DEMO_PATH_MAX + 16];
	char uri[3 * DEMO_PATH_MAX];
	struct fth_graph_job job;
	struct fth_graph_info info;
	unsigned threads;
	double *rank; /* of ours */
	uint64_t wrong;
};

static int progress(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	fth_cli_progress(what, done, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int open_file(void *context, uint64_t bytes, struct fth_dev **out)
{
	const struct array_scene *s = context;
	char uri[sizeof(s->uri) + 64];

	snprintf(uri, sizeof(uri), "%s?create=on&size=%llu", s->uri,
		 (unsigned long long)(bytes + 4095) / 4096 * 4096);
	return fth_dev_open(uri, out);
}

struct builder {
	struct array_scene *scene;
	struct fth_dev *dev;
};

static int open_for_builder(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct builder *b = context;
	int rc = open_file(b->scene, bytes, &b->dev);

	*out = b->dev;
	return rc;
}

static int build(struct array_scene *s)
{
	const struct fth_graph_generate kronecker = {
		.kind = FTH_GRAPH_KRONECKER,
		.scale = s->demo->smallest ? SCALE_LEAST : SCALE,
		.seed = s->demo->seed,
	};
	struct builder builder = {.scene = s};
	const struct fth_graph_build how = {.open = open_for_builder, .context = &builder};
	int rc = fth_graph_generate(&kronecker, &how, &s->job, &s->info);

	fth_dev_close(builder.dev);
	return rc;
}

/* ---- ours ---- */

static int rank_in(struct array_scene *s, struct fth_graph *graph, unsigned runs, double *seconds)
{
	struct fth_graph_pagerank_options options = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	int rc = 0;

	options.iterations = ITERATIONS;
	for (unsigned run = 0; run < runs && rc == 0; run++) {
		struct fth_graph_pagerank ranks = {0};

		rc = fth_graph_pagerank(graph, &options, &s->job, &ranks);
		if (rc < 0)
			return rc;
		*seconds = (double)ranks.work.elapsed_ns / 1e9;
		memcpy(s->rank, ranks.rank, s->info.vertices * sizeof(*s->rank));
		fth_graph_pagerank_release(&ranks);
	}
	return rc;
}

static int check_ranks(struct array_scene *s, struct fth_graph *graph)
{
	struct fth_graph_pagerank_options options = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	struct fth_graph_pagerank ranks = {.rank = s->rank, .work.rounds = ITERATIONS};
	struct fth_graph_memory reference;
	int rc = fth_graph_load(graph, &reference);

	if (rc < 0)
		return rc;
	options.iterations = ITERATIONS;
	rc = fth_graph_check_pagerank(&reference, &options, &ranks);
	fth_graph_unload(&reference);
	s->wrong += rc == -EILSEQ;
	return rc == -EILSEQ ? 0 : rc;
}

/* The second of two runs with everything in memory, or the first of one with an empty cache. */
static int run_ours(struct array_scene *s, uint64_t memory, unsigned runs, double *seconds)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache *cache = NULL;
	struct fth_graph *graph = NULL;
	int rc, end;

	options.memory = memory;
	options.line = s->demo->smallest ? LINE_LEAST : LINE;
	rc = fth_cache_open(&options, &cache);
	if (rc == 0)
		rc = fth_graph_open(cache, s->uri, NULL, &graph);
	if (rc == 0)
		rc = rank_in(s, graph, runs, seconds);
	if (rc == 0 && runs == 1)
		rc = check_ranks(s, graph);
	end = fth_graph_close(graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&cache);
	return rc < 0 ? rc : end;
}

/* ---- mmap: the same algorithm with plain pointers, in a child ---- */

struct plain {
	const struct array_scene *scene;
	const uint64_t *offsets;
	const uint32_t *neighbours;
	double *rank;
	float *give, *next;
	double loose[2]; /* ranks of vertices without neighbours: of this iteration and the next */
	double part[64]; /* by thread */
};

struct plain_result {
	double seconds, sum;
	double most; /* difference from ours, as a share of a rank */
};

static int sweep(void *context, unsigned thread)
{
	struct plain *p = context;
	uint64_t n = p->scene->info.vertices, first, end;
	double base = ((1 - DAMPING) + DAMPING * p->loose[0]) / (double)n, loose = 0;

	fth_team_part(n, 64, p->scene->threads, thread, &first, &end);
	for (uint64_t v = first; v < end; v++) {
		uint64_t from = p->offsets[v], to = p->offsets[v + 1];
		double sum = 0;

		for (uint64_t i = from; i < to; i++)
			sum += (double)p->give[p->neighbours[i]];
		p->rank[v] = base + DAMPING * sum;
		p->next[v] = to > from ? (float)(p->rank[v] / (double)(to - from)) : 0;
		loose += to > from ? 0 : p->rank[v];
	}
	p->part[thread] = loose;
	return fth_cli_stopped() ? -EINTR : 0;
}

static int iterate(struct plain *p)
{
	uint64_t n = p->scene->info.vertices;
	int rc = 0;

	for (uint64_t v = 0; v < n; v++) {
		uint64_t degree = p->offsets[v + 1] - p->offsets[v];

		p->give[v] = degree ? (float)(1.0 / (double)n / (double)degree) : 0;
		p->loose[0] += degree ? 0 : 1.0 / (double)n;
	}
	for (unsigned i = 0; i < ITERATIONS && rc == 0; i++) {
		float *swap = p->give;

		rc = fth_team_run(p->scene->threads, sweep, p);
		p->loose[0] = 0;
		for (unsigned t = 0; t < p->scene->threads; t++)
			p->loose[0] += p->part[t];
		p->give = p->next;
		p->next = swap;
	}
	return rc;
}

static int allocate(struct plain *p, const char *map)
{
	const struct fth_graph_info *info = &p->scene->info;
	size_t bytes = (info->vertices + 1) * sizeof(uint64_t);
	uint64_t *offsets = malloc(bytes);

	p->rank = calloc(info->vertices, sizeof(*p->rank));
	p->give = calloc(info->vertices, sizeof(*p->give));
	p->next = calloc(info->vertices, sizeof(*p->next));
	if (!offsets || !p->rank || !p->give || !p->next)
		return -ENOMEM;
	memcpy(offsets, map + info->offsets_at, bytes);
	p->offsets = offsets;
	p->neighbours = (const uint32_t *)(map + info->edges_at);
	return 0;
}

/* The child ends after this, and its memory with it. */
static int run_mmap(void *context, void *result)
{
	const struct array_scene *s = context;
	struct plain_result *out = result;
	struct plain p = {.scene = s};
	int fd = open(s->path, O_RDONLY | O_CLOEXEC), rc;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, s->info.bytes, PROT_READ, MAP_SHARED, fd, 0);
	uint64_t start;

	if (map == MAP_FAILED)
		return fth_fail(errno, "%s: %s", s->path, strerror(errno));
	rc = allocate(&p, map);
	start = fth_now_ns();
	if (rc == 0)
		rc = iterate(&p);
	out->seconds = (double)(fth_now_ns() - start) / 1e9;
	for (uint64_t v = 0; v < s->info.vertices && rc == 0; v++)
		out->most = fmax(out->most, fabs(p.rank[v] - s->rank[v]) / s->rank[v]);
	return rc;
}

static int run_peer(struct array_scene *s, uint64_t cache, double *seconds)
{
	struct plain_result out = {0};
	/* offsets, ranks, what vertices give now and next; and a copy of our ranks to compare with */
	struct fth_cgroup_job job = {
		.memory = cache + s->info.vertices * (8 + 8 + 4 + 4 + 8) + OTHER_MEMORY,
		.fn = run_mmap,
		.context = s,
		.result = &out,
		.result_size = sizeof(out),
		.stopped = fth_cli_stopped,
	};
	int rc = fth_cgroup_drop_pages(s->path);

	if (rc == 0)
		rc = fth_cgroup_run(&job, NULL);
	*seconds = out.seconds;
	s->wrong += rc == 0 && out.most > TOLERANCE * ITERATIONS;
	return rc;
}

/* ---- the scene ---- */

static int run_all(struct array_scene *s)
{
	uint64_t edges = s->info.edges * sizeof(uint32_t), cache = edges / SHARE;
	struct demo_row rows[] = {
		{.name = "Fathom, all edges in memory", .ours = true},
		{.name = "Fathom, a quarter of that memory", .ours = true},
		{.name = "mmap(), the same quarter"},
	};
	int rc;

	demo_begin(
		s->demo, "array", "Arrays larger than memory: PageRank on a graph in a file",
		"   %.1f million edges take %.0f MiB; the cache has %.0f MiB of memory for them.",
		(double)s->info.edges / 1e6, (double)edges / 1048576, (double)cache / 1048576);
	rc = run_ours(s, 2 * edges + (4u << 20), 2, &rows[0].value);
	if (rc == 0)
		rc = run_ours(s, cache, 1, &rows[1].value);
	if (rc == 0)
		rc = run_peer(s, cache, &rows[2].value);
	if (rc == -ENOTSUP) {
		rows[2].note = "not run: needs root (a cgroup)";
		rc = 0;
	}
	if (rc == 0)
		demo_bars(s->demo, "5 iterations", DEMO_SECONDS, rows, 3);
	demo_end(s->demo, s->info.vertices, "ranks", s->wrong);
	return rc;
}

int demo_scene_array(struct demo *demo)
{
	struct array_scene s = {.demo = demo, .job = {.progress = progress}};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int rc = demo_make_folder(s.folder);

	if (rc < 0)
		return rc;
	s.threads = cpus < 1 ? 1 : cpus > 8 ? 8 : (unsigned)cpus;
	s.job.threads = s.threads;
	snprintf(s.path, sizeof(s.path), "%s/graph", s.folder);
	rc = demo_uri(s.path, s.uri, sizeof(s.uri));
	if (rc == 0)
		rc = build(&s);
	if (rc == 0) {
		s.rank = malloc(s.info.vertices * sizeof(*s.rank));
		rc = s.rank ? run_all(&s) : -ENOMEM;
	}
	free(s.rank);
	demo_remove_folder(s.folder);
	return rc < 0 ? rc : s.wrong > 0;
}
