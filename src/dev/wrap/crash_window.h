/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window of crash(URI): memory in front of the window inside, which stands for the caches and
 * buffers that a power loss empties. The lock of the crash device guards all of it but the memory.
 */
#ifndef FTH_DEV_CRASH_WINDOW_H
#define FTH_DEV_CRASH_WINDOW_H

#include "fathom/dev/driver.h"

#define FTH_CRASH_LINE 64u /* what a power loss keeps or loses as a whole */

struct fth_crash_window {
	struct fth_dev_window window; /* base is the memory in front */
	struct fth_dev_window *inner;
	struct fth_crash_window *next; /* of the device's open windows */
	bool lost;		       /* the power went: only close is left */
};

/* Open over a window of `inner`. The caller sets window.ops. 0 or an error. */
int fth_crash_window_open(struct fth_dev *inner, enum fth_dev_window_kind kind,
			  struct fth_crash_window **out);
void fth_crash_window_free(struct fth_crash_window *window);

/* Store what has changed in [offset, offset + length), whole lines, inside. 0 or an error. */
int fth_crash_window_keep(struct fth_crash_window *window, uint64_t offset, uint64_t length);

/* Of each line that has changed, store it inside or not, as the seed decides; and persist. */
int fth_crash_window_power_loss(struct fth_crash_window *window, uint64_t seed, uint64_t deadline);

/* For struct fth_dev_window_ops: by accesses that may race with keep. */
void fth_crash_window_load(const struct fth_dev_window *window, uint64_t offset, void *to,
			   uint64_t length);
void fth_crash_window_store(struct fth_dev_window *window, uint64_t offset, const void *from,
			    uint64_t length);

#endif
