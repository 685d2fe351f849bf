/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/graph_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct graph_shape graph_shapes[] = {
	{.name = "one vertex", .edges = "# nothing\n", .vertices = 1, .undirected = true},
	{.name = "no edges", .edges = "# nothing\n", .vertices = 300},
	{.name = "a loop only", .edges = "0 0 1\n", .undirected = true},
	{.name = "a triangle and a lonely vertex",
	 .edges = "0 1 5\n1 2 1\n0 2 9\n2 2 3\n",
	 .vertices = 4,
	 .undirected = true},
	{.name = "two parts", .edges = "5 4 1\n4 3 1\n1 2 7\n8 9 0\n3 9 0\n", .undirected = true},
	{.name = "directed", .edges = "0 1 4\n1 2 1\n2 0 1\n3 2 8\n4 3 1\n0 5 30\n2 5 9\n"},
	{.name = "a chain", .long_one = GRAPH_CHAIN, .undirected = true},
	{.name = "a star", .long_one = GRAPH_STAR, .undirected = true},
	{.name = "Kronecker",
	 .generate = {.kind = FTH_GRAPH_KRONECKER, .scale = 11, .seed = 4, .weighted = true}},
	{.name = "uniform",
	 .generate = {.kind = FTH_GRAPH_UNIFORM,
		      .scale = 10,
		      .degree = 2,
		      .seed = 9,
		      .weighted = true}},
	{.name = NULL},
};

static int open_target(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct graph_fixture *f = context;
	char uri[64];
	int rc;

	snprintf(uri, sizeof(uri), "fault(mem:%llu)", (unsigned long long)bytes);
	rc = fth_dev_open(uri, &f->dev);
	*out = f->dev;
	return rc;
}

#define LONG_EDGES 1500

/* "0 1 w", "1 2 w", ... or "0 1 w", "0 2 w", ... */
static char *long_text(bool star)
{
	char *text = malloc(LONG_EDGES * 32);
	size_t used = 0;

	for (unsigned i = 0; i < LONG_EDGES; i++)
		used += (size_t)snprintf(text + used, 32, "%u %u %u\n", star ? 0 : i, i + 1, i % 7);
	return text;
}

static int import(const struct graph_shape *shape, const struct fth_graph_build *build)
{
	struct fth_graph_import what = {
		.undirected = shape->undirected, .weighted = true, .vertices = shape->vertices};
	char *text = shape->edges ? NULL : long_text(shape->long_one == GRAPH_STAR);
	const char *edges = text ? text : shape->edges;
	int rc;

	what.in = fmemopen((void *)(uintptr_t)edges, strlen(edges), "r");
	assert_non_null(what.in);
	rc = fth_graph_import(&what, build, NULL, NULL);
	fclose(what.in);
	free(text);
	return rc;
}

void graph_fixture_build(struct graph_fixture *f, const struct graph_shape *shape)
{
	struct fth_graph_build build = {.memory = 1 << 20, .open = open_target, .context = f};

	*f = (struct graph_fixture){0};
	if (shape->edges || shape->long_one)
		assert_ok(import(shape, &build));
	else
		assert_ok(fth_graph_generate(&shape->generate, &build, NULL, NULL));
	graph_fixture_open(f, &(struct graph_view){.line = 65536, .frames = 16});
	assert_ok(fth_graph_load(f->graph, &f->memory));
	graph_fixture_close(f);
}

void graph_fixture_open(struct graph_fixture *f, const struct graph_view *view)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_graph_options how = {.size = sizeof(struct fth_graph_options),
					.offsets_on_device = view->offsets_on_device};

	options.line = view->line;
	options.memory = (uint64_t)view->line * view->frames;
	options.compact = view->compact;
	options.policy = view->clock ? FTH_CACHE_CLOCK : FTH_CACHE_DEFAULT;
	options.timeout_ns = 10000000000;
	assert_ok(fth_cache_open(&options, &f->cache));
	assert_ok(fth_graph_open_dev(f->cache, f->dev, &how, &f->graph));
	f->job = (struct fth_graph_job){.threads = view->threads};
}

void graph_fixture_close(struct graph_fixture *f)
{
	assert_ok(fth_graph_close(f->graph));
	assert_ok(fth_cache_close(f->cache));
	f->graph = NULL;
	f->cache = NULL;
}

void graph_fixture_release(struct graph_fixture *f)
{
	fth_graph_unload(&f->memory);
	fth_dev_close(f->dev);
}
