/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a channel of an object waits, and lets others wait for it.
 *
 * One epoll set has the descriptors of the channels to the devices, a bell, and a timer. It is made
 * when it is first needed: by fth_dev_chan_fd(), or by a reap that has to wait for more than one
 * device. The bell is an eventfd. It is on while there is something to hand back, or to go on
 * with, that no device will tell of: requests that reap had no room for, answers of the worker, a
 * repair that ended. The timer is for requests that a device would not take although none of this
 * channel's are in flight there: another channel's completion makes room, and nobody is told.
 */
#include "vol/channel/channel.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define RETRY_NS 500000u /* how soon a device that is full is asked again */

/* ---- the bell ---- */

void vol_bell_update(struct vol_chan *chan)
{
	bool on = chan->unreaped || chan->answered.count > 0 || chan->repair_ended;
	uint64_t count = 1;

	if (chan->bell < 0 || on == chan->bell_on)
		return;
	chan->bell_on = on;
	/* A counter of 0 or 1: neither of the two can block or fail. */
	if (on)
		(void)!write(chan->bell, &count, sizeof(count));
	else
		(void)!read(chan->bell, &count, sizeof(count));
}

/* ---- requests that a device did not take ---- */

static bool is_starved(const struct vol_chan *chan)
{
	for (unsigned i = 0; i < chan->leg_count; i++)
		if (chan->legs[i].staged_count > 0 &&
		    chan->legs[i].staged_count == chan->legs[i].load)
			return true;
	return false;
}

static void set_timer(struct vol_chan *chan, bool on)
{
	const struct itimerspec when = {.it_value.tv_nsec = on ? RETRY_NS : 0};

	/* Setting it also clears what has expired. */
	if (on || chan->timer_on)
		timerfd_settime(chan->timer, 0, &when, NULL);
	chan->timer_on = on;
}

void vol_wait_settle(struct vol_chan *chan)
{
	struct vol_worker *worker = &chan->obj->vol->worker;

	if (chan->set < 0)
		return;
	pthread_mutex_lock(&worker->lock);
	chan->unreaped = chan->done.count > 0;
	chan->repair_ended = chan->repair_ended && chan->awaits_repair;
	vol_bell_update(chan);
	pthread_mutex_unlock(&worker->lock);
	set_timer(chan, is_starved(chan));
}

/* ---- the set ---- */

static int add_to_set(int set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (fd < 0)
		return fd;
	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void vol_wait_init(struct vol_chan *chan)
{
	chan->set = chan->bell = chan->timer = -1;
}

void vol_wait_release(struct vol_chan *chan)
{
	close_fd(&chan->set);
	close_fd(&chan->bell);
	close_fd(&chan->timer);
}

static int fill_set(struct vol_chan *chan, int set, int bell)
{
	int rc;

	chan->timer = fth_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	rc = add_to_set(set, chan->timer);
	if (rc == 0)
		rc = add_to_set(set, bell);
	for (unsigned i = 0; rc == 0 && i < chan->leg_count; i++)
		if (chan->legs[i].inner)
			rc = add_to_set(set, fth_dev_chan_fd(chan->legs[i].inner));
	return rc;
}

static int make_set(struct vol_chan *chan)
{
	struct vol_worker *worker = &chan->obj->vol->worker;
	int set = fth_fd_high(epoll_create1(EPOLL_CLOEXEC));
	int bell = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	int rc = set < 0 ? set : bell < 0 ? bell : fill_set(chan, set, bell);

	if (rc < 0) {
		close_fd(&set);
		close_fd(&bell);
		close_fd(&chan->timer);
		return rc;
	}
	chan->set = set;
	pthread_mutex_lock(&worker->lock);
	chan->bell = bell;
	chan->bell_on = false;
	pthread_mutex_unlock(&worker->lock);
	vol_wait_settle(chan);
	return 0;
}

int vol_chan_fd(struct fth_dev_chan *base)
{
	struct vol_chan *chan = (struct vol_chan *)base;
	int rc = chan->set < 0 ? make_set(chan) : 0;

	return rc < 0 ? rc : chan->set;
}

/* ---- waiting ---- */

/* The one device that requests are in flight on, when nothing else can happen; or NULL. */
static struct vol_leg *only_leg(struct vol_chan *chan)
{
	struct vol_leg *only = NULL;

	if (chan->asking > 0 || chan->awaits_repair)
		return NULL;
	for (unsigned i = 0; i < chan->leg_count; i++) {
		struct vol_leg *leg = &chan->legs[i];

		if (leg->load == 0)
			continue;
		if (only || leg->staged_count == leg->load)
			return NULL;
		only = leg;
	}
	return only;
}

static struct timespec time_left(uint64_t deadline)
{
	uint64_t now = fth_now_ns(), left = deadline > now ? deadline - now : 0;

	return (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
}

int vol_wait(struct vol_chan *chan, uint64_t deadline)
{
	struct vol_leg *only = only_leg(chan);
	struct pollfd p = {.events = POLLIN};
	struct timespec left;

	if (only)
		return vol_parts_collect(chan, only, 1, deadline);
	/* Without descriptors for a set it is looked at all devices again and again. */
	if (chan->set < 0 && make_set(chan) < 0) {
		uint64_t soon = fth_deadline_ns(RETRY_NS);

		left = time_left(soon < deadline ? soon : deadline);
		return ppoll(NULL, 0, &left, NULL) < 0 && errno != EINTR ? -errno : 0;
	}
	vol_wait_settle(chan);
	p.fd = chan->set;
	left = time_left(deadline);
	if (ppoll(&p, 1, deadline == FTH_NEVER ? NULL : &left, NULL) < 0 && errno != EINTR)
		return -errno;
	return 0;
}
