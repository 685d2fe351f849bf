/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening file:PATH: the kind and size of the file, whether direct I/O works on it, and which
 * alignment of offsets and buffers that needs.
 */
#include "dev/file/dev_file.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_MAX	65536
#define DIRECT_MIN	512  /* when the kernel does not say what direct I/O needs, */
#define DIRECT_MAX	4096 /* it is taken to lie between these */
#define FILE_SIZE_LIMIT ((uint64_t)INT64_MAX)

enum file_choice { CHOICE_AUTO, CHOICE_ON, CHOICE_OFF };

struct file_options {
	const char *path;
	uint64_t size;	/* 0: as it is */
	uint64_t block; /* 0: the smallest possible */
	bool create;
	bool readonly;
	bool fixed;
	bool tail;
	const char *engine;
	uint64_t threads;
	enum file_choice direct;
	enum file_choice inline_;
	const char *window;
};

/* ---- options ---- */

static int take_choice(struct fth_uri *uri, const char *key, enum file_choice *out)
{
	const char *text = "auto";

	fth_uri_take_string(uri, key, &text);
	if (strcmp(text, "auto") == 0)
		*out = CHOICE_AUTO;
	else if (strcmp(text, "on") == 0)
		*out = CHOICE_ON;
	else if (strcmp(text, "off") == 0)
		*out = CHOICE_OFF;
	else
		return fth_fail(EINVAL, "%s=%s is not one of auto, on and off", key, text);
	return 0;
}

static int check_options(const struct file_options *o)
{
	if (o->path[0] == '\0')
		return fth_fail(EINVAL, "file: has no path");
	if (strcmp(o->window, "auto") != 0 && strcmp(o->window, "map") != 0)
		return fth_fail(EINVAL, "window=%s is not one of auto and map", o->window);
	if (o->create && o->size == 0)
		return fth_fail(EINVAL, "create=on requires size=");
	if (o->create && o->readonly)
		return fth_fail(EINVAL, "create=on and readonly=on are mutually exclusive");
	if (o->block & (o->block - 1))
		return fth_fail(EINVAL, "block=%llu is not a power of two",
				(unsigned long long)o->block);
	if (o->size % (o->block ? o->block : 1))
		return fth_fail(EINVAL, "size=%llu is not whole blocks of block=%llu bytes",
				(unsigned long long)o->size, (unsigned long long)o->block);
	return 0;
}

static int take_options(struct fth_uri *uri, struct file_options *o)
{
	int rc;

	*o = (struct file_options){
		.path = uri->path,
		.fixed = true,
		.engine = "auto",
		.threads = FILE_THREADS_DEFAULT,
		.window = "auto",
	};
	fth_uri_take_string(uri, "engine", &o->engine);
	fth_uri_take_string(uri, "window", &o->window);
	if ((rc = fth_uri_take_size(uri, "size", 1, FILE_SIZE_LIMIT, &o->size)) < 0 ||
	    (rc = fth_uri_take_size(uri, "block", 1, BLOCK_MAX, &o->block)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "create", &o->create)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "readonly", &o->readonly)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "fixed", &o->fixed)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "tail", &o->tail)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "threads", 1, FILE_THREADS_MAX, &o->threads)) < 0 ||
	    (rc = take_choice(uri, "direct", &o->direct)) < 0 ||
	    (rc = take_choice(uri, "inline", &o->inline_)) < 0 || (rc = fth_uri_finish(uri)) < 0)
		return rc;
	rc = check_options(o);
	if (uri->readonly) {
		o->readonly = true;
		o->create = false;
	}
	return rc;
}

/* ---- the descriptor ---- */

static int fail_path(const struct file_options *o, const char *what)
{
	int err = errno;

	return fth_fail(err, "%s: %s%s", o->path, what, strerror(err));
}

/* A new file of the wanted size; -EEXIST when there is something already. */
static int create_file(const struct file_options *o)
{
	int fd = fth_fd_open(o->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644), rc;

	if (fd < 0)
		return fail_path(o, "cannot create: ");
	if (ftruncate(fd, (off_t)o->size) == 0)
		return fd;
	rc = fail_path(o, "cannot set its size: ");
	close(fd);
	unlink(o->path);
	return rc;
}

static int check_kind(const struct file_options *o, mode_t mode)
{
	if (S_ISREG(mode) || S_ISBLK(mode))
		return 0;
	if (S_ISDIR(mode))
		return fth_fail(EISDIR, "%s is a directory", o->path);
	return fth_fail(EINVAL, "%s is neither a regular file nor a block device", o->path);
}

