/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scene: what goes wrong. Devices whose requests fail and whose power is lost, a server and a program that are killed: nothing that
 * was acknowledged is lost, and every value is checked.
 */
#include "demo.h"

#include "cli.h"
#include "dev/workload.h"

#include "fathom/base/error.h"
#include "fathom/dev/crash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK	     4096
#define BLOCKS	     16384
#define THREADS	     8
#define DEPTH	     32
#define OPS	     200000
#define WRITE_SHARE  0.3
#define POWER_LOSSES 8u
#define KILLS	     4u

/* ---- devices ---- */

static void add(struct fth_workload_result *sum, const struct fth_workload_result *part)
{
	sum->reads += part->reads;
	sum->writes += part->writes;
	sum->errors += part->errors;
	sum->checked += part->checked;
	sum->wrong += part->wrong;
}

/* Read and write at random, then read everything once more. */
static int run_failing(const struct fth_workload *workload, struct fth_workload_result *result)
{
	int rc = fth_workload_run(workload, result);

	return rc < 0 ? rc : fth_workload_verify(workload, result);
}

/*
 * Write, flush, write more, lose the power: all that was flushed and not written again must be
 * there. flushed[] is room for a copy of the generations.
 */
static int lose_power_once(const struct fth_workload *workload, uint32_t *flushed,
			   struct fth_workload_result *result)
{
	struct fth_workload unflushed = *workload;
	struct fth_workload_result more = {0};
	int rc = fth_workload_run(workload, result);

	unflushed.ops = workload->ops / 4 + 1;
	unflushed.round += POWER_LOSSES;
	if (rc == 0)
		rc = fth_dev_flush(workload->dev, FTH_DEV_TIMEOUT);
	memcpy(flushed, workload->generations, workload->blocks * sizeof(*flushed));
	if (rc == 0)
		rc = fth_workload_run(&unflushed, &more);
	if (rc == 0)
		rc = fth_dev_crash_power_loss(workload->dev, workload->seed + workload->round);
	if (rc == 0)
		rc = fth_dev_crash_restart(workload->dev);
	fth_workload_doubt(workload, flushed);
	add(result, &more);
	return rc < 0 ? rc : fth_workload_verify(workload, result);
}

static int run_power_losses(const struct fth_workload *workload, struct fth_workload_result *result)
{
	struct fth_workload part = *workload;
	uint32_t *flushed = malloc(workload->blocks * sizeof(*flushed));
	int rc = flushed ? 0 : -ENOMEM;

	part.ops = workload->ops / POWER_LOSSES + 1;
	for (; part.round < POWER_LOSSES && rc == 0 && !fth_cli_stopped(); part.round++) {
		struct fth_workload_result once = {0};

		rc = lose_power_once(&part, flushed, &once);
		add(result, &once);
	}
	free(flushed);
	return rc;
}

static int run_device(struct demo *demo, const char *uri,
		      int (*run)(const struct fth_workload *, struct fth_workload_result *),
		      struct fth_workload_result *result)
{
	struct fth_workload workload = {
		.seed = demo->seed,
		.block = BLOCK,
		.blocks = demo->smallest ? BLOCKS / 16 : BLOCKS,
		.threads = THREADS,
		.depth = DEPTH,
		.ops = (demo->smallest ? OPS / 50 : OPS) / THREADS,
		.write_share = WRITE_SHARE,
		.generations = calloc(BLOCKS, sizeof(uint32_t)),
	};
	int rc = workload.generations ? fth_dev_open(uri, &workload.dev) : -ENOMEM;

	if (rc == 0) {
		rc = run(&workload, result);
		fth_dev_close(workload.dev);
	}
	if (rc == 0 && fth_cli_stopped())
		rc = -EINTR;
	free(workload.generations);
	return rc;
}

/* ---- the scene ---- */

struct tally {
	uint64_t checked, wrong;
};

static int show_devices(struct demo *demo, struct tally *tally)
{
	struct fth_workload_result failing = {0}, losing = {0};
	int rc = run_device(demo, "softnvme(fault(mem:64M)?kind=read,write&rate=0.01)", run_failing,
			    &failing);

	if (rc == 0)
		demo_say(demo,
			 "\n   An NVMe drive (in software) of which 1 %% of the requests fail:\n"
			 "     %" PRIu64 " of %" PRIu64 " requests failed and said so, %" PRIu64
			 " blocks are wrong",
			 failing.errors, failing.errors + failing.reads + failing.writes,
			 failing.wrong);
	if (rc == 0)
		rc = run_device(demo, "crash(mem:64M)", run_power_losses, &losing);
	if (rc == 0)
		demo_say(demo,
			 "   A device whose power is lost %u times, which drops, tears and reorders"
			 "\n   what was not flushed:\n     %" PRIu64 " of %" PRIu64
			 " blocks that were flushed are wrong",
			 POWER_LOSSES, losing.wrong, losing.checked);
	tally->checked += failing.checked + losing.checked;
	tally->wrong += failing.wrong + losing.wrong;
	return rc;
}

static int show_server(struct demo *demo, struct tally *tally)
{
	struct demo_restart restart = {0};
	int rc = demo_kill_server(demo, &restart);

	if (rc < 0)
		return rc;
	demo_say(demo,
		 "   A cache server that is killed (kill -9) and started again:\n     %" PRIu64
		 " of %" PRIu64 " acknowledged items are there, after %.3f s",
		 restart.found, restart.items, restart.seconds);
	tally->checked += restart.items;
	tally->wrong += restart.wrong + (restart.items - restart.found);
	return 0;
}

static int show_program(struct demo *demo, struct tally *tally)
{
	bool right;
	int rc = demo_kill_program(demo, KILLS, &right);

	if (rc < 0)
		return rc;
	demo_say(demo,
		 "   A program with transactions in persistent memory, killed %u times:\n"
		 "     its answer is %s",
		 KILLS, right ? "that of a run without interruption" : "WRONG");
	tally->checked++;
	tally->wrong += !right;
	return 0;
}

int demo_scene_faults(struct demo *demo)
{
	struct tally tally = {0};
	int rc;

	demo_begin(demo, "faults", "And when something fails?",
		   "   What a program was told is durable, is there afterwards.");
	rc = show_devices(demo, &tally);
	if (rc == 0)
		rc = show_server(demo, &tally);
	if (rc == 0)
		rc = show_program(demo, &tally);
	demo_end(demo, tally.checked, "values", tally.wrong);
	return rc < 0 ? rc : tally.wrong > 0;
}
