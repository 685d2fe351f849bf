/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom graph bfs, cc, pagerank and sssp: an algorithm, several times, and what it took. */
#include "app_options.h"
#include "cmd_graph.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_MIN  ((uint64_t)1 << 20)
#define RESULT_MAX 4 /* numbers that a run ends with */
#define NO_SOURCE  UINT64_MAX

/* What the user wants. */
struct plan {
	const char *uri;
	uint64_t cache, line, depth, threads, trials, seed, source, iterations, delta;
	double tolerance;
	const char *policy, *offsets;
	bool compact, verify, one_way;
};

struct session {
	struct plan plan;
	struct fth_cache_options cache_options;
	struct fth_cache *cache;
	struct fth_graph *graph;
	struct fth_graph_memory memory; /* to check with; loaded if asked for */
	struct fth_graph_job job;
};

/* One run. */
struct trial {
	uint64_t source;
	struct fth_graph_work work;
	uint64_t stats[FTH_CACHE_STAT_COUNT];
	struct {
		const char *name;
		double value;
	} result[RESULT_MAX];
};

struct algorithm {
	const char *name;
	bool has_source;
	int (*run)(struct session *s, struct trial *trial);
};

/* ---- the algorithms ---- */

static int run_bfs(struct session *s, struct trial *trial)
{
	struct fth_graph_bfs tree;
	int rc = fth_graph_bfs(s->graph, trial->source, &s->job, &tree);

	if (rc == 0 && s->plan.verify)
		rc = fth_graph_check_bfs(&s->memory, trial->source, &tree);
	trial->work = tree.work;
	trial->result[0].name = "reached";
	trial->result[0].value = (double)tree.reached;
	trial->result[1].name = "depth";
	trial->result[1].value = (double)tree.depth;
	fth_graph_bfs_release(&tree);
	return rc;
}

static int run_cc(struct session *s, struct trial *trial)
{
	struct fth_graph_cc cc;
	int rc = fth_graph_cc(s->graph, &s->job, &cc);

	if (rc == 0 && s->plan.verify)
		rc = fth_graph_check_cc(&s->memory, &cc);
	trial->work = cc.work;
	trial->result[0].name = "components";
	trial->result[0].value = (double)cc.components;
	trial->result[1].name = "largest";
	trial->result[1].value = (double)cc.largest;
	fth_graph_cc_release(&cc);
	return rc;
}

static int run_pagerank(struct session *s, struct trial *trial)
{
	const struct fth_graph_pagerank_options options = {
		.size = sizeof(struct fth_graph_pagerank_options),
		.iterations = (unsigned)s->plan.iterations,
		.tolerance = s->plan.tolerance,
		.one_way = s->plan.one_way,
	};
	struct fth_graph_pagerank ranks;
	int rc = fth_graph_pagerank(s->graph, &options, &s->job, &ranks);

	if (rc == 0 && s->plan.verify)
		rc = fth_graph_check_pagerank(&s->memory, &options, &ranks);
	trial->work = ranks.work;
	trial->result[0].name = "iterations";
	trial->result[0].value = (double)ranks.work.rounds;
	trial->result[1].name = "change";
	trial->result[1].value = ranks.change;
	fth_graph_pagerank_release(&ranks);
	return rc;
}

static int run_sssp(struct session *s, struct trial *trial)
{
	struct fth_graph_sssp paths;
	int rc = fth_graph_sssp(s->graph, trial->source, s->plan.delta, &s->job, &paths);

	if (rc == 0 && s->plan.verify)
		rc = fth_graph_check_sssp(&s->memory, trial->source, &paths);
	trial->work = paths.work;
	trial->result[0].name = "reached";
	trial->result[0].value = (double)paths.reached;
	trial->result[1].name = "rounds";
	trial->result[1].value = (double)paths.work.rounds;
	fth_graph_sssp_release(&paths);
	return rc;
}

/* ---- opening ---- */

/* The size of the edges on a device; a quarter of it is what the cache gets by default. */
static int default_cache(struct session *s)
{
	struct fth_graph_info info;
	struct fth_dev *dev;
	int rc = fth_dev_open_flags(s->plan.uri, FTH_DEV_READONLY, &dev);

	if (rc < 0)
		return rc;
	rc = fth_graph_read_info(dev, &info);
	fth_dev_close(dev);
	if (rc < 0)
		return rc;
	s->plan.cache = info.edges * (info.weighted ? 8 : 4) / 4;
	if (s->plan.cache < CACHE_MIN)
		s->plan.cache = CACHE_MIN;
	return 0;
}

