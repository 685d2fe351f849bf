/* SPDX-License-Identifier: BSD-2-Clause */
/* Building graphs, and what a reader makes of the bytes. No cache is involved. */
#include "graph/format.h"
#include "graph/build/gen.h"

#include "fathom/dev/driver.h"

#include "fth_test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A device that is opened when its size is known, and the graph read back from it. */
struct target {
	const char *format; /* of the URI, with the size to fill in */
	struct fth_dev *dev;
	struct fth_graph_info info;
	uint64_t *offsets;
	uint32_t *edges, *weights;
};

static int open_target(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct target *target = context;
	char uri[128];
	int rc;

	snprintf(uri, sizeof(uri), target->format, (unsigned long long)bytes);
	rc = fth_dev_open(uri, &target->dev);
	*out = target->dev;
	return rc;
}

/* The device that is open already, whatever its size. */
static int reuse(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct target *target = context;

	(void)bytes;
	*out = target->dev;
	return 0;
}

static struct fth_graph_build build_to(struct target *target)
{
	if (!target->format)
		target->format = "mem:%llu";
	return (struct fth_graph_build){.memory = 1 << 20, .open = open_target, .context = target};
}

static void *section(struct target *target, uint64_t at, uint64_t bytes)
{
	void *buf = malloc(fth_graph_align(bytes) + 1);

	if (bytes > 0)
		assert_ok(fth_dev_read(target->dev, buf, fth_graph_align(bytes), at,
				       FTH_DEV_TIMEOUT));
	return buf;
}

static void load(struct target *target)
{
	struct fth_graph_info *info = &target->info;

	assert_ok(fth_graph_read_info(target->dev, info));
	assert_ok(fth_graph_check_data(target->dev, NULL));
	target->offsets = section(target, info->offsets_at, (info->vertices + 1) * 8);
	target->edges = section(target, info->edges_at, info->edges * 4);
	if (info->weighted)
		target->weights = section(target, info->weights_at, info->edges * 4);
}

static void release(struct target *target)
{
	free(target->offsets);
	free(target->edges);
	free(target->weights);
	fth_dev_close(target->dev);
}

static bool has_edge(const struct target *target, uint32_t from, uint32_t to)
{
	for (uint64_t i = target->offsets[from]; i < target->offsets[from + 1]; i++)
		if (target->edges[i] == to)
			return true;
	return false;
}

/* Rows are in order, sorted, without loops and duplicates; if undirected, symmetric. */
static void check_shape(const struct target *target)
{
	const struct fth_graph_info *info = &target->info;

	assert_int_equal(target->offsets[0], 0);
	assert_int_equal(target->offsets[info->vertices], info->edges);
	for (uint32_t v = 0; v < info->vertices; v++) {
		assert_true(target->offsets[v] <= target->offsets[v + 1]);
		for (uint64_t i = target->offsets[v]; i < target->offsets[v + 1]; i++) {
			assert_in_range(target->edges[i], 0, info->vertices - 1);
			assert_int_not_equal(target->edges[i], v);
			if (i > target->offsets[v])
				assert_true(target->edges[i] > target->edges[i - 1]);
		}
	}
}

static void generate(struct target *target, const struct fth_graph_generate *what, unsigned threads)
{
	struct fth_graph_build build = build_to(target);
	struct fth_graph_job job = {.threads = threads};
	struct fth_graph_info info;

	assert_ok(fth_graph_generate(what, &build, &job, &info));
	load(target);
	assert_memory_equal(&info, &target->info, sizeof(info));
	check_shape(target);
}

static void a_generated_graph_holds_exactly_the_edges_drawn(void **state)
{
	const struct fth_graph_generate what = {
		.kind = FTH_GRAPH_KRONECKER, .scale = 10, .seed = 3};
	struct target target = {0};
	struct fth_graph_gen gen;
	uint64_t loops = 0;

	(void)state;
	generate(&target, &what, 2);
	fth_graph_gen_init(&gen, what.kind, what.scale, what.seed);
	for (uint64_t e = 0; e < 16 << 10; e++) {
		uint32_t from, to;

		fth_graph_gen_edge(&gen, e, &from, &to);
		loops += from == to;
		assert_true(from == to || has_edge(&target, from, to));
		assert_true(from == to || has_edge(&target, to, from));
	}
	assert_true(target.info.edges <= 2 * ((16 << 10) - loops));
	assert_true(target.info.undirected);
	release(&target);
}

/* Enough edges for several runs of the sort. */
static void the_graph_does_not_depend_on_threads_or_memory(void **state)
{
	const struct fth_graph_generate what = {
		.kind = FTH_GRAPH_KRONECKER, .scale = 13, .seed = 8, .weighted = true};
	struct target one = {0}, three = {0};

	(void)state;
	generate(&one, &what, 1);
	generate(&three, &what, 3);
	assert_int_equal(one.info.data_sum, three.info.data_sum);
	assert_int_equal(one.info.edges, three.info.edges);
	release(&one);
	release(&three);
}

