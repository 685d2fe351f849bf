/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that are never 0, 1 or 2.
 *
 * A program may run with stdin, stdout or stderr closed. The kernel gives out the lowest free
 * number, so a device could become descriptor 1, and the next printf() would write into the
 * device. Every descriptor that the library opens therefore goes through the functions below.
 *
 *	fd = fth_fd_open(path, O_RDWR | O_CLOEXEC, 0);		paths
 *	fd = fth_fd_high(eventfd(0, EFD_CLOEXEC));		objects without data of their own
 *
 *	fth_fd_reserve();					anything else
 *	fd = fth_fd_high(ioctl(group, VFIO_GROUP_GET_DEVICE_FD, name));
 *	fth_fd_release();
 *
 * fth_fd_high() alone leaves a short time in which the new descriptor is 0, 1 or 2 and another
 * thread can write to it or read from it. That does no harm to an eventfd, a timerfd or an epoll
 * set. For files and devices fth_fd_reserve() closes this gap.
 *
 * These functions are public because a device of your own (fathom/dev/driver.h) needs them too.
 * All of them are thread-safe.
 */
#ifndef FATHOM_BASE_FD_H
#define FATHOM_BASE_FD_H

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

#define FTH_FD_MIN 3 /* the smallest descriptor that the library uses */

/*
 * Return a descriptor of at least FTH_FD_MIN for the same open file. fd itself if it is that large;
 * otherwise a duplicate with FD_CLOEXEC set, and fd is closed. Takes ownership of fd. For a
 * negative fd, or if duplicating fails, returns -errno; errno is set too.
 */
int fth_fd_high(int fd);

/*
 * Occupy those of the descriptors 0, 1 and 2 that are closed, until fth_fd_release(). Descriptors
 * that any thread opens meanwhile are at least FTH_FD_MIN. Reading from an occupied descriptor and
 * writing to it fails with EBADF, as if it were closed. Calls nest and may overlap between threads.
 * Keep the time between the two calls short: a program that opens a file to become its new stdout
 * must not do so meanwhile.
 */
void fth_fd_reserve(void);

/* End fth_fd_reserve(). Leaves errno alone. */
void fth_fd_release(void);

/*
 * open(2) with a result of at least FTH_FD_MIN. Add O_CLOEXEC yourself. Returns the descriptor, or
 * -errno; errno is set too.
 */
int fth_fd_open(const char *path, int flags, unsigned mode);

FTH_END_DECLS
#endif
