/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom vol import and export: between plain files and objects.
 *
 * Chunks go through a ring of buffers. The file's side is read or written in order, a call at a
 * time; the object's side has up to DEPTH requests in flight. An import becomes an object at its
 * end, all at once; vol_target.c does the same for the file of an export.
 */
#include "commands.h"
#include "json.h"
#include "vol_source.h"
#include "vol_target.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/base/uri.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 32u
#define CHUNK (256u << 10)

struct chunk {
	struct fth_dev_req req;
	char *buf;
	bool done;
};

struct pass {
	struct fth_dev *dev;
	struct fth_dev_chan *chan;
	char *memory;
	struct chunk ring[DEPTH];
	uint64_t size;	 /* bytes of the file; the device's are whole blocks */
	uint64_t next;	 /* where the next chunk begins */
	uint64_t passed; /* bytes that are through */
	uint64_t sum;	 /* of the chunks' checksums */
	const char *what;
};

static int pass_init(struct pass *pass, struct fth_dev *dev, uint64_t size, const char *what)
{
	memset(pass, 0, sizeof(*pass));
	pass->dev = dev;
	pass->size = size;
	pass->what = what;
	pass->memory = fth_dev_buf_alloc(dev, (size_t)DEPTH * CHUNK);
	if (!pass->memory)
		return -ENOMEM;
	for (unsigned i = 0; i < DEPTH; i++)
		pass->ring[i].buf = pass->memory + (size_t)i * CHUNK;
	return fth_dev_chan_open(dev, DEPTH, &pass->chan);
}

static void pass_release(struct pass *pass)
{
	fth_dev_chan_close(pass->chan);
	fth_dev_buf_free(pass->dev, pass->memory, (size_t)DEPTH * CHUNK);
}

static struct chunk *chunk_at(struct pass *pass, uint64_t offset)
{
	return &pass->ring[offset / CHUNK % DEPTH];
}

static uint64_t length_at(const struct pass *pass, uint64_t offset)
{
	return pass->size - offset < CHUNK ? pass->size - offset : CHUNK;
}

/* Give the next chunk to the device. */
static int submit(struct pass *pass, enum fth_dev_op op)
{
	struct chunk *chunk = chunk_at(pass, pass->next);
	uint64_t length = length_at(pass, pass->next), block = fth_dev_info(pass->dev)->block;
	struct fth_dev_req *req = &chunk->req;
	int rc;

	fth_dev_req_init(req, op, chunk->buf, (length + block - 1) / block * block, pass->next);
	req->user = chunk;
	chunk->done = false;
	rc = fth_dev_submit(pass->chan, &req, 1);
	if (rc > 0)
		pass->next += length;
	return rc < 0 ? rc : 0;
}

/* Wait until the oldest chunk that is under way is done. */
static int wait_oldest(struct pass *pass)
{
	struct chunk *oldest = chunk_at(pass, pass->passed);

	while (!oldest->done) {
		struct fth_dev_req *done[DEPTH];
		int n = fth_dev_reap(pass->chan, done, DEPTH, 1, FTH_NEVER);

		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			((struct chunk *)done[i]->user)->done = true;
			if (done[i]->result < 0)
				return fth_fail(-done[i]->result, "%s at %llu: %s",
						fth_dev_op_name(done[i]->op),
						(unsigned long long)done[i]->offset,
						strerror(-done[i]->result));
		}
	}
	fth_cli_progress(pass->what, pass->passed, pass->size);
	return fth_cli_stopped() ? -ECANCELED : 0;
}

static void add_sum(struct pass *pass, uint64_t offset)
{
	pass->sum += fth_checksum(chunk_at(pass, offset)->buf, length_at(pass, offset), offset);
}

/* ---- files ---- */

/* Wait until a read would not block; a pipe may have nothing for a long time. */
static int wait_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	/* Ends with data, with the end of the file, or with a signal. */
	while (!fth_cli_stopped()) {
		int n = poll(&p, 1, 200);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return -ECANCELED;
}

static int read_fully(int fd, char *buf, uint64_t length)
{
	while (length > 0) {
		int rc = wait_readable(fd);
		ssize_t n = rc == 0 ? read(fd, buf, length) : 0;

		if (rc < 0)
			return rc;
		if (n < 0)
			return fth_fail(errno, "reading the file: %s", strerror(errno));
		if (n == 0)
			return fth_fail(ENODATA, "unexpected end of file, %llu bytes short",
					(unsigned long long)length);
		buf += n;
		length -= (uint64_t)n;
	}
	return 0;
}

