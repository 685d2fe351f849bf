/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any device URI. The memory is a memfd, read from the device at map time; write_back.c writes it.
 * A memfd, since CUDA can register it.
 */
#include "pm/pm_internal.h"
#include "dev/lock.h"
#include "pm/map/header.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define READ_CHUNK (4u << 20)
#define TMPFS	   0x01021994
#define RAMFS	   0x858458f6

/* ---- what the device keeps ---- */

static enum fth_pm_guarantee guarantee_of(const char *text);

/* URIs behind each other with commas: the weakest. */
static enum fth_pm_guarantee weakest_of(const char *list)
{
	enum fth_pm_guarantee weakest = FTH_PM_POWER, one;
	int depth = 0;

	for (const char *at = list, *from = list; weakest > FTH_PM_VOLATILE; at++) {
		depth += (*at == '(') - (*at == ')');
		if (*at == '\0' || (*at == ',' && depth == 0)) {
			char *part = strndup(from, (size_t)(at - from));

			one = part ? guarantee_of(part) : FTH_PM_VOLATILE;
			free(part);
			weakest = one < weakest ? one : weakest;
			from = at + 1;
		}
		if (*at == '\0')
			break;
	}
	return weakest;
}

static enum fth_pm_guarantee guarantee_of_file(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs) == 0 && (fs.f_type == TMPFS || fs.f_type == RAMFS))
		return FTH_PM_EXIT;
	return FTH_PM_POWER;
}

/* Recursion ends: fth_uri_parse() refuses nesting above FTH_URI_NESTING_MAX. */
static enum fth_pm_guarantee guarantee_of(const char *text)
{
	enum fth_pm_guarantee result = FTH_PM_POWER;
	struct fth_uri uri;

	if (fth_uri_parse(&uri, text) < 0)
		return FTH_PM_VOLATILE;
	if (uri.inner)
		result = weakest_of(uri.inner);
	else if (strcmp(uri.scheme, "mem") == 0)
		result = FTH_PM_VOLATILE;
	else if (strcmp(uri.scheme, "file") == 0)
		result = guarantee_of_file(uri.path);
	fth_uri_release(&uri);
	return result;
}

static void describe(struct fth_pm *pm)
{
	static const char *const texts[] = {
		"Persisted data is written and flushed to a device in memory of this process: it "
		"survives nothing.",
		"Persisted data is written to a file system in memory: it survives the end of the "
		"process, but not a restart of the machine.",
		"Persisted data survives a power loss: it is written to the device, and the device "
		"is flushed, before persist returns.",
	};

	/* What the device says, and what its name says about the devices inside: the weaker. */
	static const enum fth_pm_guarantee of_keeps[] = {
		[FTH_DEV_KEEPS_POWER] = FTH_PM_POWER,
		[FTH_DEV_KEEPS_EXIT] = FTH_PM_EXIT,
		[FTH_DEV_KEEPS_NOTHING] = FTH_PM_VOLATILE,
	};
	enum fth_pm_guarantee keeps = of_keeps[fth_dev_info(pm->dev)->keeps];

	pm->guarantee = guarantee_of(fth_dev_uri(pm->dev));
	if (keeps < pm->guarantee)
		pm->guarantee = keeps;
	snprintf(pm->text, sizeof(pm->text), "%s", texts[pm->guarantee]);
}

/* ---- opening ---- */

/* Whether the name is a plain file to be created here, and not by options of its own. */
static bool is_ours_to_create(const struct pm_request *request)
{
	const struct fth_uri *uri = request->uri;

	if (!request->create || request->length == 0 || strcmp(uri->scheme, "file") != 0 ||
	    !uri->path)
		return false;
	for (unsigned i = 0; i < uri->option_count; i++)
		if (strcmp(uri->options[i].key, "create") == 0 ||
		    strcmp(uri->options[i].key, "size") == 0)
			return false;
	return true;
}

static int touch_file(const char *path)
{
	int fd = fth_fd_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return fth_fail(-fd, "%s: %s", path, strerror(-fd));
	close(fd);
	return 0;
}

static int allocate_file(int fd, uint64_t length)
{
	if (fallocate(fd, 0, 0, (off_t)length) == 0)
		return 0;
	if (errno != EOPNOTSUPP)
		return -errno;
	return ftruncate(fd, (off_t)length) == 0 ? 0 : -errno;
}

