/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom graph generate, fathom graph import. */
#include "cmd_graph.h"
#include "output.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What both have to be told. */
struct how {
	struct fth_output target;
	struct fth_graph_build build;
	struct fth_graph_job job;
	uint64_t threads;
	uint64_t begin;
};

#define BUILD_OPTIONS(how)                                                                         \
	{"memory", FTH_CLI_SIZE, &(how).build.memory, 1 << 20, (uint64_t)1 << 44, "to sort with"}, \
		{"tmp",                                                                            \
		 FTH_CLI_STRING,                                                                   \
		 &(how).build.directory,                                                           \
		 0,                                                                                \
		 0,                                                                                \
		 "folder for temporary files; default TMPDIR or /tmp"},                            \
		{"threads", FTH_CLI_U64,	   &(how).threads,                                 \
		 0,	    FTH_GRAPH_THREADS_MAX, "0: one per CPU"},                              \
		FTH_CLI_FORCE(&(how).target.force, "replace a file, overwrite a device")

static int open_target(void *context, uint64_t bytes, struct fth_dev **dev)
{
	struct fth_output *target = context;
	int rc = fth_output_open(target, bytes);

	*dev = target->dev;
	return rc;
}

static void start(struct how *how, const char *uri)
{
	how->target.uri = uri;
	how->build.open = open_target;
	how->build.context = &how->target;
	how->job.threads = (unsigned)how->threads;
	how->job.progress = graph_progress;
	how->begin = fth_now_ns();
}

static void report(const struct how *how, const struct fth_graph_info *info)
{
	double seconds = (double)(fth_now_ns() - how->begin) / 1e9;
	struct fth_json j;

	if (!fth_cli_json()) {
		graph_print_info(how->target.uri, info);
		printf("took       %.2f s, %.2f million edges/s\n", seconds,
		       (double)info->edges / seconds / 1e6);
		return;
	}
	fth_json_begin(&j, stdout);
	graph_info_json(&j, how->target.uri, info);
	fth_json_double(&j, "seconds", seconds);
	fth_json_finish(&j);
}

static int finish(struct how *how, int rc, const struct fth_graph_info *info)
{
	rc = fth_output_close(&how->target, rc < 0 ? 0 : info->bytes, rc);
	fth_cli_progress_end();
	if (rc == 0)
		report(how, info);
	return graph_exit(how->target.uri, rc);
}

/* ---- generate ---- */

static bool find_kind(const char *name, enum fth_graph_kind *kind)
{
	*kind = strcmp(name, "uniform") == 0 ? FTH_GRAPH_UNIFORM : FTH_GRAPH_KRONECKER;
	return *kind == FTH_GRAPH_UNIFORM || strcmp(name, "kronecker") == 0;
}

static int run_generate(int argc, char **argv)
{
	struct how how = {.build.memory = 256 << 20};
	struct fth_graph_generate what = {.seed = 1};
	uint64_t scale = 16, degree = 16;
	const char *kind = "kronecker";
	const struct fth_cli_option options[] = {
		{"kind", FTH_CLI_STRING, &kind, 0, 0, "kronecker or uniform"},
		{"scale", FTH_CLI_U64, &scale, 0, 31, "2^N vertices"},
		{"degree", FTH_CLI_U64, &degree, 1, 65536, "edges drawn per vertex"},
		{"seed", FTH_CLI_U64, &what.seed, 0, UINT64_MAX, "of all random choices"},
		{"weighted", FTH_CLI_FLAG, &what.weighted, 0, 0, "with weights from 1 to 255"},
		BUILD_OPTIONS(how),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph generate [options] URI",
		.text = "Draw a graph as the GAP benchmark suite does and write it to a device, "
			"or\n"
			"to a new file (file:PATH). Edges go in both directions; loops and\n"
			"duplicates are dropped.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	struct fth_graph_info info;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!find_kind(kind, &what.kind)) {
		fth_cli_error("--kind %s: expected kronecker or uniform", kind);
		return FTH_EXIT_USAGE;
	}
	what.scale = (unsigned)scale;
	what.degree = (unsigned)degree;
	start(&how, args[0]);
	rc = fth_graph_generate(&what, &how.build, &how.job, &info);
	return finish(&how, rc, &info);
}

const struct fth_command fth_cmd_graph_generate = {
	.name = "generate",
	.summary = "draw a Kronecker or uniformly random graph",
	.run = run_generate,
};

/* ---- import ---- */

static bool find_format(const char *name, const char *path, enum fth_graph_text *format)
{
	size_t length = strlen(path);

	if (!name)
		name = length > 4 && strcmp(path + length - 4, ".mtx") == 0 ? "mtx" : "edges";
	*format = strcmp(name, "mtx") == 0 ? FTH_GRAPH_MATRIX_MARKET : FTH_GRAPH_EDGE_LIST;
	return *format == FTH_GRAPH_MATRIX_MARKET || strcmp(name, "edges") == 0;
}

static int import_file(struct how *how, struct fth_graph_import *what, const char *path)
{
	struct fth_graph_info info;
	int rc;

	what->in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (!what->in) {
		fth_cli_error("%s: %s", path, strerror(errno));
		return FTH_EXIT_FAILED;
	}
	rc = fth_graph_import(what, &how->build, &how->job, &info);
	if (what->in != stdin)
		fclose(what->in);
	if (rc == -EINVAL)
		fth_fail_in(rc, path);
	return finish(how, rc, &info);
}

static int run_import(int argc, char **argv)
{
	struct how how = {.build.memory = 256 << 20};
	struct fth_graph_import what = {0};
	const char *format = NULL;
	const struct fth_cli_option options[] = {
		{"format", FTH_CLI_STRING, &format, 0, 0, "edges or mtx; default by the name"},
		{"one-based", FTH_CLI_FLAG, &what.one_based, 0, 0, "the first vertex is 1"},
		{"undirected", FTH_CLI_FLAG, &what.undirected, 0, 0, "add the opposite edges"},
		{"weighted", FTH_CLI_FLAG, &what.weighted, 0, 0, "keep weights"},
		{"weight-scale", FTH_CLI_DOUBLE, &what.scale_weights, 0, UINT64_MAX,
		 "multiply weights by this and round them"},
		{"vertices", FTH_CLI_U64, &what.vertices, 0, FTH_GRAPH_VERTICES_MAX,
		 "at least so many"},
		BUILD_OPTIONS(how),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "graph import [options] FILE URI",
		.text = "Read an edge list (\"FROM TO [WEIGHT]\" a line, # and % begin comments) "
			"or\n"
			"a Matrix Market file (coordinate) and write it as a graph to a device, "
			"or\n"
			"to a new file (file:PATH). FILE - is standard input.",
		.options = options,
		.min_args = 2,
		.max_args = 2,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!find_format(format, args[0], &what.format)) {
		fth_cli_error("--format %s: expected edges or mtx", format);
		return FTH_EXIT_USAGE;
	}
	start(&how, args[1]);
	return import_file(&how, &what, args[0]);
}

const struct fth_command fth_cmd_graph_import = {
	.name = "import",
	.summary = "read an edge list or a Matrix Market file",
	.run = run_import,
};