static int write_fully(int fd, const char *buf, uint64_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, buf, length);

		if (n < 0)
			return fth_cli_stopped()
				       ? -ECANCELED
				       : fth_fail(errno, "writing the file: %s", strerror(errno));
		buf += n;
		length -= (uint64_t)n;
	}
	return 0;
}

/* ---- passes ---- */

/* From the file to the object. */
static int pass_in(struct pass *pass, int fd)
{
	int rc = 0;

	while (rc == 0 && pass->passed < pass->size) {
		if (pass->next < pass->size &&
		    pass->next - pass->passed < (uint64_t)DEPTH * CHUNK) {
			struct chunk *chunk = chunk_at(pass, pass->next);
			uint64_t length = length_at(pass, pass->next);

			memset(chunk->buf + length, 0, CHUNK - length);
			rc = read_fully(fd, chunk->buf, length);
			if (rc == 0) {
				add_sum(pass, pass->next);
				rc = submit(pass, FTH_DEV_WRITE);
			}
			continue;
		}
		rc = wait_oldest(pass);
		pass->passed += rc == 0 ? length_at(pass, pass->passed) : 0;
	}
	return rc;
}

/* From the object to the file; without one (-1) only the checksum is made. */
static int pass_out(struct pass *pass, int fd)
{
	int rc = 0;

	while (rc == 0 && pass->passed < pass->size) {
		if (pass->next < pass->size &&
		    pass->next - pass->passed < (uint64_t)DEPTH * CHUNK) {
			rc = submit(pass, FTH_DEV_READ);
			continue;
		}
		rc = wait_oldest(pass);
		if (rc == 0) {
			add_sum(pass, pass->passed);
			if (fd >= 0)
				rc = write_fully(fd, chunk_at(pass, pass->passed)->buf,
						 length_at(pass, pass->passed));
		}
		pass->passed += rc == 0 ? length_at(pass, pass->passed) : 0;
	}
	return rc;
}

static int run_pass(struct fth_dev *dev, uint64_t size, int fd, const char *what,
		    int (*direction)(struct pass *, int), uint64_t *sum)
{
	struct pass *pass = calloc(1, sizeof(*pass));
	int rc;

	if (!pass)
		return -ENOMEM;
	rc = pass_init(pass, dev, size, what);
	if (rc == 0)
		rc = direction(pass, fd);
	/* Closing waits for what is in flight: the buffers are free after it. */
	pass_release(pass);
	fth_cli_progress_end();
	*sum = pass->sum;
	free(pass);
	return rc;
}

static void print_result(const char *verb, const char *name, uint64_t size, uint64_t sum,
			 bool verified)
{
	char text[FTH_CLI_BYTES_MAX], hex[17];
	struct fth_json j;

	snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)sum);
	if (!fth_cli_json()) {
		printf("%s %s: %s, checksum %s%s\n", verb, name, fth_cli_bytes(text, size), hex,
		       verified ? ", verified" : "");
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "name", name);
	fth_json_u64(&j, "size", size);
	fth_json_string(&j, "checksum", hex);
	fth_json_bool(&j, "verified", verified);
	fth_json_finish(&j);
}

/* ---- import ---- */

struct import {
	const char *name, *path;
	uint64_t size; /* UINT64_MAX: the file's */
	bool verify;
	struct fth_vol_object_options options;
};

static int open_source(struct import *import)
{
	struct stat st;
	int fd = strcmp(import->path, "-") == 0 ? dup(STDIN_FILENO)
						: open(import->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = fth_fail(errno, "%s: %s", import->path, strerror(errno));

		if (fd >= 0)
			close(fd);
		return rc;
	}
	if (import->size == UINT64_MAX && !S_ISREG(st.st_mode)) {
		close(fd);
		return fth_fail(EINVAL, "%s is not a regular file; specify --size", import->path);
	}
	if (import->size == UINT64_MAX)
		import->size = (uint64_t)st.st_size;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return fd;
}

static int import_data(const struct import *import, struct fth_dev *dev, int fd)
{
	uint64_t sum = 0, check = 0;
	int rc = run_pass(dev, import->size, fd, "import", pass_in, &sum);

	if (rc == 0 && import->verify) {
		rc = run_pass(dev, import->size, -1, "verify", pass_out, &check);
		if (rc == 0 && check != sum)
			rc = fth_fail(EIO,
				      "\"%s\": verification failed: the data read back differs",
				      import->name);
	}
	if (rc == 0)
		rc = fth_vol_object_commit(dev);
	if (rc == 0)
		print_result("imported", import->name, import->size, sum, import->verify);
	return rc;
}

