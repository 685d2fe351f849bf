/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs on a GPU, each algorithm through caches that hold a quarter of the edges and a few lines
 * of them, and from plain memory: the results are those of the algorithms for CPUs.
 */
#include "graph/gpu/gpu_fixture.h"

#include "fathom/graph/gpu.h"
#include "gpu/drive/medium_fixture.h"

struct side {
	struct graph_bed bed;
	struct fth_gpu_graph *graph;
	struct bed_medium medium;
	struct fth_gpu_drive *drive; /* its drive */
	void *room;		     /* for results */
};

static void open_side(struct side *s, const struct fth_graph_generate *what, const char *text,
		      bool undirected)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	*s = {};
	s->bed = graph_bed_open(what, text, undirected);
	s->room = malloc(s->bed.memory.vertices * 8);
	OK(fth_gpu_graph_open_dev(s->bed.dev, &s->graph));
	opts.bytes = (fth_graph_info(s->bed.graph)->bytes + 4095) / 4096 * 4096;
	opts.queues = bed_asked.service ? 4 : 16;
	s->medium = bed_medium_open(&opts);
	s->drive = s->medium.drive;
	OK(fth_dev_read(s->bed.dev, bed_medium_at(&s->medium, 0),
			fth_graph_info(s->bed.graph)->bytes, 0, FTH_DEV_TIMEOUT));
	bed_medium_push(&s->medium);
}

static void close_side(struct side *s)
{
	bed_medium_close(&s->medium);
	fth_gpu_graph_close(s->graph);
	free(s->room);
	graph_bed_close(&s->bed);
}

static void check_levels(struct side *s, const struct fth_gpu_graph_source *edges, bool push_only)
{
	struct fth_gpu_graph_bfs_options options = {sizeof(options), push_only};
	uint64_t n = s->bed.memory.vertices, reached = 0;
	struct fth_gpu_graph_bfs tree;

	OK(fth_gpu_graph_bfs(s->graph, edges, s->bed.source, &options, &tree));
	OK(fth_gpu_graph_copy(s->graph, s->room, tree.level, n * 4));
	MUST(graph_bed_differ(s->room, s->bed.level, 4, n) == 0);
	for (uint64_t v = 0; v < n; v++)
		reached += s->bed.level[v] != UINT32_MAX;
	MUST(tree.reached == reached);
	MUST(!push_only || tree.pulled == 0);
}

static void check_components(struct side *s, const struct fth_gpu_graph_source *edges)
{
	uint64_t n = s->bed.memory.vertices;
	struct fth_gpu_graph_cc cc;

	OK(fth_gpu_graph_cc(s->graph, edges, &cc));
	OK(fth_gpu_graph_copy(s->graph, s->room, cc.label, n * 4));
	MUST(graph_bed_differ(s->room, s->bed.cc.label, 4, n) == 0);
	MUST(cc.components == s->bed.cc.components);
	MUST(cc.work.rounds == 1);
}

static void check_all(struct side *s, const struct fth_gpu_graph_source *edges)
{
	uint64_t n = s->bed.memory.vertices;
	struct fth_gpu_graph_pagerank ranks;
	struct fth_gpu_graph_sssp paths;

	check_levels(s, edges, true);
	check_levels(s, edges, false);
	check_components(s, edges);
	OK(fth_gpu_graph_pagerank(s->graph, edges, &s->bed.rank_options, &ranks));
	OK(fth_gpu_graph_copy(s->graph, s->room, ranks.rank, n * 8));
	MUST(graph_bed_ranks_differ(&s->bed, (const double *)s->room) == 0);
	OK(fth_gpu_graph_sssp(s->graph, edges, s->bed.source, &paths));
	OK(fth_gpu_graph_copy(s->graph, s->room, paths.distance, n * 8));
	MUST(graph_bed_differ(s->room, s->bed.paths.distance, 8, n) == 0);
}

static void check_in_cache(struct side *s, uint32_t line, uint64_t bytes)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_graph_source edges;
	struct fth_gpu_cache_stats stats;
	struct fth_gpu_cache *cache;

	opts.line = line;
	opts.bytes = bytes / line * line;
	OK(fth_gpu_cache_open(s->drive, &opts, &cache));
	OK(fth_gpu_graph_in_cache(s->graph, cache, &edges));
	MUST(edges.frames == bytes / line);
	check_all(s, &edges);
	OK(fth_gpu_cache_stats(cache, &stats));
	MUST(stats.count[FTH_GPU_READS] > 0 && stats.count[FTH_GPU_ERRORS] == 0);
	OK(fth_gpu_cache_close(cache));
}

static struct fth_gpu_graph_source from_memory(struct side *s)
{
	const struct fth_graph_info *info = fth_graph_info(s->bed.graph);
	char *at = bed_medium_mapped(&s->medium);

