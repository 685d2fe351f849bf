/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom graph bfs, cc, pagerank and sssp: an algorithm, its result and what it took.
 * graph_result.c runs the algorithms, graph_output.c writes what they give.
 */
#include "app_options.h"
#include "cmd_graph.h"
#include "graph_output.h"
#include "graph_result.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_MIN ((uint64_t)1 << 20)

/* What the user wants. */
struct plan {
	const char *uri, *source; /* source: as the graph names it; NULL: picked by seed */
	uint64_t cache, line, depth, threads, trials, seed;
	struct graph_parameters parameters;
	const char *policy, *offsets;
	const char *direction, *transpose; /* of a search; transpose: a URI, or NULL */
	bool compact, verify;
};

struct session {
	struct plan plan;
	const struct graph_algorithm *algorithm;
	struct graph_output output;
	FILE *report; /* standard error if the result goes to standard output */
	struct fth_cache_options cache_options;
	struct fth_cache *cache;
	struct fth_graph *graph, *transpose;
	struct fth_graph_memory memory; /* to check with; loaded if asked for */
	struct fth_graph_job job;
	struct graph_result result; /* of the last run */
};

/* One run. */
struct trial {
	uint64_t source;
	struct graph_summary summary;
	uint64_t stats[FTH_CACHE_STAT_COUNT];
};

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
	int rc;

	*options = (struct fth_cache_options)FTH_CACHE_OPTIONS_INIT;
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
	if (rc == 0 && s->plan.transpose)
		rc = fth_graph_open(s->cache, s->plan.transpose, &options, &s->transpose);
	s->plan.parameters.transpose = s->transpose;
	if (rc == 0 && s->plan.verify)
		rc = fth_graph_load(s->graph, &s->memory);
	s->job.threads = (unsigned)s->plan.threads;
	s->job.progress = graph_progress;
	return rc;
}

static int close_session(struct session *s)
{
	int rc = fth_graph_close(s->transpose), other = fth_graph_close(s->graph);

	rc = rc < 0 ? rc : other;
	other = fth_cache_finish(&s->cache);
	fth_graph_unload(&s->memory);
	return rc < 0 ? rc : other;
}

/* ---- running ---- */

static int choose_source(struct session *s, struct trial *trial, uint64_t number)
{
	uint32_t vertex;
	int rc;

	if (s->plan.source)
		return fth_graph_find(s->graph, s->plan.source, &trial->source);
	rc = fth_graph_pick(s->graph, s->plan.seed + number, &vertex);
	trial->source = vertex;
	return rc;
}

