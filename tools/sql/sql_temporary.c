/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directories of sessions without a database. A process that is killed leaves its own; the next
 * session removes it.
 *
 *  1. The process that uses a directory holds a lock on it. The kernel releases the lock when the
 *     process ends.
 *  2. Only a process that has got the lock removes the directory. If that happens between the
 *     creation of a directory and its lock, its creator does not get the lock, or finds the name
 *     gone, and creates another one.
 */
#include "sql_temporary.h"

#include "commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX	 "fathom-sql-session-"
#define TEMPLATE PREFIX "XXXXXX"
#define TRIES	 16u

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *place)
{
	(void)stat;
	(void)type;
	(void)place;
	return remove(path);
}

static int remove_folder(const char *folder)
{
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Only names that mkdtemp() makes here: a database of the user's may begin alike. */
static bool is_name(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strlen(name) == strlen(TEMPLATE);
}

/*
 * A descriptor of the directory with its lock; or -1: another process has it, or there is none of
 * this user.
 */
static int lock_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat open_one, named;

	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &open_one) == 0 &&
	    lstat(folder, &named) == 0 && open_one.st_ino == named.st_ino &&
	    open_one.st_dev == named.st_dev && open_one.st_uid == geteuid() &&
	    (open_one.st_mode & 0777) == 0700)
		return fd;
	close(fd);
	return -1;
}

/* What cannot be removed is left: another session may be able to. */
static void remove_stale(const char *base)
{
	DIR *dir = opendir(base);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		char *folder;
		int fd;

		if (!is_name(entry->d_name) || asprintf(&folder, "%s/%s", base, entry->d_name) < 0)
			continue;
		fd = lock_folder(folder);
		if (fd >= 0) {
			remove_folder(folder);
			close(fd);
		}
		free(folder);
	}
	if (dir)
		closedir(dir);
}

int fth_sql_temporary_open(struct fth_sql_temporary *t)
{
	const char *base = getenv("TMPDIR");

	*t = (struct fth_sql_temporary){.lock = -1};
	base = base && *base != 0 ? base : "/tmp";
	remove_stale(base);
	for (unsigned i = 0; i < TRIES && t->lock < 0; i++) {
		free(t->folder);
		t->folder = NULL;
		if (asprintf(&t->folder, "%s/" TEMPLATE, base) < 0) {
			t->folder = NULL;
			fth_cli_error("out of memory");
			return -1;
		}
		if (mkdtemp(t->folder) == NULL)
			break;
		t->lock = lock_folder(t->folder);
	}
	if (t->lock >= 0)
		return 0;
	fth_cli_error("%s: %s", t->folder, strerror(errno));
	free(t->folder);
	t->folder = NULL;
	return -1;
}

void fth_sql_temporary_close(struct fth_sql_temporary *t)
{
	if (remove_folder(t->folder) != 0)
		fth_cli_error("cannot remove %s: %s", t->folder, strerror(errno));
	close(t->lock);
	free(t->folder);
}
