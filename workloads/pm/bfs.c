/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Breadth-first search from a corner of the map: items is the length of its side; a step is a
 * level.
 */
#include "workloads/pm/bfs_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

/*
 * state->done: the complete level in the upper half, the length of its queue in the lower. 0:
 * nothing, not even level 0.
 */
#define LENGTH_BITS 36
#define LENGTH_MASK ((UINT64_C(1) << LENGTH_BITS) - 1)

struct bfs {
	struct pmw_bfs p;
	struct pmw_area distance, queues[2];
	uint64_t vertices;
	uint64_t level, length;
	uint64_t reached;  /* vertices in the file */
	uint32_t *staging; /* ASSISTED: the queue, and the distances of its vertices */
	bool ended;
};

static uint64_t bfs_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return 3 * (items * items * sizeof(uint32_t) + PMW_ALIGN);
}

static int bfs_check(uint64_t items)
{
	return items >= 2 && items <= 60000
		       ? 0
		       : fth_fail(EINVAL, "items (side length of the map) must be 2 to 60000");
}

static int bfs_memory(struct pmw_job *job, struct bfs *w)
{
	uint64_t bytes = w->vertices * sizeof(uint32_t);
	int rc = pmw_area(job, bytes, &w->distance);

	for (unsigned q = 0; rc == 0 && q < 2; q++)
		rc = pmw_area(job, bytes, &w->queues[q]);
	if (rc == 0)
		rc = pmw_take(job, bytes, &w->p.known);
	if (rc == 0)
		rc = pmw_take(job, bytes * PMW_BFS_SIDES, &w->p.neighbours);
	if (rc == 0)
		rc = pmw_take(job, sizeof(uint64_t), &w->p.found);
	if (rc == 0 && job->options->style != FTH_PMW_DIRECT) {
		w->staging = malloc(bytes);
		if (!w->staging)
			rc = fth_fail(ENOMEM, "no memory to copy through");
	}
	return rc;
}

/* A zero at the beginning of an area, durable if kernels persist. */
static int put_zero(struct pmw_job *job, const struct pmw_area *area)
{
	uint32_t zero = 0,
		 *at = (uint32_t *)(void *)((uint8_t *)fth_pm_base(job->pm) + area->offset);

	if (job->options->style != FTH_PMW_DIRECT)
		return job->machine->ops->upload(job->machine, area->kernel, &zero, sizeof(zero));
	fth_pm_put32(&job->host_view, at, zero);
	return fth_pm_persist_range(&job->host_view, at, sizeof(*at));
}

/* Level 0: the corner. Its distance and the queue first, then the word that says so. */
static int bfs_begin(struct pmw_job *job, struct bfs *w)
{
	int rc = pmw_launch(job, PMW_BFS_FORGET, &w->p, pmw_groups(w->vertices, PMW_BFS_ITEM));

	if (rc == 0)
		rc = put_zero(job, &w->distance);
	if (rc == 0)
		rc = put_zero(job, &w->queues[0]);
	return rc ? rc : pmw_set_state(job, &job->state->done, 1);
}

static int bfs_open(struct pmw_job *job)
{
	struct bfs *w = job->own;
	int rc;

	w->vertices = job->items * job->items;
	rc = bfs_memory(job, w);
	if (rc < 0)
		return rc;
	w->p.view = job->view;
	w->p.distance = (uint32_t *)(void *)w->distance.kernel;
	w->p.width = w->p.height = job->items;
	w->p.seed = job->options->seed;
	rc = pmw_launch(job, PMW_BFS_MAP, &w->p, pmw_groups(w->vertices, PMW_BFS_ITEM));
	if (rc == 0 && (job->fresh || job->state->done == 0))
		rc = bfs_begin(job, w);
	w->level = job->state->done >> LENGTH_BITS;
	w->length = job->state->done & LENGTH_MASK;
	w->ended = w->length == 0;
	w->p.level = (uint32_t)w->level;
	return rc ? rc
		  : pmw_launch(job, PMW_BFS_REMEMBER, &w->p, pmw_groups(w->vertices, PMW_BFS_ITEM));
}

static uint64_t bfs_done(struct pmw_job *job)
{
	struct bfs *w = job->own;

	return w->ended ? job->steps : w->level;
}

/* ASSISTED_FILE: all queues, one behind the other; distances follow from them. */
static int assist_file(struct pmw_job *job, struct bfs *w, const struct pmw_area *queue,
		       uint64_t found)
{
	struct pmw_area all = *queue;

	all.offset = w->distance.offset + w->reached * sizeof(uint32_t);
	w->reached += found;
	return pmw_persist_area(job, &all, 0, found * sizeof(uint32_t), 0);
}