static int run_trial(struct session *s, struct trial *trial, uint64_t number)
{
	const struct graph_run run = {
		.graph = s->graph,
		.job = &s->job,
		.check_with = s->plan.verify ? &s->memory : NULL,
		.parameters = &s->plan.parameters,
	};
	int rc = s->algorithm->has_source ? choose_source(s, trial, number) : 0;

	for (int i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		trial->stats[i] = fth_cache_stat(s->cache, (enum fth_cache_stat)i);
	graph_result_release(&s->result);
	if (rc == 0)
		rc = s->algorithm->run(&run, trial->source, &s->result, &trial->summary);
	for (int i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		trial->stats[i] =
			fth_cache_stat(s->cache, (enum fth_cache_stat)i) - trial->stats[i];
	return rc;
}

static double seconds(const struct trial *trial)
{
	return (double)trial->summary.work.elapsed_ns / 1e9;
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

static void print_head(const struct session *s)
{
	const struct fth_graph_info *info = fth_graph_info(s->graph);
	char cache[FTH_CLI_BYTES_MAX], edges[FTH_CLI_BYTES_MAX];

	fprintf(s->report, "%s: %llu vertices, %llu edges (%s); cache %s in lines of %u, %s%s\n",
		s->plan.uri, (unsigned long long)info->vertices, (unsigned long long)info->edges,
		fth_cli_bytes(edges, info->edges * 4), fth_cli_bytes(cache, s->plan.cache),
		fth_cache_line_size(s->cache), fth_cache_policy_name(s->cache_options.policy),
		s->plan.compact ? ", compact" : "");
	if (s->algorithm->has_source)
		fprintf(s->report, "%10s ", "source");
	fprintf(s->report, "%8s %12s %7s %11s %10s %6s  result\n", "seconds", "edges/s", "hits",
		"read", "requests", "ampl.");
}

static int print_trial(const struct session *s, const struct trial *trial)
{
	const struct graph_summary *summary = &trial->summary;
	char read[FTH_CLI_BYTES_MAX], source[FTH_GRAPH_LABEL_MAX + 1];
	int rc;

	if (s->algorithm->has_source) {
		rc = fth_graph_label(s->graph, trial->source, source, sizeof(source));
		if (rc < 0)
			return rc;
		fprintf(s->report, "%10s ", source);
	}
	fprintf(s->report, "%8.3f %12.4g %6.1f%% %11s %10llu %6.2f  ", seconds(trial),
		(double)summary->work.edges / seconds(trial), 100 * hit_rate(trial),
		fth_cli_bytes(read, trial->stats[FTH_CACHE_BYTES_READ]),
		(unsigned long long)trial->stats[FTH_CACHE_READ_REQUESTS], amplification(trial));
	for (int i = 0; i < GRAPH_SUMMARY_MAX && summary->figures[i].name; i++)
		fprintf(s->report, "%s%s %.6g", i ? ", " : "", summary->figures[i].name,
			summary->figures[i].value);
	putc('\n', s->report);
	fflush(s->report);
	return 0;
}

/* A number where the graph's vertices are numbers. */
static int source_json(const struct session *s, struct fth_json *j, uint64_t vertex)
{
	const struct fth_graph_info *info = fth_graph_info(s->graph);
	char text[FTH_GRAPH_LABEL_MAX + 1];
	int rc = fth_graph_label(s->graph, vertex, text, sizeof(text));

	if (rc < 0)
		return rc;
	if (info->labels && !info->labels_numeric)
		fth_json_string(j, "source", text);
	else
		fth_json_digits(j, "source", text);
	return 0;
}

static int trial_json(const struct session *s, struct fth_json *j, const struct trial *trial)
{
	const struct graph_summary *summary = &trial->summary;
	int rc = 0;

	fth_json_object(j, NULL);
	if (s->algorithm->has_source)
		rc = source_json(s, j, trial->source);
	fth_json_double(j, "seconds", seconds(trial));
	fth_json_u64(j, "edges", summary->work.edges);
	fth_json_double(j, "edges_per_second", (double)summary->work.edges / seconds(trial));
	for (int i = 0; i < GRAPH_SUMMARY_MAX && summary->figures[i].name; i++)
		fth_json_double(j, summary->figures[i].name, summary->figures[i].value);
	fth_json_double(j, "hit_rate", hit_rate(trial));
	fth_json_double(j, "amplification", amplification(trial));
	for (int i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		fth_json_u64(j, fth_cache_stat_name((enum fth_cache_stat)i), trial->stats[i]);
	fth_json_end(j);
	return rc;
}

/* Into memory first: an error that comes late leaves no half document. */
static int print_json(const struct session *s, const struct graph_table *table,
		      const struct trial *trials)
{
	char *text = NULL;
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	struct fth_json j;
	int rc = 0;

	if (!memory)
		return -ENOMEM;
	fth_json_begin(&j, memory);
	fth_json_string(&j, "algorithm", s->algorithm->name);
	graph_info_json(&j, s->plan.uri, fth_graph_info(s->graph));
	fth_json_u64(&j, "cache", s->plan.cache);
	fth_json_u64(&j, "line", fth_cache_line_size(s->cache));
	fth_json_string(&j, "policy", fth_cache_policy_name(s->cache_options.policy));
	fth_json_bool(&j, "compact", s->plan.compact);
	fth_json_u64(&j, "state_bytes", trials[0].summary.work.state_bytes);
	fth_json_bool(&j, "verified", s->plan.verify);
	if (s->output.path)
		fth_json_string(&j, "output", s->output.path);
	fth_json_array(&j, "trials");
	for (uint64_t i = 0; i < s->plan.trials && rc == 0; i++)
		rc = trial_json(s, &j, &trials[i]);
	fth_json_end(&j);
	if (rc == 0 && s->output.top && !s->output.path)
		rc = graph_table_json(table, &s->output.chosen, &j);
	fth_json_finish(&j);
	if (fclose(memory) != 0 && rc == 0)
		rc = -ENOMEM;
	if (rc == 0)
		fwrite(text, 1, length, stdout);
	free(text);
	return rc;
}

static int print_end(const struct session *s, const struct graph_table *table,
		     const struct trial *trials)
{
	struct fth_cache_footprint footprint;
	char state[FTH_CLI_BYTES_MAX], metadata[FTH_CLI_BYTES_MAX];

	fth_cache_footprint(s->cache, &footprint);
	fprintf(s->report, "beside the cache: vertices %s, metadata of lines %s%s\n",
		fth_cli_bytes(state, trials[0].summary.work.state_bytes),
		fth_cli_bytes(metadata, footprint.frame_bytes + footprint.line_bytes),
		s->plan.verify ? "; results verified" : "");
	if (!s->output.top || s->output.path)
		return 0;
	putc('\n', s->report);
	return graph_table_text(table, &s->output.chosen, s->report);
}

/* ---- the commands ---- */

static int run_all(struct session *s, struct trial *trials)
{
	int rc = 0;

	if (!fth_cli_json())
		print_head(s);
	for (uint64_t i = 0; i < s->plan.trials && rc == 0; i++) {
		rc = run_trial(s, &trials[i], i);
		fth_cli_progress_end();
		if (rc == 0 && !fth_cli_json())
			rc = print_trial(s, &trials[i]);
	}
	return rc;
}

static int run_trials(struct session *s)
{
	struct trial *trials = calloc(s->plan.trials, sizeof(*trials));
	struct graph_table table = {0};
	int rc = trials ? run_all(s, trials) : -ENOMEM;
	bool wanted = s->output.path || s->output.top;

	if (rc == 0 && wanted)
		rc = s->algorithm->table(s->graph, &s->result, s->output.top > 0, &table);
	if (rc == 0 && wanted)
		rc = graph_output_write(&s->output, &table);
	fth_cli_progress_end();
	if (rc == 0)
		rc = fth_cli_json() ? print_json(s, &table, trials) : print_end(s, &table, trials);
	graph_result_release(&s->result);
	free(trials);
	return rc;
}

/* The file of the result is opened before the work and appears after all of it. */
static int execute(struct session *s)
{
	char text[FTH_ERROR_TEXT_MAX];
	int rc = graph_output_open(&s->output), closed;

	if (rc < 0) {
		graph_output_close(&s->output, rc);
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	rc = open_session(s);
	if (rc == 0)
		rc = run_trials(s);
	rc = graph_output_close(&s->output, rc);
	snprintf(text, sizeof(text), "%s", rc < 0 ? fth_error_text(rc) : "");
	closed = close_session(s);
	if (rc < 0)
		fth_fail(-rc, "%s", text);
	return graph_exit(s->output.failed ? NULL : s->plan.uri, rc < 0 ? rc : closed);
}

static bool find_direction(const char *name, enum fth_graph_direction *out)
{
	static const char *const names[] = {[FTH_GRAPH_ANY_DIRECTION] = "auto",
					    [FTH_GRAPH_TOP_DOWN] = "push",
					    [FTH_GRAPH_BOTTOM_UP] = "pull"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(name, names[i]) == 0) {
			*out = (enum fth_graph_direction)i;
			return true;
		}
	fth_cli_error("--direction %s: expected auto, push or pull", name);
	return false;
}

static bool check_session(struct session *s)
{
	const char *offsets = s->plan.offsets;

	if (!find_direction(s->plan.direction, &s->plan.parameters.direction))
		return false;
	if (strcmp(offsets, "memory") != 0 && strcmp(offsets, "flash") != 0) {
		fth_cli_error("--offsets %s: expected memory or flash", offsets);
		return false;
	}
	if (graph_output_is_stdout(&s->output) && fth_cli_json()) {
		fth_cli_error("--output - and --json would both write to standard output");
		return false;
	}
	return true;
}

#define COMMON_OPTIONS                                                                               \
	FTH_CLI_WAS("cache", "memory"), {"memory",  FTH_CLI_SIZE,                                    \
					 &p->cache, 0,                                               \
					 0,	    "for the cache; 0: a quarter of the edges"},     \
		{"line", FTH_CLI_SIZE, &p->line, 512, 65536, "bytes of a line"},                     \
		{"depth", FTH_CLI_U64, &p->depth, 1, 65535, "requests in flight per thread"},        \
		{"policy", FTH_CLI_STRING, &p->policy, 0, 0, FTH_APP_POLICIES},                      \
		{"compact", FTH_CLI_FLAG, &p->compact, 0, 0, "metadata that scales with the cache"}, \
		{"offsets", FTH_CLI_STRING, &p->offsets, 0, 0, "vertex offsets: memory or flash"},   \
		{"threads", FTH_CLI_U64, &p->threads, 0, FTH_GRAPH_THREADS_MAX, "0: one per CPU"},   \
		{"trials", FTH_CLI_U64, &p->trials,                                                  \
		 1,	   10000,	"runs; the first finds the cache empty"},                    \
		{"output",                                                                           \
		 FTH_CLI_STRING,                                                                     \
		 &s.output.path,                                                                     \
		 0,                                                                                  \
		 0,                                                                                  \
		 "write the result to this file: text with tabs, or .npy; -: standard output"},      \
		{"top", FTH_CLI_U64, &s.output.top, 0, 0, "only so many rows, the largest first"},   \
		FTH_CLI_FORCE(&s.output.file.force, "replace the file of --output"),                 \
	{                                                                                            \
		"verify", FTH_CLI_FLAG, &p->verify, 0, 0,                                            \
			"compare with a plain algorithm, in memory"                                  \
	}
#define SOURCE_OPTIONS                                                                          \
	{"source", FTH_CLI_STRING, &p->source, 0, 0, "vertex to begin at; default: by --seed"}, \
	{                                                                                       \
		"seed", FTH_CLI_U64, &p->seed, 0, 0, "of the vertices that are picked"          \
	}

static struct plan default_plan(void)
{
	return (struct plan){
		.line = 4096,
		.depth = 128,
		.trials = 1,
		.seed = 1,
		.parameters.iterations = 20,
		.policy = "clock",
		.offsets = "memory",
		.direction = "auto",
	};
}

static int run_algorithm(struct session *s, const struct fth_cli_usage *usage, int argc,
			 char **argv)
{
	char **args;
	int status = fth_cli_parse(usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!check_session(s))
		return FTH_EXIT_USAGE;
	s->plan.uri = args[0];
	s->report = graph_output_is_stdout(&s->output) ? stderr : stdout;
	return execute(s);
}

static int command_bfs(int argc, char **argv)
{
	struct session s = {.plan = default_plan(), .algorithm = &graph_bfs};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {
		COMMON_OPTIONS,
		SOURCE_OPTIONS,
		{"direction", FTH_CLI_STRING, &p->direction, 0, 0,
		 "of levels: push (top-down), pull (bottom-up), or auto, the cheaper one"},
		{"transpose", FTH_CLI_STRING, &p->transpose, 0, 0,
		 "graph with all edges reversed, to pull in a directed graph"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph bfs [options] URI",
		.text = "Breadth-first search from a vertex, by default one that has neighbours. "
			"With\n"
			"--output: vertex, parent and depth of each vertex that is reached; with\n"
			"--top the deepest ones.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&s, &usage, argc, argv);
}

static int command_cc(int argc, char **argv)
{
	struct session s = {.plan = default_plan(), .algorithm = &graph_cc};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {COMMON_OPTIONS, {0}};
	const struct fth_cli_usage usage = {
		.synopsis = "graph cc [options] URI",
		.text = "Connected components; of a directed graph the weakly connected ones. "
			"With\n"
			"--output: each vertex and its component, named by its first vertex; with\n"
			"--top the largest components and how many vertices they have.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&s, &usage, argc, argv);
}

static int command_pagerank(int argc, char **argv)
{
	struct session s = {.plan = default_plan(), .algorithm = &graph_pagerank};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {
		COMMON_OPTIONS,
		{"iterations", FTH_CLI_U64, &p->parameters.iterations, 1, 100000, "at most"},
		{"tolerance", FTH_CLI_DOUBLE, &p->parameters.tolerance, 0, 1,
		 "stop when ranks change by less"},
		{"one-way", FTH_CLI_FLAG, &p->parameters.one_way, 0, 0,
		 "sweep from first to last only"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph pagerank [options] URI",
		.text = "PageRank with damping 0.85. Sweeps go there and back over the edges. "
			"With\n"
			"--output: each vertex and its rank; with --top the highest ranks.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return run_algorithm(&s, &usage, argc, argv);
}

static int command_sssp(int argc, char **argv)
{
	struct session s = {.plan = default_plan(), .algorithm = &graph_sssp};
	struct plan *p = &s.plan;
	const struct fth_cli_option options[] = {
		COMMON_OPTIONS,
		SOURCE_OPTIONS,
		{"delta", FTH_CLI_U64, &p->parameters.delta, 0, 0,
		 "width of a step; 0: by the weights"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph sssp [options] URI",
		.text = "Shortest paths by weight from a vertex, by default one that has "
			"neighbours.\n"
			"With --output: each vertex that is reached and its distance; with --top "
			"the\n"
			"farthest ones.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	p->policy = "default"; /* its rounds do not sweep */
	return run_algorithm(&s, &usage, argc, argv);
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
