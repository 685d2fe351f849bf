/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeping others out of what a device lives on.
 *
 * That is shared between processes only where it is a file (or a block device's node): mem: is
 * private, a drive over VFIO belongs to one process, and a volume locks its own devices. flock() on
 * the file inside a URI, however deep in wrappers, is held with a descriptor of its own: so it also
 * keeps out another user of the same process, and it ends with the process.
 */
#ifndef FTH_DEV_LOCK_H
#define FTH_DEV_LOCK_H

#include <stdbool.h>

/*
 * Lock the file inside a URI. *fd is the descriptor that holds the lock until it is closed, or -1 if
 * there is nothing to lock. Does not wait. Returns 0, -EBUSY if somebody else has locked it, or
 * another negative errno.
 */
int fth_dev_lock_uri(const char *uri, bool exclusive, int *fd);

#endif
