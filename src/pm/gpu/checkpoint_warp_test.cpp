/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checkpoints that warps save and verify, by warps that are CPU threads: the same bytes and sums as
 * the CPU's, which restores them; in memory that is drained as well.
 */
#include "gpu/warp_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/detail/pm/checkpoint_warp.h"
#include "fathom/pm/checkpoint.h"
#include "must_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES	(1u << 20)
#define BUFFERS 4u

static const uint64_t sizes[BUFFERS] = {1, 4096, 20003, 64};
static uint8_t memory[BUFFERS][20480], expected[BUFFERS][20480];

/* Buffer 2 is at an odd address. */
static uint8_t *buffer_of(unsigned i)
{
	return memory[i] + (i == 2);
}

static void fill_buffers(uint64_t seed)
{
	struct fth_rng rng = {seed};

	for (unsigned i = 0; i < BUFFERS; i++)
		for (uint64_t k = 0; k < sizes[i]; k++)
			buffer_of(i)[k] = (uint8_t)fth_rng_next(&rng);
	memcpy(expected, memory, sizeof(memory));
}

/* ---- warps in the role of kernels ---- */

struct job {
	struct fth_pm_view view;
	const struct fth_pm_cp_plan *plan;
	uint64_t written, sum;
};

static void save_lanes(void *arg, uint32_t lane)
{
	struct job *job = (struct job *)arg;

	for (uint32_t i = 0; i < job->plan->count; i++) {
		const struct fth_pm_cp_buffer *b = &job->plan->buffers[i];

		for (uint64_t at = 0; at < b->bytes; at += FTH_PM_CP_BLOCK) {
			uint8_t *to = job->view.base + job->plan->offset + b->at + at;
			bool wrote = fth_pm_cp_warp_save(
				&job->view, to, (const uint8_t *)b->address + at, b->bytes - at,
				(b->at + at) / 8, &job->plan->sums[(b->at + at) / FTH_PM_CP_BLOCK],
				job->plan->known);

			if (lane == 0 && wrote)
				job->written += FTH_PM_CP_BLOCK;
		}
	}
}

static void verify_lanes(void *arg, uint32_t lane)
{
	struct job *job = (struct job *)arg;

	for (uint64_t at = 0; at < job->plan->bytes; at += FTH_PM_CP_BLOCK) {
		uint64_t sum = fth_pm_cp_warp_verify(
			job->view.base + job->plan->offset + at, at / 8);

		if (lane == 0) {
			job->plan->sums[at / FTH_PM_CP_BLOCK] = sum;
			job->sum += sum;
		}
	}
}

/* The bytes that it wrote. */
static uint64_t save(struct fth_pm *pm, struct fth_pm_checkpoint *cp)
{
	struct fth_pm_cp_plan plan;
	struct job job = {fth_pm_view(pm), &plan, 0, 0};

	OK(fth_pm_checkpoint_plan_save(cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL, &plan));
	fixture_run_warp(save_lanes, &job);
	OK(fth_pm_checkpoint_commit(cp, &plan, job.written));
	return job.written;
}

static struct fth_pm_checkpoint *open_checkpoint(struct fth_pm *pm, bool create)
{
	struct fth_pm_checkpoint_shape shape = {1, BUFFERS, 64u << 10};
	struct fth_pm_checkpoint *cp;

	if (create)
		OK(fth_pm_checkpoint_create(pm, 0, &shape, &cp));
	else
		OK(fth_pm_checkpoint_open(pm, 0, &cp));
	for (unsigned i = 0; i < BUFFERS; i++)
		OK(fth_pm_checkpoint_register(cp, 0, buffer_of(i), sizes[i]));
	return cp;
}

static struct fth_pm *map_pm(const char *name)
{
	struct fth_pm_options options = {};
	struct fth_pm *pm;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	OK(fth_pm_map(name, BYTES, &options, &pm));
	return pm;
}

/* The CPU restores what warps saved, after it was mapped again. */
static void check_restore(const char *name, uint64_t version)
{
	struct fth_pm *pm = map_pm(name);
	struct fth_pm_checkpoint *cp = open_checkpoint(pm, false);

	MUST(fth_pm_checkpoint_version(cp, 0) == version);
	memset(memory, 0, sizeof(memory));
	OK(fth_pm_checkpoint_restore(cp, 0));
	MUST(memcmp(memory, expected, sizeof(memory)) == 0);
	fth_pm_checkpoint_close(cp);
	OK(fth_pm_unmap(pm));
}

static void test_saves(const char *name)
{
	struct fth_pm *pm = map_pm(name);
	struct fth_pm_checkpoint *cp = open_checkpoint(pm, true);
	struct fth_pm_cp_plan plan;
	struct job job = {};

	fill_buffers(1);
	MUST(save(pm, cp) == 8 * FTH_PM_CP_BLOCK);
	MUST(save(pm, cp) == 8 * FTH_PM_CP_BLOCK); /* the other copy */
	MUST(save(pm, cp) == 0);
	buffer_of(2)[20002] ^= 1; /* the last byte of it */
	memcpy(expected, memory, sizeof(memory));
	MUST(save(pm, cp) == FTH_PM_CP_BLOCK);
	MUST(save(pm, cp) == FTH_PM_CP_BLOCK);
	fth_pm_checkpoint_close(cp);
	OK(fth_pm_unmap(pm));
	check_restore(name, 5);

	/* What the CPU saves, warps verify; and damage is seen. */
	pm = map_pm(name);
	cp = open_checkpoint(pm, false);
	fill_buffers(2);
	OK(fth_pm_checkpoint_save(cp, 0, 0));
	OK(fth_pm_checkpoint_plan_restore(cp, 0, &plan));
	job.view = fth_pm_view(pm);
	job.plan = &plan;
	fixture_run_warp(verify_lanes, &job);
	MUST(job.sum == plan.sum);
	job.view.base[plan.offset + 5000] ^= 4;
	job.sum = 0;
	fixture_run_warp(verify_lanes, &job);
	MUST(job.sum != plan.sum);
	job.view.base[plan.offset + 5000] ^= 4;
	fth_pm_checkpoint_close(cp);
	OK(fth_pm_unmap(pm));
	check_restore(name, 6);
	OK(fth_pm_remove(name));
	printf("%s: checkpoints of warps and of the CPU are the same\n", name);
}

int main(void)
{
	char shm[64], file[128];

	snprintf(shm, sizeof(shm), "shm:fathom_cp_warp_%d", (int)getpid());
	snprintf(file, sizeof(file), "file:/tmp/fathom_cp_warp_%d?direct=off", (int)getpid());
	test_saves(shm);
	test_saves(file);
	return 0;
}
