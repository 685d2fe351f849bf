/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables in a directory: a folder for each, with
 *
 *	manifest	replaced by rename
 *	data		chunks; grows at its end
 *	lock		locked with flock() by the writer
 *
 * A table appears and goes with one rename of its folder. Names that begin with a dot are folders
 * on their way in or out; the next create or remove deletes those that no process is using.
 *
 * 1. Bytes of `data` before the end that the manifest states never change.
 * 2. The manifest is replaced only after all bytes it refers to are durable.
 * 3. Bytes behind that end belong to the process that holds the lock.
 */
#include "table/place/place_dir.h"

#include "table/format.h"
#include "table/place/manifest.h"
#include "table/place/names.h"
#include "table/place/place.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/uri.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_END BATCH_ALIGN /* of an empty table: a device needs a block */

struct dir_place {
	struct place base;
	char *path;
};

struct dir_output {
	struct output base;
	struct dir_place *place;
	char name[FTH_TABLE_NAME_MAX + 1];
	int folder, lock, data;
	uint64_t committed; /* bytes of data that readers may use; 0: not begun */
	uint64_t end;
};

static int fail_on(const char *what, const char *name)
{
	int err = errno;

	return fth_fail(err, "%s: %s: %s", name, what, strerror(err));
}

/* ---- faults for tests ---- */

static atomic_int fault_in, fault_errno;

void place_dir_fail(int nth, int err)
{
	atomic_store(&fault_errno, err);
	atomic_store(&fault_in, nth);
}

int place_dir_fail_left(void)
{
	return atomic_load(&fault_in);
}

/* True if this change of the directory is the one that fails; errno is set. */
static bool faulty(void)
{
	if (atomic_load(&fault_in) <= 0 || atomic_fetch_sub(&fault_in, 1) != 1)
		return false;
	errno = atomic_load(&fault_errno);
	return true;
}

