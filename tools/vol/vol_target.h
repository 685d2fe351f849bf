/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that `vol export` writes.
 *
 * A regular file is written under a name of its own beside its place, PATH.partial-PID, and takes
 * its place when it is complete and durable; symbolic links are followed. A block device is written
 * in place, if replace is set and it is large enough. A character device or a pipe is written to.
 */
#ifndef FTH_TOOLS_VOL_TARGET_H
#define FTH_TOOLS_VOL_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct fth_vol_target {
	int fd;
	bool replace;
	char *path;    /* of a regular file: its place; otherwise NULL */
	char *partial; /* its name until it is complete */
	mode_t mode;   /* permissions of the file that it replaces; 0: none */
	bool sync;     /* to be made durable before it is said to be done */
};

/* Open it for `size` bytes. Close it only if this returns 0. */
int fth_vol_target_open(struct fth_vol_target *target, const char *path, uint64_t size,
			bool replace);

/* With rc < 0 a new file is removed, otherwise it is put in its place. Returns rc or an error. */
int fth_vol_target_close(struct fth_vol_target *target, int rc);

#endif
