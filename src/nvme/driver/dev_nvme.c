/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device of queue pairs. The siblings are named in dev_nvme.h.
 *
 * Invariants
 * 1. A request is in `pending` while bytes of it have no command, in `done` when all its
 *    commands have ended and none will follow, and in neither while it only waits. An error
 *    stops further commands of the request, not those already out.
 * 2. A channel's `active` holds exactly the command ids it has taken and not yet ended; each
 *    has an nvme_command whose request is in flight.
 * 3. A command that has had its time, or a queue pair that failed, fails the whole controller,
 *    which disables it: only then do requests end whose memory it may still have touched.
 */
#include "dev_nvme.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

static int list_init(struct nvme_list *list, unsigned capacity)
{
	list->ring = calloc(capacity, sizeof(list->ring[0]));
	list->capacity = capacity;
	return list->ring ? 0 : -ENOMEM;
}

static void list_push(struct nvme_list *list, struct fth_dev_req *req)
{
	list->ring[(list->head + list->count++) % list->capacity] = req;
}

static struct fth_dev_req *list_first(const struct nvme_list *list)
{
	return list->count ? list->ring[list->head] : NULL;
}

static struct fth_dev_req *list_pop(struct nvme_list *list)
{
	struct fth_dev_req *req = list_first(list);

	list->head = (list->head + 1) % list->capacity;
	list->count--;
	return req;
}

/* ---- commands out ---- */

static void refresh_regions(struct chan_nvme *chan)
{
	struct dev_nvme *owner = chan->owner;

	/* acquire: a mapping made before this submit is seen by it. */
	if (fth_load_acquire_dev32(&owner->generation) == chan->generation)
		return;
	pthread_mutex_lock(&owner->region_lock);
	chan->generation = fth_load_relaxed_dev32(&owner->generation);
	chan->region_count = owner->region_count;
	memcpy(chan->regions, owner->regions, owner->region_count * sizeof(chan->regions[0]));
	pthread_mutex_unlock(&owner->region_lock);
	chan->region_hit = 0;
}

/* End a request that has no command out and gets no more. */
static void finish(struct chan_nvme *chan, struct fth_dev_req *req)
{
	req->result = nvme_progress(req)->error;
	list_push(&chan->done, req);
}

/* One command of the first pending request. 0, or -EAGAIN when something has to end first. */
static int issue_one(struct chan_nvme *chan, struct fth_dev_req *req, uint64_t now)
{
	struct nvme_command *command = &chan->active[chan->active_count];
	struct nvme_progress *progress = nvme_progress(req);
	struct fth_nvme_qp *qp = chan->lane->qp;
	struct fth_nvme_sqe sqe;
	int rc;

	command->id = fth_nvme_qp_take(qp, chan->hint);
	if (command->id == FTH_NVME_NO_ID)
		return -EAGAIN;
	command->req = req;
	command->issued_ns = now;
	rc = nvme_command_build(chan, command, &sqe);
	if (rc < 0) {
		fth_nvme_qp_untake(qp, command->id);
		if (rc != -EAGAIN)
			progress->error = rc;
		return rc;
	}
	progress->issued += command->bytes;
	progress->outstanding++;
	chan->hint = command->id;
	chan->active_count++;
	fth_nvme_qp_put(qp, command->id, &sqe);
	return 0;
}

/* Make commands of pending requests while there are command ids, then ring once. */
static void pump(struct chan_nvme *chan)
{
	unsigned before = chan->active_count;
	struct fth_dev_req *req;
	uint64_t now;

	if (chan->pending.count == 0)
		return;
	now = fth_now_ns();
	while ((req = list_first(&chan->pending)) != NULL) {
		struct nvme_progress *progress = nvme_progress(req);

		while (!progress->error && progress->issued < nvme_request_bytes(req))
			if (issue_one(chan, req, now) < 0 && !progress->error)
				goto ring;
		list_pop(&chan->pending);
		if (progress->outstanding == 0)
			finish(chan, req);
	}
ring:
	if (chan->active_count > before)
		fth_nvme_qp_ring(chan->lane->qp);
}

