/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom dev stress: random I/O on a device, every block checked. */
#include "commands.h"
#include "json.h"
#include "workload.h"

#include "fathom/base/error.h"
#include "fathom/dev/crash.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URIS_MAX 64

struct stress {
	uint64_t threads, depth, commands, block, run_max, span, seed, power_losses;
	double write_share;
	bool errors_allowed, force;
};

/* One device, worked on by a thread that has threads of its own. */
struct target {
	const struct stress *stress;
	const char *uri;
	pthread_t thread;
	bool started;
	struct fth_workload workload;
	struct fth_workload_result result;
	int rc;
	char error[256]; /* its text, which another thread could not ask for */
};

static void print_result(const struct stress *stress, const struct fth_workload_result *r)
{
	double seconds = (double)r->elapsed_ns / 1e9;

	printf("commands     %llu (%llu reads, %llu writes) in %.1f s, %.0f per second\n",
	       (unsigned long long)(r->reads + r->writes), (unsigned long long)r->reads,
	       (unsigned long long)r->writes, seconds,
	       seconds > 0 ? (double)(r->reads + r->writes) / seconds : 0);
	printf("threads      %llu, each with %llu in flight, 1 to %llu blocks of %llu bytes\n",
	       (unsigned long long)stress->threads, (unsigned long long)stress->depth,
	       (unsigned long long)stress->run_max, (unsigned long long)stress->block);
	printf("errors       %llu\n", (unsigned long long)r->errors);
	printf("checked      %llu blocks, %llu wrong\n", (unsigned long long)r->checked,
	       (unsigned long long)r->wrong);
}

static void print_json(const struct stress *stress, char **uris,
		       const struct fth_workload_result *r)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	if (!uris[1]) {
		fth_json_string(&j, "uri", uris[0]);
	} else {
		fth_json_array(&j, "uris");
		for (unsigned i = 0; uris[i]; i++)
			fth_json_string(&j, NULL, uris[i]);
		fth_json_end(&j);
	}
	fth_json_u64(&j, "threads", stress->threads);
	fth_json_u64(&j, "depth", stress->depth);
	fth_json_u64(&j, "block", stress->block);
	fth_json_u64(&j, "run_max", stress->run_max);
	fth_json_u64(&j, "power_losses", stress->power_losses);
	fth_json_u64(&j, "reads", r->reads);
	fth_json_u64(&j, "writes", r->writes);
	fth_json_u64(&j, "errors", r->errors);
	fth_json_u64(&j, "checked", r->checked);
	fth_json_u64(&j, "wrong", r->wrong);
	fth_json_double(&j, "seconds", (double)r->elapsed_ns / 1e9);
	fth_json_finish(&j);
}

/* Fit the workload to the device. */
static int plan(struct target *target)
{
	const struct stress *stress = target->stress;
	struct fth_workload *w = &target->workload;
	const struct fth_dev_info *info = fth_dev_info(w->dev);
	uint64_t span = stress->span < info->size ? stress->span : info->size;

	w->seed = stress->seed;
	w->write_share = stress->write_share;
	w->block = (uint32_t)(stress->block < info->block ? info->block : stress->block);
	w->blocks = span / w->block;
	w->run_max = (uint32_t)stress->run_max;
	w->threads = (unsigned)stress->threads;
	w->depth = (unsigned)stress->depth;
	w->ops = (stress->commands + stress->threads - 1) / stress->threads;
	w->generations = calloc(w->blocks ? w->blocks : 1, sizeof(w->generations[0]));
	return w->generations ? 0 : -ENOMEM;
}

static void add_result(struct fth_workload_result *sum, const struct fth_workload_result *r)
{
	sum->reads += r->reads;
	sum->writes += r->writes;
	sum->errors += r->errors;
	sum->checked += r->checked;
	sum->wrong += r->wrong;
	if (sum->elapsed_ns < r->elapsed_ns)
		sum->elapsed_ns = r->elapsed_ns;
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
	unflushed.round = ~workload->round;
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
	add_result(result, &more);
	return rc < 0 ? rc : fth_workload_verify(workload, result);
}

static int lose_power(const struct fth_workload *workload, uint64_t times,
		      struct fth_workload_result *result)
{
	struct fth_workload part = *workload;
	uint32_t *flushed = malloc(workload->blocks * sizeof(*flushed));
	int rc = flushed ? 0 : -ENOMEM;

	part.ops = workload->ops / times + 1;
	for (; part.round < times && rc == 0 && !fth_cli_stopped(); part.round++) {
		struct fth_workload_result once = {0};

		rc = lose_power_once(&part, flushed, &once);
		once.elapsed_ns += result->elapsed_ns; /* one after the other */
		add_result(result, &once);
	}
	free(flushed);
	return rc;
}

