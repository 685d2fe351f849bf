/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The blocking calls of a device: what fth_dev_read() and its siblings in fathom/dev.h are made
 * of. blocking.c has the mechanism.
 */
#ifndef FTH_DEV_BLOCKING_H
#define FTH_DEV_BLOCKING_H

#include "fathom/dev/driver.h"

/* A pool without channels; the first call opens one. NULL when memory is short. */
struct fth_dev_blocking *fth_blocking_new(void);

/*
 * Open a channel, and allocate what one call at a time needs, so that it does not call malloc(). 0
 * or a negative errno.
 */
int fth_blocking_prepare(struct fth_dev *dev);

/*
 * Wait until no request of a blocking call is in flight, at most until the deadline. 0 or
 * -ETIMEDOUT.
 */
int fth_blocking_settle(struct fth_dev *dev, uint64_t deadline);

/* Close all channels. Only after fth_blocking_settle() returned 0. Accepts NULL. */
void fth_blocking_free(struct fth_dev_blocking *pool);

/* Whether [offset, offset + length) is whole blocks inside the device: 0, -EINVAL, -ERANGE. */
int fth_dev_check_range(const struct fth_dev_info *info, uint64_t length, uint64_t offset);

#endif
