/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/wake.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- eventfd ---- */

int fth_wake_open(struct fth_wake *wake)
{
	int fd;

	if (wake->fd >= 0)
		return wake->fd;
	fd = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (fd < 0)
		return fth_fail(-fd, "eventfd: %s", strerror(-fd));
	wake->fd = fd;
	wake->on = false;
	return fd;
}

void fth_wake_close(struct fth_wake *wake)
{
	if (wake->fd >= 0)
		close(wake->fd);
	wake->fd = -1;
}

void fth_wake_set(struct fth_wake *wake, bool on)
{
	uint64_t count = 1;
	ssize_t n;

	if (wake->fd < 0 || wake->on == on)
		return;
	/* Neither can block or fail: the counter is 0 before a write and 1 before a read. */
	n = on ? write(wake->fd, &count, sizeof(count)) : read(wake->fd, &count, sizeof(count));
	if (n == (ssize_t)sizeof(count))
		wake->on = on;
}

/* ---- timerfd ---- */

int fth_wake_timer_open(struct fth_wake_timer *timer)
{
	int fd;

	if (timer->fd >= 0)
		return timer->fd;
	/* The clock of fth_now_ns(). */
	fd = fth_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (fd < 0)
		return fth_fail(-fd, "timerfd_create: %s", strerror(-fd));
	timer->fd = fd;
	timer->at = FTH_WAKE_TIMER_OFF;
	return fd;
}

void fth_wake_timer_close(struct fth_wake_timer *timer)
{
	if (timer->fd >= 0)
		close(timer->fd);
	timer->fd = -1;
}

void fth_wake_timer_set(struct fth_wake_timer *timer, uint64_t at)
{
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at / 1000000000u),
					       .tv_nsec = (long)(at % 1000000000u)}};

	if (timer->fd < 0 || timer->at == at)
		return;
	/* Also makes a timer that has expired unreadable again. */
	if (timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		timer->at = at;
}

/* ---- epoll ---- */

int fth_wake_set_new(void)
{
	int fd = fth_fd_high(epoll_create1(EPOLL_CLOEXEC));

	return fd < 0 ? fth_fail(-fd, "epoll_create1: %s", strerror(-fd)) : fd;
}

int fth_wake_set_add(int set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	return fth_fail(errno, "epoll_ctl: %s", strerror(errno));
}
