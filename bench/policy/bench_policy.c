/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench policy: which line should go? Hit rates of replacement policies on traces, beside
 * what a policy that knows the future would reach. No device, no clock: the same on any machine.
 */
#include "policy.h"
#include "common/report.h"

#include "app_options.h"
#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POLICIES_MAX  8
#define WORKLOADS_MAX 8
#define OURS	      "trial"
#define PEER	      "fifo"
#define LIMIT	      "opt"

struct results {
	double rate[WORKLOADS_MAX][POLICIES_MAX]; /* hits per access; below 0: not run */
	uint64_t accesses[WORKLOADS_MAX];
	uint32_t frames[WORKLOADS_MAX];
	double mean[POLICIES_MAX]; /* of the rates, each over the limit's */
};

static unsigned index_of(const char *name)
{
	return (unsigned)(fth_policy_find(name) - fth_policies);
}

static int run_workload(const struct fth_policy_scale *scale, unsigned w, struct results *results)
{
	const struct fth_policy_workload *workload = &fth_policy_workloads[w];
	struct fth_policy_trace trace = {.frames = scale->frames};
	int64_t hits = 0;

	workload->make(&trace, scale, workload->kind);
	hits = trace.error;
	results->accesses[w] = trace.n;
	results->frames[w] = trace.frames;
	for (unsigned p = 0; hits != -ENOMEM && p < fth_policy_count; p++) {
		hits = fth_policies[p].run(&fth_policies[p], &trace);
		results->rate[w][p] = hits < 0 ? -1 : (double)hits / (double)trace.n;
		if (fth_cli_stopped())
			hits = -EINTR;
		if (hits == -EINTR)
			break;
	}
	fth_policy_trace_free(&trace);
	return hits == -ENOMEM || hits == -EINTR ? (int)hits : 0;
}

/* A policy that knows the future cannot be beaten: what says so is wrong. */
static int check_limit(const struct results *results)
{
	for (unsigned w = 0; w < fth_policy_workload_count; w++)
		for (unsigned p = 0; p < fth_policy_count; p++)
			if (results->rate[w][p] > results->rate[w][index_of(LIMIT)])
				return fth_fail(EIO, "%s: %s has a hit rate above the optimum",
						fth_policy_workloads[w].name, fth_policies[p].name);
	return 0;
}

static void compute_means(struct results *results)
{
	for (unsigned p = 0; p < fth_policy_count; p++) {
		double sum = 0;
		unsigned n = 0;

		for (unsigned w = 0; w < fth_policy_workload_count; w++) {
			if (results->rate[w][p] < 0)
				continue;
			sum += results->rate[w][p] / results->rate[w][index_of(LIMIT)];
			n++;
		}
		results->mean[p] = n ? sum / n : 0;
	}
}

/* ---- output ---- */

static void print_table(const struct results *results)
{
	if (fth_cli_json())
		return;
	printf("hits, %% of all accesses\n%-13s", "");
	for (unsigned p = 0; p < fth_policy_count; p++)
		printf(" %*s", (int)(strlen(fth_policies[p].name) + 1), fth_policies[p].name);
	for (unsigned w = 0; w < fth_policy_workload_count; w++) {
		printf("\n%-13s", fth_policy_workloads[w].name);
		for (unsigned p = 0; p < fth_policy_count; p++) {
			int width = (int)strlen(fth_policies[p].name) + 1;

			if (results->rate[w][p] < 0)
				printf(" %*s", width, "-");
			else
				printf(" %*.1f", width, 100 * results->rate[w][p]);
		}
	}
	printf("\n%-13s", "mean of opt's");
	for (unsigned p = 0; p < fth_policy_count; p++)
		printf(" %*.1f", (int)(strlen(fth_policies[p].name) + 1), 100 * results->mean[p]);
	printf("\n\n");
	for (unsigned p = 0; p < fth_policy_count; p++)
		printf("%-13s %s\n", fth_policies[p].name, fth_policies[p].text);
	printf("\n");
	for (unsigned w = 0; w < fth_policy_workload_count; w++)
		printf("%-13s %s; %llu accesses, %u frames\n", fth_policy_workloads[w].name,
		       fth_policy_workloads[w].text, (unsigned long long)results->accesses[w],
		       results->frames[w]);
}

