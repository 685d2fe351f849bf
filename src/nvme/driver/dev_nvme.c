/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device of queue pairs. dev_nvme.h lists the other files.
 *
 * Invariants
 * 1. A request is in `pending` while bytes of it have no command, in `done` when all its
 *    commands have completed and none will follow, and in neither while it only waits. An error
 *    stops further commands of the request, not those already in flight.
 * 2. A command id is held from take until its completion was reaped, and not longer:
 *    the thread that reaps the queue pair delivers the completion to the channel that owns the
 *    command, and frees the id. No channel has to be reaped for another one to get an id.
 * 3. The resources of an arrived command belong to its channel: its place in the channel's pool,
 *    its bounce chunk, its request. The owner copies bounced data and issues further commands of
 *    the request, in its submit or reap. If the owner never reaps, only its own requests stall.
 * 4. A command is in one place: the pool; a flight (share->flights, under its id, from before put
 *    until delivery); or arrived (chan->arrived, or chan->mine). Its channel's thread moves it out
 *    of and into the pool; only the holder of the queue pair's reap_lock takes it from a flight.
 * 5. A command that timed out, of any channel, or a failed queue pair fails the whole
 *    controller, which disables it. Only then is the failure delivered to the commands in
 *    flight, by any thread that noticed it, and requests complete whose memory the controller may
 *    have accessed.
 * 6. The controller is re-enabled only when no thread is between take and ring
 *    (share->issuing) and no id is held: commands of channels that are not reaped are delivered as
 *    failed, so they hold none.
 *
 *	pool --take, put--> flight --reap: completed, or sweep: failed--> arrived --owner--> pool
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

static struct nvme_command *pool_pop(struct chan_nvme *chan)
{
	struct nvme_command *command = chan->free;

	if (command)
		chan->free = command->next;
	return command;
}

static void pool_push(struct chan_nvme *chan, struct nvme_command *command)
{
	command->next = chan->free;
	chan->free = command;
}

/* An id for the channel. When there is none, a channel that sleeps will be told of one. */
static uint32_t take_id(struct chan_nvme *chan)
{
	uint32_t id = fth_nvme_qp_take(chan->share->qp, chan->hint);

	if (id != FTH_NVME_NO_ID || !chan->wake.watched)
		return id;
	nvme_wake_starve(chan);
	return fth_nvme_qp_take(chan->share->qp, chan->hint);
}

/* Give an id back that was not used. */
static void untake_id(struct chan_nvme *chan, uint32_t id)
{
	struct fth_nvme_qp *qp = chan->share->qp;
	struct fth_nvme_reap reap;

	fth_nvme_qp_untake(qp, id);
	fth_nvme_qp_reap_lock(qp, &reap);
	nvme_wake_starving(chan->share);
	fth_nvme_qp_reap_end(qp, &reap);
}

/* Put a command that has an id and was built. From here on any thread may deliver it. */
static void launch(struct chan_nvme *chan, struct nvme_command *command,
		   const struct fth_nvme_sqe *sqe, uint64_t now)
{
	struct nvme_progress *progress = nvme_progress(command->req);
	struct nvme_flight *flight = &chan->share->flights[command->id];

	progress->issued += command->bytes;
	progress->outstanding++;
	chan->hint = command->id;
	flight->command = command;
	/* release: whoever sees the time sees the command. */
	fth_store_release_dev64(&flight->issued_ns, now);
	fth_nvme_qp_put(chan->share->qp, chan->hint, sqe);
}

/* One command of the first pending request. 0, or -EAGAIN when something has to end first. */
static int issue_one(struct chan_nvme *chan, struct fth_dev_req *req, uint64_t now)
{
	struct nvme_command *command = pool_pop(chan);
	struct fth_nvme_sqe sqe;
	int rc = -EAGAIN;

	if (!command)
		return -EAGAIN;
	command->req = req;
	command->id = take_id(chan);
	if (command->id != FTH_NVME_NO_ID) {
		rc = nvme_command_build(chan, command, &sqe);
		if (rc < 0)
			untake_id(chan, command->id);
	}
	if (rc < 0) {
		pool_push(chan, command);
		if (rc != -EAGAIN)
			nvme_progress(req)->error = rc;
		return rc;
	}
	launch(chan, command, &sqe, now);
	return 0;
}

