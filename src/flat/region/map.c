/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/region/map.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Newer than some headers. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define FEATURES_WANTED (UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP)

static int open_faults(struct flat_map *map)
{
	struct uffdio_api api = {.api = UFFD_API, .features = FEATURES_WANTED};

	map->faults = fth_fd_high(
		(int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
	if (map->faults < 0)
		return fth_fail(
			ENOTSUP, "flat: userfaultfd() is not available: %s (%s)", strerror(errno),
			errno == ENOSYS ? "the kernel was built without CONFIG_USERFAULTFD"
					: "before Linux 5.11 it needs sysctl "
					  "vm.unprivileged_userfaultfd=1 or CAP_SYS_PTRACE; in a "
					  "container, the seccomp profile must allow it");
	if (ioctl(map->faults, UFFDIO_API, &api) < 0)
		return fth_fail(ENOTSUP, "flat: this kernel's userfaultfd() lacks required "
					 "features; Linux 5.11 or later is needed");
	return 0;
}

/*
 * A child has no such memory, unless it is to inherit it; no huge page takes memory for its
 * neighbours.
 */
static int advise_memory(const struct flat_map *map, void *at, uint64_t size)
{
	if (!map->inherited && madvise(at, size, MADV_DONTFORK) < 0)
		return fth_fail(errno, "flat: madvise: %s", strerror(errno));
	(void)madvise(at, size, MADV_NOHUGEPAGE);
	return 0;
}

static int reserve(struct flat_map *map, bool readonly)
{
	int protection = readonly ? PROT_READ : PROT_READ | PROT_WRITE;

	map->reserved_size = map->size + map->page;
	map->reserved = mmap(NULL, map->reserved_size, protection,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map->reserved == MAP_FAILED) {
		map->reserved = NULL;
		return fth_fail(errno, "flat: cannot reserve %llu bytes of address space: %s",
				(unsigned long long)map->reserved_size, strerror(errno));
	}
	map->user = (uint8_t *)(((uintptr_t)map->reserved + map->page - 1) & ~(map->page - 1));
	return advise_memory(map, map->reserved, map->reserved_size);
}

static int watch(struct flat_map *map, void *at, uint64_t size)
{
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t)at, .len = size},
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
	};

	if (ioctl(map->faults, UFFDIO_REGISTER, &reg) < 0)
		return fth_fail(ENOTSUP, "flat: cannot register the region with userfaultfd: %s",
				strerror(errno));
	return 0;
}

int map_open(struct flat_map *map, uint64_t size, uint64_t page, bool readonly)
{
	int rc;

	*map = (struct flat_map){.size = size, .page = page, .faults = -1, .self = -1};
	rc = open_faults(map);
	if (rc == 0)
		rc = reserve(map, readonly);
	if (rc == 0)
		rc = watch(map, map->user, map->size);
	if (rc < 0)
		map_close(map);
	else /* without it, pages are released one by one */
		map->self = fth_fd_high((int)syscall(SYS_pidfd_open, getpid(), 0));
	return rc;
}

