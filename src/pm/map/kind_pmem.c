/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem:PATH. A file that libpmem maps: on a DAX file system its bytes are persistent memory, and
 * persist writes lines of the processor's caches back. libpmem says whether that is so, and whether
 * the caches are durable themselves (eADR). It is loaded when the first such name is used.
 *
 * pmem:PATH?force=1 does the same on any file. That makes nothing durable but what the page cache
 * keeps when the process ends; it is there to test the path.
 */
#include "pm/pm_internal.h"
#include "dev/lock.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct libpmem {
	void *library;
	void *(*map_file)(const char *path, size_t length, int flags, mode_t mode, size_t *mapped,
			  int *is_pmem);
	int (*unmap)(void *at, size_t length);
	int (*has_auto_flush)(void);
	const char *(*errormsg)(void);
};

static int load_libpmem(struct libpmem *lib)
{
	lib->library = dlopen("libpmem.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib->library)
		return fth_fail(ENOTSUP, "cannot load libpmem.so.1 (package libpmem1): %s",
				dlerror());
	/* The conversions that dlsym() is made for. */
	*(void **)&lib->map_file = dlsym(lib->library, "pmem_map_file");
	*(void **)&lib->unmap = dlsym(lib->library, "pmem_unmap");
	*(void **)&lib->has_auto_flush = dlsym(lib->library, "pmem_has_auto_flush");
	*(void **)&lib->errormsg = dlsym(lib->library, "pmem_errormsg");
	if (lib->map_file && lib->unmap && lib->has_auto_flush && lib->errormsg)
		return 0;
	dlclose(lib->library);
	return fth_fail(ENOTSUP, "libpmem.so.1 is too old: a function is missing");
}

/*
 * Open and lock. Between the two another process may remove the file, and create another: then the
 * path is opened again. Ends: in each round another process has removed a file.
 */
static int pmem_open_locked(const char *path, int flags, int *fd)
{
	int kind = (flags & O_ACCMODE) == O_RDONLY ? LOCK_SH : LOCK_EX;

	for (;;) {
		*fd = fth_fd_open(path, flags | O_CLOEXEC, 0600);
		if (*fd < 0)
			return fth_fail(-*fd, "%s: %s", path, strerror(-*fd));
		if (flock(*fd, kind | LOCK_NB) < 0)
			return errno == EWOULDBLOCK
				       ? fth_fail(EBUSY,
						  "%s is mapped by another process or object", path)
				       : fth_fail(errno, "%s: %s", path, strerror(errno));
		if (fth_dev_lock_is(*fd, path))
			return 0;
		close(*fd);
	}
}

/* The lock, and the file if it is to be created: libpmem maps whole existing files. */
static int pmem_file(struct fth_pm *pm, const struct pm_request *request)
{
	int flags = (request->readonly ? O_RDONLY : O_RDWR) | (request->create ? O_CREAT : 0);
	const char *path = request->uri->path;
	struct stat st;
	int error, rc = pmem_open_locked(path, flags, &pm->fd);

	if (rc < 0)
		return rc;
	if (fstat(pm->fd, &st) < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	if (st.st_size == 0 && request->create && request->length > 0) {
		/* All blocks: a store into a hole of a full file system raises SIGBUS. */
		error = posix_fallocate(pm->fd, 0, (off_t)request->length);
		if (error) {
			if (ftruncate(pm->fd, 0) < 0)
				error = errno;
			return fth_fail(error, "%s: allocating %" PRIu64 " bytes: %s", path,
					request->length, strerror(error));
		}
		pm->made = true;
		st.st_size = (off_t)request->length;
	}
	if (st.st_size == 0)
		return request->create ? fth_fail(EINVAL, "a size is required to create it")
				       : fth_fail(ENOENT, "%s is empty", path);
	return 0;
}

/* libpmem maps for writing only, so a mapping for reading is made here. */
static int pmem_map_readonly(struct fth_pm *pm, int *is_pmem)
{
	struct stat st;
	void *at = MAP_FAILED;

	if (fstat(pm->fd, &st) == 0)
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC,
			  pm->fd, 0);
	*is_pmem = at != MAP_FAILED;
	if (!*is_pmem && fstat(pm->fd, &st) == 0)
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, pm->fd, 0);
	if (at == MAP_FAILED)
		return fth_fail(errno, "mapping the file: %s", strerror(errno));
	pm->memory = at;
	pm->map_length = (uint64_t)st.st_size;
	return 0;
}

