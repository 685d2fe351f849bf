/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/lock.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/uri.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
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

/* ---- the locks of this process ---- */

struct held_lock {
	struct held_lock *next;
	dev_t dev;
	ino_t ino;
	int fd;
};

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER; /* guards held */
static struct held_lock *held;

static int note_lock(int fd)
{
	struct held_lock *lock = calloc(1, sizeof(*lock));
	struct stat st;

	if (!lock)
		return -ENOMEM;
	if (fstat(fd, &st) < 0) {
		free(lock);
		return -errno;
	}
	*lock = (struct held_lock){.dev = st.st_dev, .ino = st.st_ino, .fd = fd};
	pthread_mutex_lock(&held_lock);
	lock->next = held;
	held = lock;
	pthread_mutex_unlock(&held_lock);
	return 0;
}

void fth_dev_unlock(int fd)
{
	if (fd < 0)
		return;
	pthread_mutex_lock(&held_lock);
	for (struct held_lock **link = &held; *link; link = &(*link)->next)
		if ((*link)->fd == fd) {
			struct held_lock *lock = *link;

			*link = lock->next;
			free(lock);
			break;
		}
	close(fd);
	pthread_mutex_unlock(&held_lock);
}

int fth_dev_lock_of(int file_fd)
{
	struct stat st;
	int fd = -1;

	if (fstat(file_fd, &st) < 0)
		return -1;
	pthread_mutex_lock(&held_lock);
	for (const struct held_lock *lock = held; lock && fd < 0; lock = lock->next)
		if (lock->dev == st.st_dev && lock->ino == st.st_ino)
			fd = fcntl(lock->fd, F_DUPFD_CLOEXEC, FTH_FD_MIN);
	pthread_mutex_unlock(&held_lock);
	return fd;
}

/*
 * A thread that had the mutex during fork() is not in the child. The list is complete at any time.
 */
static void locks_forked(void)
{
	pthread_mutex_init(&held_lock, NULL);
}

__attribute__((constructor)) static void locks_watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, locks_forked);
}

/* ---- locking ---- */

/* As flock() with LOCK_NB, but waits a moment for the requests of a process that has just ended. */
static int lock_soon(int fd, int kind)
{
	const struct timespec pause = {0, 2000000};
	uint64_t deadline = fth_deadline_ns(FTH_DEV_LOCK_MS * 1000000u);
	int rc;

	while ((rc = flock(fd, kind | LOCK_NB)) < 0 && errno == EWOULDBLOCK &&
	       fth_now_ns() < deadline)
		nanosleep(&pause, NULL);
	return rc < 0 ? -errno : 0;
}

bool fth_dev_lock_is(int fd, const char *path)
{
	struct stat locked, named;

	return fstat(fd, &locked) == 0 && stat(path, &named) == 0 &&
	       locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

/*
 * Between opening and locking, the holder of the lock may have removed the file, and another may
 * have been created: then the path is opened again. Ends: in each round another process has removed
 * a file.
 */
static int open_locked(const char *path, int kind, int *fd)
{
	for (;;) {
		int rc;

		*fd = fth_fd_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
		if (*fd < 0)
			return *fd;
		rc = lock_soon(*fd, kind);
		if (rc < 0 || fth_dev_lock_is(*fd, path))
			return rc;
		close(*fd);
	}
}

static int lock_path(const char *path, bool exclusive, int *fd)
{
	int rc = open_locked(path, exclusive ? LOCK_EX : LOCK_SH, fd);

	if (*fd < 0)
		return fth_fail(-rc, "%s: %s", path, strerror(-rc));
	if (rc == 0)
		rc = note_lock(*fd);
	if (rc == 0)
		return 0;
	close(*fd);
	*fd = -1;
	return rc == -EWOULDBLOCK
		       ? fth_fail(EBUSY, "%s is in use by another process, volume or cache", path)
		       : fth_fail(-rc, "%s: %s", path, strerror(-rc));
}

int fth_dev_lock_uri(const char *uri, bool exclusive, int *fd)
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
