/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom demo: the library at work, on devices that need no hardware. First devices: each step is
 * one line of a table; the last word is whether every block held what was written to it. Then, in
 * demo_graph.c, a graph that is larger than its cache, in demo_flat.c
 * plain pointers, in demo_kv.c a cache server that is killed, in
 * demo_sql.c queries inside 16 MiB, and in demo_pm.c a program that is killed and finishes its work.
 */
#include "commands.h"
#include "demo.h"
#include "json.h"
#include "workload.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"
#include "fathom/dev/crash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK	     4096
#define BLOCKS	     16384
#define DEPTH	     32
#define WRITE_SHARE  0.3
#define POWER_LOSSES 8

static uint64_t threads = 8, ops = 200000, seed = 1, scale = 19;

/* One row: a device and what happens on it. */
struct step {
	const char *what;
	const char *uri; /* NULL: a temporary file */
	bool fails;	 /* requests are meant to fail here */
	int (*run)(const struct fth_workload *workload, struct fth_workload_result *result);
};

/* ---- what happens ---- */

/* Read and write at random, then look at everything once more. */
static int plain(const struct fth_workload *workload, struct fth_workload_result *result)
{
	int rc = fth_workload_run(workload, result);

	return rc < 0 ? rc : fth_workload_verify(workload, result);
}

static void add(struct fth_workload_result *sum, const struct fth_workload_result *part)
{
	sum->reads += part->reads;
	sum->writes += part->writes;
	sum->errors += part->errors;
	sum->checked += part->checked;
	sum->wrong += part->wrong;
	sum->elapsed_ns += part->elapsed_ns;
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
		rc = fth_dev_crash_power_loss(workload->dev, seed + workload->round);
	if (rc == 0)
		rc = fth_dev_crash_restart(workload->dev);
	fth_workload_doubt(workload, flushed);
	add(result, &more);
	return rc < 0 ? rc : fth_workload_verify(workload, result);
}

static int power_losses(const struct fth_workload *workload, struct fth_workload_result *result)
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

static const struct step steps[] = {
	{"memory", "mem:64M", false, plain},
	{"a file", NULL, false, plain},
	{"NVMe, controller in software", "softnvme(mem:64M)", false, plain},
	{"NVMe, slowed to an Optane", "softnvme(mem:64M?model=p5800x)", false, plain},
	{"NVMe, 1 % of requests fail", "softnvme(fault(mem:64M)?kind=read,write&rate=0.01)", true,
	 plain},
	{"power is lost 8 times", "crash(mem:64M)", false, power_losses},
};

#define STEPS (sizeof(steps) / sizeof(steps[0]))

static int run_on(struct fth_dev *dev, const struct step *step, struct fth_workload_result *result)
{
	struct fth_workload workload = {
		.dev = dev,
		.seed = seed,
		.block = BLOCK,
		.blocks = BLOCKS,
		.threads = (unsigned)threads,
		.depth = DEPTH,
		.ops = (ops + threads - 1) / threads,
		.write_share = WRITE_SHARE,
		.generations = calloc(BLOCKS, sizeof(uint32_t)),
	};
	int rc = workload.generations ? step->run(&workload, result) : -ENOMEM;

	free(workload.generations);
	return rc;
}

