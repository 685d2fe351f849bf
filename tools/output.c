/* SPDX-License-Identifier: BSD-2-Clause */
#include "output.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define URI_MAX 8192

/*
 * out->path and out->partial, if the URI names a regular file or one that could be made; they stay
 * NULL for any other device. -EEXIST if the file is there and must not be replaced.
 */
static int find_file(struct fth_output *out, const char *path)
{
	struct stat st;
	bool exists = stat(path, &st) == 0;

	if (exists && !out->overwrite)
		return fth_fail(EEXIST, "it exists already; --overwrite allows replacing it");
	if (exists && !S_ISREG(st.st_mode))
		return 0;
	if (!exists && errno != ENOENT)
		return fth_fail(errno, "%s", strerror(errno));
	out->path = exists ? realpath(path, NULL) : strdup(path);
	if (!out->path ||
	    asprintf(&out->partial, "%s.partial-%ld", out->path, (long)getpid()) < 0) {
		out->partial = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* The URI of the partial file, with the options that the user gave. */
static int partial_uri(const struct fth_output *out, uint64_t bytes, char uri[URI_MAX])
{
	const char *options = strchr(out->uri, '?');
	char escaped[URI_MAX];
	int n, rc = fth_uri_escape(out->partial, escaped, sizeof(escaped));

	if (rc < 0)
		return rc;
	n = snprintf(uri, URI_MAX, "file:%s%s%ccreate=on&size=%llu", escaped,
		     options ? options : "", options ? '&' : '?', (unsigned long long)bytes);
	return n < URI_MAX ? 0 : -ENAMETOOLONG;
}

static int open_new(struct fth_output *out, uint64_t bytes)
{
	char uri[URI_MAX];
	int rc;

	/* What a killed process of the same number has left. */
	if (unlink(out->partial) < 0 && errno != ENOENT)
		return fth_fail(errno, "%s: %s", out->partial, strerror(errno));
	rc = partial_uri(out, bytes, uri);
	return rc < 0 ? rc : fth_dev_open(uri, &out->dev);
}

int fth_output_open(struct fth_output *out, uint64_t bytes)
{
	struct fth_uri uri = {0};
	int rc = fth_uri_parse(&uri, out->uri);
	bool file = rc == 0 && strcmp(uri.scheme, "file") == 0 && uri.path;

	if (file)
		rc = find_file(out, uri.path);
	else if (rc == 0 && !out->overwrite)
		rc = fth_fail(EEXIST,
			      "it exists already; --overwrite allows replacing its contents");
	fth_uri_release(&uri);
	if (rc < 0)
		return rc;
	return out->partial ? open_new(out, bytes) : fth_dev_open(out->uri, &out->dev);
}

int fth_output_open_file(struct fth_output *out, const char *path, int *fd)
{
	int rc = find_file(out, path);
	const char *name = out->partial ? out->partial : path;

	*fd = -1;
	if (rc < 0)
		return rc;
	/* What a killed process of the same number has left is of no use. */
	*fd = open(name, O_WRONLY | O_CLOEXEC | O_TRUNC | (out->partial ? O_CREAT : 0), 0666);
	return *fd < 0 ? fth_fail(errno, "%s", strerror(errno)) : 0;
}

/* Make the directory entry of a file durable. */
static int sync_folder(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;

	if (fd >= 0)
		close(fd);
	free(copy);
	return rc;
}

/* Cut the partial file to its size and give it the permissions of the file that it replaces. */
static int complete(const struct fth_output *out, uint64_t bytes)
{
	int fd = open(out->partial, O_RDWR | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (stat(out->path, &st) == 0 && fchmod(fd, st.st_mode & 07777) < 0)
		rc = -errno;
	if (rc == 0 && (ftruncate(fd, (off_t)bytes) < 0 || fsync(fd) < 0))
		rc = -errno;
	close(fd);
	return rc;
}

static int put_in_place(const struct fth_output *out, uint64_t bytes)
{
	int rc = complete(out, bytes);

	if (rc == 0 && rename(out->partial, out->path) < 0)
		rc = -errno;
	if (rc == 0)
		rc = sync_folder(out->path);
	return rc < 0 ? fth_fail(-rc, "%s: %s", out->partial, strerror(-rc)) : 0;
}

int fth_output_close(struct fth_output *out, uint64_t bytes, int rc)
{
	char text[FTH_ERROR_TEXT_MAX];

	fth_dev_close(out->dev);
	out->dev = NULL;
	if (out->partial && rc == 0)
		rc = put_in_place(out, bytes);
	if (out->partial && rc < 0) {
		snprintf(text, sizeof(text), "%s", fth_error_text(rc));
		unlink(out->partial);
		fth_fail(-rc, "%s", text);
	}
	free(out->path);
	free(out->partial);
	out->path = out->partial = NULL;
	return rc;
}