static int open_cache(struct session *s)
{
	struct fth_cache_options *options = &s->cache_options;
	int rc = 0;

	*options = (struct fth_cache_options)FTH_CACHE_OPTIONS_INIT;
	if (s->plan.policy)
		rc = fth_cache_policy_parse(s->plan.policy, &options->policy);
	if (rc == 0 && s->plan.cache == 0)
		rc = default_cache(s);
	options->memory = s->plan.cache;
	options->line = (uint32_t)s->plan.line;
	options->depth = (uint32_t)s->plan.depth;
	options->compact = s->plan.compact;
	return rc < 0 ? rc : fth_cache_open(options, &s->cache);
}

static int open_session(struct session *s)
{
	struct fth_graph_options options = FTH_GRAPH_OPTIONS_INIT;
	int rc = open_cache(s);

	options.offsets_on_device = strcmp(s->plan.offsets, "flash") == 0;
	if (rc == 0)
		rc = fth_graph_open(s->cache, s->plan.uri, &options, &s->graph);
	if (rc == 0 && s->plan.verify)
		rc = fth_graph_load(s->graph, &s->memory);
	s->job.threads = (unsigned)s->plan.threads;
	s->job.progress = graph_progress;
	return rc;
}

static int close_session(struct session *s)
{
	int rc = fth_graph_close(s->graph), other = fth_cache_finish(&s->cache);

	fth_graph_unload(&s->memory);
	return rc < 0 ? rc : other;
}

/* ---- running ---- */

static int choose_source(struct session *s, struct trial *trial, uint64_t number)
{
	uint32_t vertex;
	int rc;

	trial->source = s->plan.source;
	if (s->plan.source != NO_SOURCE)
		return 0;
	rc = fth_graph_pick(s->graph, s->plan.seed + number, &vertex);
	trial->source = vertex;
	return rc;
}

