/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host's side of graphs and workloads on a GPU does with CUDA, on a stand-in for it: every
 * call is made to fail in turn, and each failure is told and leaves nothing behind. Needs no GPU.
 */
#include "gpu/fake_cuda_fixture.h"

#include "fathom/graph/gpu.h"
#include "workloads/taxi/gpu.h"
#include "fathom/base/error.h"

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

static int run_work(struct fth_gpu_work *work)
{
	struct fth_gpu_accesses accesses = {FTH_GPU_SEQUENTIAL, 64, 64, 1, 0};
	struct fth_taxi_query query = {1, 30};
	struct fth_taxi_table table = {.rows = 64};
	struct fth_taxi_answer answer;
	uint64_t *memory = aligned_alloc(512, 3 * 512), sum;
	struct fth_gpu_source a[3];
	struct fth_gpu_taxi_part part = {.stride = 64};
	int rc;

	assert_non_null(memory);
	memset(memory, 0, 3 * 512);
	for (unsigned i = 0; i < 3; i++)
		a[i] = fth_gpu_source_plain(memory + 64 * i, 64, 8, 512);
	part.miles = a[0];
	part.values = a[1];
	rc = fth_gpu_vector_add(work, &a[0], &a[1], &a[2]);
	rc = first_error(rc, fth_gpu_reduce(work, &a[0], &sum));
	rc = first_error(rc, fth_gpu_scan(work, &a[0], &a[1]));
	rc = first_error(rc, fth_gpu_access_run(work, &a[0], &accesses, &sum));
	rc = first_error(rc, fth_gpu_taxi_begin(work));
	rc = first_error(rc, fth_gpu_taxi_launch(work, &part, &query, 3, NULL));
	rc = first_error(rc, fth_gpu_taxi_end(work, &table, &query, &answer));
	free(memory);
	return rc;
}

static int use_work(void)
{
	struct fth_gpu_work_options opts = FTH_GPU_WORK_OPTIONS_INIT;
	struct fth_gpu_work *work = NULL;
	int rc;

	opts.chunks = 1000;
	rc = fth_gpu_work_open(&opts, &work);
	if (rc < 0) {
		assert_null(work);
		return rc;
	}
	rc = run_work(work);
	return first_error(rc, fth_gpu_work_close(work));
}

/* `closing`: failures of these last calls are not told, as documented. */
static void fail_each(int (*use)(void), unsigned closing)
{
	unsigned n = 0, all;
	int rc;

	fake_cuda_reset(0);
	assert_int_equal(use(), 0);
	all = fake_cuda.calls;
	do {
		fake_cuda_reset(++n);
		rc = use();
		if (!fake_cuda_clean())
			fail_msg("call %u of CUDA: %s; %u pieces of memory, %u pinned, %u streams, "
				 "%u hangs",
				 n, fth_error_text(rc), fake_cuda.memory, fake_cuda.pinned,
				 fake_cuda.streams, fake_cuda.hangs);
		if (n <= all - closing)
			assert_true(rc < 0);
	} while (n < all);
}

static void test_graph(void **state)
{
	(void)state;
	fail_each(use_graph, 15);
}

static void test_work(void **state)
{
	(void)state;
	fail_each(use_work, 0);
}

/* ---- options ---- */

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

static void test_options(void **state)
{
	const struct fth_gpu_work_options good = FTH_GPU_WORK_OPTIONS_INIT;
	struct fth_gpu_work_options opts = good;
	struct fth_gpu_work *work = NULL;

	(void)state;
	fake_cuda_reset(0);
	opts.size--;
	assert_int_equal(fth_gpu_work_open(&opts, &work), -EINVAL);
	opts = good;
	opts.ahead = FTH_GPU_AHEAD_MAX + 1;
	assert_int_equal(fth_gpu_work_open(&opts, &work), -EINVAL);
	opts = good;
	opts.chunks = UINT64_MAX / 24 + 2; /* whose bytes are few, in 64 bits */
	assert_int_equal(fth_gpu_work_open(&opts, &work), -EINVAL);
	opts = good;
	assert_int_equal(fth_gpu_work_open(&opts, &work), 0);
	/* As many blocks as 32 bits do not hold the warps of. */
	assert_int_equal(fth_gpu_work_tune(work, 1u << 29, 0), -EINVAL);
	assert_int_equal(fth_gpu_work_tune(work, 4, 2), 0);
	assert_int_equal(fth_gpu_work_close(work), 0);
	assert_int_equal(fth_gpu_work_close(NULL), 0);
	assert_true(fake_cuda_clean());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
