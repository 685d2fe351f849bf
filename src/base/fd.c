/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that are never 0, 1 or 2; the header says why.
 *
 * Linux has no call that opens a file at a given number or above: only F_DUPFD takes a minimum, and
 * it needs a descriptor to begin with. So closed descriptors among 0 to 2 are occupied before a
 * file is opened, rather than only left afterwards: in between, another thread could print into
 * the file. What occupies them is opened with O_PATH, which refuses all reads and writes with
 * EBADF, exactly as a closed descriptor does. They are given back afterwards, because a program
 * that has closed them may count on getting them from its next open(); keeping them for good
 * belongs to programs, not to a library.
 *
 * Two races are left, both with a program that changes 0 to 2 in another thread just then. It may
 * close one after the check below: fth_fd_high() then still moves the new descriptor away. And it
 * may put a file of its own in place of ours with dup2(): release_low() looks before it closes.
 *
 * Invariant: `occupied` has bit n set exactly when this file opened descriptor n, and it is 0 while
 * `holders` is 0. Both are guarded by `lock`. A count, not the lock, is held while somebody opens,
 * since opening a device may take long. A child of fork() begins with neither.
 */
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned holders;
static unsigned occupied;

int fth_fd_high(int fd)
{
	int high, err;

	if (fd < 0)
		return -errno;
	if (fd >= FTH_FD_MIN)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FTH_FD_MIN);
	err = errno;
	close(fd);
	errno = err;
	return high < 0 ? -err : high;
}

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

/* The lowest free number comes first, so each open() fills one gap until there is none. */
static void occupy_low(void)
{
	while (is_closed(0) || is_closed(1) || is_closed(2)) {
		int fd = open("/", O_PATH | O_CLOEXEC);

		if (fd < 0)
			return; /* no descriptors left: opening the file will fail as well */
		if (fd >= FTH_FD_MIN) {
			close(fd); /* another thread has just filled the gap */
			return;
		}
		occupied |= 1u << fd;
	}
}

static void release_low(void)
{
	for (int fd = 0; fd < FTH_FD_MIN; fd++) {
		int flags = occupied & (1u << fd) ? fcntl(fd, F_GETFL) : -1;

		if (flags >= 0 && (flags & O_PATH))
			close(fd);
	}
	occupied = 0;
}

void fth_fd_reserve(void)
{
	pthread_mutex_lock(&lock);
	holders++;
	occupy_low();
	pthread_mutex_unlock(&lock);
}

void fth_fd_release(void)
{
	int err = errno;

	pthread_mutex_lock(&lock);
	if (--holders == 0 && occupied)
		release_low();
	pthread_mutex_unlock(&lock);
	errno = err;
}

/* In a child, without the threads that opened something during fork(). */
static void fd_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	holders = 0;
	release_low();
}

__attribute__((constructor)) static void fd_watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, fd_forked);
}

int fth_fd_open(const char *path, int flags, unsigned mode)
{
	int fd;

	fth_fd_reserve();
	fd = fth_fd_high(open(path, flags, (mode_t)mode));
	fth_fd_release();
	return fd;
}