static void print_rates(struct fth_json *j, const struct results *results)
{
	fth_json_object(j, "means");
	for (unsigned p = 0; p < fth_policy_count; p++)
		fth_json_double(j, fth_policies[p].name, results->mean[p]);
	fth_json_end(j);
	fth_json_array(j, "traces");
	for (unsigned w = 0; w < fth_policy_workload_count; w++) {
		fth_json_object(j, NULL);
		fth_json_string(j, "trace", fth_policy_workloads[w].name);
		fth_json_u64(j, "accesses", results->accesses[w]);
		fth_json_u64(j, "frames", results->frames[w]);
		for (unsigned p = 0; p < fth_policy_count; p++)
			if (results->rate[w][p] >= 0)
				fth_json_double(j, fth_policies[p].name, results->rate[w][p]);
		fth_json_end(j);
	}
}

static void print_json(const struct fth_policy_scale *scale, const struct results *results)
{
	double ours = results->mean[index_of(OURS)], peer = results->mean[index_of(PEER)];
	struct fth_json j;

	fth_bench_json(&j, "policy", ours, peer, ours / peer);
	fth_json_string(&j, "ours_name", OURS);
	fth_json_string(&j, "peer_name", PEER);
	fth_json_string(&j, "unit", "mean over traces of hit rate / OPT's hit rate");
	fth_json_u64(&j, "frames", scale->frames);
	fth_json_u64(&j, "accesses", scale->accesses);
	fth_json_u64(&j, "graph", scale->graph);
	fth_json_u64(&j, "seed", scale->seed);
	print_rates(&j, results);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int run_all(const struct fth_policy_scale *scale)
{
	static struct results results;
	int rc = 0;

	for (unsigned w = 0; rc == 0 && w < fth_policy_workload_count; w++) {
		fth_cli_progress("policy", w, fth_policy_workload_count);
		rc = run_workload(scale, w, &results);
	}
	fth_cli_progress_end();
	if (rc == 0)
		rc = check_limit(&results);
	if (rc < 0)
		return rc;
	compute_means(&results);
	print_table(&results);
	print_json(scale, &results);
	return 0;
}

static int run(int argc, char **argv)
{
	uint64_t frames = 16384, accesses = 2000000, graph = 17, seed = 1;
	bool smallest = false;
	const struct fth_cli_option table[] = {
		{"frames", FTH_CLI_U64, &frames, 16, 1 << 20, "of the synthetic traces' cache"},
		{"accesses", FTH_CLI_U64, &accesses, 1000, 100000000, "of the synthetic traces"},
		{"graph", FTH_CLI_U64, &graph, 8, 22, "2^N vertices in the trace of a search"},
		{"seed", FTH_CLI_U64, &seed, 0, 0, "of all traces"},
		FTH_BENCH_SMALLEST(&smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench policy [OPTION]...",
		.text = "Hit rates of replacement policies on traces, from an empty cache, in "
			"simulation.\nours: the cache's own policy. peer: BaM's clock. Both as "
			"means "
			"over all traces of\nthe hit rate over that of Belady's OPT.",
		.options = table,
	};
	struct fth_policy_scale scale;
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	scale = (struct fth_policy_scale){(uint32_t)frames, accesses, (unsigned)graph, seed};
	if (smallest)
		scale = (struct fth_policy_scale){1024, 50000, 13, seed};
	return fth_app_exit("bench policy", run_all(&scale));
}

const struct fth_command fth_bench_policy = {
	.name = "policy",
	.summary = "which line should go: replacement policies on traces",
	.run = run,
};