/*
 * Under the lock, all blocks of a new file: a full disk is an error now, and not of a later
 * persist.
 */
static int size_file(struct fth_pm *pm, const char *path, uint64_t length)
{
	int fd = fth_fd_open(path, O_RDWR | O_CLOEXEC, 0), rc = 0;
	struct stat st;

	if (fd < 0)
		return fth_fail(-fd, "%s: %s", path, strerror(-fd));
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0) {
		rc = allocate_file(fd, length);
		pm->made = true; /* discard() removes it after an error */
	}
	close(fd);
	if (rc == 0)
		return 0;
	return fth_fail(-rc, "%s: allocating %" PRIu64 " bytes: %s", path, length, strerror(-rc));
}

static int open_unlocked(struct fth_pm *pm, const char *name)
{
	int rc = fth_dev_open_flags(name, pm->readonly ? FTH_DEV_READONLY : 0, &pm->dev);

	pm->owns_dev = rc == 0;
	return rc;
}

static int lock_file(struct fth_pm *pm, const char *name)
{
	return fth_dev_lock_uri(name, !pm->readonly, &pm->lock_fd);
}

/* The file of a name with create=on: opening the device creates it. */
static int create_and_lock(struct fth_pm *pm, const char *name)
{
	int rc = open_unlocked(pm, name);

	if (rc < 0)
		return rc;
	fth_dev_close(pm->dev);
	pm->dev = NULL;
	pm->owns_dev = false;
	return lock_file(pm, name);
}

/* Another process may have made the file and not yet its size. */
static int check_begun(const struct fth_pm *pm, const struct pm_request *request)
{
	struct stat st;

	if (request->create || pm->lock_fd < 0 || fstat(pm->lock_fd, &st) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_size > 0)
		return 0;
	return fth_fail(ENOENT, "empty: creation was interrupted");
}

/*
 * The lock comes first: while it is held, no process that uses these locks removes the file, so the
 * device opens the file that is locked.
 */
static int open_device(struct fth_pm *pm, const struct pm_request *request)
{
	bool ours = is_ours_to_create(request);
	int rc = ours ? touch_file(request->uri->path) : 0;

	if (rc == 0)
		rc = lock_file(pm, request->name);
	if (rc == -ENOENT && request->create && !ours)
		rc = create_and_lock(pm, request->name);
	if (rc == 0)
		rc = check_begun(pm, request);
	if (rc == 0 && ours)
		rc = size_file(pm, request->uri->path, request->length);
	return rc < 0 ? rc : open_unlocked(pm, request->name);
}

static int check_device(const struct fth_dev_info *info)
{
	if (info->block > FTH_PM_PAGE)
		return fth_fail(ENOTSUP, "the device has blocks of %u bytes, the maximum is %u",
				info->block, FTH_PM_PAGE);
	if (info->size < FTH_PM_HEADER + FTH_PM_PAGE)
		return fth_fail(EBADMSG,
				"the device has %" PRIu64
				" bytes, too small for a header and a page",
				info->size);
	return 0;
}

/*
 * As much as the header says, or is asked for, and not all of a large device: what is behind is
 * neither read nor written. A creation that was interrupted has written to the header only.
 */
static int drained_length(struct fth_pm *pm, const struct pm_request *request)
{
	uint64_t most = fth_dev_info(pm->dev)->size & ~(uint64_t)(FTH_PM_PAGE - 1);
	uint64_t deadline = fth_deadline_ns(pm->timeout_ms * UINT64_C(1000000));
	uint8_t page[FTH_PM_HEADER];
	struct pm_header h;
	int rc = fth_dev_read(pm->dev, page, sizeof(page), 0, deadline);

	if (rc < 0)
		return fth_fail_in(rc, "reading the header");
	memcpy(&h, page, sizeof(h));
	pm->length = most;
	if (h.magic == PM_HEADER_MAGIC && h.length % FTH_PM_PAGE == 0 && h.length > FTH_PM_HEADER &&
	    h.length < most)
		pm->length = h.length;
	else if (h.magic != PM_HEADER_MAGIC && request->length > 0 && request->length < most)
		pm->length = request->length;
	else if (h.magic == PM_HEADER_CREATING && request->length == 0)
		pm->length = FTH_PM_HEADER + FTH_PM_PAGE;
	return 0;
}