static int run_trial(struct session *s, const struct algorithm *algorithm, struct trial *trial,
		     uint64_t number)
{
	int rc = algorithm->has_source ? choose_source(s, trial, number) : 0;

	for (int i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		trial->stats[i] = fth_cache_stat(s->cache, (enum fth_cache_stat)i);
	if (rc == 0)
		rc = algorithm->run(s, trial);
	for (int i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		trial->stats[i] =
			fth_cache_stat(s->cache, (enum fth_cache_stat)i) - trial->stats[i];
	return rc;
}

static double seconds(const struct trial *trial)
{
	return (double)trial->work.elapsed_ns / 1e9;
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static double hit_rate(const struct trial *trial)
{
	uint64_t hits = trial->stats[FTH_CACHE_HITS];

	return ratio(hits, hits + trial->stats[FTH_CACHE_MISSES]);
}

static double amplification(const struct trial *trial)
{
	return ratio(trial->stats[FTH_CACHE_BYTES_READ], trial->stats[FTH_CACHE_BYTES_WANTED]);
}

/* ---- printing ---- */

static void print_head(const struct session *s, const struct algorithm *algorithm)
{
	const struct fth_graph_info *info = fth_graph_info(s->graph);
	char cache[FTH_CLI_BYTES_MAX], edges[FTH_CLI_BYTES_MAX];

	printf("%s: %llu vertices, %llu edges (%s); cache %s in lines of %u, %s%s\n", s->plan.uri,
	       (unsigned long long)info->vertices, (unsigned long long)info->edges,
	       fth_cli_bytes(edges, info->edges * 4), fth_cli_bytes(cache, s->plan.cache),
	       fth_cache_line_size(s->cache), fth_cache_policy_name(s->cache_options.policy),
	       s->plan.compact ? ", compact" : "");
	if (algorithm->has_source)
		printf("%10s ", "source");
	printf("%8s %12s %7s %11s %10s %6s  result\n", "seconds", "edges/s", "hits", "read",
	       "requests", "ampl.");
}

static void print_trial(const struct algorithm *algorithm, const struct trial *trial)
{
	char read[FTH_CLI_BYTES_MAX];

	if (algorithm->has_source)
		printf("%10llu ", (unsigned long long)trial->source);
	printf("%8.3f %12.4g %6.1f%% %11s %10llu %6.2f  ", seconds(trial),
	       (double)trial->work.edges / seconds(trial), 100 * hit_rate(trial),
	       fth_cli_bytes(read, trial->stats[FTH_CACHE_BYTES_READ]),
	       (unsigned long long)trial->stats[FTH_CACHE_READ_REQUESTS], amplification(trial));
	for (int i = 0; i < RESULT_MAX && trial->result[i].name; i++)
		printf("%s%s %.6g", i ? ", " : "", trial->result[i].name, trial->result[i].value);
	putchar('\n');
	fflush(stdout);
}

static void trial_json(struct fth_json *j, const struct algorithm *algorithm,
		       const struct trial *trial)
{
	fth_json_object(j, NULL);
	if (algorithm->has_source)
		fth_json_u64(j, "source", trial->source);
	fth_json_double(j, "seconds", seconds(trial));
	fth_json_u64(j, "edges", trial->work.edges);
	fth_json_double(j, "edges_per_second", (double)trial->work.edges / seconds(trial));
	for (int i = 0; i < RESULT_MAX && trial->result[i].name; i++)
		fth_json_double(j, trial->result[i].name, trial->result[i].value);
	fth_json_double(j, "hit_rate", hit_rate(trial));
	fth_json_double(j, "amplification", amplification(trial));
	for (int i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		fth_json_u64(j, fth_cache_stat_name((enum fth_cache_stat)i), trial->stats[i]);
	fth_json_end(j);
}

static void print_json(const struct session *s, const struct algorithm *algorithm,
		       const struct trial *trials)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "algorithm", algorithm->name);
	graph_info_json(&j, s->plan.uri, fth_graph_info(s->graph));
	fth_json_u64(&j, "cache", s->plan.cache);
	fth_json_u64(&j, "line", fth_cache_line_size(s->cache));
	fth_json_string(&j, "policy", fth_cache_policy_name(s->cache_options.policy));
	fth_json_bool(&j, "compact", s->plan.compact);
	fth_json_u64(&j, "state_bytes", trials[0].work.state_bytes);
	fth_json_bool(&j, "verified", s->plan.verify);
	fth_json_array(&j, "trials");
	for (uint64_t i = 0; i < s->plan.trials; i++)
		trial_json(&j, algorithm, &trials[i]);
	fth_json_finish(&j);
}

static void print_end(const struct session *s, const struct trial *trials)
{
	struct fth_cache_footprint footprint;
	char state[FTH_CLI_BYTES_MAX], metadata[FTH_CLI_BYTES_MAX];

	fth_cache_footprint(s->cache, &footprint);
	printf("beside the cache: vertices %s, metadata of lines %s%s\n",
	       fth_cli_bytes(state, trials[0].work.state_bytes),
	       fth_cli_bytes(metadata, footprint.frame_bytes + footprint.line_bytes),
	       s->plan.verify ? "; results verified" : "");
}

/* ---- the commands ---- */

static int run_trials(struct session *s, const struct algorithm *algorithm)
{
	struct trial *trials = calloc(s->plan.trials, sizeof(*trials));
	int rc = trials ? 0 : -ENOMEM;

	if (rc == 0 && !fth_cli_json())
		print_head(s, algorithm);
	for (uint64_t i = 0; i < s->plan.trials && rc == 0; i++) {
		rc = run_trial(s, algorithm, &trials[i], i);
		fth_cli_progress_end();
		if (rc == 0 && !fth_cli_json())
			print_trial(algorithm, &trials[i]);
	}
	if (rc == 0 && fth_cli_json())
		print_json(s, algorithm, trials);
	else if (rc == 0)
		print_end(s, trials);
	free(trials);
	return rc;
}

static int execute(struct session *s, const struct algorithm *algorithm)
{
	char text[FTH_ERROR_TEXT_MAX];
	int rc = open_session(s), closed;

	if (rc == 0)
		rc = run_trials(s, algorithm);
	snprintf(text, sizeof(text), "%s", rc < 0 ? fth_error_text(rc) : "");
	closed = close_session(s);
	if (rc < 0)
		fth_fail(-rc, "%s", text);
	return graph_exit(s->plan.uri, rc < 0 ? rc : closed);
}

static bool check_plan(const struct plan *plan)
{
	if (strcmp(plan->offsets, "memory") == 0 || strcmp(plan->offsets, "flash") == 0)
		return true;
	fth_cli_error("--offsets %s: expected memory or flash", plan->offsets);
	return false;
}

#define COMMON_OPTIONS                                                                               \
	{"cache", FTH_CLI_SIZE, &p->cache, 0, 0, "memory for lines; 0: a quarter of the edges"},     \
		{"line", FTH_CLI_SIZE, &p->line, 512, 65536, "bytes of a line"},                     \
		{"depth", FTH_CLI_U64, &p->depth, 1, 65535, "requests in flight per thread"},        \
		{"policy", FTH_CLI_STRING, &p->policy, 0, 0, FTH_APP_POLICIES},                      \
		{"compact", FTH_CLI_FLAG, &p->compact, 0, 0, "metadata that scales with the cache"}, \
		{"offsets", FTH_CLI_STRING, &p->offsets, 0, 0, "where they are: memory or flash"},   \
		{"threads", FTH_CLI_U64, &p->threads, 0, FTH_GRAPH_THREADS_MAX, "0: one per CPU"},   \
		{"trials", FTH_CLI_U64, &p->trials,                                                  \
		 1,	   10000,	"runs; the first finds the cache empty"},                    \
	{                                                                                            \
		"verify", FTH_CLI_FLAG, &p->verify, 0, 0,                                            \
			"compare with a plain algorithm, in memory"                                  \
	}
#define SOURCE_OPTIONS                                                                            \
	{"source", FTH_CLI_U64, &p->source, 0, 0, "vertex to begin at; default: picked by seed"}, \
	{                                                                                         \
		"seed", FTH_CLI_U64, &p->seed, 0, 0, "of the vertices that are picked"            \
	}

static struct plan default_plan(void)
{
	return (struct plan){
		.line = 4096,
		.depth = 128,
		.trials = 3,
		.seed = 1,
		.source = NO_SOURCE,
		.iterations = 20,
		.offsets = "memory",
	};
}

static int run_algorithm(const struct algorithm *algorithm, struct session *s,
			 const struct fth_cli_usage *usage, int argc, char **argv)
{
	char **args;
	int status = fth_cli_parse(usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!check_plan(&s->plan))
		return FTH_EXIT_USAGE;
	s->plan.uri = args[0];
	return execute(s, algorithm);
}

static int command_bfs(int argc, char **argv)
{
	static const struct algorithm bfs = {"bfs", true, run_bfs};
	struct session s = {.plan = default_plan()};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {COMMON_OPTIONS, SOURCE_OPTIONS, {0}};
	const struct fth_cli_usage usage = {
		.synopsis = "graph bfs [options] URI",
		.text = "Breadth-first search from vertices that have neighbours.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&bfs, &s, &usage, argc, argv);
}

static int command_cc(int argc, char **argv)
{
	static const struct algorithm cc = {"cc", false, run_cc};
	struct session s = {.plan = default_plan()};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {COMMON_OPTIONS, {0}};
	const struct fth_cli_usage usage = {
		.synopsis = "graph cc [options] URI",
		.text = "Connected components; of a directed graph the weakly connected ones.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&cc, &s, &usage, argc, argv);
}

static int command_pagerank(int argc, char **argv)
{
	static const struct algorithm pagerank = {"pagerank", false, run_pagerank};
	struct session s = {.plan = default_plan()};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {
		COMMON_OPTIONS,
		{"iterations", FTH_CLI_U64, &p->iterations, 1, 100000, "at most"},
		{"tolerance", FTH_CLI_DOUBLE, &p->tolerance, 0, 1,
		 "stop when ranks change by less"},
		{"one-way", FTH_CLI_FLAG, &p->one_way, 0, 0, "sweep from first to last only"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph pagerank [options] URI",
		.text = "PageRank with damping 0.85. Sweeps go there and back over the edges.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&pagerank, &s, &usage, argc, argv);
}

static int command_sssp(int argc, char **argv)
{
	static const struct algorithm sssp = {"sssp", true, run_sssp};
	struct session s = {.plan = default_plan()};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {
		COMMON_OPTIONS,
		SOURCE_OPTIONS,
		{"delta", FTH_CLI_U64, &p->delta, 0, 0, "width of a step; 0: by the weights"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph sssp [options] URI",
		.text = "Shortest paths by weight from vertices that have neighbours.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&sssp, &s, &usage, argc, argv);
}

const struct fth_command fth_cmd_graph_bfs = {
	.name = "bfs",
	.summary = "breadth-first search",
	.run = command_bfs,
};
const struct fth_command fth_cmd_graph_cc = {
	.name = "cc",
	.summary = "connected components",
	.run = command_cc,
};
const struct fth_command fth_cmd_graph_pagerank = {
	.name = "pagerank",
	.summary = "PageRank",
	.run = command_pagerank,
};
const struct fth_command fth_cmd_graph_sssp = {
	.name = "sssp",
	.summary = "shortest paths by weight",
	.run = command_sssp,
};