static void weights_belong_to_their_edges(void **state)
{
	const struct fth_graph_generate what = {
		.kind = FTH_GRAPH_UNIFORM, .scale = 8, .degree = 4, .seed = 5, .weighted = true};
	struct target target = {0};

	(void)state;
	generate(&target, &what, 1);
	for (uint32_t v = 0; v < target.info.vertices; v++)
		for (uint64_t i = target.offsets[v]; i < target.offsets[v + 1]; i++)
			assert_int_equal(target.weights[i],
					 fth_graph_gen_weight(5, v, target.edges[i]));
	release(&target);
}

static void the_smallest_graph_has_one_vertex(void **state)
{
	struct target target = {0};

	(void)state;
	generate(&target, &(struct fth_graph_generate){.scale = 0}, 2);
	assert_int_equal(target.info.vertices, 1);
	assert_int_equal(target.info.edges, 0);
	release(&target);
}

/* ---- import ---- */

static int import(struct target *target, struct fth_graph_import what, const char *text)
{
	struct fth_graph_build build = build_to(target);
	int rc;

	what.in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	rc = fth_graph_import(&what, &build, NULL, NULL);
	fclose(what.in);
	return rc;
}

static void an_edge_list_becomes_a_graph(void **state)
{
	struct target target = {0};

	(void)state;
	assert_ok(import(&target, (struct fth_graph_import){.weighted = true, .vertices = 6},
			 "4 0 7\n0 1 5\n0 1 3\n2 2 1\n0 3 9\n"));
	load(&target);
	check_shape(&target);
	assert_int_equal(target.info.vertices, 6);
	assert_int_equal(target.info.edges, 3);
	assert_false(target.info.undirected);
	assert_memory_equal(target.offsets, ((uint64_t[]){0, 2, 2, 2, 2, 3, 3}), 56);
	assert_memory_equal(target.edges, ((uint32_t[]){1, 3, 0}), 12);
	assert_memory_equal(target.weights, ((uint32_t[]){3, 9, 7}), 12);
	release(&target);
}

static void a_symmetric_matrix_is_undirected(void **state)
{
	struct target target = {0};

	(void)state;
	assert_ok(import(&target, (struct fth_graph_import){.format = FTH_GRAPH_MATRIX_MARKET},
			 "%%MatrixMarket matrix coordinate pattern symmetric\n5 5 2\n2 1\n3 2\n"));
	load(&target);
	assert_true(target.info.undirected);
	assert_int_equal(target.info.vertices, 5);
	assert_memory_equal(target.edges, ((uint32_t[]){1, 0, 2, 1}), 16);
	release(&target);
}

static void a_file_without_vertices_is_refused(void **state)
{
	struct target target = {0};

	(void)state;
	assert_int_equal(import(&target, (struct fth_graph_import){0}, "# nothing\n"), -EINVAL);
	assert_null(target.dev);
}

/* ---- what can go wrong ---- */

static void every_failing_write_is_an_error_and_leaves_no_graph(void **state)
{
	const struct fth_graph_generate what = {.scale = 8, .weighted = true};
	int rc = -1;

	(void)state;
	for (unsigned nth = 1; rc < 0; nth++) {
		char format[64];
		struct target target = {.format = format};
		struct fth_graph_build build = build_to(&target);

		snprintf(format, sizeof(format), "fault(mem:%%llu)?kind=write,flush&nth=%u", nth);
		rc = fth_graph_generate(&what, &build, NULL, NULL);
		assert_true(rc == 0 || rc == -EIO);
		/* The very last flush may fail when all is there. */
		if (rc < 0 && nth < 7)
			assert_int_equal(fth_graph_read_info(target.dev, &target.info), -EBADMSG);
		if (rc == 0)
			assert_int_equal(nth, 8);
		fth_dev_close(target.dev);
	}
}

static void a_device_that_is_too_small_is_an_error(void **state)
{
	struct target target = {.format = "mem:131072"};
	struct fth_graph_build build = build_to(&target);

	(void)state;
	assert_int_equal(
		fth_graph_generate(&(struct fth_graph_generate){.scale = 8}, &build, NULL, NULL),
		-ENOSPC);
	fth_dev_close(target.dev);
}

static void a_device_that_is_too_small_keeps_its_graph(void **state)
{
	struct target target = {0};
	struct fth_graph_build build = {.open = reuse, .context = &target};

	(void)state;
	generate(&target, &(struct fth_graph_generate){.scale = 6}, 1);
	assert_int_equal(
		fth_graph_generate(&(struct fth_graph_generate){.scale = 14}, &build, NULL, NULL),
		-ENOSPC);
	assert_ok(fth_graph_read_info(target.dev, &target.info));
	assert_ok(fth_graph_check_data(target.dev, NULL));
	release(&target);
}

static int stop_at_vertices(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	assert_true(done <= total);
	return strcmp(what, "writing vertices") == 0 ? -EINTR : 0;
}

