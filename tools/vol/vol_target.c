/* SPDX-License-Identifier: BSD-2-Clause */
#include "vol_target.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int fail_path(const char *path)
{
	return fth_fail(errno, "%s: %s", path, strerror(errno));
}

/* A device or a pipe: what is written goes to where it leads. */
static int open_special(struct fth_vol_target *target, const char *path, const struct stat *st,
			uint64_t size)
{
	bool block = S_ISBLK(st->st_mode);
	off_t end;

	if (!block && !S_ISCHR(st->st_mode) && !S_ISFIFO(st->st_mode))
		return fth_fail(EINVAL, "%s is not a file, device or pipe", path);
	if (block && !target->replace)
		return fth_fail(EEXIST, "%s is a block device; --force overwrites it", path);
	/* O_EXCL: not while it is mounted or in use by the kernel. */
	target->fd = open(path, O_WRONLY | O_CLOEXEC | (block ? O_EXCL : 0));
	if (target->fd < 0)
		return fail_path(path);
	/* The lock that every device of ours has on its file. */
	if (block && flock(target->fd, LOCK_EX | LOCK_NB) < 0) {
		close(target->fd);
		return fth_fail(EBUSY, "%s: another process uses it", path);
	}
	target->sync = block;
	end = block ? lseek(target->fd, 0, SEEK_END) : 0;
	if (end < 0 || (block && lseek(target->fd, 0, SEEK_SET) < 0)) {
		int rc = fail_path(path);

		close(target->fd);
		return rc;
	}
	if (block && (uint64_t)end < size) {
		close(target->fd);
		return fth_fail(ENOSPC, "%s has %llu bytes, the object has %llu", path,
				(unsigned long long)end, (unsigned long long)size);
	}
	return 0;
}

static void release(struct fth_vol_target *target)
{
	free(target->path);
	free(target->partial);
}

/* A file that is new, or takes the place of another one. */
static int open_file(struct fth_vol_target *target, const char *path, bool exists)
{
	int rc;

	target->sync = true;
	target->path = exists ? realpath(path, NULL) : strdup(path);
	if (!target->path ||
	    asprintf(&target->partial, "%s.partial-%ld", target->path, (long)getpid()) < 0) {
		target->partial = NULL;
		release(target);
		return -ENOMEM;
	}
	/* What a killed process of the same number has left. */
	(void)unlink(target->partial);
	target->fd = open(target->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (target->fd >= 0)
		return 0;
	rc = fail_path(target->partial);
	release(target);
	return rc;
}

int fth_vol_target_open(struct fth_vol_target *target, const char *path, uint64_t size,
			bool replace)
{
	struct stat st, link;
	bool exists = stat(path, &st) == 0;

	*target = (struct fth_vol_target){.fd = -1, .replace = replace};
	if (!exists && errno != ENOENT)
		return fail_path(path);
	if (!exists && lstat(path, &link) == 0)
		return fth_fail(ENOENT, "%s is a symbolic link to a file that does not exist",
				path);
	if (exists && S_ISDIR(st.st_mode))
		return fth_fail(EISDIR, "%s is a directory", path);
	if (exists && !S_ISREG(st.st_mode))
		return open_special(target, path, &st, size);
	if (exists && !replace)
		return fth_fail(EEXIST, "%s exists; --force replaces it", path);
	target->mode = exists ? st.st_mode & 07777 : 0;
	return open_file(target, path, exists);
}

/* Make the directory entry of a file durable. */
static int sync_folder(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int rc = fd >= 0 && fsync(fd) == 0 ? 0 : fail_path(path);

	if (fd >= 0)
		close(fd);
	free(copy);
	return rc;
}

static int put_in_place(const struct fth_vol_target *target)
{
	unsigned flags = target->replace ? 0 : RENAME_NOREPLACE;
	int rc = renameat2(AT_FDCWD, target->partial, AT_FDCWD, target->path, flags);

	/* A file system without the flag: nobody else makes that file in this moment. */
	if (rc < 0 && errno == EINVAL && flags)
		rc = rename(target->partial, target->path);
	return rc < 0 ? fail_path(target->path) : sync_folder(target->path);
}

int fth_vol_target_close(struct fth_vol_target *target, int rc)
{
	if (rc == 0 && target->mode && fchmod(target->fd, target->mode) < 0)
		rc = fail_path(target->partial);
	if (rc == 0 && target->sync && fsync(target->fd) < 0)
		rc = fail_path(target->partial ? target->partial : "the device");
	close(target->fd);
	if (rc == 0 && target->partial)
		rc = put_in_place(target);
	if (rc < 0 && target->partial)
		(void)unlink(target->partial);
	release(target);
	return rc;
}
