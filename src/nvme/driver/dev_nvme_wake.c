/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptor of a channel: an epoll set, which is itself a descriptor to poll, of
 *
 *	event	an eventfd of the channel: a command was delivered by another thread, or a request
 *		is done and was not handed back
 *	vector	the interrupt of its queue: completions have arrived that nobody has reaped
 *	timer	fires now and then while requests are in flight, so that a command that has had its
 *		time is noticed, and a controller that is gone. Without interrupts it fires so often
 *		that it replaces them
 *
 * Invariants
 * 1. The thread that reads the interrupt's eventfd takes the reap_lock of every queue of that
 *    interrupt, reaps it, and so delivers to all channels. Their events wake the other channels.
 * 2. The event is readable, or about to be written, while `signalled` is set. A push comes before
 *    the set, and a read before the clear and a look at what arrived: so either the look finds the
 *    push, or the set finds `signalled` clear and writes.
 * 3. Vector is in the set while requests are in flight; an idle channel that is woken by
 *    completions of others takes it out.
 *
 * Channels that nobody asked for a descriptor are not in share->watchers, and cost nothing here.
 */
#include "dev_nvme.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TICK_MAX_NS  100000000u
#define TICK_MIN_NS  1000000u
#define TICK_POLL_NS 250000u /* where there are no interrupts */

enum { EVENT, VECTOR, TIMER };

/* Read a counter away. Nothing there: another thread was faster, which is as good. */
static void drink(int fd)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
}

void nvme_wake_signal(struct chan_nvme *chan)
{
	const uint64_t one = 1;

	if (!chan->wake.watched)
		return;
	/* acqrel: stops what the owner shall find from being pushed after it (invariant 2). */
	if (fth_xchg_acqrel_dev32(&chan->wake.signalled, 1))
		return;
	/* It fails only when the counter is full, and then it is readable. */
	(void)!write(chan->wake.event, &one, sizeof(one));
}

void nvme_wake_starving(struct nvme_share *share)
{
	for (struct chan_nvme *chan = share->watchers; chan; chan = chan->wake.next)
		if (fth_load_relaxed_dev32(&chan->wake.starving))
			nvme_wake_signal(chan);
}

/* ---- the owner's side ---- */

void nvme_wake_starve(struct chan_nvme *chan)
{
	struct fth_nvme_reap reap;

	if (!chan->wake.watched || fth_load_relaxed_dev32(&chan->wake.starving))
		return;
	/*
	 * Ids of delivered commands are freed under the lock. Either that was before, and our next
	 * try finds them, or it is later, and we are signalled.
	 */
	fth_nvme_qp_reap_lock(chan->share->qp, &reap);
	fth_store_relaxed_dev32(&chan->wake.starving, 1);
	fth_nvme_qp_reap_end(chan->share->qp, &reap);
}

static int watch_fd(int epoll, int fd, uint32_t what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return fth_fail(errno, "epoll_ctl: %s", strerror(errno));
	return 0;
}

static void tick(struct chan_nvme *chan)
{
	uint64_t ns = chan->owner->nvme->timeout_ns / 2;
	struct itimerspec at = {0};

	if (ns < TICK_MIN_NS)
		ns = TICK_MIN_NS;
	if (ns > TICK_MAX_NS)
		ns = TICK_MAX_NS;
	if (!chan->wake.listening)
		ns = TICK_POLL_NS;
	at.it_value.tv_nsec = (long)ns;
	chan->wake.ticking = timerfd_settime(chan->wake.timer, 0, &at, NULL) == 0;
}

void nvme_wake_arm(struct chan_nvme *chan)
{
	struct nvme_wake *wake = &chan->wake;

	if (chan->busy == 0)
		return;
	if (wake->vector >= 0 && !wake->listening)
		wake->listening = watch_fd(wake->epoll, wake->vector, VECTOR) == 0;
	if (!wake->ticking)
		tick(chan);
}