int demo_open_temporary(uint64_t bytes, struct fth_dev **out)
{
	const char *folder = getenv("TMPDIR");
	char path[1024], uri[3 * sizeof(path) + 8] = "file:";
	size_t used = strlen(uri);
	int fd, rc;

	snprintf(path, sizeof(path), "%s/fathom-demo-XXXXXX", folder ? folder : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	rc = fth_uri_escape(path, uri + used, sizeof(uri) - used);
	if (rc == 0 && ftruncate(fd, (off_t)bytes) < 0)
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	if (rc == 0)
		rc = fth_dev_open(uri, out);
	close(fd);
	unlink(path);
	return rc;
}

/* Some machines do not allow io_uring; that is no fault of what is shown. */
static bool not_allowed(const struct step *step, int rc)
{
	return !step->uri && (rc == -EPERM || rc == -ENOSYS);
}

static int run_step(const struct step *step, struct fth_workload_result *result)
{
	struct fth_dev *dev = NULL;
	int rc = step->uri ? fth_dev_open(step->uri, &dev)
			   : demo_open_temporary((uint64_t)BLOCK * BLOCKS, &dev);

	if (rc == 0)
		rc = run_on(dev, step, result);
	if (rc == 0 && (result->errors > 0) != step->fails && !fth_cli_stopped())
		rc = fth_fail(EIO, "%llu requests failed", (unsigned long long)result->errors);
	if (rc < 0)
		fth_cli_error("%s: %s%s", step->what, fth_error_text(rc),
			      not_allowed(step, rc) ? " (going on without)" : "");
	fth_dev_close(dev);
	return not_allowed(step, rc) ? 0 : rc;
}

/* ---- telling ---- */

static double per_second(uint64_t amount, uint64_t ns)
{
	return ns ? (double)amount * 1e9 / (double)ns : 0;
}

static void print_head(void)
{
	printf("%llu threads, %u requests of %u bytes in flight each, %.0f %% writes.\n"
	       "Every block carries its address and generation; every block read is checked.\n\n",
	       (unsigned long long)threads, DEPTH, BLOCK, 100 * WRITE_SHARE);
	printf("  %-28s %10s %10s %8s %10s %8s\n", "device", "reads", "writes", "failed", "ops/s",
	       "wrong");
}

static void print_row(const struct step *step, const struct fth_workload_result *r)
{
	printf("  %-28s %10llu %10llu %8llu %10.0f %8llu\n", step->what,
	       (unsigned long long)r->reads, (unsigned long long)r->writes,
	       (unsigned long long)r->errors, per_second(r->reads + r->writes, r->elapsed_ns),
	       (unsigned long long)r->wrong);
	fflush(stdout);
}

static void print_row_json(struct fth_json *j, const struct step *step,
			   const struct fth_workload_result *r)
{
	fth_json_object(j, NULL);
	fth_json_string(j, "what", step->what);
	fth_json_string(j, "device", step->uri ? step->uri : "file:");
	fth_json_u64(j, "reads", r->reads);
	fth_json_u64(j, "writes", r->writes);
	fth_json_u64(j, "errors", r->errors);
	fth_json_u64(j, "checked", r->checked);
	fth_json_u64(j, "wrong", r->wrong);
	fth_json_double(j, "ops_per_second", per_second(r->reads + r->writes, r->elapsed_ns));
	fth_json_end(j);
}

/* Run all steps; the sums of what was checked and what was wrong go to *sum. */
static int run_steps(struct fth_json *j, struct fth_workload_result *sum)
{
	for (unsigned i = 0; i < STEPS && !fth_cli_stopped(); i++) {
		struct fth_workload_result result = {0};
		int rc = run_step(&steps[i], &result);

		add(sum, &result);
		if (rc < 0)
			return rc;
		if (j)
			print_row_json(j, &steps[i], &result);
		else
			print_row(&steps[i], &result);
	}
	return 0;
}

/* The graph, if the devices did well. */
static int then_graph(struct fth_json *j, int rc, const struct fth_workload_result *sum)
{
	if (rc < 0 || sum->wrong > 0 || fth_cli_stopped())
		return rc;
	rc = demo_graph(j, (unsigned)scale, (unsigned)threads, seed);
	if (rc < 0 && !fth_cli_stopped())
		fth_cli_error("graph: %s", fth_error_text(rc));
	if (rc > 0)
		fth_cli_error("an answer about the graph is wrong");
	return rc;
}

static int then_kv(struct fth_json *j, int rc)
{
	if (rc != 0 || fth_cli_stopped())
		return rc;
	rc = demo_kv(j, seed);
	if (rc < 0 && !fth_cli_stopped())
		fth_cli_error("kv: %s", fth_error_text(rc));
	if (rc > 0)
		fth_cli_error("the cache server gave a wrong value");
	return rc;
}

static int then_flat(struct fth_json *j, int rc)
{
	if (rc != 0 || fth_cli_stopped())
		return rc;
	rc = demo_flat(j, seed);
	if (rc < 0 && !fth_cli_stopped())
		fth_cli_error("flat: %s", fth_error_text(rc));
	if (rc > 0)
		fth_cli_error("a plain pointer gave a wrong value");
	return rc;
}

static int then_sql(struct fth_json *j, int rc)
{
	if (rc != 0 || fth_cli_stopped())
		return rc;
#ifdef FTH_SQL
	rc = demo_sql(j);
#else
	(void)j;
#endif
	if (rc < 0 && !fth_cli_stopped())
		fth_cli_error("sql: %s", fth_error_text(rc));
	if (rc > 0)
		fth_cli_error("an answer of SQL is wrong, or took more memory than its budget");
	return rc;
}

static int then_pm(struct fth_json *j, int rc)
{
	if (rc != 0 || fth_cli_stopped())
		return rc;
	rc = demo_pm(j);
	if (rc < 0 && !fth_cli_stopped())
		fth_cli_error("pm: %s", fth_error_text(rc));
	if (rc > 0)
		fth_cli_error("a program in persistent memory has a wrong answer");
	return rc;
}

static int verdict(int rc, const struct fth_workload_result *sum)
{
	if (sum->wrong > 0)
		fth_cli_error("%llu blocks held something else than was written",
			      (unsigned long long)sum->wrong);
	if (fth_cli_stopped() && sum->wrong == 0)
		return FTH_EXIT_INTERRUPTED;
	return rc != 0 || sum->wrong > 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static int demo_json(void)
{
	struct fth_workload_result sum = {0};
	struct fth_json j;
	int status, rc;

	fth_json_begin(&j, stdout);
	fth_json_array(&j, "steps");
	rc = run_steps(&j, &sum);
	fth_json_end(&j);
	if (sum.wrong == 0)
		rc = then_pm(&j,
			     then_sql(&j, then_kv(&j, then_flat(&j, then_graph(&j, rc, &sum)))));
	status = verdict(rc, &sum);
	fth_json_u64(&j, "checked", sum.checked);
	fth_json_u64(&j, "wrong", sum.wrong);
	fth_json_bool(&j, "ok", status == FTH_EXIT_OK);
	fth_json_finish(&j);
	return status;
}

static int demo_text(void)
{
	struct fth_workload_result sum = {0};
	int rc;

	print_head();
	rc = run_steps(NULL, &sum);
	if (rc == 0 && sum.wrong == 0 && !fth_cli_stopped())
		printf("\n%llu blocks were checked. All held what was last written, or last\n"
		       "flushed before the power was lost.\n",
		       (unsigned long long)sum.checked);
	if (sum.wrong == 0)
		rc = then_pm(
			NULL,
			then_sql(NULL, then_kv(NULL, then_flat(NULL, then_graph(NULL, rc, &sum)))));
	return verdict(rc, &sum);
}

static int run(int argc, char **argv)
{
	static const struct fth_cli_option options[] = {
		{"threads", FTH_CLI_U64, &threads, 1, 64, "how many threads"},
		{"ops", FTH_CLI_U64, &ops, 1, UINT32_MAX, "requests per device"},
		{"scale", FTH_CLI_U64, &scale, 8, 26, "log2 of the graph's vertices"},
		{"seed", FTH_CLI_U64, &seed, 0, UINT64_MAX, "of all random choices"},
		{0},
	};
	static const struct fth_cli_usage usage = {
		.synopsis = "demo [OPTIONS]",
		.text = "Show the library at work, on devices that need no hardware: many threads\n"
			"with many requests in flight, failing requests and power loss, every\n"
			"block that is read checked; then a graph four times as large as its\n"
			"cache, searched and ranked; then plain pointers to a file four times the\n"
			"memory, with mmap and with a flat region; then a cache server with four "
			"times as many\n"
			"items as its memory holds, killed and started again; then the queries of\n"
			"TPC-H inside 16 MiB.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	return fth_cli_json() ? demo_json() : demo_text();
}

const struct fth_command fth_cmd_demo = {
	.name = "demo",
	.summary = "show the library at work, in a few seconds",
	.run = run,
};