static int try_write(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
	const char *at = data;

	if (faulty())
		return -1;
	while (bytes) {
		ssize_t n = pwrite(fd, at, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += n;
		offset += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

static int try_sync(int fd)
{
	return faulty() ? -1 : fsync(fd);
}

static int try_rename(int from_folder, const char *from, int to_folder, const char *to)
{
	return faulty() ? -1 : renameat(from_folder, from, to_folder, to);
}

/* ---- small files ---- */

static int open_in(int folder, const char *name, int flags)
{
	int fd;

	fth_fd_reserve();
	fd = fth_fd_high(openat(folder, name, flags | O_CLOEXEC, 0666));
	fth_fd_release();
	return fd;
}

static int open_folder(const struct dir_place *place, const char *name)
{
	char *path;
	int fd;

	if (asprintf(&path, "%s%s%s", place->path, name ? "/" : "", name ? name : "") < 0)
		return -ENOMEM;
	fd = fth_fd_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd == -ENOENT)
		fd = fth_fail(ENOENT, "%s: no such table in %s", name ? name : "", place->path);
	else if (fd < 0)
		fd = fth_fail(-fd, "%s: %s", path, strerror(-fd));
	free(path);
	return fd;
}

static int write_small(int folder, const char *name, const struct blob *blob)
{
	int fd = open_in(folder, name, O_WRONLY | O_CREAT | O_TRUNC), rc = 0;

	if (fd < 0)
		return fail_on("cannot create it", name);
	if (try_write(fd, blob->bytes, blob->length, 0) < 0)
		rc = fail_on("cannot write it", name);
	if (rc == 0 && try_sync(fd) < 0)
		rc = fail_on("cannot make it durable", name);
	close(fd);
	return rc;
}

static int read_all(int fd, char *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, to + done, bytes - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		done += (size_t)n;
	}
	return 0;
}

static int read_small(int folder, const char *name, const struct fth_table_memory *memory,
		      struct blob *blob)
{
	int fd = open_in(folder, name, O_RDONLY), rc = 0;
	struct stat st;

	if (fd < 0)
		return fail_on("cannot open it", name);
	if (fstat(fd, &st) < 0)
		rc = -errno;
	blob->length = rc == 0 ? (size_t)st.st_size : 0;
	blob->bytes = NULL;
	if (rc == 0 && !(blob->bytes = memory->alloc(memory->user, blob->length + 1)))
		rc = -ENOMEM;
	if (rc == 0)
		rc = read_all(fd, blob->bytes, blob->length);
	close(fd);
	if (rc < 0 && blob->bytes)
		memory->release(memory->user, blob->bytes, blob->length + 1);
	return rc;
}

/* ---- the place ---- */

static struct dir_place *dir_place(struct place *place)
{
	return (struct dir_place *)(void *)place;
}

static void dir_close(struct place *place)
{
	free(dir_place(place)->path);
	free(place);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_table(const struct dirent *entry)
{
	return table_name_valid(entry->d_name);
}

static int dir_list(struct place *place, int (*visit)(const char *name, void *user), void *user)
{
	struct dirent **entries;
	int n = scandir(dir_place(place)->path, &entries, is_table, by_name), rc = 0;

	if (n < 0)
		return fail_on("cannot list it", dir_place(place)->path);
	for (int i = 0; i < n; i++) {
		char *path;

		if (rc == 0 && asprintf(&path, "%s/%s/manifest", dir_place(place)->path,
					entries[i]->d_name) >= 0) {
			if (access(path, F_OK) == 0)
				rc = visit(entries[i]->d_name, user);
			free(path);
		}
		free(entries[i]);
	}
	free(entries);
	return rc;
}

static void delete_folder(int parent, const char *name)
{
	static const char *const files[] = {"manifest", "manifest.new", "data", "lock"};
	int folder = open_in(parent, name, O_RDONLY | O_DIRECTORY);

	for (size_t i = 0; folder >= 0 && i < sizeof(files) / sizeof(*files); i++)
		unlinkat(folder, files[i], 0);
	if (folder >= 0)
		close(folder);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* A name with a dot that no other process or thread uses. */
static void hidden_name(char out[64])
{
	static atomic_uint counter;

	snprintf(out, 64, ".table-%ld-%u", (long)getpid(), atomic_fetch_add(&counter, 1));
}

/* Delete what processes that are gone left behind. */
static void delete_leftovers(int parent)
{
	DIR *dir = fdopendir(dup(parent));
	struct dirent *entry;
	long pid;

	if (!dir)
		return;
	rewinddir(dir);
	while ((entry = readdir(dir)))
		if (sscanf(entry->d_name, ".table-%ld-", &pid) == 1 && pid != (long)getpid() &&
		    kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			delete_folder(parent, entry->d_name);
	closedir(dir);
}

static int fill_folder(int folder, const struct blob *manifest)
{
	static const char zeroes[FIRST_END];
	struct blob data = {(void *)(uintptr_t)zeroes, sizeof(zeroes)}, lock = {NULL, 0};
	int rc = write_small(folder, "data", &data);

	if (rc == 0)
		rc = write_small(folder, "lock", &lock);
	if (rc == 0)
		rc = write_small(folder, "manifest", manifest);
	if (rc == 0 && try_sync(folder) < 0)
		rc = fail_on("cannot make it durable", "a new table");
	return rc;
}

static int create_in(int parent, const char *name, const struct blob *manifest)
{
	char hidden[64];
	int folder, rc;

	hidden_name(hidden);
	delete_leftovers(parent);
	if (mkdirat(parent, hidden, 0777) < 0)
		return fail_on("cannot create it", name);
	folder = open_in(parent, hidden, O_RDONLY | O_DIRECTORY);
	rc = folder < 0 ? folder : fill_folder(folder, manifest);
	if (folder >= 0)
		close(folder);
	/* RENAME_NOREPLACE: a table that another process made meanwhile stays. */
	if (rc == 0 && (faulty() || renameat2(parent, hidden, parent, name, RENAME_NOREPLACE) < 0))
		rc = errno == EEXIST ? fth_fail(EEXIST, "%s: the table already exists", name)
				     : fail_on("cannot rename it into place", name);
	if (rc < 0)
		delete_folder(parent, hidden);
	else if (try_sync(parent) < 0)
		rc = fail_on("cannot make it durable", name);
	return rc;
}

static int dir_create(struct place *place, const char *name, const struct blob *manifest)
{
	int parent = open_folder(dir_place(place), NULL), rc;

	if (parent < 0)
		return parent;
	if (faccessat(parent, name, F_OK, 0) == 0)
		rc = fth_fail(EEXIST, "%s: the table already exists", name);
	else
		rc = create_in(parent, name, manifest);
	close(parent);
	return rc;
}

static int lock_table(int folder, const char *name)
{
	int lock = open_in(folder, "lock", O_RDWR | O_CREAT), rc = 0;

	if (lock < 0)
		return fail_on("cannot open its lock file", name);
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		rc = errno == EWOULDBLOCK
			     ? fth_fail(EBUSY, "%s: another writer has the table open", name)
			     : fail_on("cannot lock it", name);
	if (rc < 0)
		close(lock);
	return rc < 0 ? rc : lock;
}

static int remove_locked(int parent, const char *name)
{
	char hidden[64];

	hidden_name(hidden);
	if (try_rename(parent, name, parent, hidden) < 0)
		return fail_on("cannot remove it", name);
	if (try_sync(parent) < 0)
		return fail_on("cannot make its removal durable", name);
	delete_folder(parent, hidden);
	return 0;
}

static int dir_remove(struct place *place, const char *name)
{
	int folder = open_folder(dir_place(place), name), parent, lock, rc;

	if (folder < 0)
		return folder;
	lock = lock_table(folder, name);
	close(folder);
	if (lock < 0)
		return lock;
	parent = open_folder(dir_place(place), NULL);
	rc = parent < 0 ? parent : remove_locked(parent, name);
	if (parent >= 0) {
		delete_leftovers(parent);
		close(parent);
	}
	close(lock);
	return rc;
}

static int dir_read(struct place *place, const char *name, const struct fth_table_memory *memory,
		    struct blob *manifest)
{
	int folder = open_folder(dir_place(place), name), rc;

	if (folder < 0)
		return folder;
	rc = read_small(folder, "manifest", memory, manifest);
	close(folder);
	return rc < 0 ? fth_fail_in(rc, name) : 0;
}

static int dir_open_file(struct place *place, const char *name, uint64_t id, uint32_t file,
			 uint64_t bytes, struct fth_dev **out)
{
	char path[PATH_MAX], escaped[PATH_MAX * 3 + 1], uri[PATH_MAX * 3 + 64];
	int rc;

	(void)id;
	(void)file;
	if (snprintf(path, sizeof(path), "%s/%s/data", dir_place(place)->path, name) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	rc = fth_uri_escape(path, escaped, sizeof(escaped));
	if (rc < 0)
		return rc;
	snprintf(uri, sizeof(uri), "file:%s", escaped);
	rc = fth_dev_open_flags(uri, FTH_DEV_READONLY, out);
	if (rc == 0 && fth_dev_info(*out)->size < bytes) {
		rc = fth_fail(EBADMSG, "%s has %llu bytes, the manifest needs %llu", path,
			      (unsigned long long)fth_dev_info(*out)->size,
			      (unsigned long long)bytes);
		fth_dev_close(*out);
		*out = NULL;
	}
	return rc;
}

/* ---- writing ---- */

static struct dir_output *dir_output(struct output *output)
{
	return (struct dir_output *)(void *)output;
}

static int output_read(struct output *output, struct blob *manifest)
{
	static const struct fth_table_memory *memory = &table_malloc;

	return read_small(dir_output(output)->folder, "manifest", memory, manifest);
}

static int output_begin(struct output *output, uint64_t id, uint32_t files, uint64_t end)
{
	struct dir_output *o = dir_output(output);

	(void)id;
	o->end = files ? end : FIRST_END;
	/* Behind the end is what an interrupted writer left. */
	if (faulty() || ftruncate(o->data, (off_t)o->end) < 0)
		return fail_on("cannot truncate its data", o->name);
	o->committed = o->end;
	return 0;
}

static int output_reserve(struct output *output, uint64_t bytes, uint32_t *file, uint64_t *offset)
{
	*file = 0;
	*offset = dir_output(output)->end;
	dir_output(output)->end += bytes;
	return 0;
}

static int output_write(struct output *output, uint32_t file, const void *data, uint64_t bytes,
			uint64_t offset)
{
	(void)file;
	if (try_write(dir_output(output)->data, data, bytes, offset) < 0)
		return fail_on("cannot write its data", dir_output(output)->name);
	return 0;
}

static uint32_t output_files(struct output *output)
{
	(void)output;
	return 1;
}

static uint64_t output_file_bytes(struct output *output, uint32_t file)
{
	(void)file;
	return dir_output(output)->end;
}

static int output_commit(struct output *output, const struct blob *manifest)
{
	struct dir_output *o = dir_output(output);
	int rc;

	if (try_sync(o->data) < 0)
		return fail_on("cannot make its data durable", o->name);
	rc = write_small(o->folder, "manifest.new", manifest);
	if (rc < 0)
		return fth_fail_in(rc, o->name);
	if (try_rename(o->folder, "manifest.new", o->folder, "manifest") < 0)
		return fail_on("cannot rename its manifest into place", o->name);
	o->committed = o->end;
	if (try_sync(o->folder) < 0)
		return fth_fail(EUCLEAN, "%s: the rows were added but may not be durable: %s",
				o->name, strerror(errno));
	return 0;
}

static void output_close(struct output *output)
{
	struct dir_output *o = dir_output(output);

	/* If that fails the next writer does it. */
	if (o->committed && o->end > o->committed && ftruncate(o->data, (off_t)o->committed) < 0)
		o->committed = 0;
	unlinkat(o->folder, "manifest.new", 0);
	close(o->data);
	close(o->folder);
	close(o->lock);
	free(o);
}

static const struct output_ops output_ops = {
	.read = output_read,
	.begin = output_begin,
	.reserve = output_reserve,
	.write = output_write,
	.files = output_files,
	.file_bytes = output_file_bytes,
	.commit = output_commit,
	.close = output_close,
};

/* Whether a folder that is open and locked is still the table of that name. */
static bool still_there(const struct dir_place *place, const char *name, int folder)
{
	int now = open_folder(place, name);
	struct stat a, b;
	bool same = now >= 0 && fstat(now, &a) == 0 && fstat(folder, &b) == 0 &&
		    a.st_ino == b.st_ino && a.st_dev == b.st_dev;

	if (now >= 0)
		close(now);
	return same;
}

static int dir_open_output(struct place *place, const char *name, struct output **out)
{
	int folder = open_folder(dir_place(place), name), lock, data = -1, rc = 0;
	struct dir_output *o = NULL;

	if (folder < 0)
		return folder;
	lock = lock_table(folder, name);
	if (lock >= 0 && !still_there(dir_place(place), name, folder))
		rc = fth_fail(ENOENT, "%s: no such table", name);
	else if (lock >= 0 && (data = open_in(folder, "data", O_RDWR)) < 0)
		rc = fail_on("cannot open its data", name);
	else if (lock >= 0 && !(o = calloc(1, sizeof(*o))))
		rc = -ENOMEM;
	if (lock >= 0 && rc == 0) {
		*o = (struct dir_output){
			.base.ops = &output_ops,
			.place = dir_place(place),
			.folder = folder,
			.lock = lock,
			.data = data,
		};
		snprintf(o->name, sizeof(o->name), "%s", name);
		*out = &o->base;
		return 0;
	}
	if (data >= 0)
		close(data);
	if (lock >= 0)
		close(lock);
	close(folder);
	return lock < 0 ? lock : rc;
}

static const struct place_ops place_ops = {
	.close = dir_close,
	.list = dir_list,
	.create = dir_create,
	.remove = dir_remove,
	.read = dir_read,
	.open_file = dir_open_file,
	.open_output = dir_open_output,
};

int place_dir_open(const char *path, unsigned flags, struct place **out)
{
	struct dir_place *place;
	struct stat st;

	if ((flags & FTH_TABLE_DB_CREATE) && mkdir(path, 0777) < 0 && errno != EEXIST)
		return fail_on("cannot create it", path);
	if (stat(path, &st) < 0)
		return fail_on("cannot open it", path);
	if (!S_ISDIR(st.st_mode))
		return fth_fail(ENOTDIR, "%s is not a directory", path);
	place = calloc(1, sizeof(*place));
	if (!place || !(place->path = realpath(path, NULL))) {
		free(place);
		return -ENOMEM;
	}
	place->base.ops = &place_ops;
	place->base.readonly = flags & FTH_TABLE_DB_READONLY;
	*out = &place->base;
	return 0;
}
