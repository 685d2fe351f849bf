/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening the devices of a volume by URI, and keeping others out of them.
 *
 * What a volume lives on is shared between processes only where it is a file (or a block device's
 * node): mem: is private, a drive over VFIO belongs to one process. flock() on the file inside a
 * URI, however deep in wrappers, is held with a descriptor of its own: so it also keeps out another
 * volume of the same process, and it ends with the process.
 */
#include "vol/vol.h"

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
		       ? fth_fail(EBUSY, "%s is in use by another volume or process", path)
		       : fth_fail(errno, "%s: %s", path, strerror(errno));
}

static int lock_uri(const char *uri, bool exclusive, int *fd)
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

int vol_open_all(const char *const *uris, unsigned n, enum vol_access access,
		 struct vol_opened *out)
{
	unsigned flags = access == VOL_ACCESS_WRITE ? 0 : FTH_DEV_READONLY;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (n == 0 || n > FTH_VOL_DEVICES_MAX)
		return fth_fail(EINVAL, "a volume has 1 to %u devices, not %u", FTH_VOL_DEVICES_MAX,
				n);
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		out->locks[i] = -1;
		out->count = i + 1;
		/* Opened first: create=on may have to make the file that is locked. */
		rc = fth_dev_open_flags(uris[i], flags, &out->devs[i]);
		if (rc == 0)
			rc = lock_uri(uris[i], access != VOL_ACCESS_READ, &out->locks[i]);
	}
	if (rc < 0)
		vol_close_all(out);
	return rc;
}

void vol_close_all(struct vol_opened *opened)
{
	for (unsigned i = 0; i < opened->count; i++) {
		fth_dev_close(opened->devs[i]);
		if (opened->locks[i] >= 0)
			close(opened->locks[i]);
	}
	opened->count = 0;
}

int fth_vol_split_uris(const char *list, const char ***uris, unsigned *n)
{
	size_t length = strlen(list), count = 1;
	unsigned depth = 0;
	const char **out;
	char *text;

	for (const char *p = list; *p; p++)
		count += *p == ',';
	out = malloc(count * sizeof(*out) + length + 1);
	if (!out)
		return -ENOMEM;
	text = (char *)(out + count);
	memcpy(text, list, length + 1);
	*n = 0;
	out[(*n)++] = text;
	for (; *text; text++) {
		depth += *text == '(';
		depth -= *text == ')' && depth > 0;
		if (*text == ',' && depth == 0) {
			*text = '\0';
			out[(*n)++] = text + 1;
		}
	}
	*uris = out;
	return 0;
}