/* Make commands of pending requests while there are ids. Returns whether any was put. */
static bool issue(struct chan_nvme *chan)
{
	uint64_t now = fth_now_ns();
	struct fth_dev_req *req;
	bool any = false;

	while ((req = list_first(&chan->pending)) != NULL) {
		struct nvme_progress *progress = nvme_progress(req);

		while (!progress->error && progress->issued < nvme_request_bytes(req)) {
			if (issue_one(chan, req, now) == 0)
				any = true;
			else if (!progress->error)
				return any;
		}
		list_pop(&chan->pending);
		if (progress->outstanding == 0)
			finish(chan, req);
	}
	fth_store_relaxed_dev32(&chan->wake.starving, 0);
	return any;
}

/* Issue what can be issued, and ring once. */
static void pump(struct chan_nvme *chan)
{
	uint32_t *issuing = chan->share->issuing;

	if (chan->pending.count == 0)
		return;
	/* acqrel: stops the take from being made before a reset can see us (invariant 6). */
	fth_add_acqrel_dev32(issuing, 1);
	if (issue(chan))
		fth_nvme_qp_ring(chan->share->qp);
	/* release: stops our last look at the rings from sinking below it. */
	fth_add_release_dev32(issuing, UINT32_MAX);
}

static bool is_done_at_once(struct chan_nvme *chan, const struct fth_dev_req *req)
{
	return req->op == FTH_DEV_DISCARD && !chan->owner->nvme->info.has_discard;
}

/* ---- commands in ---- */

/* A command of ours has ended with rc. */
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

/* End a list of commands, its last one first: they come last first. */
static void end_list(struct chan_nvme *chan, struct nvme_command *list)
{
	struct nvme_command *turned = NULL, *next;

	for (; list; list = next) {
		next = list->next;
		list->next = turned;
		turned = list;
	}
	for (; turned; turned = next) {
		next = turned->next;
		end_command(chan, turned, turned->result);
		pool_push(chan, turned);
	}
}

/* End the commands that were delivered to us. */
static void absorb(struct chan_nvme *chan)
{
	struct nvme_command *mine = chan->mine;

	chan->mine = NULL;
	end_list(chan, mine);
	if (fth_load_relaxed_dev64(&chan->arrived)) {
		/* acquire: the results, and the data they brought, are read after it. */
		uint64_t list = fth_xchg_acquire_dev64(&chan->arrived, 0);

		end_list(chan, (struct nvme_command *)(uintptr_t)list);
	}
}

/* After a failure no pending request gets further. */
static void fail_pending(struct chan_nvme *chan, int failure)
{
	while (chan->pending.count > 0) {
		struct fth_dev_req *req = list_pop(&chan->pending);

		if (!nvme_progress(req)->error)
			nvme_progress(req)->error = failure;
		if (nvme_progress(req)->outstanding == 0)
			finish(chan, req);
	}
}

/* Collect what is delivered to us, and make further commands. */
static void advance(struct chan_nvme *chan)
{
	int failure = fth_nvme_qp_failed(chan->share->qp);

	/* A queue pair also fails by itself, when the controller broke the protocol. */
	if (failure < 0)
		nvme_dev_fail(chan->owner, -failure);
	absorb(chan);
	if (failure < 0)
		fail_pending(chan, failure);
	pump(chan);
}

static int revive(struct chan_nvme *chan)
{
	int failure = fth_nvme_qp_failed(chan->share->qp), rc;

	if (failure == 0)
		return 0;
	nvme_dev_fail(chan->owner, -failure);
	rc = nvme_dev_recover(chan->owner);
	if (rc == -EBUSY)
		return fth_fail(EIO, "the controller was reset while commands of other "
				     "channels were in flight");
	return rc;
}

