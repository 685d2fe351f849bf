/* SPDX-License-Identifier: BSD-2-Clause */
#include "output.h"

#include "dev/lock.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FD_PATH_MAX 64

/*
 * out->path and out->partial, if there is a regular file or one could be made; they stay NULL for
 * any other device. -EEXIST if the file is there and must not be replaced.
 */
static int find_file(struct fth_output *out, const char *path)
{
	struct stat st;
	bool exists = stat(path, &st) == 0;

	if (!*path)
		return fth_fail(EINVAL, "the file name is empty");
	if (exists && !out->force && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
		return fth_fail(EEXIST, "the file exists; --force replaces it");
	if (exists && S_ISDIR(st.st_mode))
		return fth_fail(EISDIR, "is a directory");
	if (exists && !S_ISREG(st.st_mode))
		return 0;
	if (!exists && errno != ENOENT)
		return fth_fail(errno, "%s", strerror(errno));
	if (!exists && lstat(path, &st) == 0)
		return fth_fail(ENOENT, "dangling symbolic link");
	out->path = exists ? realpath(path, NULL) : strdup(path);
	if (!out->path ||
	    asprintf(&out->partial, "%s.partial-%ld", out->path, (long)getpid()) < 0) {
		out->partial = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* The folder of a path, to be freed. */
static char *folder_of(const char *path)
{
	char *copy = strdup(path), *folder = copy ? strdup(dirname(copy)) : NULL;

	free(copy);
	return folder;
}

static void fd_path(int fd, char path[FD_PATH_MAX])
{
	snprintf(path, FD_PATH_MAX, "/proc/self/fd/%d", fd);
}

/* A file without a name that can get one later; -1 if the system has no such thing here. */
static int make_nameless(const struct fth_output *out)
{
	char *folder = folder_of(out->path), path[FD_PATH_MAX];
	int fd = folder ? fth_fd_open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;

	free(folder);
	if (fd < 0)
		return -1;
	fd_path(fd, path);
	if (access(path, F_OK) == 0)
		return fd;
	close(fd);
	return -1;
}

static int make_file(struct fth_output *out)
{
	out->fd = make_nameless(out);
	if (out->fd >= 0)
		return 0;
	/* A killed process with the same pid may have left a partial file. */
	if (unlink(out->partial) < 0 && errno != ENOENT)
		return fth_fail(errno, "%s: %s", out->partial, strerror(errno));
	out->fd = fth_fd_open(out->partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	out->named = out->fd >= 0;
	return out->named ? 0 : fth_fail(errno, "cannot create the file: %s", strerror(errno));
}

/* The file as a device, with the options that the user gave. */
static int open_new(struct fth_output *out, uint64_t bytes)
{
	const char *options = strchr(out->uri, '?');
	char path[FD_PATH_MAX], *uri;
	int rc = make_file(out);

	if (rc < 0)
		return rc;
	if (ftruncate(out->fd, (off_t)bytes) < 0)
		return fth_fail(errno, "cannot allocate %llu bytes: %s", (unsigned long long)bytes,
				strerror(errno));
	fd_path(out->fd, path);
	if (asprintf(&uri, "file:%s%s", path, options ? options : "") < 0)
		return -ENOMEM;
	rc = fth_dev_open(uri, &out->dev);
	free(uri);
	return rc;
}

/* Whatever the URI names. */
static int find_target(struct fth_output *out)
{
	struct fth_uri uri = {0};
	int rc = fth_uri_parse(&uri, out->uri);
	bool file = rc == 0 && strcmp(uri.scheme, "file") == 0 && uri.path;

	if (file)
		rc = find_file(out, uri.path);
	else if (rc == 0 && !out->force)
		rc = fth_fail(EEXIST,
			      "this is a device URI (%s:); --force overwrites the device; for a "
			      "file of this name, prefix it with ./",
			      uri.scheme);
	fth_uri_release(&uri);
	return rc;
}

int fth_output_check(const struct fth_output *out)
{
	struct fth_output look = {.uri = out->uri, .force = out->force};
	int rc = find_target(&look);
	char *folder = rc == 0 && look.path ? folder_of(look.path) : NULL;

	if (folder && access(folder, W_OK | X_OK) < 0)
		rc = fth_fail(errno, "%s: %s", folder, strerror(errno));
	free(folder);
	free(look.path);
	free(look.partial);
	return rc;
}

int fth_output_open(struct fth_output *out, uint64_t bytes)
{
	int rc = find_target(out);

	if (rc < 0)
		return rc;
	/* Neither overwritten nor replaced while a server, a volume or another command has it. */
	rc = fth_dev_lock_uri(out->uri, true, &out->lock);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	return out->path ? open_new(out, bytes) : fth_dev_open(out->uri, &out->dev);
}

int fth_output_open_file(struct fth_output *out, const char *path, int *fd)
{
	int rc = find_file(out, path);

	*fd = -1;
	if (rc == 0 && out->path)
		rc = make_file(out);
	if (rc < 0)
		return rc;
	*fd = out->path ? fcntl(out->fd, F_DUPFD_CLOEXEC, 3)
			: fth_fd_open(path, O_WRONLY | O_CLOEXEC | O_TRUNC, 0);
	return *fd < 0 ? fth_fail(errno, "%s", strerror(errno)) : 0;
}

/* Make the directory entry of a file durable. */
static int sync_folder(const char *path)
{
	char *folder = folder_of(path);
	int fd = folder ? fth_fd_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : -ENOMEM;
	int rc = fd < 0 ? fd : 0;

	if (fd >= 0 && fsync(fd) < 0)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	free(folder);
	return rc;
}

/* Cut the file to its size and give it the permissions of the file that it replaces. */
static int complete(const struct fth_output *out, uint64_t bytes)
{
	struct stat st;

	if (stat(out->path, &st) == 0 && fchmod(out->fd, st.st_mode & 07777) < 0)
		return -errno;
	if (ftruncate(out->fd, (off_t)bytes) < 0 || fsync(out->fd) < 0)
		return -errno;
	return 0;
}

static int give_name(const struct fth_output *out, const char *name)
{
	char path[FD_PATH_MAX];

	fd_path(out->fd, path);
	return linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/*
 * As rename(), but fails with -EEXIST if the name is taken. NFS, 9P and some others do not know
 * RENAME_NOREPLACE: there a link does the same, or where they have none either, a look before.
 */
static int rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
		return -errno;
	if (link(from, to) == 0)
		return unlink(from) < 0 ? -errno : 0;
	if (errno == EEXIST)
		return -EEXIST;
	if (faccessat(AT_FDCWD, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return rename(from, to) < 0 ? -errno : 0;
}

/*
 * A link never replaces a file, so a nameless file takes the partial name first where it has to. A
 * file that has appeared meanwhile is replaced only if that was allowed.
 */
static int take_place(struct fth_output *out)
{
	int rc;

	if (!out->named) {
		rc = give_name(out, out->path);
		if (rc != -EEXIST || !out->force)
			return rc;
		unlink(out->partial);
		rc = give_name(out, out->partial);
		if (rc < 0)
			return rc;
		out->named = true;
	}
	if (out->force)
		rc = rename(out->partial, out->path) < 0 ? -errno : 0;
	else
		rc = rename_new(out->partial, out->path);
	if (rc < 0)
		return rc;
	out->named = false;
	return 0;
}

static int put_in_place(struct fth_output *out, uint64_t bytes)
{
	int rc = complete(out, bytes);

	if (rc < 0)
		return fth_fail(-rc, "cannot complete the file: %s", strerror(-rc));
	rc = take_place(out);
	if (rc == 0)
		rc = sync_folder(out->path);
	return rc < 0 ? fth_fail(-rc, "cannot rename the finished file: %s", strerror(-rc)) : 0;
}

int fth_output_close(struct fth_output *out, uint64_t bytes, int rc)
{
	char text[FTH_ERROR_TEXT_MAX];

	fth_dev_close(out->dev);
	out->dev = NULL;
	/* Descriptor 0 is never ours: a zeroed object has none. */
	if (out->fd > 0 && rc == 0)
		rc = put_in_place(out, bytes);
	snprintf(text, sizeof(text), "%s", rc < 0 ? fth_error_text(rc) : "");
	if (out->fd > 0)
		close(out->fd);
	if (out->named)
		unlink(out->partial);
	if (out->lock > 0)
		fth_dev_unlock(out->lock);
	if (rc < 0)
		fth_fail(-rc, "%s", text);
	free(out->path);
	free(out->partial);
	*out = (struct fth_output){.uri = out->uri, .force = out->force};
	return rc;
}
