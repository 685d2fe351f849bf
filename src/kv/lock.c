/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One cache per file. Two caches that write their logs to one file would destroy each other's items,
 * so that an open cache holds flock() on the file inside its URI, however deep in wrappers. The lock
 * has a descriptor of its own, keeps out other caches of the same process too, and ends with the
 * process. mem: is private, volumes lock their files themselves, and a drive over VFIO belongs to one
 * process.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The path inside file:PATH, wrappers around it or not; NULL if it is something else. */
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

int kv_flash_lock(struct fth_kv *kv, const char *uri)
{
	char *path = file_path(uri);
	int fd, rc = 0;

	if (!path)
		return 0;
	fd = fth_fd_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	else if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		kv->lock_fd = fd;
	else if (errno == EWOULDBLOCK)
		rc = fth_fail(EBUSY, "%s is in use by another cache or process", path);
	else
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	if (rc < 0 && fd >= 0)
		close(fd);
	free(path);
	return rc;
}

void kv_flash_unlock(struct fth_kv *kv)
{
	if (kv->lock_fd > 0)
		close(kv->lock_fd);
	kv->lock_fd = 0;
}
