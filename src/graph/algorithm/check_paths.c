/* SPDX-License-Identifier: BSD-2-Clause */
/* Dijkstra's algorithm, to check shortest paths with. */
#include "graph/graph_internal.h"

#include <stdlib.h>
#include <string.h>

/* A heap of vertices by distance; one may be in it several times, the nearest counts. */
struct heap {
	struct entry {
		uint64_t distance;
		uint32_t vertex;
	} * entries;
	uint64_t count;
};

static void heap_add(struct heap *heap, uint64_t distance, uint32_t vertex)
{
	uint64_t i = heap->count++;

	for (; i > 0 && heap->entries[(i - 1) / 2].distance > distance; i = (i - 1) / 2)
		heap->entries[i] = heap->entries[(i - 1) / 2];
	heap->entries[i] = (struct entry){distance, vertex};
}

static struct entry heap_take(struct heap *heap)
{
	struct entry top = heap->entries[0], last = heap->entries[--heap->count];
	uint64_t i = 0;

	for (;;) {
		uint64_t child = 2 * i + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    heap->entries[child + 1].distance < heap->entries[child].distance)
			child++;
		if (heap->entries[child].distance >= last.distance)
			break;
		heap->entries[i] = heap->entries[child];
		i = child;
	}
	heap->entries[i] = last;
	return top;
}

/* distance[] is UINT64_MAX everywhere. The heap has room for an entry per edge and one more. */
static void dijkstra(const struct fth_graph_memory *m, uint64_t source, struct heap *heap,
		     uint64_t *distance)
{
	distance[source] = 0;
	heap_add(heap, 0, (uint32_t)source);
	while (heap->count > 0) {
		struct entry at = heap_take(heap);

		if (at.distance > distance[at.vertex])
			continue;
		for (uint64_t i = m->offsets[at.vertex]; i < m->offsets[at.vertex + 1]; i++) {
			uint64_t d = at.distance + m->weights[i];

			if (d < distance[m->neighbours[i]]) {
				distance[m->neighbours[i]] = d;
				heap_add(heap, d, m->neighbours[i]);
			}
		}
	}
}

static int compare(const struct fth_graph_memory *m, const uint64_t *wanted,
		   const struct fth_graph_sssp *paths)
{
	uint64_t reached = 0;

	for (uint64_t v = 0; v < m->vertices; v++) {
		reached += wanted[v] != FTH_GRAPH_FAR;
		if (paths->distance[v] != wanted[v])
			return fth_fail(EILSEQ,
					"vertex %llu is at distance %llu, the result has %llu",
					(unsigned long long)v, (unsigned long long)wanted[v],
					(unsigned long long)paths->distance[v]);
	}
	return reached == paths->reached
		       ? 0
		       : fth_fail(EILSEQ, "%llu vertices are reachable, the result has %llu",
				  (unsigned long long)reached, (unsigned long long)paths->reached);
}

int fth_graph_check_sssp(const struct fth_graph_memory *memory, uint64_t source,
			 const struct fth_graph_sssp *paths)
{
	uint64_t *distance = malloc(memory->vertices * sizeof(*distance));
	struct heap heap = {malloc((memory->edges + 1) * sizeof(struct entry)), 0};
	int rc = distance && heap.entries && memory->weights ? 0 : -ENOMEM;

	if (rc == 0) {
		memset(distance, 0xff, memory->vertices * sizeof(*distance));
		dijkstra(memory, source, &heap, distance);
		rc = compare(memory, distance, paths);
	}
	free(distance);
	free(heap.entries);
	return rc;
}
