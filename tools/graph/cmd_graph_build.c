/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom graph generate, fathom graph import. */
#include "cmd_graph.h"
#include "output.h"

#include "base/text_input.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Vertices per edge, and how many of them, that are worth a hint. */
#define SPARSE	   16u
#define SPARSE_MIN ((uint64_t)1 << 20)

/* What both have to be told. */
struct how {
	struct fth_output target;
	struct fth_graph_build build;
	struct fth_graph_job job;
	uint64_t threads;
	uint64_t begin;
	bool imported, relabelled, opened; /* opened: the target; input is read before */
	struct fth_graph_counts counts;	   /* of an import */
};

#define BUILD_OPTIONS(how)                                                                         \
	{"memory", FTH_CLI_SIZE, &(how).build.memory, 1 << 20, (uint64_t)1 << 44, "to sort with"}, \
		FTH_CLI_WAS("tmp", "scratch"),                                                     \
		{"scratch",                                                                        \
		 FTH_CLI_STRING,                                                                   \
		 &(how).build.directory,                                                           \
		 0,                                                                                \
		 0,                                                                                \
		 "folder for temporary files; default TMPDIR or /tmp"},                            \
		{"threads", FTH_CLI_U64,	   &(how).threads,                                 \
		 0,	    FTH_GRAPH_THREADS_MAX, "0: one per CPU"},                              \
		FTH_CLI_FORCE(&(how).target.force, "replace a file, overwrite a device")

/* A graph has all vertices up to the largest, which takes room that few edges do not need. */
static void hint_at_relabel(const struct how *how, uint64_t bytes)
{
	const struct fth_graph_counts *counts = &how->counts;
	char size[FTH_CLI_BYTES_MAX];

	if (!how->imported || how->relabelled || counts->vertices < SPARSE_MIN ||
	    counts->vertices / SPARSE < counts->edges)
		return;
	fth_cli_progress_end();
	fprintf(stderr,
		"hint: %llu edges, but vertex numbers up to %llu: the file takes %s, and "
		"algorithms need as much memory; --relabel numbers only the vertices that have "
		"edges\n",
		(unsigned long long)counts->edges, (unsigned long long)counts->vertices - 1,
		fth_cli_bytes(size, bytes));
}

static int open_target(void *context, uint64_t bytes, struct fth_dev **dev)
{
	struct how *how = context;
	int rc;

	how->opened = true;
	hint_at_relabel(how, bytes);
	rc = fth_output_open(&how->target, bytes);
	*dev = how->target.dev;
	return rc;
}

/* Refuse an invalid target before the long work starts. Returns 0 or a negative errno. */
static int start(struct how *how, const char *uri)
{
	how->target.uri = uri;
	how->build.open = open_target;
	how->build.context = how;
	how->job.threads = (unsigned)how->threads;
	how->job.progress = graph_progress;
	how->begin = fth_now_ns();
	return fth_output_check(&how->target);
}

static void print_counts(const struct fth_graph_counts *counts)
{
	printf("read       %llu edges; dropped %llu loops and %llu duplicates\n",
	       (unsigned long long)counts->edges, (unsigned long long)counts->loops,
	       (unsigned long long)counts->duplicates);
}

static void counts_json(struct fth_json *j, const struct fth_graph_counts *counts)
{
	fth_json_u64(j, "edges_read", counts->edges);
	fth_json_u64(j, "loops_dropped", counts->loops);
	fth_json_u64(j, "duplicates_dropped", counts->duplicates);
	fth_json_u64(j, "header_line", counts->header);
}

static void report(const struct how *how, const struct fth_graph_info *info)
{
	double seconds = (double)(fth_now_ns() - how->begin) / 1e9;
	struct fth_json j;

	if (!fth_cli_json()) {
		graph_print_info(how->target.uri, info);
		if (how->imported)
			print_counts(&how->counts);
		printf("took       %.2f s, %.2f million edges/s\n", seconds,
		       (double)info->edges / seconds / 1e6);
		return;
	}
	fth_json_begin(&j, stdout);
	graph_info_json(&j, how->target.uri, info);
	if (how->imported)
		counts_json(&j, &how->counts);
	fth_json_double(&j, "seconds", seconds);
	fth_json_finish(&j);
}

static void say_header(const struct how *how)
{
	if (how->counts.header)
		fprintf(stderr,
			"note: line %llu names columns and was skipped; --no-header reads it as an "
			"edge\n",
			(unsigned long long)how->counts.header);
}

/* `name`: of what an error belongs to; NULL if the error text says so. */
static int finish(struct how *how, const char *name, int rc, const struct fth_graph_info *info)
{
	rc = fth_output_close(&how->target, rc < 0 ? 0 : info->bytes, rc);
	fth_cli_progress_end();
	if (rc == 0) {
		say_header(how);
		report(how, info);
	}
	return graph_exit(name, rc);
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
		.text = "Draw a graph as the GAP benchmark suite does and write it to a new file,\n"
			"or to a device. Edges go in both directions; loops and duplicates are\n"
			"dropped.",
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
	rc = start(&how, args[0]);
	if (rc == 0)
		rc = fth_graph_generate(&what, &how.build, &how.job, &info);
	return finish(&how, args[0], rc, &info);
}

const struct fth_command fth_cmd_graph_generate = {
	.name = "generate",
	.summary = "draw a Kronecker or uniformly random graph",
	.run = run_generate,
};

/* ---- import ---- */