static void *stress_device(void *arg)
{
	struct target *target = arg;
	struct fth_workload *w = &target->workload;
	int rc = fth_dev_open(target->uri, &w->dev);

	if (rc == 0)
		rc = plan(target);
	if (rc == 0 && target->stress->power_losses > 0)
		rc = lose_power(w, target->stress->power_losses, &target->result);
	else if (rc == 0)
		rc = fth_workload_run(w, &target->result);
	if (rc == 0)
		rc = fth_workload_verify(w, &target->result);
	target->rc = rc;
	if (rc < 0)
		snprintf(target->error, sizeof(target->error), "%s", fth_error_text(rc));
	free(w->generations);
	fth_dev_close(w->dev);
	return NULL;
}

/* All devices at once. Complains about those that could not be used; how many were those? */
static unsigned stress_all(struct target *targets, unsigned n, struct fth_workload_result *sum)
{
	unsigned failed = 0;

	for (unsigned i = 0; i < n; i++) {
		struct target *t = &targets[i];

		t->workload.quiet = n > 1;
		/* Once it runs, rc is the thread's. */
		t->rc = -EAGAIN;
		t->started = pthread_create(&t->thread, NULL, stress_device, t) == 0;
	}
	for (unsigned i = 0; i < n; i++) {
		struct target *t = &targets[i];

		if (t->started)
			pthread_join(t->thread, NULL);
		add_result(sum, &t->result);
		if (t->rc == 0)
			continue;
		fth_cli_error("%s: %s", t->uri, t->started ? t->error : "cannot start a thread");
		failed++;
	}
	return failed;
}

static int stress_uris(struct stress *stress, char **uris)
{
	static struct target targets[URIS_MAX];
	struct fth_workload_result sum = {0};
	unsigned n = 0;

	for (; uris[n]; n++)
		targets[n] = (struct target){.stress = stress, .uri = uris[n]};
	if (stress_all(targets, n, &sum) > 0)
		return FTH_EXIT_FAILED;
	for (unsigned i = 0; i < n; i++)
		if (stress->block < targets[i].workload.block)
			stress->block = targets[i].workload.block;
	if (fth_cli_json())
		print_json(stress, uris, &sum);
	else
		print_result(stress, &sum);
	if (sum.wrong || (sum.errors && !stress->errors_allowed))
		return FTH_EXIT_FAILED;
	return fth_cli_stopped() ? FTH_EXIT_INTERRUPTED : FTH_EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct stress stress = {
		.threads = 4,
		.depth = 16,
		.commands = 100000,
		.block = 512,
		.run_max = 16,
		.span = 64u << 20,
		.seed = 1,
		.write_share = 0.5,
	};
	const struct fth_cli_option table[] = {
		FTH_CLI_FORCE(&stress.force, "overwrite the devices"),
		{"threads", FTH_CLI_U64, &stress.threads, 1, 1024, "per device"},
		{"depth", FTH_CLI_U64, &stress.depth, 1, 65535, "requests in flight per thread"},
		{"commands", FTH_CLI_U64, &stress.commands, 1, UINT64_MAX, "per device"},
		{"block", FTH_CLI_SIZE, &stress.block, 16, 1u << 20,
		 "unit that is stamped with its address and checked"},
		{"run-max", FTH_CLI_U64, &stress.run_max, 1, 65536, "blocks per request at most"},
		{"span", FTH_CLI_SIZE, &stress.span, 1, UINT64_MAX,
		 "bytes of each device to use, from its start"},
		{"writes", FTH_CLI_DOUBLE, &stress.write_share, 0, 1,
		 "fraction of requests that are writes, 0 to 1"},
		{"seed", FTH_CLI_U64, &stress.seed, 0, UINT64_MAX, "seed of the random numbers"},
		{"errors-allowed", FTH_CLI_FLAG, &stress.errors_allowed, 0, 0,
		 "tolerate failed requests; wrong data is still an error"},
		{"power-losses", FTH_CLI_U64, &stress.power_losses, 0, 1000000,
		 "of devices crash(...): drop, tear and reorder what was not flushed, so many "
		 "times"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "dev stress --force [OPTION]... URI...",
		.text = "Write and read random runs of blocks from many threads and check every "
			"block\nthat is read: each carries its own address and generation. "
			"Several devices are\nworked on at once. This OVERWRITES them.",
		.options = table,
		.min_args = 1,
		.max_args = URIS_MAX,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	for (char **uri = args; *uri; uri++) {
		status = fth_cli_take_over(*uri, stress.force);
		if (status != FTH_CLI_GO_ON)
			return status;
	}
	return stress_uris(&stress, args);
}

const struct fth_command fth_cmd_dev_stress = {
	.name = "stress",
	.summary = "random I/O from many threads, every block checked",
	.run = run,
};