static bool is_done_at_once(struct chan_nvme *chan, const struct fth_dev_req *req)
{
	return req->op == FTH_DEV_DISCARD && !chan->owner->nvme->info.has_discard;
}

static int nvme_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct chan_nvme *chan = (struct chan_nvme *)base;
	int rc;

	if (fth_nvme_qp_failed(chan->lane->qp) < 0) {
		rc = fth_nvme_recover(chan->owner->nvme);
		if (rc < 0)
			return rc == -EBUSY ? fth_fail(EIO, "the controller was reset, and other "
							    "requests have yet to end")
					    : rc;
	}
	refresh_regions(chan);
	for (unsigned i = 0; i < n; i++) {
		memset(reqs[i]->scratch, 0, sizeof(reqs[i]->scratch));
		if (is_done_at_once(chan, reqs[i]))
			finish(chan, reqs[i]);
		else
			list_push(&chan->pending, reqs[i]);
	}
	pump(chan);
	return (int)n;
}

/* ---- commands in ---- */

/* A command of ours has ended with rc; it is no longer among the active. */
static void end_command(struct chan_nvme *chan, const struct nvme_command *command, int rc)
{
	struct fth_dev_req *req = command->req;
	struct nvme_progress *progress = nvme_progress(req);

	nvme_command_end(chan, command, rc == 0);
	if (rc < 0 && !progress->error)
		progress->error = rc;
	progress->outstanding--;
	/* A request that is still pending is pump()'s to end. */
	if (progress->outstanding == 0 && list_first(&chan->pending) != req)
		finish(chan, req);
}

/* After a failure no pending request gets further. */
static void fail_pending(struct chan_nvme *chan, int failure)
{
	while (chan->pending.count > 0) {
		struct fth_dev_req *req = list_pop(&chan->pending);

		if (!nvme_progress(req)->error)
			nvme_progress(req)->error = failure;
		finish(chan, req);
	}
}

/* Look at every command we have out. */
static void collect(struct chan_nvme *chan)
{
	struct fth_nvme_qp *qp = chan->lane->qp;
	int failure = fth_nvme_qp_failed(qp);
	struct fth_nvme_done done = {0, 0};

	/* A queue pair also fails by itself, when the controller broke the protocol. */
	if (failure < 0)
		fth_nvme_fail(chan->owner->nvme, -failure);
	for (unsigned i = 0; i < chan->active_count;) {
		struct nvme_command command = chan->active[i];
		int rc = 0;

		if (!fth_nvme_qp_try(qp, command.id, &done)) {
			if (failure == 0) {
				i++;
				continue;
			}
			rc = fth_nvme_qp_collect(qp, command.id, &done);
		}
		chan->active[i] = chan->active[--chan->active_count];
		end_command(chan, &command, rc < 0 ? rc : fth_nvme_status_errno(done.status));
	}
	if (failure < 0)
		fail_pending(chan, failure);
}

/* A command that has had its time takes the controller down (invariant 3), as does its illness. */
static void check_time(struct chan_nvme *chan)
{
	uint64_t now = fth_now_ns();

	for (unsigned i = 0; i < chan->active_count; i++) {
		if (now - chan->active[i].issued_ns > chan->owner->nvme->timeout_ns) {
			fth_nvme_fail(chan->owner->nvme, ETIMEDOUT);
			return;
		}
	}
	fth_nvme_watch(chan->owner->nvme);
}

#define CLOCK_EVERY   64       /* looks at the queue: reading the clock costs as much as some */
#define CHECK_NS      2000000  /* between two checks: one reads registers */
#define NAP_NS	      10000000 /* how long to sleep without an interrupt */
#define NAP_SHARED_NS 500000

static void check_now_and_then(struct chan_nvme *chan)
{
	uint64_t now = fth_now_ns();

	if (now < chan->next_check)
		return;
	chan->next_check = now + CHECK_NS;
	check_time(chan);
}

