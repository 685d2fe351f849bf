/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a new graph goes: a device that exists, or a file that is made for it. */
#ifndef FTH_TOOLS_GRAPH_TARGET_H
#define FTH_TOOLS_GRAPH_TARGET_H

#include "fathom/apps/graph.h"

/* Zero-initialise, set uri and overwrite. */
struct graph_target {
	const char *uri;
	bool overwrite; /* a file or device that exists may be used */
	char *path;	/* of the file that was made; NULL if none was */
	struct fth_dev *dev;
};

/* For fth_graph_build.open; context is the target. */
int graph_target_open(void *context, uint64_t bytes, struct fth_dev **out);

/*
 * Close it. A file that was made is cut to the graph's size, or removed if there is none: info is
 * NULL. 0 or a negative errno.
 */
int graph_target_close(struct graph_target *target, const struct fth_graph_info *info);

#endif
