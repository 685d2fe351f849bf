/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom graph: graphs larger than memory. cmd_graph_build.c makes them, cmd_graph_run.c works on
 * them; here is what is left.
 */
#include "cmd_graph.h"
#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int graph_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	fth_cli_progress(what, done, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

/* Does an error text name the device already? */
static bool begins_with(const char *text, const char *uri)
{
	if (strncmp(uri, "file:", 5) == 0)
		uri += 5;
	return strncmp(text, uri, strlen(uri)) == 0;
}

int graph_exit(const char *uri, int rc)
{
	fth_cli_progress_end();
	if (fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	if (rc == 0)
		return FTH_EXIT_OK;
	if (uri && !begins_with(fth_error_text(rc), uri))
		fth_cli_error("%s: %s", uri, fth_error_text(rc));
	else
		fth_cli_error("%s", fth_error_text(rc));
	return FTH_EXIT_FAILED;
}

/* ---- stat and check ---- */

static const char *kind(const struct fth_graph_info *info)
{
	return info->undirected ? "undirected" : "directed";
}

void graph_print_info(const char *uri, const struct fth_graph_info *info)
{
	char edges[FTH_CLI_BYTES_MAX], all[FTH_CLI_BYTES_MAX];

	printf("graph      %s\n", uri);
	printf("source     %s\n", info->made_by);
	printf("vertices   %llu\n", (unsigned long long)info->vertices);
	printf("edges      %llu, %s%s, %.1f per vertex\n", (unsigned long long)info->edges,
	       kind(info), info->weighted ? ", weighted" : "",
	       (double)info->edges / (double)info->vertices);
	if (info->labels)
		printf("labels     %s, up to %u bytes\n",
		       info->labels_numeric ? "numbers" : "words", info->label_max);
	printf("size       %s, of which edges %s\n", fth_cli_bytes(all, info->bytes),
	       fth_cli_bytes(edges, info->edges * 4));
}

void graph_info_json(struct fth_json *j, const char *uri, const struct fth_graph_info *info)
{
	fth_json_string(j, "graph", uri);
	fth_json_string(j, "made_by", info->made_by);
	fth_json_u64(j, "vertices", info->vertices);
	fth_json_u64(j, "edges", info->edges);
	fth_json_bool(j, "undirected", info->undirected);
	fth_json_bool(j, "weighted", info->weighted);
	fth_json_bool(j, "labels", info->labels);
	fth_json_u64(j, "bytes", info->bytes);
}

static void report(const char *uri, const struct fth_graph_info *info, bool checked)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		graph_print_info(uri, info);
		if (checked)
			printf("checksum   right\n");
		return;
	}
	fth_json_begin(&j, stdout);
	graph_info_json(&j, uri, info);
	fth_json_u64(&j, "offsets_at", info->offsets_at);
	fth_json_u64(&j, "edges_at", info->edges_at);
	fth_json_u64(&j, "weights_at", info->weights_at);
	fth_json_bool(&j, "checked", checked);
	fth_json_finish(&j);
}

/* Read what a graph says of itself; `check`: and compare checksums of all of it. */
static int look_at(const struct fth_cli_usage *usage, bool check, int argc, char **argv)
{
	const struct fth_graph_job job = {.progress = graph_progress};
	struct fth_graph_info info;
	struct fth_dev *dev;
	char **args;
	int status = fth_cli_parse(usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_dev_open_flags(args[0], FTH_DEV_READONLY, &dev);
	if (rc < 0)
		return graph_exit(args[0], rc);
	rc = fth_graph_read_info(dev, &info);
	if (rc == 0 && check)
		rc = fth_graph_check_data(dev, &job);
	fth_dev_close(dev);
	if (rc == 0)
		report(args[0], &info, check);
	return graph_exit(args[0], rc);
}

static int run_stat(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "graph stat URI",
		.text = "Print what a graph is. `fathom graph check` says whether it is whole.",
		.min_args = 1,
		.max_args = 1,
	};

	return look_at(&usage, false, argc, argv);
}

static const struct fth_command stat_command = {
	.name = "stat",
	.summary = "print size and properties of a graph",
	.run = run_stat,
};

static int run_check(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "graph check URI",
		.text = "Read all of a graph and compare checksums; print what it is.",
		.min_args = 1,
		.max_args = 1,
	};

	return look_at(&usage, true, argc, argv);
}

static const struct fth_command check_command = {
	.name = "check",
	.summary = "verify the checksums of a graph",
	.run = run_check,
};

/* ---- the command ---- */

static const struct fth_command *const subcommands[] = {
	&fth_cmd_graph_bfs,	 &fth_cmd_graph_cc,	&check_command,
	&fth_cmd_graph_generate, &fth_cmd_graph_import, &fth_cmd_graph_pagerank,
	&fth_cmd_graph_sssp,	 &stat_command,		NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom graph", subcommands, argc, argv);
}

const struct fth_command fth_cmd_graph = {
	.name = "graph",
	.summary = "build graphs larger than memory, and run algorithms on them",
	.run = run,
};
