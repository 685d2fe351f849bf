/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors behind fth_dev_chan_fd(). Each of them exists only after somebody asked for it, and
 * costs a system call only when its state changes; all functions accept one that does not exist.
 * For the channel's thread.
 *
 *	struct fth_wake		readable while it is set: for channels that know what is done
 *	struct fth_wake_timer	readable from a point in time on: for what is held until then
 *	fth_wake_set_new()	an epoll set, to unite several descriptors in one
 *
 * A channel's struct holds one of the first two, initialised with FTH_WAKE_NONE.
 */
#ifndef FTH_DEV_WAKE_H
#define FTH_DEV_WAKE_H

#include <stdbool.h>
#include <stdint.h>

struct fth_wake {
	int fd; /* an eventfd; -1: does not exist */
	bool on;
};

struct fth_wake_timer {
	int fd; /* a timerfd; -1: does not exist */
	uint64_t at;
};

#define FTH_WAKE_NONE    \
	{                \
		.fd = -1 \
	}
#define FTH_WAKE_TIMER_OFF 0u
#define FTH_WAKE_TIMER_NOW 1u /* a time that has passed */

/* Make it exist, unset. Returns the descriptor, or -errno when none is left. */
int fth_wake_open(struct fth_wake *wake);
void fth_wake_close(struct fth_wake *wake);
void fth_wake_set(struct fth_wake *wake, bool on);

/* The same for a timer; at is on fth_now_ns()'s clock, or one of the two above. */
int fth_wake_timer_open(struct fth_wake_timer *timer);
void fth_wake_timer_close(struct fth_wake_timer *timer);
void fth_wake_timer_set(struct fth_wake_timer *timer, uint64_t at);

/* An empty epoll set, to be closed with close(). Returns it, or -errno. */
int fth_wake_set_new(void);
/* Add a descriptor: the set is readable while the descriptor is. 0 or -errno. */
int fth_wake_set_add(int set, int fd);

#endif