/* ASSISTED_MAP: the CPU gets the new queue, and sets the distances of its vertices. */
static int assist_map(struct pmw_job *job, struct bfs *w, const struct pmw_area *queue,
		      uint64_t found)
{
	uint32_t *distance =
		(uint32_t *)(void *)((uint8_t *)fth_pm_base(job->pm) + w->distance.offset);
	double begin;
	int rc = pmw_persist_area(job, queue, 0, found * sizeof(uint32_t), 0);

	begin = pmw_seconds();
	if (rc == 0)
		rc = pmw_download(job, w->staging, queue->kernel, found * sizeof(uint32_t));
	for (uint64_t i = 0; rc == 0 && i < found; i++) {
		distance[w->staging[i]] = (uint32_t)w->level + 1;
		fth_pm_flush_range(&job->host_view, &distance[w->staging[i]], sizeof(*distance));
	}
	if (rc == 0)
		rc = fth_pm_fence(&job->host_view);
	job->result->persisted += found * FTH_PM_LINE;
	job->result->persist_seconds += pmw_seconds() - begin;
	return rc;
}

static int bfs_assist(struct pmw_job *job, struct bfs *w, const struct pmw_area *queue,
		      uint64_t found)
{
	if (job->options->style == FTH_PMW_ASSISTED_FILE)
		return assist_file(job, w, queue, found);
	if (job->options->style == FTH_PMW_ASSISTED_MAP)
		return assist_map(job, w, queue, found);
	job->result->persisted += found * 2 * sizeof(uint32_t);
	return 0;
}

static int bfs_step(struct pmw_job *job, uint64_t step)
{
	struct bfs *w = job->own;
	const struct pmw_area *next = &w->queues[(w->level + 1) % 2];
	uint64_t found = 0;
	int rc;

	if (w->ended) {
		job->result->ran--;
		return 0;
	}
	(void)step;
	w->p.level = (uint32_t)w->level;
	w->p.length = w->length;
	w->p.queue = (uint32_t *)(void *)w->queues[w->level % 2].kernel;
	w->p.next = (uint32_t *)(void *)next->kernel;
	rc = job->machine->ops->upload(job->machine, w->p.found, &found, sizeof(found));
	if (rc == 0)
		rc = pmw_launch(job, PMW_BFS_LEVEL, &w->p, pmw_groups(w->length, PMW_BFS_ITEM));
	if (rc == 0)
		rc = pmw_download(job, &found, w->p.found, sizeof(found));
	if (rc == 0)
		rc = bfs_assist(job, w, next, found);
	if (rc == 0)
		rc = pmw_set_state(job, &job->state->done, (w->level + 1) << LENGTH_BITS | found);
	w->level++;
	w->length = found;
	w->ended = found == 0;
	return rc;
}

/* ---- checking ---- */

static int check_distances(const struct pmw_bfs *p, const uint32_t *distance, uint64_t vertices,
			   uint64_t *reached)
{
	for (uint64_t v = 0; v < vertices; v++) {
		bool near = v == 0 || distance[v] == PMW_BFS_FAR;

		*reached += distance[v] != PMW_BFS_FAR;
		for (uint32_t side = 0; side < PMW_BFS_SIDES; side++) {
			uint32_t w = pmw_bfs_neighbour(p, v, side);

			if (w == PMW_BFS_FAR)
				continue;
			if ((distance[v] == PMW_BFS_FAR) != (distance[w] == PMW_BFS_FAR) ||
			    (distance[v] != PMW_BFS_FAR && distance[w] > distance[v] + 1))
				return fth_fail(EILSEQ,
						"bfs: vertices %llu and %u are neighbours, with "
						"distances %u and %u",
						(unsigned long long)v, w, distance[v], distance[w]);
			near |= distance[v] == distance[w] + 1;
		}
		if (!near || (v == 0 && distance[v] != 0))
			return fth_fail(EILSEQ,
					"bfs: vertex %llu at distance %u has no predecessor",
					(unsigned long long)v, distance[v]);
	}
	return 0;
}

/*
 * Distances are right if 0 has 0, neighbours differ by one at most, and each vertex has one that is
 * nearer.
 */
static int bfs_finish(struct pmw_job *job)
{
	struct bfs *w = job->own;
	uint32_t *distance;
	uint64_t reached = 0;
	int rc;

	if (!w->ended)
		return fth_fail(EILSEQ, "bfs: the search did not finish in %llu steps",
				(unsigned long long)job->steps);
	distance = malloc(w->distance.bytes);
	if (!distance)
		return fth_fail(ENOMEM, "no memory to check the result");
	rc = pmw_download(job, distance, w->distance.kernel, w->distance.bytes);
	if (rc == 0)
		rc = check_distances(&w->p, distance, w->vertices, &reached);
	if (rc == 0 && reached < w->vertices / 2)
		rc = fth_fail(EILSEQ, "bfs: only %llu vertices were reached",
			      (unsigned long long)reached);
	free(distance);
	return rc ? rc : pmw_digest(job, w->distance.kernel, w->distance.bytes);
}

static void bfs_close(struct pmw_job *job)
{
	struct bfs *w = job->own;

	if (w)
		free(w->staging);
}

const struct fth_pmw_workload pmw_bfs_workload = {
	.name = "bfs",
	.kind = FTH_PMW_NATIVE,
	.items = 200,
	.steps = 2000,
	.paper_items = 4900,
	.paper_steps = 100000,
	.own = sizeof(struct bfs),
	.bytes = bfs_bytes,
	.check = bfs_check,
	.open = bfs_open,
	.done = bfs_done,
	.step = bfs_step,
	.finish = bfs_finish,
	.close = bfs_close,
};
