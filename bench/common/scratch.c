/* SPDX-License-Identifier: BSD-2-Clause */
#include "scratch.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *fth_scratch_folder(const char *folder)
{
	const char *tmp = getenv("TMPDIR");

	if (folder)
		return folder;
	return tmp && *tmp ? tmp : "/tmp";
}

static int make_file(const char *path, uint64_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	rc = posix_fallocate(fd, 0, (off_t)size);
	close(fd);
	if (rc == 0)
		return 0;
	unlink(path);
	return fth_fail(rc, "%s: %s", path, strerror(rc));
}

int fth_scratch_use(struct fth_scratch *scratch, const char *path, uint64_t size,
		    const char *options)
{
	char escaped[4096];
	int rc = fth_uri_escape(path, escaped, sizeof(escaped));

	*scratch = (struct fth_scratch){0};
	if (rc < 0)
		return rc;
	snprintf(scratch->path, sizeof(scratch->path), "%s", path);
	snprintf(scratch->uri, sizeof(scratch->uri), "file:%s%s%s", escaped, options ? "?" : "",
		 options ? options : "");
	if (access(path, F_OK) != 0) {
		rc = make_file(path, size);
		if (rc < 0)
			return rc;
		scratch->made = true;
	}
	rc = fth_scratch_reopen(scratch);
	if (rc < 0)
		fth_scratch_remove(scratch);
	return rc;
}

int fth_scratch_open(struct fth_scratch *scratch, const char *folder, const char *name,
		     uint64_t size, const char *options)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/fathom-bench-%ld-%s", fth_scratch_folder(folder),
		 (long)getpid(), name);
	return fth_scratch_use(scratch, path, size, options);
}

bool fth_scratch_refused(const char *path, bool force)
{
	if (force || access(path, F_OK) != 0)
		return false;
	fth_cli_error("%s exists; --force overwrites it", path);
	return true;
}

int fth_scratch_reopen(struct fth_scratch *scratch)
{
	return fth_dev_open(scratch->uri, &scratch->dev);
}

void fth_scratch_shut(struct fth_scratch *scratch)
{
	fth_dev_close(scratch->dev);
	scratch->dev = NULL;
}

bool fth_scratch_in_memory(const char *path)
{
	struct statfs info;

	return statfs(path, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

void fth_scratch_remove(struct fth_scratch *scratch)
{
	fth_scratch_shut(scratch);
	if (scratch->made)
		unlink(scratch->path);
	scratch->made = false;
}