static int nvme_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct chan_nvme *chan = (struct chan_nvme *)base;
	int rc = revive(chan);

	if (rc < 0)
		return rc;
	refresh_regions(chan);
	for (unsigned i = 0; i < n; i++) {
		memset(reqs[i]->scratch, 0, sizeof(reqs[i]->scratch));
		if (is_done_at_once(chan, reqs[i]))
			finish(chan, reqs[i]);
		else
			list_push(&chan->pending, reqs[i]);
	}
	chan->busy += n;
	absorb(chan);
	pump(chan);
	if (chan->wake.watched) {
		nvme_wake_arm(chan);
		if (chan->done.count > 0)
			nvme_wake_signal(chan);
	}
	return (int)n;
}

/* ---- waiting ---- */

void nvme_check_time(struct chan_nvme *chan)
{
	struct fth_nvme *nvme = chan->owner->nvme;

	if (nvme_share_overdue(chan->share, nvme->timeout_ns))
		nvme_dev_fail(chan->owner, ETIMEDOUT);
	else
		fth_nvme_watch(nvme);
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
	nvme_check_time(chan);
}

/*
 * Sleep until an interrupt comes; true when the deadline has passed. The nap has an end of its own:
 * nobody else tells of a controller that is gone, and another channel on the same queue pair may
 * reap our completion and take the interrupt with it.
 */
static bool nap(struct chan_nvme *chan, uint64_t deadline)
{
	struct fth_nvme_transport *transport = chan->owner->nvme->transport;
	/* relaxed: a count that is a little old makes the nap too long or short, no more. */
	bool shared = fth_load_relaxed_dev32(&chan->share->channels) > 1;
	uint64_t until = fth_deadline_ns(shared ? NAP_SHARED_NS : NAP_NS);

	if (transport->ops->wait(transport, chan->share->vector,
				 until < deadline ? until : deadline) < 0)
		nvme_check_time(chan);
	else
		nvme_wake_drain_vector(chan); /* we took the interrupt, from others as well */
	return fth_now_ns() >= deadline;
}

static bool pause_expired(struct chan_nvme *chan, struct fth_backoff *backoff, uint64_t deadline)
{
	if (chan->owner->nvme->transport->sleeps && backoff->spins >= FTH_BACKOFF_SPINS)
		return nap(chan, deadline);
	return fth_backoff_expired(backoff, deadline);
}

static unsigned hand_back(struct chan_nvme *chan, struct fth_dev_req **done, unsigned max)
{
	unsigned n = 0;

	while (n < max && chan->done.count > 0)
		done[n++] = list_pop(&chan->done);
	chan->busy -= n;
	return n;
}

/*
 * Leave the channel's descriptor unreadable, or with a reason: take back the wake-ups, then look
 * once more, as something may have come in between. Returns how many requests that brought.
 */
static unsigned settle(struct chan_nvme *chan, struct fth_dev_req **done, unsigned max)
{
	unsigned n = 0, more = 1;

	while (n < max && more > 0) {
		nvme_wake_clear(chan);
		advance(chan);
		more = hand_back(chan, done + n, max - n);
		n += more;
	}
	nvme_wake_arm(chan);
	if (chan->done.count > 0)
		nvme_wake_signal(chan);
	return n;
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
		nvme_share_drain(chan->share, chan, false);
		advance(chan);
		n += hand_back(chan, done + n, max - n);
		if (n >= min || n == max)
			break;
		if (pause_expired(chan, &backoff, deadline))
			break;
	}
	if (chan->wake.watched)
		n += settle(chan, done + n, max - n);
	return (int)n;
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
		return fth_fail(EINVAL, "%zu bytes at %p are not mapped", len, addr);
	transport->ops->unmap(transport, addr, len, region.iova);
	return 0;
}

