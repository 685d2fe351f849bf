/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpublock: GPU threads read and write random blocks through NVMe queue pairs in GPU
 * memory; a software controller on the same GPU moves them from and to host memory. Beside it, in
 * the same run: the same blocks moved with no queue, which is the limit, and one lock around a
 * queue pair, which is the peer.
 */
#include "gpublock.h"
#include "report.h"

#include "app_options.h"
#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX	 16
#define ROUNDS_MAX	 9
#define LOCK_THREADS_MAX 4096
#define LOCK_SHARE_MAX	 512 /* threads for each of several */
#define POINTS_MAX	 512

/* What is measured by default, and by --sweep, for figures. */
#define THREADS	      "32,256,1024,4096,32768,131072"
#define QUEUES	      "1,16,128"
#define MS	      100
#define SWEEP_THREADS "1024,2048,4096,8192,16384,32768,65536,131072,262144"
#define SWEEP_QUEUES  "1,2,4,8,16,32,64,128"
#define SWEEP_MS      40

struct list {
	unsigned n;
	uint32_t values[LIST_MAX];
};

struct options {
	struct gpublock_setup setup;
	struct list threads, queues;
	uint64_t rounds;
	bool all_designs;
	bool sweep;
};

struct point {
	struct gpublock_point what;
	struct gpublock_result result;
};

struct table {
	unsigned n;
	struct point points[POINTS_MAX];
	double raw[2][2]; /* 512 or 4096 bytes, read or write; 0: not measured */
};

static const char *const design_names[] = {"warp", "thread", "lock"};

static double raw_of(const struct table *t, const struct gpublock_point *p)
{
	return t->raw[p->block == 4096][p->write];
}

/* ---- measuring ---- */

static int compare_rates(const void *a, const void *b)
{
	double x = ((const struct gpublock_result *)a)->rate;
	double y = ((const struct gpublock_result *)b)->rate;

	return (x > y) - (x < y);
}

static void json_point(struct fth_json *j, const struct table *t, const struct point *p)
{
	const struct gpublock_point *w = &p->what;

	fth_json_string(j, "design", design_names[w->design]);
	fth_json_u64(j, "block", w->block);
	fth_json_string(j, "kind", w->nothing ? "none" : w->write ? "write" : "read");
	fth_json_u64(j, "queues", w->queues);
	fth_json_u64(j, "threads", w->threads);
	fth_json_double(j, "rate", p->result.rate);
	if (!w->nothing)
		fth_json_double(j, "of_limit", p->result.rate / raw_of(t, w));
	fth_json_u64(j, "commands", p->result.commands);
	fth_json_double(j, "per_doorbell", p->result.per_doorbell);
	fth_json_double(j, "per_batch", p->result.per_batch);
	fth_json_u64(j, "second_commands", p->result.second_commands);
}

/* A point of a sweep, on a line of its own: what scripts/plot.py reads. */
static void print_line(const struct gpublock *bench, const struct options *o, const struct table *t,
		       const struct point *p)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "bench", "gpublock");
	json_point(&j, t, p);
	fth_json_double(&j, "limit", raw_of(t, &p->what));
	fth_json_string(&j, "gpu", gpublock_gpu(bench));
	fth_json_string(&j, "model", o->setup.model ? o->setup.model->name : NULL);
	fth_json_u64(&j, "ssds", o->setup.ssds);
	fth_json_u64(&j, "ms", o->setup.ms);
	fth_json_u64(&j, "rounds", o->rounds);
	fth_json_finish(&j);
}

static void print_point(const struct table *t, const struct point *p)
{
	const struct gpublock_point *w = &p->what;

	if (fth_cli_json())
		return;
	printf("%-6s %5u B %-5s %4u queue pairs %6u threads %9.3f M/s", design_names[w->design],
	       w->block,
	       w->nothing ? "none"
	       : w->write ? "write"
			  : "read",
	       w->queues, w->threads, p->result.rate * 1e-6);
	if (!w->nothing)
		printf("  %5.3f of the limit", p->result.rate / raw_of(t, w));
	else
		printf("  %18s", "");
	printf("  %5.1f per doorbell %5.1f per batch\n", p->result.per_doorbell,
	       p->result.per_batch);
	fflush(stdout);
}

/* Medians of several runs of one point. */
static int measure(struct gpublock *bench, const struct options *o, struct table *t,
		   struct gpublock_point what)
{
	struct gpublock_result results[ROUNDS_MAX];
	struct point *p = &t->points[t->n];

