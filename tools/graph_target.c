/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_target.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* *path: that of a file that is not there yet and could be made; NULL for anything else. */
static int new_file(const char *text, char **path)
{
	struct fth_uri uri = {0};
	int rc = fth_uri_parse(&uri, text);

	*path = NULL;
	if (rc == 0 && strcmp(uri.scheme, "file") == 0 && uri.path && access(uri.path, F_OK) != 0 &&
	    errno == ENOENT)
		*path = strdup(uri.path);
	fth_uri_release(&uri);
	return rc;
}

static int make_file(struct graph_target *target, uint64_t bytes)
{
	char uri[8192];
	int n = snprintf(uri, sizeof(uri), "%s%ccreate=on&size=%llu", target->uri,
			 strchr(target->uri, '?') ? '&' : '?', (unsigned long long)bytes);

	if (n < 0 || n >= (int)sizeof(uri))
		return fth_fail(ENAMETOOLONG, "too long a name");
	return fth_dev_open(uri, &target->dev);
}

int graph_target_open(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct graph_target *target = context;
	int rc = new_file(target->uri, &target->path);

	if (rc < 0)
		return rc;
	if (target->path)
		rc = make_file(target, bytes);
	else if (!target->overwrite)
		rc = fth_fail(EEXIST, "it exists; --overwrite allows to destroy what is in it");
	else
		rc = fth_dev_open(target->uri, &target->dev);
	*out = target->dev;
	return rc;
}

int graph_target_close(struct graph_target *target, const struct fth_graph_info *info)
{
	int rc = 0;

	fth_dev_close(target->dev);
	target->dev = NULL;
	if (target->path && !info)
		unlink(target->path);
	if (target->path && info && truncate(target->path, (off_t)info->bytes) < 0)
		rc = fth_fail(errno, "cannot cut the file to size: %s", strerror(errno));
	free(target->path);
	target->path = NULL;
	return rc;
}