/* Does the name end like this, perhaps before the ending of a compressed file? */
static bool ends_in(const char *path, const char *suffix)
{
	static const char *const packed[] = {"", ".gz", ".zst"};
	size_t length = strlen(path), n = strlen(suffix);

	for (unsigned i = 0; i < 3; i++) {
		size_t tail = strlen(packed[i]);

		if (length > n + tail && strcmp(path + length - tail, packed[i]) == 0 &&
		    strncmp(path + length - tail - n, suffix, n) == 0)
			return true;
	}
	return false;
}

static bool find_format(const char *name, const char *path, enum fth_graph_text *format)
{
	if (!name)
		name = ends_in(path, ".mtx") ? "mtx" : "edges";
	*format = strcmp(name, "mtx") == 0 ? FTH_GRAPH_MATRIX_MARKET : FTH_GRAPH_EDGE_LIST;
	return *format == FTH_GRAPH_MATRIX_MARKET || strcmp(name, "edges") == 0;
}

static bool is_stopped(void *user)
{
	(void)user;
	return fth_cli_stopped();
}

static int import_file(struct how *how, struct fth_graph_import *what, const char *path)
{
	struct text_input *input;
	struct fth_graph_info info;
	int rc = text_input_open(path, is_stopped, NULL, &input), bad;

	if (rc < 0)
		return graph_exit(NULL, rc);
	what->in = text_input_stream(input);
	rc = what->in ? fth_graph_import(what, &how->build, &how->job, &info) : -ENOMEM;
	bad = text_input_error(input);
	if (bad == 0 && rc == -EINVAL && !how->opened)
		bad = fth_fail_in(rc, path);
	text_input_close(input);
	return finish(how, bad < 0 ? NULL : how->target.uri, bad < 0 ? bad : rc, &info);
}

/* One character, or "tab". */
static bool find_delimiter(const char *text, char *out)
{
	*out = text ? text[0] : '\0';
	if (!text || (*out && !text[1]))
		return true;
	*out = '\t';
	if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0)
		return true;
	fth_cli_error("--delimiter %s: expected one character, or tab", text);
	return false;
}

static bool find_header(bool skip, bool none, enum fth_graph_first_line *out)
{
	*out = skip   ? FTH_GRAPH_HEADER_SKIP
	       : none ? FTH_GRAPH_HEADER_NONE
		      : FTH_GRAPH_HEADER_DETECT;
	if (skip && none)
		fth_cli_error("--header and --no-header exclude each other");
	return !skip || !none;
}

static bool check_options(const struct fth_graph_import *what)
{
	if (what->delimiter == '"') {
		fth_cli_error("--delimiter \": fields may be quoted with it");
		return false;
	}
	if (what->format == FTH_GRAPH_MATRIX_MARKET && (what->delimiter || what->header)) {
		fth_cli_error("--delimiter, --header and --no-header require an edge list");
		return false;
	}
	if (!what->relabel)
		return true;
	if (what->format == FTH_GRAPH_MATRIX_MARKET)
		fth_cli_error(
			"--relabel requires an edge list; the vertices of a matrix are numbers");
	else if (what->one_based || what->vertices)
		fth_cli_error("--relabel excludes --one-based and --vertices");
	else
		return true;
	return false;
}

static int run_import(int argc, char **argv)
{
	struct how how = {.build.memory = 256 << 20, .imported = true};
	struct fth_graph_import what = {.counts = &how.counts};
	const char *format = NULL, *delimiter = NULL;
	bool header = false, no_header = false;
	const struct fth_cli_option options[] = {
		{"format", FTH_CLI_STRING, &format, 0, 0, "edges or mtx; default by the name"},
		{"delimiter", FTH_CLI_STRING, &delimiter, 0, 0,
		 "separates fields; default , for files in .csv, else blanks"},
		{"header", FTH_CLI_FLAG, &header, 0, 0,
		 "skip the first line; default: if it has words, and the others have numbers"},
		{"no-header", FTH_CLI_FLAG, &no_header, 0, 0, "the first line is an edge"},
		{"one-based", FTH_CLI_FLAG, &what.one_based, 0, 0, "the first vertex is 1"},
		{"relabel", FTH_CLI_FLAG, &what.relabel, 0, 0,
		 "vertices are any names or numbers; keep only those with edges"},
		{"undirected", FTH_CLI_FLAG, &what.undirected, 0, 0, "add the opposite edges"},
		{"reversed", FTH_CLI_FLAG, &what.reversed, 0, 0,
		 "reverse all edges: the graph for --transpose of graph bfs"},
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
			"a Matrix Market file (coordinate) and write it as a graph to a new file,\n"
			"or to a device. FILE - is standard input. gzip and zstd are unpacked.\n"
			"Fields may be quoted as in CSV.\n"
			"Loops and duplicates are dropped and counted.",
		.options = options,
		.min_args = 2,
		.max_args = 2,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!find_format(format, args[0], &what.format)) {
		fth_cli_error("--format %s: expected edges or mtx", format);
		return FTH_EXIT_USAGE;
	}
	if (!delimiter && what.format == FTH_GRAPH_EDGE_LIST && ends_in(args[0], ".csv"))
		delimiter = ",";
	if (!find_delimiter(delimiter, &what.delimiter) ||
	    !find_header(header, no_header, &what.header) || !check_options(&what))
		return FTH_EXIT_USAGE;
	how.relabelled = what.relabel;
	rc = start(&how, args[1]);
	return rc < 0 ? graph_exit(args[1], rc) : import_file(&how, &what, args[0]);
}

const struct fth_command fth_cmd_graph_import = {
	.name = "import",
	.summary = "read an edge list or a Matrix Market file",
	.run = run_import,
};