static int do_import(struct fth_vol *vol, struct import *import)
{
	struct fth_dev *dev;
	int fd = open_source(import), rc;

	if (fd < 0)
		return fd;
	import->options.whole = true;
	rc = fth_vol_object_new(vol, import->name, import->size, &import->options, &dev);
	if (rc == 0) {
		rc = import_data(import, dev, fd);
		fth_dev_close(dev);
	}
	close(fd);
	return rc;
}

static int run_import(int argc, char **argv)
{
	struct import import = {.size = UINT64_MAX};
	struct fth_vol_shape shape = {0};
	bool replace = false;
	const char *size = NULL;
	const struct fth_cli_option options[] = {
		FTH_VOL_SHAPE_OPTIONS(shape),
		FTH_CLI_FORCE(&replace, "replace an object of that name"),
		{"verify", FTH_CLI_FLAG, &import.verify, 0, 0, "read it back before it appears"},
		{"size", FTH_CLI_STRING, &size, 0, 0, "how much to read; needed for a pipe"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol import VOLUME FILE NAME",
		.text = "Make an object out of a file, or of standard input (-). It appears when "
			"all\n"
			"of it is there, or not at all.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 3,
		.max_args = 3,
	};
	struct fth_vol *vol;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (size && fth_parse_size(size, &import.size) < 0) {
		fth_cli_error("--size %s: expected a size, such as 64M or 4G", size);
		return FTH_EXIT_USAGE;
	}
	import.path = args[1];
	import.name = args[2];
	import.options = fth_vol_shape_options(&shape);
	import.options.replace = replace;
	if (fth_vol_source_open(args[0], 0, &vol) < 0)
		return FTH_EXIT_FAILED;
	rc = do_import(vol, &import);
	fth_vol_close(vol);
	return rc < 0 ? fth_vol_complain(args[1], rc) : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_vol_import = {
	.name = "import", .summary = "make an object out of a file", .run = run_import};

/* ---- export ---- */

static int export_to(struct fth_vol *vol, const char *name, uint64_t size, int fd, uint64_t *sum)
{
	struct fth_dev *dev;
	int rc = fth_vol_object_open(vol, name, FTH_VOL_READONLY, &dev);

	if (rc < 0)
		return rc;
	rc = run_pass(dev, size, fd, "export", pass_out, sum);
	fth_dev_close(dev);
	return rc;
}

static int export_file(struct fth_vol *vol, const char *name, uint64_t size, const char *path,
		       bool replace)
{
	struct fth_vol_target target;
	uint64_t sum = 0;
	int rc = fth_vol_target_open(&target, path, size, replace);

	if (rc < 0)
		return rc;
	rc = export_to(vol, name, size, target.fd, &sum);
	rc = fth_vol_target_close(&target, rc);
	if (rc == 0)
		print_result("exported", name, size, sum, false);
	return rc;
}

static int do_export(struct fth_vol *vol, const char *name, const char *path, bool replace)
{
	struct fth_vol_object_info info;
	uint64_t sum;
	int rc = fth_vol_stat(vol, name, &info);

	if (rc < 0)
		return rc;
	if (strcmp(path, "-") == 0)
		return export_to(vol, name, info.size, STDOUT_FILENO, &sum);
	return export_file(vol, name, info.size, path, replace);
}

static int run_export(int argc, char **argv)
{
	struct fth_vol_absence absence = {0};
	bool replace = false;
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&replace, "replace a file, overwrite a block device"),
		FTH_VOL_ABSENCE_OPTIONS(absence),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol export VOLUME NAME FILE",
		.text = "Write an object to a file, or to standard output (-). A file appears when "
			"all of\n"
			"it is there; a symbolic link is followed, and a device is written "
			"to.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 3,
		.max_args = 3,
	};
	struct fth_vol *vol;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_vol_source_open(args[0], FTH_VOL_READONLY | fth_vol_absence_flags(&absence), &vol) <
	    0)
		return FTH_EXIT_FAILED;
	rc = do_export(vol, args[1], args[2], replace);
	fth_vol_close(vol);
	return rc < 0 ? fth_vol_complain(args[1], rc) : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_vol_export = {
	.name = "export", .summary = "write an object to a file", .run = run_export};
