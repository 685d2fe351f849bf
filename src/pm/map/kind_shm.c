/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm:NAME. POSIX shared memory: stores survive the process as soon as they are made, since the
 * pages belong to the kernel. An flock() on the segment keeps others out.
 */
#include "pm/pm_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHM_NAME_MAX 250

static int shm_path(const struct fth_uri *uri, char path[SHM_NAME_MAX + 2])
{
	size_t length = strlen(uri->path);

	if (length == 0 || length > SHM_NAME_MAX || strchr(uri->path, '/') ||
	    strcmp(uri->path, ".") == 0 || strcmp(uri->path, "..") == 0)
		return fth_fail(EINVAL,
				"shm:%s: the name must have 1 to %d characters and no slash",
				uri->path, SHM_NAME_MAX);
	snprintf(path, SHM_NAME_MAX + 2, "/%s", uri->path);
	return fth_uri_finish(uri);
}

static int shm_descriptor(const char *path, int flags)
{
	int fd, error;

	fth_fd_reserve();
	fd = fth_fd_high(shm_open(path, flags | O_CLOEXEC, 0600));
	error = errno;
	fth_fd_release();
	return fd < 0 ? fth_fail(error, "shared memory \"%s\": %s", path + 1, strerror(error)) : fd;
}

static int shm_lock(int fd, bool exclusive)
{
	if (flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? fth_fail(EBUSY, "mapped by another process or object")
				    : fth_fail(errno, "flock: %s", strerror(errno));
}

/*
 * Open and lock. Between the two the segment may be removed by somebody else: then the name is
 * opened again. Ends: each round means that another process has removed a segment.
 */
static int shm_open_locked(const char *path, int flags, int *fd)
{
	struct stat st;
	int rc;

	for (;;) {
		*fd = shm_descriptor(path, flags);
		if (*fd < 0)
			return *fd;
		rc = shm_lock(*fd, (flags & O_ACCMODE) != O_RDONLY);
		if (rc < 0 || fstat(*fd, &st) < 0 || st.st_nlink > 0)
			return rc;
		close(*fd);
	}
}

/*
 * Under the lock: give a new segment its size. Its pages are allocated: a store into a full tmpfs
 * would raise SIGBUS.
 */
static int shm_allocate(struct fth_pm *pm, const struct pm_request *request)
{
	struct stat st;
	int error;

	if (fstat(pm->fd, &st) < 0)
		return fth_fail(errno, "fstat: %s", strerror(errno));
	if (st.st_size == 0 && request->create && request->length > 0) {
		error = posix_fallocate(pm->fd, 0, (off_t)request->length);
		if (error) {
			if (ftruncate(pm->fd, 0) < 0)
				error = errno;
			return fth_fail(error, "allocating %llu bytes of shared memory: %s",
					(unsigned long long)request->length, strerror(error));
		}
		pm->made = true;
		st.st_size = (off_t)request->length;
	}
	pm->length = (uint64_t)st.st_size & ~(uint64_t)(FTH_PM_PAGE - 1);
	if (st.st_size == 0)
		return request->create ? fth_fail(EINVAL, "a size is required to create it")
				       : fth_fail(ENOENT, "empty: creation was interrupted");
	return 0;
}

static int shm_map(struct fth_pm *pm)
{
	void *at;

	pm->map_length = pm->length;
	if (pm->length == 0)
		return fth_fail(EBADMSG, "truncated: smaller than a page");
	at = mmap(NULL, pm->length, pm->readonly ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED,
		  pm->fd, 0);
	if (at == MAP_FAILED)
		return fth_fail(errno, "mapping %llu bytes: %s", (unsigned long long)pm->length,
				strerror(errno));
	pm->memory = at;
	return 0;
}

static int shm_open_kind(struct fth_pm *pm, const struct pm_request *request)
{
	int flags = (request->readonly ? O_RDONLY : O_RDWR) | (request->create ? O_CREAT : 0);
	char path[SHM_NAME_MAX + 2];
	int rc = shm_path(request->uri, path);

	if (rc < 0)
		return rc;
	rc = shm_open_locked(path, flags, &pm->fd);
	if (rc == 0)
		rc = shm_allocate(pm, request);
	if (rc == 0)
		rc = shm_map(pm);
	pm->guarantee = FTH_PM_EXIT;
	pm->view.mode = FTH_PM_MODE_FENCE;
	snprintf(pm->text, sizeof(pm->text),
		 "Stores survive the end of the process, however it ends. They do not survive a "
		 "restart of the machine: this is shared memory (tmpfs).");
	return rc;
}

static void shm_discard(const struct pm_request *request)
{
	char path[SHM_NAME_MAX + 2];

	if (shm_path(request->uri, path) == 0)
		shm_unlink(path);
}

static int shm_close(struct fth_pm *pm)
{
	if (pm->memory)
		munmap(pm->memory, pm->map_length);
	if (pm->fd >= 0)
		close(pm->fd);
	return 0;
}

static int shm_remove(const char *name, struct fth_uri *uri, int looked)
{
	char path[SHM_NAME_MAX + 2];
	int rc = shm_path(uri, path), fd;

	(void)name;
	if (rc < 0)
		return rc;
	rc = shm_open_locked(path, O_RDWR, &fd);
	if (rc == 0)
		rc = pm_remove_check(fd, looked);
	if (rc == 0 && shm_unlink(path) < 0)
		rc = fth_fail(errno, "shared memory \"%s\": %s", path + 1, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

const struct pm_kind pm_kind_shm = {.id = FTH_PM_KIND_SHM,
				    .open = shm_open_kind,
				    .close = shm_close,
				    .remove = shm_remove,
				    .discard = shm_discard};