static int drained_memory(struct fth_pm *pm)
{
	void *at;

	fth_fd_reserve();
	pm->fd = fth_fd_high(memfd_create("fathom-pm", MFD_CLOEXEC));
	fth_fd_release();
	if (pm->fd < 0)
		return fth_fail(-pm->fd, "memfd_create: %s", strerror(-pm->fd));
	if (ftruncate(pm->fd, (off_t)pm->length) < 0)
		return fth_fail(errno, "cannot allocate %" PRIu64 " bytes: %s", pm->length,
				strerror(errno));
	at = mmap(NULL, pm->length, PROT_READ | PROT_WRITE, MAP_SHARED, pm->fd, 0);
	if (at == MAP_FAILED)
		return fth_fail(errno, "mapping %" PRIu64 " bytes: %s", pm->length,
				strerror(errno));
	pm->memory = at;
	pm->map_length = pm->length;
	return 0;
}

static int drained_read(struct fth_pm *pm)
{
	for (uint64_t at = 0; at < pm->length;) {
		uint64_t n = pm->length - at < READ_CHUNK ? pm->length - at : READ_CHUNK;
		int rc = fth_dev_read(pm->dev, pm->memory + at, n, at,
				      fth_deadline_ns(pm->timeout_ms * UINT64_C(1000000)));

		if (rc < 0)
			return fth_fail_in(rc, "reading the device");
		at += n;
	}
	if (pm->readonly && mprotect(pm->memory, pm->length, PROT_READ) < 0)
		return fth_fail(errno, "mprotect: %s", strerror(errno));
	return 0;
}

static int drained_open(struct fth_pm *pm, const struct pm_request *request)
{
	int rc = pm->dev ? 0 : open_device(pm, request);

	if (rc == 0)
		rc = check_device(fth_dev_info(pm->dev));
	if (rc == 0)
		rc = drained_length(pm, request);
	if (rc == 0)
		rc = drained_memory(pm);
	if (rc == 0)
		rc = drained_read(pm);
	if (rc < 0)
		return rc;
	pm->view.mode = FTH_PM_MODE_WRITE_BACK;
	describe(pm);
	return 0;
}

/* Still locked. Only of a plain file: see is_ours_to_create(). */
static void drained_discard(const struct pm_request *request)
{
	unlink(request->uri->path);
}

static int drained_close(struct fth_pm *pm)
{
	if (pm->memory)
		munmap(pm->memory, pm->map_length);
	if (pm->fd >= 0)
		close(pm->fd);
	if (pm->owns_dev)
		fth_dev_close(pm->dev);
	fth_dev_unlock(pm->lock_fd);
	return 0;
}

/* ---- removing ---- */

static int zero_device(const char *name)
{
	struct fth_pm *pm;
	struct fth_dev *dev;
	uint64_t length;
	int rc = pm_map_unfinished(name, &pm);

	if (rc < 0)
		return rc;
	length = pm->view.size + FTH_PM_HEADER;
	dev = pm->dev; /* mapped, so that nobody else maps it meanwhile */
	/* The header last: until then the memory is there, and can be removed again. */
	rc = fth_dev_zero(dev, length - FTH_PM_HEADER, FTH_PM_HEADER, FTH_NEVER);
	if (rc == 0)
		rc = fth_dev_flush(dev, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_dev_zero(dev, FTH_PM_HEADER, 0, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_dev_flush(dev, FTH_DEV_TIMEOUT);
	fth_pm_unmap(pm);
	return rc;
}

static int drained_remove(const char *name, struct fth_uri *uri, int looked)
{
	bool file = strcmp(uri->scheme, "file") == 0 && uri->path;
	struct stat st;
	int fd, rc;

	/* Not by its device: another process may be making a file of this name. */
	if (file && lstat(uri->path, &st) < 0)
		return fth_fail(errno, "%s", strerror(errno));
	/* Other files, such as a disk or a link to one, keep their name. */
	if (!file || !S_ISREG(st.st_mode))
		return zero_device(name);
	rc = fth_dev_lock_uri(name, true, &fd);
	if (rc == 0)
		rc = pm_remove_check(fd, looked);
	if (rc == 0 && unlink(uri->path) < 0)
		rc = fth_fail(errno, "%s: %s", uri->path, strerror(errno));
	fth_dev_unlock(fd);
	return rc;
}

const struct pm_kind pm_kind_drained = {.id = FTH_PM_KIND_DRAINED,
					.open = drained_open,
					.close = drained_close,
					.remove = drained_remove,
					.discard = drained_discard};