	if (t->n == POINTS_MAX)
		return fth_fail(EINVAL, "more than %d points", POINTS_MAX);
	for (unsigned i = 0; i < o->rounds; i++) {
		int rc = gpublock_run(bench, &what, &results[i]);

		if (rc < 0)
			return rc;
		if (fth_cli_stopped())
			return -EINTR;
	}
	qsort(results, o->rounds, sizeof(results[0]), compare_rates);
	p->what = what;
	p->result = results[o->rounds / 2];
	t->n++;
	if (o->sweep)
		print_line(bench, o, t, p);
	else
		print_point(t, p);
	return 0;
}

static int measure_limits(struct gpublock *bench, struct table *t)
{
	for (int large = 0; large < 2; large++) {
		for (int write = 0; write < 2; write++) {
			double *rate = &t->raw[large][write];
			int rc = gpublock_raw(bench, large ? 4096 : 512, write, rate);

			if (rc < 0)
				return rc;
			if (!fth_cli_json())
				printf("limit  %5u B %-5s %43.3f M/s\n", large ? 4096 : 512,
				       write ? "write" : "read", *rate * 1e-6);
		}
	}
	return 0;
}

/* One kind of command over all threads and queue pairs. */
static int measure_grid(struct gpublock *bench, const struct options *o, struct table *t,
			struct gpublock_point what)
{
	for (unsigned q = 0; q < o->queues.n; q++) {
		for (unsigned i = 0; i < o->threads.n; i++) {
			int rc;

			what.queues = o->queues.values[q];
			what.threads = o->threads.values[i];
			/* no queue pair without a warp, and as many warps for each SSD */
			if ((what.queues > 1 && what.threads / 32 < what.queues) ||
			    what.threads / 32 % o->setup.ssds)
				continue;
			rc = measure(bench, o, t, what);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* Designs other than ours. */
static int measure_peers(struct gpublock *bench, const struct options *o, struct table *t)
{
	struct options few = *o;
	struct gpublock_point what = {.design = GPUBLOCK_LOCK, .block = 512};
	int rc;

	few.queues.n = 1;
	few.queues.values[0] = o->queues.values[0];
	/* With more threads one lock nearly stops: 0.16 M/s at 4096, 0.06 at 32768, then minutes.
	 */
	while (few.threads.n > 1 && few.threads.values[few.threads.n - 1] > LOCK_THREADS_MAX)
		few.threads.n--;
	rc = measure_grid(bench, &few, t, what);
	if (rc < 0 || !o->all_designs)
		return rc;
	what.design = GPUBLOCK_THREAD;
	return measure_grid(bench, o, t, what);
}

static int measure_all(struct gpublock *bench, const struct options *o, struct table *t)
{
	int rc = measure_limits(bench, t);

	for (int large = 0; rc == 0 && large < 2; large++) {
		for (int write = 0; rc == 0 && write < 2; write++) {
			struct gpublock_point what = {.block = large ? 4096 : 512, .write = write};

			rc = measure_grid(bench, o, t, what);
		}
	}
	if (rc == 0) {
		struct gpublock_point what = {.block = 512, .nothing = true};

		rc = measure_grid(bench, o, t, what);
	}
	return rc < 0 ? rc : measure_peers(bench, o, t);
}

/* One lock around each of many queue pairs, as long as each has few threads. */
static int measure_locks(struct gpublock *bench, const struct options *o, struct table *t)
{
	struct options few = *o;
	struct gpublock_point what = {.design = GPUBLOCK_LOCK, .block = 512};
	uint32_t queues = o->queues.values[o->queues.n - 1];

	few.queues.n = 1;
	few.queues.values[0] = queues;
	while (few.threads.n > 1 && few.threads.values[few.threads.n - 1] / queues > LOCK_SHARE_MAX)
		few.threads.n--;
	return measure_grid(bench, &few, t, what);
}

/* For figures: small reads over many numbers of threads and queue pairs, and their limit. */
static int measure_sweep(struct gpublock *bench, const struct options *o, struct table *t)
{
	struct gpublock_point what = {.block = 512};
	int rc = gpublock_raw(bench, 512, false, &t->raw[0][0]);

	if (rc == 0)
		rc = measure_grid(bench, o, t, what);
	if (rc == 0)
		rc = measure_peers(bench, o, t);
	if (rc == 0 && o->queues.n > 1)
		rc = measure_locks(bench, o, t);
	return rc;
}

/* ---- telling ---- */

static const struct point *find(const struct table *t, enum gpublock_design design,
				uint32_t threads)
{
	const struct point *best = NULL;

	for (unsigned i = 0; i < t->n; i++) {
		const struct gpublock_point *w = &t->points[i].what;

		if (w->design == design && w->block == 512 && !w->write && !w->nothing &&
		    (!best || (w->queues <= best->what.queues &&
			       abs((int)w->threads - (int)threads) <
				       abs((int)best->what.threads - (int)threads))))
			best = &t->points[i];
	}
	return best;
}

static void json_limits(struct fth_json *j, const struct table *t)
{
	static const char *const names[2][2] = {{"read_512", "write_512"},
						{"read_4096", "write_4096"}};

	fth_json_object(j, "limit");
	for (int i = 0; i < 4; i++)
		if (t->raw[i / 2][i % 2] > 0)
			fth_json_double(j, names[i / 2][i % 2], t->raw[i / 2][i % 2]);
	fth_json_end(j);
}

static void print_json(const struct gpublock *bench, const struct options *o, const struct table *t)
{
	const struct point *ours = find(t, GPUBLOCK_WARP, 4096);
	const struct point *peer = find(t, GPUBLOCK_LOCK, 4096);
	struct fth_json j;

	fth_bench_json(&j, "gpublock", ours->result.rate, peer->result.rate,
		       ours->result.rate / peer->result.rate);
	fth_json_string(&j, "peer_name", "lock");
	fth_json_string(&j, "unit", "commands/s");
	fth_json_u64(&j, "ratio_at_threads", ours->what.threads);
	fth_json_u64(&j, "ratio_at_queues", ours->what.queues);
	fth_json_string(&j, "gpu", gpublock_gpu(bench));
	fth_json_double(&j, "pin_seconds", gpublock_pin_seconds(bench));
	fth_json_u64(&j, "medium", o->setup.medium);
	fth_json_u64(&j, "data", o->setup.data);
	fth_json_u64(&j, "entries", o->setup.entries);
	fth_json_u64(&j, "ssds", o->setup.ssds);
	fth_json_string(&j, "model", o->setup.model ? o->setup.model->name : NULL);
	fth_json_u64(&j, "warps", o->setup.warps);
	fth_json_u64(&j, "batch", o->setup.batch);
	fth_json_bool(&j, "ordered", o->setup.ordered);
	fth_json_u64(&j, "ms", o->setup.ms);
	fth_json_u64(&j, "rounds", o->rounds);
	json_limits(&j, t);
	fth_json_array(&j, "points");
	for (unsigned i = 0; i < t->n; i++) {
		fth_json_object(&j, NULL);
		json_point(&j, t, &t->points[i]);
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int parse_list(const char *name, const char *text, uint32_t max, struct list *list)
{
	list->n = 0;
	while (list->n < LIST_MAX) {
		char *end;
		unsigned long n = strtoul(text, &end, 10);

		if (end == text || n == 0 || n > max)
			return fth_fail(EINVAL, "--%s: numbers from 1 to %u", name, max);
		list->values[list->n++] = (uint32_t)n;
		if (*end == '\0')
			return 0;
		if (*end != ',')
			return fth_fail(EINVAL, "--%s: \"%s\" is no list", name, text);
		text = end + 1;
	}
	return fth_fail(EINVAL, "--%s: at most %d numbers", name, LIST_MAX);
}

static int check_options(struct options *o, const char *threads, const char *queues,
			 const char *model)
{
	int rc = parse_list("threads", threads, 262144, &o->threads);

	if (rc == 0)
		rc = parse_list("queues", queues, 1024, &o->queues);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < o->threads.n; i++)
		if (o->threads.values[i] % 32 ||
		    (o->threads.values[i] > 128 && o->threads.values[i] % 128))
			return fth_fail(EINVAL, "--threads: multiples of 32, above 128 of 128");
	if (o->setup.medium & (o->setup.medium - 1))
		return fth_fail(EINVAL, "--medium: a power of two");
	if (o->setup.entries & (o->setup.entries - 1))
		return fth_fail(EINVAL, "--entries: a power of two");
	if (o->setup.ssds & (o->setup.ssds - 1))
		return fth_fail(EINVAL, "--ssds: a power of two");
	for (unsigned i = 0; i < o->queues.n; i++)
		if (o->queues.values[i] % o->setup.ssds)
			return fth_fail(EINVAL, "--queues: as many for each SSD");
	o->setup.model = model ? fth_dev_model(model) : NULL;
	if (model && !o->setup.model)
		return fth_fail(EINVAL, "--model: no \"%s\"; see fathom dev models", model);
	return 0;
}

static int run_bench(const struct options *o)
{
	static struct table table;
	struct gpublock *bench;
	int rc = gpublock_open(&o->setup, &bench);

	if (rc < 0)
		return rc;
	if (!fth_cli_json() && !o->sweep)
		printf("%s; %llu MiB pinned in %.1f s\n", gpublock_gpu(bench),
		       (unsigned long long)(o->setup.medium >> 20), gpublock_pin_seconds(bench));
	rc = o->sweep ? measure_sweep(bench, o, &table) : measure_all(bench, o, &table);
	if (rc == 0)
		print_json(bench, o, &table);
	gpublock_close(bench);
	return rc;
}

/* What was not given. */
static void choose(struct options *o, const char **threads, const char **queues, uint64_t *ms,
		   bool smallest)
{
	if (!*threads)
		*threads = o->sweep ? SWEEP_THREADS : THREADS;
	if (!*queues)
		*queues = o->sweep ? SWEEP_QUEUES : QUEUES;
	if (*ms == 0)
		*ms = o->sweep ? SWEEP_MS : MS;
	if (!smallest)
		return;
	*threads = "32,4096";
	*queues = "1,16";
	*ms = 10;
	o->setup.medium = 64u << 20;
	o->setup.data = 32u << 20;
	o->rounds = 1;
}

static int run(int argc, char **argv)
{
	struct options o = {.setup = {.medium = 16ull << 30, .data = 4ull << 30}};
	uint64_t ms = 0, ssds = 1, entries = 1024, warps = 0, batch = 0;
	const char *threads = NULL, *queues = NULL, *model = NULL;
	bool smallest = false;
	const struct fth_cli_option table[] = {
		{"threads", FTH_CLI_STRING, &threads, 0, 0, "how many, a list; default " THREADS},
		{"queues", FTH_CLI_STRING, &queues, 0, 0,
		 "a list of numbers of queue pairs; default " QUEUES},
		{"medium", FTH_CLI_SIZE, &o.setup.medium, 1u << 20, 64ull << 30, "of host memory"},
		{"data", FTH_CLI_SIZE, &o.setup.data, 1u << 20, 64ull << 30, "of GPU memory"},
		{"entries", FTH_CLI_U64, &entries, 64, 1024, "of the rings"},
		{"ssds", FTH_CLI_U64, &ssds, 1, 16, "that share the queue pairs and the medium"},
		{"model", FTH_CLI_STRING, &model, 0, 0, "of the SSDs; default: as fast as it goes"},
		{"warps", FTH_CLI_U64, &warps, 0, 16,
		 "of the controller per queue pair; 0: its choice"},
		{"batch", FTH_CLI_U64, &batch, 0, 32,
		 "commands they take at once; 0: their choice"},
		{"ordered", FTH_CLI_FLAG, &o.setup.ordered, 0, 0,
		 "follow reads by a second command"},
		{"thread", FTH_CLI_FLAG, &o.all_designs, 0, 0, "also each thread for itself"},
		{"ms", FTH_CLI_U64, &ms, 0, 10000,
		 "a run lasts at most; 0: 100, or 40 with --sweep"},
		{"rounds", FTH_CLI_U64, &o.rounds, 1, ROUNDS_MAX, "medians are of"},
		{"sweep", FTH_CLI_FLAG, &o.sweep, 0, 0,
		 "512-byte reads at many points, a line of JSON for each, for figures"},
		{"smallest", FTH_CLI_FLAG, &smallest, 0, 0, "a second's worth, for tests"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gpublock [OPTION]...",
		.text = "GPU threads read and write random blocks of host memory through NVMe\n"
			"queue pairs: ours, and one lock around a queue pair. The limit is the "
			"same\n"
			"blocks moved with no queue.",
		.options = table,
	};
	char **args;
	int rc;

	o.rounds = 3;
	rc = fth_cli_parse(&usage, argc, argv, &args);
	if (rc != FTH_CLI_GO_ON)
		return rc;
	choose(&o, &threads, &queues, &ms, smallest);
	o.setup.ms = (unsigned)ms;
	o.setup.ssds = (uint32_t)ssds;
	o.setup.entries = (uint32_t)entries;
	o.setup.warps = (uint32_t)warps;
	o.setup.batch = (uint32_t)batch;
	rc = check_options(&o, threads, queues, model);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	return fth_app_exit_gpu("bench gpublock", run_bench(&o));
}

const struct fth_command fth_bench_gpublock = {
	.name = "gpublock",
	.summary = "GPU threads and storage: ours, one lock, the limit",
	.run = run,
};