int map_renew(struct flat_map *map, uint64_t page, uint64_t pages)
{
	void *at = map_at(map, page);
	uint64_t size = pages * map->page;
	int rc;

	if (mmap(at, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	rc = advise_memory(map, at, size);
	return rc < 0 ? rc : watch(map, at, size);
}

int map_inherit(struct flat_map *map)
{
	if (madvise(map->reserved, map->reserved_size, MADV_DOFORK) < 0)
		return fth_fail(errno, "flat: madvise: %s", strerror(errno));
	map->inherited = true;
	return 0;
}

/*
 * The numbers of the descriptors stay: they may have been chosen with care. Raw: close() is a point
 * where a thread can be cancelled, and fork() is none.
 */
int map_forked(struct flat_map *map)
{
	int number = map->faults, rc = open_faults(map);

	if (rc == 0 && dup3(map->faults, number, O_CLOEXEC) < 0)
		rc = -errno;
	if (map->faults >= 0)
		(void)syscall(SYS_close, map->faults);
	map->faults = number;
	if (map->self >= 0) {
		int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

		if (self >= 0)
			(void)dup3(self, map->self, O_CLOEXEC);
		(void)syscall(SYS_close, self >= 0 ? self : map->self);
		if (self < 0)
			map->self = -1;
	}
	return rc;
}

int map_watch(struct flat_map *map, uint64_t page, uint64_t pages)
{
	return watch(map, map_at(map, page), pages * map->page);
}

int map_forbid_many(struct flat_map *map, uint64_t page, uint64_t pages)
{
	struct uffdio_writeprotect protect = {
		.range = {.start = (uintptr_t)map_at(map, page), .len = pages * map->page},
		.mode = UFFDIO_WRITEPROTECT_MODE_WP};

	return ioctl(map->faults, UFFDIO_WRITEPROTECT, &protect) < 0 ? -errno : 0;
}

void map_close(struct flat_map *map)
{
	if (map->reserved)
		munmap(map->reserved, map->reserved_size);
	if (map->faults >= 0)
		close(map->faults);
	if (map->self >= 0)
		close(map->self);
	*map = (struct flat_map){.faults = -1, .self = -1};
}

static struct uffdio_range range_of(const struct flat_map *map, uint64_t page)
{
	return (struct uffdio_range){.start = (uintptr_t)(map->user + page * map->page),
				     .len = map->page};
}

int map_put(struct flat_map *map, uint64_t page, const void *from, bool writable)
{
	struct uffdio_copy put = {.dst = (uintptr_t)map_at(map, page),
				  .src = (uintptr_t)from,
				  .len = map->page,
				  .mode = writable ? 0 : UFFDIO_COPY_MODE_WP};

	return ioctl(map->faults, UFFDIO_COPY, &put) < 0 ? -errno : 0;
}

int map_put_many(struct flat_map *map, uint64_t page, const void *from, unsigned count)
{
	struct uffdio_copy put = {.dst = (uintptr_t)map_at(map, page),
				  .src = (uintptr_t)from,
				  .len = count * map->page,
				  .mode = UFFDIO_COPY_MODE_WP};

	int error, done;

	if (ioctl(map->faults, UFFDIO_COPY, &put) == 0)
		return (int)count;
	error = errno;
	done = put.copy > 0 ? (int)((uint64_t)put.copy / map->page) : 0;
	(void)map_take(map, page + (unsigned)done); /* a part of it may be there */
	return done > 0 ? done : -error;
}

static int set_protection(struct flat_map *map, uint64_t page, uint64_t mode)
{
	struct uffdio_writeprotect protect = {.range = range_of(map, page), .mode = mode};

	return ioctl(map->faults, UFFDIO_WRITEPROTECT, &protect) < 0 ? -errno : 0;
}

int map_allow_stores(struct flat_map *map, uint64_t page)
{
	return set_protection(map, page, 0);
}

int map_forbid_stores(struct flat_map *map, uint64_t page)
{
	return set_protection(map, page, UFFDIO_WRITEPROTECT_MODE_WP);
}

int map_take(struct flat_map *map, uint64_t page)
{
	return madvise(map_at(map, page), map->page, MADV_DONTNEED) < 0 ? -errno : 0;
}

unsigned map_take_many(struct flat_map *map, const uint64_t *pages, unsigned n)
{
	struct iovec ranges[MAP_TAKE_MAX];
	unsigned done = 0;

	for (unsigned i = 0; i < n; i++)
		ranges[i] = (struct iovec){.iov_base = map_at(map, pages[i]), .iov_len = map->page};
	if (map->self >= 0 && n > 1) {
		ssize_t bytes =
			syscall(SYS_process_madvise, map->self, ranges, n, MADV_DONTNEED, 0);

		done = bytes > 0 ? (unsigned)((uint64_t)bytes / map->page) : 0;
	}
	/* older kernels refuse it for the caller's own memory */
	while (done < n && map_take(map, pages[done]) == 0)
		done++;
	return done;
}
