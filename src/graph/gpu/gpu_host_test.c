/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host's side of graphs on a GPU does with CUDA, on a stand-in for it: every call is made
 * to fail in turn; the caller gets each error, and no resource leaks. Needs no GPU.
 */
#include "gpu/fake_cuda_fixture.h"

#include "fathom/graph/gpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VERTICES 3u
#define EDGES	 4u

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

static const struct fth_gpu_graph_shape a_graph = {
	.vertices = VERTICES,
	.edges = EDGES,
	.undirected = true,
	.weighted = true,
	.offsets = (const uint64_t[]){0, 1, 3, 4},
	.weights_at = 65536,
};

static int search(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *source)
{
	struct fth_gpu_graph_pagerank ranks;
	struct fth_gpu_graph_sssp paths;
	struct fth_gpu_graph_bfs tree;
	struct fth_gpu_graph_cc parts;
	uint32_t level[VERTICES];
	int rc = fth_gpu_graph_bfs(graph, source, 1, NULL, &tree);

	if (rc == 0)
		rc = fth_gpu_graph_copy(graph, level, tree.level, sizeof(level));
	if (rc == 0)
		rc = fth_gpu_graph_cc(graph, source, &parts);
	if (rc == 0)
		rc = fth_gpu_graph_pagerank(graph, source, NULL, &ranks);
	return rc < 0 ? rc : fth_gpu_graph_sssp(graph, source, 1, &paths);
}

static int search_through(struct fth_gpu_graph *graph, struct fth_gpu_drive *drive)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_cache *cache = NULL;
	struct fth_gpu_graph_source source;
	int rc;

	opts.bytes = 1u << 16;
	rc = fth_gpu_cache_open(drive, &opts, &cache);
	if (rc == 0)
		rc = fth_gpu_graph_in_cache(graph, cache, &source);
	if (rc == 0)
		rc = search(graph, &source);
	return first_error(rc, fth_gpu_cache_close(cache));
}

static int use_graph(void)
{
	struct fth_gpu_drive *drive = NULL;
	struct fth_gpu_graph *graph = NULL;
	int rc = fth_gpu_graph_open(&a_graph, &graph);

	if (rc == 0)
		rc = fth_gpu_drive_open_uri("gpu:host?bytes=1M&entries=16", NULL, &drive);
	if (rc == 0)
		rc = search_through(graph, drive);
	rc = first_error(rc, fth_gpu_drive_close(drive));
	fth_gpu_graph_close(graph);
	return rc;
}

static void test_graph(void **state)
{
	(void)state;
	fake_cuda_fail_each(use_graph, 15);
}

static void test_shapes(void **state)
{
	struct fth_gpu_graph_shape shape = a_graph;
	struct fth_gpu_graph *graph = NULL;

	(void)state;
	fake_cuda_reset(0);
	shape.vertices = 0;
	assert_int_equal(fth_gpu_graph_open(&shape, &graph), -EINVAL);
	shape = a_graph;
	shape.offsets = NULL;
	assert_int_equal(fth_gpu_graph_open(&shape, &graph), -EINVAL);
	shape = a_graph;
	shape.edges = UINT64_MAX - 5;
	assert_int_equal(fth_gpu_graph_open(&shape, &graph), -EINVAL);
	assert_null(graph);
	fth_gpu_graph_close(NULL);
	assert_true(fake_cuda_clean());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
