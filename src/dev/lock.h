/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeping others out of what a device lives on.
 *
 * That is shared between processes only where it is a file (or a block device's node): mem: is
 * private, a drive over VFIO belongs to one process, and a volume locks its own devices. flock() on
 * the file inside a URI, however deep in wrappers, is held with a descriptor of its own: so it also
 * keeps out another user of the same process, and it ends with the process.
 *
 * With io_uring, writes of a process that was killed may still be under way when its descriptors
 * are closed. So the rings of a file: device hold a reference to the lock of its file, taken when a
 * channel is opened (fth_dev_lock_of()): the kernel releases it after the last request of the ring.
 */
#ifndef FTH_DEV_LOCK_H
#define FTH_DEV_LOCK_H

#include <stdbool.h>

/*
 * Lock the file inside a URI: the one that has the path when this returns, even if another process
 * removes and creates it meanwhile. So lock first, then open the device. *fd is the descriptor that
 * holds the lock until fth_dev_unlock(), or -1 if there is nothing to lock. Waits FTH_DEV_LOCK_MS
 * at most, for the requests of a process that has just ended. Returns 0, -EBUSY if somebody else
 * has locked it, or another negative errno.
 */
int fth_dev_lock_uri(const char *uri, bool exclusive, int *fd);
#define FTH_DEV_LOCK_MS 500

/* Whether the path names the file that is open as fd. */
bool fth_dev_lock_is(int fd, const char *path);

/* Release a lock after the channels of its device are closed. Does nothing if fd is -1. */
void fth_dev_unlock(int fd);

/*
 * A new descriptor of the lock that this process holds on the file of a descriptor, which keeps the
 * lock until it is closed too. -1 if there is no lock.
 */
int fth_dev_lock_of(int file_fd);

#endif
