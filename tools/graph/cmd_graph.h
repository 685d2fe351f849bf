/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of `fathom graph` share. */
#ifndef FTH_TOOLS_CMD_GRAPH_H
#define FTH_TOOLS_CMD_GRAPH_H

#include "commands.h"
#include "json.h"

#include "fathom/graph.h"

extern const struct fth_command fth_cmd_graph_bfs;
extern const struct fth_command fth_cmd_graph_cc;
extern const struct fth_command fth_cmd_graph_generate;
extern const struct fth_command fth_cmd_graph_import;
extern const struct fth_command fth_cmd_graph_pagerank;
extern const struct fth_command fth_cmd_graph_sssp;

/* For fth_graph_job.progress: shows it, and stops when the user wants to. */
int graph_progress(void *context, const char *what, uint64_t done, uint64_t total);

/* The exit status for a result, with a message if it is an error: of uri, or NULL. */
int graph_exit(const char *uri, int rc);

void graph_print_info(const char *uri, const struct fth_graph_info *info);
void graph_info_json(struct fth_json *j, const char *uri, const struct fth_graph_info *info);

#endif
