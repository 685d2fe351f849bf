/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * graph_hops EDGES [VERTEX]: read a list of edges and print how many vertices are how far away.
 *
 *	cc graph_hops.c $(pkg-config --cflags --libs fathom) -o graph_hops
 *	./graph_hops friends.txt 17
 *
 * Shows how a graph is built on a device (here memory; a file or a drive does as well), opened
 * through a cache that holds a part of it, and searched.
 */
#include <fathom/graph.h>
#include <fathom/base.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CACHE (1u << 20)

/* Called when it is known how large the graph can become. */
static int make_device(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct fth_dev **dev = context;
	char uri[64];
	int rc;

	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)bytes);
	rc = fth_dev_open(uri, dev);
	*out = *dev;
	return rc;
}

static int build(const char *path, struct fth_dev **dev)
{
	struct fth_graph_import what = {.format = FTH_GRAPH_EDGE_LIST, .undirected = true};
	struct fth_graph_build how = {.open = make_device, .context = dev};
	int rc;

	what.in = fopen(path, "r");
	if (!what.in)
		return fth_fail(errno, "cannot be opened");
	rc = fth_graph_import(&what, &how, NULL, NULL);
	fclose(what.in);
	return rc;
}

/* How far is v? As many steps as lead to the source, which is its own parent. */
static uint64_t hops(const struct fth_graph_bfs *tree, uint32_t v)
{
	uint64_t n = 0;

	for (; tree->parent[v] != v; v = tree->parent[v])
		n++;
	return n;
}

static int print_hops(const struct fth_graph_bfs *tree, uint64_t vertices)
{
	uint64_t *count = calloc(tree->depth + 1, sizeof(*count));

	if (!count)
		return -ENOMEM;
	for (uint64_t v = 0; v < vertices; v++)
		if (tree->parent[v] != FTH_GRAPH_NONE)
			count[hops(tree, (uint32_t)v)]++;
	for (uint64_t d = 0; d <= tree->depth; d++)
		printf("%llu %llu\n", (unsigned long long)d, (unsigned long long)count[d]);
	free(count);
	return 0;
}

/* Search the graph on a device, and close the device. */
static int search(struct fth_dev *dev, uint64_t source)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_graph_bfs tree = {0};
	struct fth_graph *graph = NULL;
	struct fth_cache *cache;
	int rc, end;

	options.memory = CACHE;
	rc = fth_cache_open(&options, &cache);
	if (rc == 0)
		rc = fth_graph_open_dev(cache, dev, NULL, &graph);
	if (rc == 0)
		rc = fth_graph_bfs(graph, source, NULL, &tree);
	if (rc == 0)
		rc = print_hops(&tree, fth_graph_info(graph)->vertices);
	fth_graph_bfs_release(&tree);
	end = fth_graph_close(graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&cache);
	/* A cache that could not be closed still uses the device. */
	if (!cache)
		fth_dev_close(dev);
	return rc < 0 ? rc : end;
}

int main(int argc, char **argv)
{
	uint64_t source = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	struct fth_dev *dev = NULL;
	int rc;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: graph_hops EDGES [VERTEX]\n");
		return 2;
	}
	rc = build(argv[1], &dev);
	if (rc == 0)
		rc = search(dev, source);
	else
		fth_dev_close(dev);
	if (rc < 0)
		fprintf(stderr, "graph_hops: %s: %s\n", argv[1], fth_error_text(rc));
	return rc < 0;
}