	return fth_gpu_graph_in_memory((uint32_t *)(at + info->edges_at),
				       (uint32_t *)(at + info->weights_at));
}

static void check_side(struct side *s, const char *name)
{
	const struct fth_graph_info *info = fth_graph_info(s->bed.graph);
	uint64_t quarter = info->edges * 2 > 65536 ? info->edges * 2 : 65536;
	struct fth_gpu_graph_source plain = from_memory(s);

	check_all(s, &plain);
	printf("%s: from memory\n", name);
	check_in_cache(s, 4096, quarter);
	check_in_cache(s, 512, quarter);
	printf("%s: through a cache of a quarter\n", name);
	check_in_cache(s, 4096, 8 * 4096);
	check_in_cache(s, 8192, 8 * 8192);
	check_in_cache(s, 512, 16 * 512);
	printf("%s: through a cache of a few lines\n", name);
}

static void test_generated(unsigned scale)
{
	struct fth_graph_generate what = {FTH_GRAPH_KRONECKER, scale, 16, 4, true};
	struct side s;

	open_side(&s, &what, NULL, true);
	check_side(&s, "Kronecker");
	close_side(&s);
	what.kind = FTH_GRAPH_UNIFORM;
	open_side(&s, &what, NULL, true);
	check_side(&s, "uniform");
	close_side(&s);
}

static void test_small(void)
{
	struct side s;

	open_side(&s, NULL, "0 1 5\n1 2 1\n0 2 9\n40 3 1\n", true);
	check_side(&s, "three parts");
	close_side(&s);
	open_side(&s, NULL, "0 1 4\n1 2 1\n2 0 1\n3 2 8\n4 3 1\n0 5 30\n2 5 9\n70 69 1\n", false);
	check_side(&s, "directed");
	close_side(&s);
}

/* Trees that become deep, and no edge that could be spared: paths through vertices in any order. */
static void test_paths(bool undirected)
{
	const unsigned n = 4096, step = 1597; /* odd: each vertex comes once */
	char *text = (char *)malloc(n * 24);
	struct fth_gpu_graph_source plain;
	size_t used = 0;
	struct side s;

	for (unsigned i = 0; i + 1 < n; i++)
		if (i % 1024 != 1023) /* four of them */
			used += (size_t)sprintf(text + used, "%u %u 1\n", i * step % n,
						(i + 1) * step % n);
	open_side(&s, NULL, text, undirected);
	plain = from_memory(&s);
	for (int i = 0; i < 20; i++)
		check_components(&s, &plain);
	MUST(s.bed.cc.components == 4);
	close_side(&s);
	free(text);
	printf("paths: components\n");
}

/* A drive that was stopped: every read fails, and the cache says which line. */
static void check_stopped(struct side *s, struct fth_gpu_cache *cache,
			  const struct fth_gpu_graph_source *edges)
{
	struct fth_gpu_graph_cc cc;
	int rc;

	OK(fth_gpu_cache_empty(cache));
	OK(fth_gpu_drive_stop(s->drive));
	rc = fth_gpu_graph_cc(s->graph, edges, &cc);
	MUST(rc == -ESHUTDOWN && strstr(fth_error_text(rc), "of the edges"));
	OK(fth_gpu_drive_start(s->drive));
}

/* What is wrong is told: damage, a read that fails, vertices that are not there. */
static void test_failures(void)
{
	struct fth_graph_generate what = {FTH_GRAPH_UNIFORM, 10, 16, 4, true};
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_graph_source edges;
	struct fth_gpu_graph_bfs tree;
	struct fth_gpu_graph_cc cc;
	struct fth_gpu_cache *cache;
	struct side s;
	int rc;

	open_side(&s, &what, NULL, true);
	opts.bytes = 65536;
	OK(fth_gpu_cache_open(s.drive, &opts, &cache));
	OK(fth_gpu_graph_in_cache(s.graph, cache, &edges));
	MUST(fth_gpu_graph_bfs(s.graph, &edges, 1024, NULL, &tree) == -ERANGE);
	((uint32_t *)(bed_medium_at(&s.medium, 0) + fth_graph_info(s.bed.graph)->edges_at))[5000] =
		1024;
	bed_medium_push(&s.medium);
	rc = fth_gpu_graph_cc(s.graph, &edges, &cc);
	MUST(rc == -EBADMSG && strstr(fth_error_text(rc), "vertex 1024"));
	if (!bed_asked.no_failure)
		check_stopped(&s, cache, &edges);
	OK(fth_gpu_cache_close(cache));
	close_side(&s);
	printf("failures are told\n");
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	test_small();
	test_paths(true);
	test_paths(false);
	/* CPU threads take longer for the same reads. */
	test_generated(bed_asked.small ? 9 : bed_asked.service ? 12 : 14);
	test_failures();
	return 0;
}
