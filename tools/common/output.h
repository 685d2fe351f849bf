/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a command writes something that must be whole or not there at all: a graph, a table.
 *
 * A regular file is made without a name, in the folder of its place, and gets its name when it is
 * complete and durable. Until then a file that was there stays as it was, and nothing is left after
 * an error, Ctrl-C or kill -9. On a filesystem that has no such files (O_TMPFILE) it is called
 * PATH.partial-PID meanwhile, and only kill -9 leaves it behind. Any other device is written in
 * place; a character device or a pipe is written to.
 */
#ifndef FTH_TOOLS_OUTPUT_H
#define FTH_TOOLS_OUTPUT_H

#include "fathom/dev.h"

/* Zero-initialise, set uri and force. */
struct fth_output {
	const char *uri;
	bool force; /* a file that exists may be replaced, a device overwritten */
	struct fth_dev *dev;
	char *path;    /* of a regular file: its place, symbolic links followed; otherwise NULL */
	char *partial; /* its name before it is put in its place, if it needs one */
	bool named;    /* it has this name */
	int fd;	       /* of a regular file that is being made */
	int lock;      /* of the file or device that was there; 0 or -1: none */
};

/*
 * Would fth_output_open() refuse it? For commands that work long before they open it. 0, or
 * -EEXIST, or another error that is known now: no such folder, no permission. Changes nothing.
 */
int fth_output_check(const struct fth_output *out);

/*
 * Open it with room for `bytes` bytes; out->dev is the device. -EEXIST if there is something
 * already and force is not set; then nothing was changed. Call fth_output_close() in any case.
 */
int fth_output_open(struct fth_output *out, uint64_t bytes);

/*
 * The same for a file of any size, given by its path instead of out->uri: *fd is open for writing,
 * or -1 after an error. The caller closes it before fth_output_close().
 */
int fth_output_open_file(struct fth_output *out, const char *path, int *fd);

/*
 * Close it. With rc < 0 a new file is removed. Otherwise it is cut to `bytes` bytes, made durable
 * and put in its place. Returns rc, or the error of these steps, after which the file is removed.
 */
int fth_output_close(struct fth_output *out, uint64_t bytes, int rc);

#endif
