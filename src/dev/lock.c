/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/lock.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The path inside file:PATH, wrappers around it or not; NULL when it is something else. */
static char *file_path(const char *text)
{
	char *next = strdup(text), *path = NULL;

	/* Ends: each round takes off one wrapper. */
	while (next) {
		struct fth_uri uri;
		int rc = fth_uri_parse(&uri, next);

		free(next);
		next = NULL;
		if (rc < 0)
			return NULL;
		if (strcmp(uri.scheme, "file") == 0 && uri.path)
			path = strdup(uri.path);
		else if (uri.inner && strcmp(uri.scheme, "vol") != 0)
			next = strdup(uri.inner);
		fth_uri_release(&uri);
	}
	return path;
}

static int lock_path(const char *path, bool exclusive, int *fd)
{
	*fd = fth_fd_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (*fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	if (flock(*fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
		return 0;
	close(*fd);
	*fd = -1;
	return errno == EWOULDBLOCK
		       ? fth_fail(EBUSY, "%s is in use by another process, volume or cache", path)
		       : fth_fail(errno, "%s: %s", path, strerror(errno));
}

int fth_dev_lock_uri(const char *uri, bool exclusive, int *fd)
{
	char *path = file_path(uri);
	int rc;

	*fd = -1;
	if (!path)
		return 0;
	rc = lock_path(path, exclusive, fd);
	free(path);
	return rc;
}