void nvme_wake_drain_vector(struct chan_nvme *chan)
{
	struct dev_nvme *dev = chan->owner;

	for (uint32_t i = 0; i < dev->nvme->info.queues; i++)
		if (dev->shares[i].vector == chan->share->vector)
			nvme_share_drain(&dev->shares[i], chan, true);
}

static void clear_one(struct chan_nvme *chan, uint32_t what)
{
	struct nvme_wake *wake = &chan->wake;

	switch (what) {
	case EVENT:
		drink(wake->event);
		fth_xchg_acqrel_dev32(&wake->signalled, 0); /* in this order: invariant 2 */
		break;
	case VECTOR:
		drink(wake->vector);
		nvme_wake_drain_vector(chan);
		if (chan->busy == 0) {
			(void)epoll_ctl(wake->epoll, EPOLL_CTL_DEL, wake->vector, NULL);
			wake->listening = false;
		}
		break;
	case TIMER:
		drink(wake->timer);
		wake->ticking = false;
		nvme_check_time(chan);
		break;
	}
}

void nvme_wake_clear(struct chan_nvme *chan)
{
	struct epoll_event events[3];
	int n = epoll_wait(chan->wake.epoll, events, 3, 0);

	for (int i = 0; i < n; i++)
		clear_one(chan, events[i].data.u32);
	/* Also without an interrupt: one that another channel read may have been for ours. */
	nvme_share_drain(chan->share, chan, true);
}

/* ---- making and ending ---- */

static int vector_fd(struct chan_nvme *chan)
{
	struct fth_nvme_transport *transport = chan->owner->nvme->transport;

	if (!transport->ops->vector_fd || transport->vectors == 0)
		return -1;
	return transport->ops->vector_fd(transport, chan->share->vector);
}

static int make_set(struct nvme_wake *wake)
{
	int rc;

	wake->event = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	wake->timer = fth_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	wake->epoll = fth_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (wake->event < 0 || wake->timer < 0 || wake->epoll < 0)
		return fth_fail(errno, "cannot create the descriptor of a channel: %s",
				strerror(errno));
	rc = watch_fd(wake->epoll, wake->event, EVENT);
	return rc < 0 ? rc : watch_fd(wake->epoll, wake->timer, TIMER);
}

static void release_set(struct nvme_wake *wake)
{
	if (wake->epoll >= 0)
		close(wake->epoll);
	if (wake->event >= 0)
		close(wake->event);
	if (wake->timer >= 0)
		close(wake->timer);
	*wake = (struct nvme_wake){.epoll = -1, .event = -1, .timer = -1, .vector = -1};
}

int nvme_wake_open(struct chan_nvme *chan)
{
	struct nvme_share *share = chan->share;
	struct fth_nvme_reap reap;
	int rc;

	if (chan->wake.epoll >= 0)
		return chan->wake.epoll;
	rc = make_set(&chan->wake);
	if (rc < 0) {
		release_set(&chan->wake);
		return rc;
	}
	/* A drive without interrupts, or one whose interrupts fail, is asked again and again. */
	chan->wake.vector = vector_fd(chan);
	fth_nvme_qp_reap_lock(share->qp, &reap);
	chan->wake.next = share->watchers;
	share->watchers = chan;
	chan->wake.watched = true;
	fth_nvme_qp_reap_end(share->qp, &reap);
	nvme_wake_arm(chan);
	/* What arrived before is found by the first look. */
	nvme_wake_signal(chan);
	return chan->wake.epoll;
}

void nvme_wake_close(struct chan_nvme *chan)
{
	struct nvme_share *share = chan->share;
	struct fth_nvme_reap reap;

	/* Always: a thread that has delivered our last command may still be about to signal. */
	fth_nvme_qp_reap_lock(share->qp, &reap);
	for (struct chan_nvme **at = &share->watchers; *at; at = &(*at)->wake.next) {
		if (*at == chan) {
			*at = chan->wake.next;
			break;
		}
	}
	fth_nvme_qp_reap_end(share->qp, &reap);
	release_set(&chan->wake);
}
