/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench pmwork`: the workloads of GPM on a GPU whose kernels persist their results
 * themselves; against the same kernels with the CPU persisting after them, into mapped memory or
 * into a file, and against CPU threads. Each run checks its result. Times are of a step,
 * persistence included; of checkpointed workloads, of a checkpoint.
 */
#include "common/report.h"
#include "pmwork_run.h"

#include "workloads/pm/machine.h"
#include "workloads/pm/work.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum side { DIRECT, MAPPED, FILED, CPU, SIDES };

struct asked {
	uint64_t threads, scale;
	uint64_t assisted_steps;
	const char *only, *dir;
	bool smallest;
	char name[64], file[512];
};

/* Of one workload. */
struct row {
	const struct fth_pmw_workload *workload;
	double seconds[SIDES]; /* of a step, or of a checkpoint */
	uint64_t bytes[SIDES]; /* persisted in it */
	double restore;	       /* seconds */
	double share;	       /* restore's, of the run */
	double whole;	       /* seconds of the whole run, direct */
	struct fth_pmw_result direct;
};

static const struct fth_command *const commands[] = {
	&pmwork_run_command,
	NULL,
};

static int parse(struct asked *asked, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"workload", FTH_CLI_STRING, &asked->only, 0, 0, "only this one"},
		{"scale", FTH_CLI_U64, &asked->scale, 1, 1024, "divide the paper's sizes by this"},
		{"threads", FTH_CLI_U64, &asked->threads, 0, 1024, "of the CPU; 0: all"},
		{"assisted-steps", FTH_CLI_U64, &asked->assisted_steps, 1, 1000000,
		 "steps of the CPU's and the CPU-assisted runs"},
		{"dir", FTH_CLI_STRING, &asked->dir, 0, 0, "folder of the file; default /tmp"},
		FTH_BENCH_SMALLEST(&asked->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench pmwork [options]",
		.text = "The workloads of GPM on a GPU. Ours: kernels persist what they compute. "
			"Peers:\n"
			"the CPU copies and persists it after them, into mapped memory or into a "
			"file;\n"
			"and the same work on CPU threads.",
		.options = options,
		.commands = commands,
	};
	char **args;

	return fth_cli_parse(&usage, argc, argv, &args);
}

/* ---- sizes ---- */

static uint64_t divided(uint64_t n, uint64_t by, uint64_t unit)
{
	uint64_t result = n / by / unit * unit;

	return result ? result : unit;
}

/* The paper's, divided; items of some are the side of a square, or have a unit. */
static void choose_size(const struct asked *asked, const struct fth_pmw_workload *workload,
			struct fth_pmw_options *o)
{
	static const struct {
		const char *name;
		uint64_t items, unit, steps;
		bool square;
	} paper[] = {
		{"kvs", 2 << 20, 32, 25, false},       {"kvs95", 2 << 20, 32, 100, false},
		{"insert", 5000000, 32, 10, false},    {"update", 50000000, 640, 10, false},
		{"cfd", 200 << 10, 1024, 5000, false}, {"bfs", 4900, 4, 100000, true},
		{"prefix", 1 << 20, 1024, 2, false},
	};

	if (asked->smallest)
		return; /* the small sizes of the workloads */
	for (size_t i = 0; i < sizeof(paper) / sizeof(paper[0]); i++)
		if (strcmp(paper[i].name, fth_pmw_name(workload)) == 0) {
			uint64_t by = paper[i].square ? (uint64_t)sqrt((double)asked->scale)
						      : asked->scale;

			o->items = divided(paper[i].items, by, paper[i].unit);
			o->steps = paper[i].steps;
		}
}

/* ---- runs ---- */

static int run_side(const struct asked *asked, const struct fth_pmw_workload *workload,
		    enum side side, struct fth_pmw_options *o, struct fth_pmw_result *result)
{
	int rc;

	o->memory = asked->name;
	o->file = asked->file;
	o->threads = (unsigned)asked->threads;
	o->stopped = fth_cli_stopped;
	o->style = side == MAPPED  ? FTH_PMW_ASSISTED_MAP
		   : side == FILED ? FTH_PMW_ASSISTED_FILE
				   : FTH_PMW_DIRECT;
	o->flush = side == CPU;
#ifdef FTH_BENCH_CUDA
	o->machine = side == CPU ? NULL : pmw_machine_gpu;
#endif
	fth_cli_progress(fth_pmw_name(workload), side, SIDES);
	rc = fth_pm_remove(asked->name);
	if (rc == 0 || rc == -ENOENT)
		rc = fth_pmw_run(workload, o, result);
	fth_pm_remove(asked->name);
	unlink(asked->file);
	return rc;
}

/* Seconds and bytes of a step; of a checkpoint, if it has some. */
static void per_step(const struct fth_pmw_workload *workload, const struct fth_pmw_result *r,
		     uint64_t every, double *seconds, uint64_t *bytes)
{
	bool checkpoints = fth_pmw_kind(workload) == FTH_PMW_CHECKPOINTED;
	uint64_t count = checkpoints ? r->steps / every : r->steps;

	count = r->ran && !checkpoints ? r->ran : count;
	*seconds = (checkpoints ? r->persist_seconds : r->seconds) / (double)(count ? count : 1);
	*bytes = r->persisted / (count ? count : 1);
}

static int measure_restore(const struct asked *asked, struct row *row)
{
	struct fth_pmw_options o = FTH_PMW_OPTIONS_INIT;
	struct fth_pmw_result result;
	int rc;

	choose_size(asked, row->workload, &o);
	o.memory = asked->name;
	o.threads = (unsigned)asked->threads;
#ifdef FTH_BENCH_CUDA
	o.machine = pmw_machine_gpu;
#endif
	fth_pm_remove(asked->name);
	o.stop_before_end = true;
	rc = fth_pmw_run(row->workload, &o, &result);
	if (rc != -ECANCELED)
		return rc < 0 ? rc
			      : fth_fail(EILSEQ, "%s did not stop", fth_pmw_name(row->workload));
	o.stop_before_end = false;
	rc = fth_pmw_run(row->workload, &o, &result);
	fth_pm_remove(asked->name);
	row->restore = result.restore_seconds;
	row->share = row->whole > 0 ? row->restore / row->whole : 0;
	return rc;
}

/* Fewer steps where the CPU persists everything at each of them. */
static uint64_t steps_for(const struct asked *asked, const struct fth_pmw_workload *workload,
			  enum side side, const struct fth_pmw_options *o)
{
	uint64_t every = fth_pmw_every(workload), steps = asked->assisted_steps;

	if (side == DIRECT || asked->smallest || strcmp(fth_pmw_name(workload), "bfs") == 0 ||
	    o->steps <= steps)
		return o->steps;
	return every ? steps * every : steps;
}

static int measure(const struct asked *asked, struct row *row)
{
	for (enum side side = DIRECT; side < SIDES; side++) {
		struct fth_pmw_options o = FTH_PMW_OPTIONS_INIT;
		struct fth_pmw_result result;
		int rc;

		choose_size(asked, row->workload, &o);
		o.steps = steps_for(asked, row->workload, side, &o);
		rc = run_side(asked, row->workload, side, &o, &result);
		if (rc < 0)
			return rc;
		per_step(row->workload, &result, fth_pmw_every(row->workload), &row->seconds[side],
			 &row->bytes[side]);
		if (side == DIRECT) {
			row->direct = result;
			row->whole = result.seconds;
		}
	}
	return fth_pmw_kind(row->workload) == FTH_PMW_NATIVE ? 0 : measure_restore(asked, row);
}

/* ---- output ---- */

static double ratio(const struct row *row, enum side side)
{
	return row->seconds[DIRECT] > 0 ? row->seconds[side] / row->seconds[DIRECT] : 0;
}

static double amplification(const struct row *row)
{
	return row->bytes[DIRECT] ? (double)row->bytes[MAPPED] / (double)row->bytes[DIRECT] : 0;
}

static void print_row(const struct row *row)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		fth_cli_progress_end();
		printf("%-8s %10.3f ms  %8.2f  %8.2f  %8.2f  %8.2f  %7.2f %%\n",
		       fth_pmw_name(row->workload), 1e3 * row->seconds[DIRECT], ratio(row, MAPPED),
		       ratio(row, FILED), ratio(row, CPU), amplification(row), 100 * row->share);
		fflush(stdout);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "row", fth_pmw_name(row->workload));
	fth_json_u64(&j, "items", row->direct.items);
	fth_json_u64(&j, "steps", row->direct.steps);
	fth_json_double(&j, "direct_seconds", row->seconds[DIRECT]);
	fth_json_double(&j, "mapped_seconds", row->seconds[MAPPED]);
	fth_json_double(&j, "file_seconds", row->seconds[FILED]);
	fth_json_double(&j, "cpu_seconds", row->seconds[CPU]);
	fth_json_double(&j, "mapped_ratio", ratio(row, MAPPED));
	fth_json_double(&j, "file_ratio", ratio(row, FILED));
	fth_json_double(&j, "cpu_ratio", ratio(row, CPU));
	fth_json_double(&j, "write_amplification", amplification(row));
	fth_json_double(&j, "run_seconds", row->whole);
	fth_json_double(&j, "restore_seconds", row->restore);
	fth_json_double(&j, "restore_share", row->share);
	fth_json_finish(&j);
}

static void print_last(const struct asked *asked, double ours, double peer, unsigned count)
{
	struct fth_json j;
	double n = count ? count : 1;

	fth_bench_json(&j, "pmwork", exp(ours / n), exp(peer / n), exp((peer - ours) / n));
	fth_json_string(&j, "unit", "seconds of a step, geometric mean");
	fth_json_string(&j, "peer_is", "the CPU persists after the kernel, in mapped memory");
	fth_json_u64(&j, "workloads", count);
	fth_json_u64(&j, "scale", asked->scale);
	fth_json_u64(&j, "threads", asked->threads);
	fth_json_finish(&j);
}

static int run_all(struct asked *asked)
{
	double ours = 0, peer = 0;
	unsigned count = 0;
	int rc = 0;

	if (!fth_cli_json())
		printf("%-8s %13s  %8s  %8s  %8s  %8s  %9s\n", "", "a step", "mapped/", "file/",
		       "cpu/", "write", "restore");
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); rc == 0 && w;
	     w = fth_pmw_next(w)) {
		struct row row = {.workload = w};

		if (asked->only && strcmp(asked->only, fth_pmw_name(w)) != 0)
			continue;
		rc = measure(asked, &row);
		if (rc < 0)
			return fth_fail_in(rc, fth_pmw_name(w));
		print_row(&row);
		ours += log(row.seconds[DIRECT]);
		peer += log(row.seconds[MAPPED]);
		count++;
	}
	print_last(asked, ours, peer, count);
	return rc;
}

static int run(int argc, char **argv)
{
	struct asked asked = {.scale = 1, .assisted_steps = 3};
	int status = parse(&asked, argc, argv), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
#ifndef FTH_BENCH_CUDA
	fth_cli_error("pmwork: fathom was built without CUDA");
	return FTH_EXIT_IMPOSSIBLE;
#endif
	snprintf(asked.name, sizeof(asked.name), "shm:fathom-bench-%d", (int)getpid());
	snprintf(asked.file, sizeof(asked.file), "%s/fathom-bench-pm-%d",
		 asked.dir ? asked.dir : "/tmp", (int)getpid());
	rc = run_all(&asked);
	fth_cli_progress_end();
	if (rc < 0)
		fth_cli_error("%s", fth_error_text(rc));
	return rc == 0		   ? FTH_EXIT_OK
	       : rc == -EINTR	   ? FTH_EXIT_INTERRUPTED
	       : rc == -EOPNOTSUPP ? FTH_EXIT_IMPOSSIBLE
				   : FTH_EXIT_FAILED;
}

const struct fth_command fth_bench_pmwork = {
	.name = "pmwork",
	.summary = "GPM's workloads: kernels that persist, against the CPU doing it for them",
	.run = run,
};