/*
 * Sleep until an interrupt comes; true when the deadline has passed. The nap has an end of its own:
 * nobody else tells of a controller that is gone, and another channel on the same queue pair may
 * drain our completion and take the interrupt with it.
 */
static bool nap(struct chan_nvme *chan, uint64_t deadline)
{
	struct fth_nvme_transport *transport = chan->owner->nvme->transport;
	/* relaxed: a count that is a little old makes the nap too long or short, no more. */
	bool shared = fth_load_relaxed_dev32(&chan->lane->channels) > 1;
	uint64_t until = fth_deadline_ns(shared ? NAP_SHARED_NS : NAP_NS);
	unsigned vector = nvme_vector(chan->owner->nvme, chan->lane->qp->qid);

	if (transport->ops->wait(transport, vector, until < deadline ? until : deadline) < 0)
		check_time(chan);
	return fth_now_ns() >= deadline;
}

static bool pause_expired(struct chan_nvme *chan, struct fth_backoff *backoff, uint64_t deadline)
{
	if (chan->owner->nvme->transport->vectors && backoff->spins >= FTH_BACKOFF_SPINS)
		return nap(chan, deadline);
	return fth_backoff_expired(backoff, deadline);
}

static int nvme_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		     unsigned min, uint64_t deadline)
{
	struct chan_nvme *chan = (struct chan_nvme *)base;
	struct fth_backoff backoff = {0};
	unsigned n = 0;

	for (;;) {
		/* Before anything returns: a caller may never wait, and only ask again and again.
		 */
		if (++chan->turns % CLOCK_EVERY == 0)
			check_now_and_then(chan);
		fth_nvme_qp_poll(chan->lane->qp);
		collect(chan);
		pump(chan);
		while (n < max && chan->done.count > 0)
			done[n++] = list_pop(&chan->done);
		if (n >= min || n == max)
			return (int)n;
		if (pause_expired(chan, &backoff, deadline))
			return (int)n;
	}
}

/* ---- mapped memory ---- */

static int nvme_map(struct fth_dev *dev, void *addr, size_t len)
{
	struct dev_nvme *self = (struct dev_nvme *)dev;
	struct fth_nvme_transport *transport = self->nvme->transport;
	struct nvme_region region = {addr, len, 0};
	int rc;

	if (self->region_count == NVME_REGIONS_MAX)
		return fth_fail(ENOSPC, "more than %d mapped ranges", NVME_REGIONS_MAX);
	rc = transport->ops->map(transport, addr, len, &region.iova);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&self->region_lock);
	self->regions[self->region_count++] = region;
	/* release: pairs with the acquire of refresh_regions(). */
	fth_store_release_dev32(&self->generation, self->generation + 1);
	pthread_mutex_unlock(&self->region_lock);
	return 0;
}

static int nvme_unmap(struct fth_dev *dev, void *addr, size_t len)
{
	struct dev_nvme *self = (struct dev_nvme *)dev;
	struct fth_nvme_transport *transport = self->nvme->transport;
	struct nvme_region region = {0};

	pthread_mutex_lock(&self->region_lock);
	for (unsigned i = 0; i < self->region_count; i++) {
		if (self->regions[i].addr != addr || self->regions[i].len != len)
			continue;
		region = self->regions[i];
		self->regions[i] = self->regions[--self->region_count];
		fth_store_release_dev32(&self->generation, self->generation + 1);
		break;
	}
	pthread_mutex_unlock(&self->region_lock);
	if (!region.addr)
		return fth_fail(EINVAL, "%p, %zu bytes: not mapped", addr, len);
	transport->ops->unmap(transport, addr, len, region.iova);
	return 0;
}

/* ---- channels ---- */