/* open(2) failed with errno. */
static int fail_open(const struct file_options *o)
{
	int err = errno;

	if (err == EBUSY)
		return fth_fail(EBUSY, "%s is mounted or otherwise in use", o->path);
	if (!o->readonly && (err == EACCES || err == EPERM || err == EROFS) &&
	    faccessat(AT_FDCWD, o->path, R_OK, AT_EACCESS) == 0)
		return fth_fail(err,
				"%s: no permission to write (%s); readonly=on opens it for reading",
				o->path, strerror(err));
	errno = err;
	return fail_path(o, "");
}

/*
 * The kind is looked at before opening, because opening a fifo waits for its other end. O_EXCL
 * on a block device means that nobody has claimed it: a mounted one is not written to.
 */
static int open_existing(const struct file_options *o)
{
	int flags = O_CLOEXEC | (o->readonly ? O_RDONLY : O_RDWR), fd, rc;
	struct stat st;

	if (stat(o->path, &st) < 0)
		return fail_path(o, "");
	rc = check_kind(o, st.st_mode);
	if (rc < 0)
		return rc;
	if (S_ISBLK(st.st_mode) && !o->readonly)
		flags |= O_EXCL;
	fd = fth_fd_open(o->path, flags, 0);
	return fd < 0 ? fail_open(o) : fd;
}

static int open_path(const struct file_options *o, bool *created)
{
	int fd = o->create ? create_file(o) : -EEXIST;

	*created = fd >= 0;
	return fd == -EEXIST ? open_existing(o) : fd;
}

static int find_size(const struct file_options *o, int fd, const struct stat *st, uint64_t *size)
{
	if (S_ISREG(st->st_mode))
		*size = (uint64_t)st->st_size;
	else if (ioctl(fd, BLKGETSIZE64, size) < 0)
		return fail_path(o, "cannot get its size: ");
	if (*size == 0)
		return fth_fail(EINVAL, "%s is empty", o->path);
	if (o->size && o->size != *size)
		return fth_fail(EINVAL, "%s has %llu bytes, expected size=%llu", o->path,
				(unsigned long long)*size, (unsigned long long)o->size);
	return 0;
}

/* ---- block size and direct I/O ---- */

struct file_needs {
	uint64_t block; /* offsets and lengths; 0: cannot be done at all */
	uint64_t align; /* memory */
};

static uint64_t logical_block(int fd, const struct stat *st)
{
	int bytes = 0;

	if (!S_ISBLK(st->st_mode))
		return 1;
	return ioctl(fd, BLKSSZGET, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : DIRECT_MIN;
}

/* A guess for kernels and filesystems that do not say. try_direct() finds out if it is wrong. */
static struct file_needs guess_direct_needs(int fd, const struct stat *st)
{
	uint64_t bytes = S_ISBLK(st->st_mode) ? logical_block(fd, st) : (uint64_t)st->st_blksize;

	if (bytes < DIRECT_MIN)
		bytes = DIRECT_MIN;
	if (S_ISREG(st->st_mode) && bytes > DIRECT_MAX)
		bytes = DIRECT_MAX;
	return (struct file_needs){.block = bytes, .align = bytes};
}

static struct file_needs direct_needs(int fd, const struct stat *st)
{
#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
	    (sx.stx_mask & STATX_DIOALIGN))
		return (struct file_needs){
			.block = sx.stx_dio_mem_align ? sx.stx_dio_offset_align : 0,
			.align = sx.stx_dio_mem_align,
		};
#endif
	return guess_direct_needs(fd, st);
}

static int set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	return fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) < 0 ? -errno : 0;
}

/* Turn direct I/O on and read a block, since some take the flag and then refuse the work. */
static int try_direct(int fd, const struct file_needs *needs)
{
	size_t align = needs->align < sizeof(void *) ? sizeof(void *) : needs->align;
	void *buf;
	int rc = set_direct(fd, true);

	if (rc < 0)
		return rc;
	if (posix_memalign(&buf, align, needs->block) != 0)
		return -ENOMEM;
	if (pread(fd, buf, needs->block, 0) < 0)
		rc = -errno;
	free(buf);
	if (rc == -EINVAL)
		(void)set_direct(fd, false);
	/* Any other error comes from the medium; a read of that block will return it. */
	return rc == -EINVAL ? rc : 0;
}

/* Can blocks of this size, in a file of this size, be used with direct I/O? */
static bool fits_direct(const struct file_needs *needs, uint64_t block, uint64_t size)
{
	return needs->block && needs->block <= BLOCK_MAX && !(needs->block & (needs->block - 1)) &&
	       !(needs->align & (needs->align - 1)) && block % needs->block == 0 &&
	       size % needs->block == 0;
}

static bool choose_direct(const struct file_options *o, int fd, const struct stat *st,
			  struct fth_dev_info *info)
{
	struct file_needs needs = direct_needs(fd, st);
	uint64_t block = o->block ? o->block : needs.block;

