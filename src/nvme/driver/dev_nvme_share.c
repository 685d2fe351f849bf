/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A share: a queue pair and the channels that share it. dev_nvme.c has the invariants.
 *
 * The thread that reaps the completion ring delivers each completion to the channel whose command
 * it ends, and frees the command's id at once. All deliveries happen under the queue pair's reap_lock,
 * which is never held across I/O; the owner takes its deliveries without a lock.
 */
#include "dev_nvme.h"

#include "fathom/base/error.h"

#include <errno.h>

#define RECOVER_NS 100000000u /* how long threads may take to notice a failure */

static void push_arrived(struct chan_nvme *chan, struct nvme_command *command)
{
	uint64_t first = fth_load_relaxed_dev64(&chan->arrived);

	do {
		command->next = (struct nvme_command *)(uintptr_t)first;
		/* release: the command, and the data it brought, are seen with it. */
	} while (!fth_cas_release_dev64(&chan->arrived, &first, (uintptr_t)command));
}

/*
 * Hand a command to its channel. Its flight has been cleared. The channel lives: it has a request
 * in flight until the push, and chan_close waits for the reap_lock after that.
 */
static void deliver(struct chan_nvme *self, struct nvme_command *command, int result)
{
	struct chan_nvme *chan = command->chan;

	command->result = result;
	if (chan == self) {
		command->next = self->mine;
		self->mine = command;
		return;
	}
	push_arrived(chan, command);
	nvme_wake_signal(chan);
}

/* A completion was entered under this id. Others than channels look after theirs themselves. */
static void end_flight(struct nvme_share *share, struct chan_nvme *self, uint32_t id)
{
	struct nvme_flight *flight = &share->flights[id];
	struct nvme_command *command;
	struct fth_nvme_done done;

	/* relaxed: the completion came after it was set, in the order that the controller made. */
	if (!fth_load_relaxed_dev64(&flight->issued_ns))
		return;
	command = flight->command;
	/* Before the id is free: the next who takes it sets both anew. */
	fth_store_relaxed_dev64(&flight->issued_ns, 0);
	if (fth_nvme_qp_try(share->qp, id, &done))
		deliver(self, command, fth_nvme_status_errno(done.status));
}

void nvme_share_drain(struct nvme_share *share, struct chan_nvme *self, bool wait)
{
	struct fth_nvme_reap reap;
	uint32_t id;

	if (wait)
		fth_nvme_qp_reap_lock(share->qp, &reap);
	else if (!fth_nvme_qp_reap_begin(share->qp, &reap))
		return;
	while (fth_nvme_qp_reap_next(share->qp, &reap, &id))
		end_flight(share, self, id);
	if (share->watchers && reap.head != reap.first)
		nvme_wake_starving(share);
	fth_nvme_qp_reap_end(share->qp, &reap);
}

/* Channels that only wait for an id have a failure to report as well; once for each failure. */
static void tell_watchers(struct nvme_share *share)
{
	bool failed = fth_nvme_qp_failed(share->qp) < 0;

	for (struct chan_nvme *chan = share->watchers; chan && failed && !share->told;
	     chan = chan->wake.next)
		nvme_wake_signal(chan);
	share->told = failed;
}

void nvme_share_sweep(struct nvme_share *share)
{
	struct fth_nvme_reap reap;

	fth_nvme_qp_reap_lock(share->qp, &reap);
	for (uint32_t id = 0; id < share->qp->ids; id++) {
		struct nvme_flight *flight = &share->flights[id];
		int failure;

		/*
		 * acquire: `failed` is read after it. A command that was issued after a recovery is
		 * then seen with a queue pair that works. While it is failed and we hold the lock,
		 * none recovers.
		 */
		if (!fth_load_acquire_dev64(&flight->issued_ns))
			continue;
		failure = fth_nvme_qp_failed(share->qp);
		if (failure == 0)
			break;
		if (!fth_nvme_qp_drop(share->qp, id))
			continue; /* about to be put: the next sweep finds it */
		fth_store_relaxed_dev64(&flight->issued_ns, 0);
		deliver(NULL, flight->command, failure);
	}
	tell_watchers(share);
	fth_nvme_qp_reap_end(share->qp, &reap);
}

bool nvme_share_overdue(const struct nvme_share *share, uint64_t timeout_ns)
{
	uint64_t now = fth_now_ns();

	for (uint32_t id = 0; id < share->qp->ids; id++) {
		/* relaxed: it may end as we look, and then it was in time. */
		uint64_t issued = fth_load_relaxed_dev64(&share->flights[id].issued_ns);

		if (issued && now > issued && now - issued > timeout_ns)
			return true;
	}
	return false;
}

static void sweep_all(struct dev_nvme *dev)
{
	for (uint32_t i = 0; i < dev->nvme->info.queues; i++)
		nvme_share_sweep(&dev->shares[i]);
}

void nvme_dev_fail(struct dev_nvme *dev, int err)
{
	/* It lets go of all memory before any request ends (invariant 5). */
	fth_nvme_fail(dev->nvme, err);
	sweep_all(dev);
}

int nvme_dev_recover(struct dev_nvme *dev)
{
	uint64_t deadline = fth_deadline_ns(RECOVER_NS);
	struct fth_backoff backoff = {0};
	int rc;

	do {
		sweep_all(dev);
		rc = fth_nvme_recover(dev->nvme);
	} while (rc == -EBUSY && !fth_backoff_expired(&backoff, deadline));
	if (rc == 0)
		sweep_all(
			dev); /* there is nothing to sweep: it forgets that it told of a failure */
	return rc;
}