static void nvme_chan_close(struct fth_dev_chan *base)
{
	struct chan_nvme *chan = (struct chan_nvme *)base;

	fth_add_relaxed_dev32(&chan->lane->channels, UINT32_MAX);
	fth_nvme_dma_free(chan->owner->nvme, &chan->bounce);
	free(chan->pending.ring);
	free(chan->done.ring);
	free(chan->active);
	free(chan->regions);
	free(chan);
}

static int nvme_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct dev_nvme *self = (struct dev_nvme *)dev;
	struct chan_nvme *chan = calloc(1, sizeof(*chan));
	uint32_t turn;

	if (!chan)
		return -ENOMEM;
	turn = fth_add_relaxed_dev32(&self->next_lane, 1);
	chan->owner = self;
	chan->lane = &self->lanes[turn % self->nvme->info.queues];
	fth_add_relaxed_dev32(&chan->lane->channels, 1);
	chan->hint = turn * 32;	       /* another word of the id bitmap for each */
	chan->generation = UINT32_MAX; /* no copy of the regions yet */
	/* One more than can be out: issue_one() builds in place before it knows. */
	chan->active = calloc((size_t)chan->lane->qp->ids + 1, sizeof(chan->active[0]));
	chan->regions = calloc(NVME_REGIONS_MAX, sizeof(chan->regions[0]));
	if (!chan->active || !chan->regions || list_init(&chan->pending, depth) < 0 ||
	    list_init(&chan->done, depth) < 0) {
		nvme_chan_close(&chan->chan);
		return -ENOMEM;
	}
	*out = &chan->chan;
	return 0;
}

/* ---- the device ---- */

static void release(struct dev_nvme *self)
{
	for (uint32_t i = 0; self->lanes && i < self->nvme->info.queues; i++)
		fth_nvme_dma_free(self->nvme, &self->lanes[i].lists);
	free(self->lanes);
	pthread_mutex_destroy(&self->region_lock);
}

static void nvme_close(struct fth_dev *dev)
{
	struct dev_nvme *self = (struct dev_nvme *)dev;
	struct fth_nvme *nvme = self->nvme;

	release(self);
	fth_nvme_close(nvme);
	free(self);
}

static const struct fth_dev_ops nvme_ops = {
	.close = nvme_close,
	.chan_open = nvme_chan_open,
	.chan_close = nvme_chan_close,
	.submit = nvme_submit,
	.reap = nvme_reap,
	.map = nvme_map,
	.unmap = nvme_unmap,
};

static int make_lanes(struct dev_nvme *self)
{
	size_t page = FTH_NVME_PAGE_SIZE;
	int rc = 0;

	self->lanes = calloc(self->nvme->info.queues, sizeof(self->lanes[0]));
	if (!self->lanes)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < self->nvme->info.queues; i++) {
		struct nvme_lane *lane = &self->lanes[i];

		lane->qp = fth_nvme_qp(self->nvme, i);
		rc = fth_nvme_dma_alloc(self->nvme, lane->qp->ids * page, &lane->lists);
	}
	return rc;
}

int fth_nvme_dev_new(struct fth_nvme *nvme, struct fth_dev **out)
{
	struct dev_nvme *self = calloc(1, sizeof(*self));
	int rc;

	if (!self)
		return -ENOMEM;
	self->nvme = nvme;
	pthread_mutex_init(&self->region_lock, NULL);
	rc = make_lanes(self);
	if (rc < 0) {
		release(self);
		free(self);
		return rc;
	}
	self->dev.ops = &nvme_ops;
	self->dev.info = (struct fth_dev_info){
		.size = nvme->info.blocks << nvme->info.lba_shift,
		.block = 1u << nvme->info.lba_shift,
		.align = 1,
		.max_iov = 1024,
		.max_length = (uint64_t)1 << 30,
		.has_fua = true,
		.engine = "nvme",
	};
	*out = &self->dev;
	return 0;
}

struct fth_nvme *fth_nvme_of_dev(struct fth_dev *dev)
{
	return dev && dev->ops == &nvme_ops ? ((struct dev_nvme *)dev)->nvme : NULL;
}