/* Many vertices and few edges: most of the time goes into where each vertex begins. */
static void writing_vertices_can_be_stopped(void **state)
{
	struct target target = {0};
	struct fth_graph_build build = build_to(&target);
	struct fth_graph_job job = {.progress = stop_at_vertices};
	char text[] = "0 1\n";
	struct fth_graph_import what = {.vertices = 1 << 20};

	(void)state;
	what.in = fmemopen(text, strlen(text), "r");
	assert_non_null(what.in);
	assert_int_equal(fth_graph_import(&what, &build, &job, NULL), -EINTR);
	fclose(what.in);
	fth_dev_close(target.dev);
}

static void a_weight_scale_is_a_number(void **state)
{
	static const double bad[] = {NAN, INFINITY, -1};
	struct target target = {0};
	struct fth_graph_build build = build_to(&target);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fth_graph_import what = {.weighted = true, .scale_weights = bad[i]};

		what.in = fmemopen((char[]){"0 1 2\n"}, 6, "r");
		assert_non_null(what.in);
		assert_int_equal(fth_graph_import(&what, &build, NULL, NULL), -EINVAL);
		fclose(what.in);
	}
	assert_null(target.dev);
}

static int stop_when_writing(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	assert_true(done <= total);
	return strcmp(what, "writing the graph") == 0 ? -EINTR : 0;
}

static void building_can_be_stopped(void **state)
{
	struct target target = {0};
	struct fth_graph_build build = build_to(&target);
	struct fth_graph_job job = {.threads = 2, .progress = stop_when_writing};

	(void)state;
	assert_int_equal(
		fth_graph_generate(&(struct fth_graph_generate){.scale = 11}, &build, &job, NULL),
		-EINTR);
	assert_int_equal(fth_graph_read_info(target.dev, &target.info), -EBADMSG);
	fth_dev_close(target.dev);
}

static void a_changed_byte_is_found(void **state)
{
	struct target target = {0};
	uint8_t block[512];

	(void)state;
	generate(&target, &(struct fth_graph_generate){.scale = 8}, 1);
	assert_ok(fth_dev_read(target.dev, block, 512, target.info.edges_at, FTH_DEV_TIMEOUT));
	block[100] ^= 4;
	assert_ok(fth_dev_write(target.dev, block, 512, target.info.edges_at, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_graph_check_data(target.dev, NULL), -EBADMSG);
	assert_ok(fth_graph_read_info(target.dev, &target.info));
	assert_ok(fth_dev_read(target.dev, block, 512, 0, FTH_DEV_TIMEOUT));
	block[30] ^= 4;
	assert_ok(fth_dev_write(target.dev, block, 512, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_graph_read_info(target.dev, &target.info), -EBADMSG);
	release(&target);
}

/* A header with one field changed, and its checksum put right. */
static void headers_that_cannot_be_true_are_refused(void **state)
{
	struct fth_graph_info good = {.vertices = 100, .edges = 1000, .weighted = true}, out;
	struct fth_graph_header header;

	(void)state;
	fth_graph_lay_out(&good, 1000);
	fth_graph_encode(&good, &header);
	assert_ok(fth_graph_decode(&header, good.bytes, &out));
	assert_int_equal(fth_graph_decode(&header, good.bytes - 1, &out), -EBADMSG);
	for (int i = 0; i < 8; i++) {
		struct fth_graph_info bad = good;

		if (i == 0)
			bad.vertices = 0;
		else if (i == 1)
			bad.vertices = (uint64_t)UINT32_MAX + 1;
		else if (i == 2)
			bad.edges = UINT64_MAX / 2;
		else if (i == 3)
			bad.edges_at = bad.offsets_at;
		else if (i == 4)
			bad.weights_at = bad.edges_at;
		else if (i == 5)
			bad.offsets_at = 512;
		else if (i == 6)
			bad.weights_at = UINT64_MAX - FTH_GRAPH_SECTION + 1;
		else
			bad.bytes = bad.weights_at;
		fth_graph_encode(&bad, &header);
		assert_int_equal(fth_graph_decode(&header, good.bytes, &out), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_generated_graph_holds_exactly_the_edges_drawn),
		cmocka_unit_test(the_graph_does_not_depend_on_threads_or_memory),
		cmocka_unit_test(weights_belong_to_their_edges),
		cmocka_unit_test(the_smallest_graph_has_one_vertex),
		cmocka_unit_test(an_edge_list_becomes_a_graph),
		cmocka_unit_test(a_symmetric_matrix_is_undirected),
		cmocka_unit_test(a_file_without_vertices_is_refused),
		cmocka_unit_test(every_failing_write_is_an_error_and_leaves_no_graph),
		cmocka_unit_test(a_device_that_is_too_small_is_an_error),
		cmocka_unit_test(a_device_that_is_too_small_keeps_its_graph),
		cmocka_unit_test(writing_vertices_can_be_stopped),
		cmocka_unit_test(a_weight_scale_is_a_number),
		cmocka_unit_test(building_can_be_stopped),
		cmocka_unit_test(a_changed_byte_is_found),
		cmocka_unit_test(headers_that_cannot_be_true_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