static int pmem_map(struct fth_pm *pm, const char *path, bool *force)
{
	struct libpmem lib = {0};
	size_t mapped = 0;
	int is_pmem = 0, rc = load_libpmem(&lib);

	if (rc < 0)
		return rc;
	if (pm->readonly) {
		rc = pmem_map_readonly(pm, &is_pmem);
	} else {
		pm->memory = lib.map_file(path, 0, 0, 0, &mapped, &is_pmem);
		pm->map_length = mapped;
		if (!pm->memory)
			rc = fth_fail(errno ? errno : EIO, "libpmem: %s", lib.errormsg());
	}
	pm->auto_flush = lib.has_auto_flush() == 1;
	pm->pmem_unmap = pm->readonly ? NULL : lib.unmap;
	if (rc == 0 && !*force && !is_pmem && !pm->readonly)
		rc = fth_fail(ENOTSUP,
			      "%s is not on persistent memory (DAX); ?force=1 uses it anyway, "
			      "file:%s persists by writing to the disk",
			      path, path);
	*force = *force || !is_pmem; /* as far as the guarantee goes */
	/* libpmem stays loaded: a second dlopen() finds it. */
	return rc;
}

static void pmem_describe(struct fth_pm *pm, bool force)
{
	pm->view.mode = FTH_PM_MODE_FLUSH;
	pm->view.line = pm->auto_flush && !force ? FTH_PM_LINE_NONE : pm_best_line();
	if (force) {
		pm->guarantee = FTH_PM_EXIT;
		snprintf(pm->text, sizeof(pm->text),
			 "Forced: the processor's caches are written back, but the file is in the "
			 "page cache. Stores survive the end of the process, not a power loss.");
		return;
	}
	pm->guarantee = FTH_PM_POWER;
	snprintf(pm->text, sizeof(pm->text),
		 "Persistent memory (DAX): persisted data survives a power loss. %s",
		 pm->auto_flush ? "The processor's caches are durable too (eADR)."
				: "Persist writes the processor's caches back.");
}

static int pmem_open_kind(struct fth_pm *pm, const struct pm_request *request)
{
	bool force = false;
	int rc = fth_uri_take_bool(request->uri, "force", &force);

	if (rc >= 0)
		rc = fth_uri_finish(request->uri);
	if (rc == 0)
		rc = pmem_file(pm, request);
	if (rc == 0)
		rc = pmem_map(pm, request->uri->path, &force);
	/* libpmem opens the path by itself. */
	if (rc == 0 && !fth_dev_lock_is(pm->fd, request->uri->path)) {
		pm->made = false; /* what has the name now is not ours to remove */
		rc = fth_fail(EBUSY, "%s was replaced while it was mapped", request->uri->path);
	}
	pm->length = pm->map_length & ~(uint64_t)(FTH_PM_PAGE - 1);
	if (rc == 0)
		pmem_describe(pm, force);
	return rc;
}

static void pmem_discard(const struct pm_request *request)
{
	unlink(request->uri->path);
}

static int pmem_close(struct fth_pm *pm)
{
	if (pm->memory && pm->pmem_unmap)
		pm->pmem_unmap(pm->memory, pm->map_length);
	else if (pm->memory)
		munmap(pm->memory, pm->map_length);
	if (pm->fd >= 0)
		close(pm->fd);
	return 0;
}

static int pmem_remove(const char *name, struct fth_uri *uri, int looked)
{
	int fd, rc = pmem_open_locked(uri->path, O_RDWR, &fd);

	(void)name;
	if (rc == 0)
		rc = pm_remove_check(fd, looked);
	if (rc == 0 && unlink(uri->path) < 0)
		rc = fth_fail(errno, "%s: %s", uri->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

const struct pm_kind pm_kind_pmem = {.id = FTH_PM_KIND_PMEM,
				     .open = pmem_open_kind,
				     .close = pmem_close,
				     .remove = pmem_remove,
				     .discard = pmem_discard};