	if (o->direct == CHOICE_OFF || !fits_direct(&needs, block, info->size) ||
	    try_direct(fd, &needs) < 0)
		return false;
	info->block = (uint32_t)block;
	info->align = (uint32_t)needs.align;
	return true;
}

/* With tail=on the device is longer than a file that ends inside a block. */
static int choose_tail(const struct file_options *o, struct dev_file *file, const struct stat *st)
{
	struct fth_dev_info *info = &file->dev.info;
	uint64_t end = info->size, block = o->block > DIRECT_MAX ? o->block : DIRECT_MAX;

	if (!o->tail || end % block == 0 || !S_ISREG(st->st_mode))
		return 0;
	info->size += block - end % block;
	file->direct = choose_direct(o, file->fd, st, info);
	if (file->direct)
		return dev_file_tail_open(file, end);
	info->size = end;
	return 0;
}

static int choose_block(const struct file_options *o, struct dev_file *file, const struct stat *st)
{
	struct fth_dev_info *info = &file->dev.info;
	uint64_t logical = logical_block(file->fd, st);
	int rc = choose_tail(o, file, st);

	if (rc < 0)
		return rc;
	if (!file->direct)
		file->direct = choose_direct(o, file->fd, st, info);
	if (!file->direct && o->direct == CHOICE_ON)
		return fth_fail(EINVAL,
				"%s: direct=on: its size of %llu bytes, block= or its filesystem "
				"does not allow direct I/O",
				o->path, (unsigned long long)info->size);
	if (file->direct) {
		file->open_flags |= O_DIRECT;
	} else {
		info->block = (uint32_t)(o->block ? o->block : logical);
		info->align = 1;
	}
	if (info->block % logical)
		return fth_fail(EINVAL,
				"%s: block=%u is smaller than the medium's blocks of %llu bytes",
				o->path, info->block, (unsigned long long)logical);
	if (info->size % info->block)
		return fth_fail(EINVAL,
				"%s: its size of %llu bytes is not whole blocks of %u bytes",
				o->path, (unsigned long long)info->size, info->block);
	return 0;
}

/* ---- the device ---- */

static int examine(const struct file_options *o, struct dev_file *file)
{
	struct stat st;
	int rc;

	if (fstat(file->fd, &st) < 0)
		return fail_path(o, "");
	rc = check_kind(o, st.st_mode);
	if (rc < 0)
		return rc;
	file->is_block_device = S_ISBLK(st.st_mode);
	file->dev.info.max_iov = FILE_IOV_MAX;
	file->dev.info.max_length = FILE_LENGTH_MAX;
	file->dev.info.has_fua = true;
	rc = find_size(o, file->fd, &st, &file->dev.info.size);
	return rc < 0 ? rc : choose_block(o, file, &st);
}

static int fill(const struct file_options *o, struct dev_file *file)
{
	bool created;
	int rc;

	file->readonly = o->readonly;
	file->fixed = o->fixed;
	file->window_map = strcmp(o->window, "map") == 0;
	/* Never written to, so that all of it is the kernel's one page of zeroes. */
	file->zeroes = mmap(NULL, FILE_ZEROES_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (file->zeroes == MAP_FAILED)
		return -ENOMEM;
	rc = open_path(o, &created);
	if (rc < 0)
		return rc;
	file->fd = rc;
	file->open_flags = O_CLOEXEC | (o->readonly ? O_RDONLY : O_RDWR);
	if (o->inline_ == CHOICE_ON ||
	    (o->inline_ == CHOICE_AUTO && dev_file_lives_in_memory(file->fd)))
		file->inline_max = FILE_INLINE_MAX;
	file->inline_flush = o->inline_ == CHOICE_ON;
	if (dev_file_lives_in_memory(file->fd))
		file->dev.info.keeps = FTH_DEV_KEEPS_EXIT;
	rc = examine(o, file);
	if (rc == 0 && file->engine->open)
		rc = file->engine->open(file);
	if (rc < 0 && created)
		unlink(o->path);
	return rc;
}

int dev_file_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	const struct file_engine *engine;
	struct file_options options;
	struct dev_file *file;
	int rc;

	(void)inner;
	if ((rc = take_options(uri, &options)) < 0 ||
	    (rc = dev_file_choose_engine(options.engine, &engine)) < 0)
		return rc;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fd = file->tail_fd = -1;
	file->engine = engine;
	file->threads = (unsigned)options.threads;
	file->dev.ops = &engine->ops;
	file->dev.info.engine = engine->name;
	pthread_mutex_init(&file->map_lock, NULL);
	rc = fill(&options, file);
	if (rc < 0) {
		dev_file_close(&file->dev);
		return rc;
	}
	*out = &file->dev;
	return 0;
}