/* ---- channels ---- */

static void nvme_chan_close(struct fth_dev_chan *base)
{
	struct chan_nvme *chan = (struct chan_nvme *)base;

	nvme_wake_close(chan);
	fth_add_relaxed_dev32(&chan->share->channels, UINT32_MAX);
	fth_nvme_dma_free(chan->owner->nvme, &chan->bounce);
	free(chan->pending.ring);
	free(chan->done.ring);
	free(chan->commands);
	free(chan->regions);
	free(chan);
}

static int make_pool(struct chan_nvme *chan)
{
	uint32_t n = chan->share->qp->ids;

	chan->commands = calloc(n, sizeof(chan->commands[0]));
	if (!chan->commands)
		return -ENOMEM;
	while (n > 0) {
		chan->commands[--n].chan = chan;
		pool_push(chan, &chan->commands[n]);
	}
	return 0;
}

static int nvme_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct dev_nvme *self = (struct dev_nvme *)dev;
	/* What other threads push to has a cache line of its own. */
	size_t align = FTH_NVME_CACHE_LINE;
	struct chan_nvme *chan = aligned_alloc(align, (sizeof(*chan) + align - 1) / align * align);
	uint32_t turn;

	if (!chan)
		return -ENOMEM;
	memset(chan, 0, sizeof(*chan));
	turn = fth_add_relaxed_dev32(&self->next_share, 1);
	chan->owner = self;
	chan->share = &self->shares[turn % self->nvme->info.queues];
	fth_add_relaxed_dev32(&chan->share->channels, 1);
	chan->hint = turn * 32;	       /* another word of the id bitmap for each */
	chan->generation = UINT32_MAX; /* no copy of the regions yet */
	chan->wake = (struct nvme_wake){.epoll = -1, .event = -1, .timer = -1, .vector = -1};
	chan->regions = calloc(NVME_REGIONS_MAX, sizeof(chan->regions[0]));
	if (make_pool(chan) < 0 || !chan->regions || list_init(&chan->pending, depth) < 0 ||
	    list_init(&chan->done, depth) < 0) {
		nvme_chan_close(&chan->chan);
		return -ENOMEM;
	}
	*out = &chan->chan;
	return 0;
}

static int nvme_chan_fd(struct fth_dev_chan *base)
{
	return nvme_wake_open((struct chan_nvme *)base);
}

static int nvme_chan_prepare(struct fth_dev_chan *base)
{
	return nvme_bounce_open((struct chan_nvme *)base);
}

/* ---- the device ---- */

static void share_release(struct dev_nvme *self, struct nvme_share *share)
{
	fth_nvme_dma_free(self->nvme, &share->lists);
	free(share->flights);
}

static void release(struct dev_nvme *self)
{
	for (uint32_t i = 0; self->shares && i < self->nvme->info.queues; i++)
		share_release(self, &self->shares[i]);
	free(self->shares);
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
	.chan_fd = nvme_chan_fd,
	.chan_prepare = nvme_chan_prepare,
	.map = nvme_map,
	.unmap = nvme_unmap,
	.window_open = nvme_window_open,
};

static int make_shares(struct dev_nvme *self)
{
	size_t page = FTH_NVME_PAGE_SIZE;
	int rc = 0;

	self->shares = calloc(self->nvme->info.queues, sizeof(self->shares[0]));
	if (!self->shares)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < self->nvme->info.queues; i++) {
		struct nvme_share *share = &self->shares[i];

		share->qp = fth_nvme_qp(self->nvme, i);
		share->issuing = nvme_issuing(self->nvme, i);
		share->vector = nvme_vector(self->nvme, share->qp->qid);
		share->flights = calloc(share->qp->ids, sizeof(share->flights[0]));
		if (!share->flights)
			return -ENOMEM;
		rc = fth_nvme_dma_alloc(self->nvme, share->qp->ids * page, &share->lists);
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
	rc = make_shares(self);
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
