/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work of the controller: a pass that looks at everything once, and threads that repeat it.
 *
 * Invariants
 * 1. A worker's channel, contexts and lists are touched only by who holds worker->busy and world
 *    (shared), or world alone (exclusive).
 * 2. A context is either free, or waiting, or on the device (in the batch or submitted), or ended
 *    and posted before the pass lets go of world.
 * 3. A command id leaves sq->cids before its completion is posted: the host may use it again at
 *    once. sq->in_flight goes down after it.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* Idle: look again at once for a while, then let others run, then sleep, longer and longer. */
#define IDLE_SPINS	  64
#define IDLE_YIELDS	  256
#define IDLE_YIELDS_BUSY  20000 /* while the device owes us something */
#define IDLE_SLEEP_MIN_NS 5000
#define IDLE_SLEEP_MAX_NS 200000
#define TIMER_SLACK_NS	  1000

void fth_ctrl_attention(struct fth_nvme_ctrl *ctrl)
{
	/* release: what the attention is for is visible to who takes it. */
	fth_store_release_dev32(&ctrl->attention, 1);
}

/* ---- contexts ---- */

static struct ctrl_cmd *take_cmd(struct ctrl_worker *w)
{
	struct ctrl_cmd *cmd = w->free[--w->free_count];

	/* All but the pieces, which are long and counted. */
	memset(cmd, 0, offsetof(struct ctrl_cmd, pieces));
	cmd->stage = CTRL_NOTHING;
	return cmd;
}

static void release_cmd(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	if (cmd->bounce)
		w->bounces[w->bounce_count++] = cmd->bounce;
	cmd->bounce = NULL;
	cmd->state = CTRL_CMD_FREE;
	w->free[w->free_count++] = cmd;
}

static void wait_cmd(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	cmd->state = CTRL_CMD_WAITING;
	cmd->next = NULL;
	*w->waiting_end = cmd;
	w->waiting_end = &cmd->next;
}

/* ---- the end of commands ---- */

static void end_cmd(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;

	fth_stats_add(ctrl->stats, fth_ctrl_io_stat(cmd->sqe.opcode), 1);
	if (cmd->status)
		fth_ctrl_log_error(ctrl, cmd->sq->id, &cmd->sqe, cmd->status);
	w->ended[w->ended_count++] = cmd;
}

static uint64_t *cid_word(const struct ctrl_cmd *cmd)
{
	return &cmd->sq->cids[cmd->sqe.cid / 64];
}

static uint64_t cid_bit(const struct ctrl_cmd *cmd)
{
	return (uint64_t)1 << cmd->sqe.cid % 64;
}

static void post_cmd(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	struct ctrl_sq *sq = cmd->sq;

	if (cmd->owns_cid)
		fth_and_acqrel_dev64(cid_word(cmd), ~cid_bit(cmd));
	fth_ctrl_cq_post(sq->cq, sq, cmd->sqe.cid, cmd->status, 0);
	/* release: the completion is there before a deletion can see the queue as empty. */
	if (fth_add_acqrel_dev32(&sq->in_flight, UINT32_MAX) == 1 && sq->state == CTRL_SQ_DELETING)
		fth_ctrl_attention(w->ctrl);
	release_cmd(w, cmd);
}

static void posted(struct ctrl_worker *w, struct ctrl_cq *cq)
{
	if (!cq)
		return;
	fth_ctrl_unlock(&cq->lock);
	fth_ctrl_interrupt(w->ctrl, cq);
}

static void post_ended(struct ctrl_worker *w)
{
	struct ctrl_cq *locked = NULL;

	for (unsigned i = 0; i < w->ended_count; i++) {
		struct ctrl_cq *cq = w->ended[i]->sq->cq;

		if (cq != locked) {
			posted(w, locked);
			fth_ctrl_cq_lock(cq);
			locked = cq;
		}
		post_cmd(w, w->ended[i]);
	}
	posted(w, locked);
	w->ended_count = 0;
}

/* ---- the device ---- */

static void dispatch(struct ctrl_worker *w, struct ctrl_cmd *cmd, enum ctrl_step step)
{
	switch (step) {
	case CTRL_STEP_SUBMIT:
		cmd->state = CTRL_CMD_ON_DEV;
		w->batch[w->batch_count++] = &cmd->req;
		break;
	case CTRL_STEP_WAIT:
		wait_cmd(w, cmd);
		break;
	case CTRL_STEP_END:
		end_cmd(w, cmd);
		break;
	}
}

static void returned(struct ctrl_worker *w, struct fth_dev_req *req)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	struct ctrl_cmd *cmd = (struct ctrl_cmd *)req; /* its first member */

	if (req == &ctrl->flush) {
		/* release: the result in the request is seen by who sees this. */
		fth_store_release_dev32(&ctrl->flush_done, 1);
		fth_ctrl_attention(ctrl);
		return;
	}
	if (ctrl->state == CTRL_RESETTING) {
		release_cmd(w, cmd);
		return;
	}
	fth_ctrl_io_settle(cmd, ctrl);
	dispatch(w, cmd, fth_ctrl_io_next(w, cmd));
}

static unsigned reap(struct ctrl_worker *w)
{
	int n;

	if (fth_dev_chan_in_flight(w->chan) == 0)
		return 0;
	n = fth_dev_reap(w->chan, w->done, w->ctrl->depth, 0, 0);
	for (int i = 0; i < n; i++)
		returned(w, w->done[i]);
	return n > 0 ? (unsigned)n : 0;
}

/* Hand the batch to the device; what it has no room for now stays in the batch. */
static void submit(struct ctrl_worker *w)
{
	unsigned i = 0;

	while (i < w->batch_count) {
		int rc = fth_dev_submit(w->chan, w->batch + i, w->batch_count - i);

		if (rc == 0 || rc == -EAGAIN)
			break;
		if (rc > 0) {
			i += (unsigned)rc;
			continue;
		}
		w->batch[i]->result = rc;
		returned(w, w->batch[i++]);
	}
	w->batch_count -= i;
	memmove(w->batch, w->batch + i, w->batch_count * sizeof(*w->batch));
}

/* ---- fetching ---- */

static void begin(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	if (fth_or_acqrel_dev64(cid_word(cmd), cid_bit(cmd)) & cid_bit(cmd)) {
		cmd->status = FTH_NVME_CID_CONFLICT;
		end_cmd(w, cmd);
		return;
	}
	cmd->owns_cid = true;
	if (cmd->abort_wanted) {
		cmd->status = FTH_NVME_ABORT_REQUESTED;
		end_cmd(w, cmd);
		return;
	}
	dispatch(w, cmd, fth_ctrl_io_start(w, cmd));
}

/* Copy what waits into contexts. The queue's lock is held. */
static unsigned fetch(struct ctrl_worker *w, struct ctrl_sq *sq, struct ctrl_cmd **fetched)
{
	uint32_t n = fth_ctrl_sq_pending(w->ctrl, sq), head = sq->head;

	if (n > CTRL_BATCH)
		n = CTRL_BATCH;
	if (n > w->free_count)
		n = w->free_count;
	if (n > 0)
		n = fth_ctrl_cq_reserve(w->ctrl, sq->cq, n);
	for (uint32_t i = 0; i < n; i++) {
		struct ctrl_cmd *cmd = take_cmd(w);

		cmd->sq = sq;
		fth_ctrl_sq_copy(sq, head, &cmd->sqe);
		if (sq->abort_marks)
			fth_ctrl_abort_check(w->ctrl, sq, head, cmd);
		head = fth_ctrl_sq_after(sq, head);
		fetched[i] = cmd;
	}
	/* release: the copies above are made before the host can learn of the new head. */
	fth_store_release_dev32(&sq->head, head);
	fth_add_relaxed_dev32(&sq->in_flight, n);
	return n;
}

static unsigned serve_queue(struct ctrl_worker *w, struct ctrl_sq *sq)
{
	struct ctrl_cmd *fetched[CTRL_BATCH];
	unsigned n;

	if (!fth_ctrl_sq_rung(sq) || !fth_ctrl_try_lock(&sq->lock))
		return 0;
	n = fetch(w, sq, fetched);
	fth_ctrl_unlock(&sq->lock);
	for (unsigned i = 0; i < n; i++)
		begin(w, fetched[i]);
	return n;
}

static unsigned serve_queues(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	unsigned total = 0, at = w->next_queue;

	for (unsigned i = 0; i < ctrl->active_count && w->free_count > 0; i++) {
		if (++at >= ctrl->active_count)
			at = 0;
		total += serve_queue(w, &ctrl->sqs[ctrl->active[at]]);
	}
	w->next_queue = at;
	return total;
}

/* Let those go on that waited for a bounce buffer, in their order; aborted ones end. */
static unsigned retry_waiting(struct ctrl_worker *w)
{
	struct ctrl_cmd *cmd = w->waiting, *next;
	unsigned n = 0;

	if (!cmd || (w->bounce_count == 0 && !w->kick))
		return 0;
	w->kick = false;
	w->waiting = NULL;
	w->waiting_end = &w->waiting;
	for (; cmd; cmd = next, n++) {
		next = cmd->next;
		dispatch(w, cmd, fth_ctrl_io_next(w, cmd));
	}
	return n;
}

/* ---- the pass ---- */

static unsigned shared_part(struct ctrl_worker *w, bool *service)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	unsigned n;

	pthread_rwlock_rdlock(&ctrl->world);
	n = reap(w);
	post_ended(w);
	if (ctrl->state == CTRL_READY || ctrl->state == CTRL_STOPPING)
		n += retry_waiting(w);
	if (ctrl->state == CTRL_READY)
		n += serve_queues(w);
	submit(w);
	n += reap(w);
	post_ended(w);
	if (n == 0 && ctrl->state == CTRL_READY)
		n += fth_ctrl_doorbells_stray(ctrl);
	*service = fth_load_relaxed_dev32(&ctrl->attention) || fth_ctrl_in_transition(ctrl) ||
		   fth_ctrl_admin_wanted(ctrl);
	pthread_rwlock_unlock(&ctrl->world);
	return n;
}

static unsigned pass(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	bool service;
	unsigned n = shared_part(w, &service);

	if (!service)
		return n;
	pthread_rwlock_wrlock(&ctrl->world);
	n += fth_ctrl_service(w);
	pthread_rwlock_unlock(&ctrl->world);
	return n;
}

unsigned fth_nvme_ctrl_step(struct fth_nvme_ctrl *ctrl)
{
	struct ctrl_worker *w = &ctrl->workers[0];
	unsigned n;

	if (!fth_ctrl_try_lock(&w->busy))
		return 0;
	n = pass(w);
	fth_ctrl_unlock(&w->busy);
	return n;
}

/* ---- threads ---- */

struct idle {
	unsigned rounds;
	long sleep_ns;
};

static void rest(struct idle *idle, bool owed)
{
	struct timespec ts = {0, idle->sleep_ns};

	idle->rounds++;
	if (idle->rounds < IDLE_SPINS) {
		fth_cpu_relax();
	} else if (idle->rounds < (owed ? IDLE_YIELDS_BUSY : IDLE_YIELDS)) {
		sched_yield();
	} else {
		nanosleep(&ts, NULL);
		idle->sleep_ns *= 2;
		if (idle->sleep_ns > IDLE_SLEEP_MAX_NS)
			idle->sleep_ns = IDLE_SLEEP_MAX_NS;
	}
}

static void *run(void *arg)
{
	struct ctrl_worker *w = arg;
	struct idle idle = {0, IDLE_SLEEP_MIN_NS};

	/* Short sleeps are what we ask for; the default slack is 50 us. A matter of speed only. */
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	while (!fth_load_relaxed_dev32(&w->ctrl->stop)) {
		unsigned n = 0;
		bool owed = false;

		if (fth_ctrl_try_lock(&w->busy)) {
			n = pass(w);
			owed = fth_dev_chan_in_flight(w->chan) > 0;
			fth_ctrl_unlock(&w->busy);
		}
		if (n > 0)
			idle = (struct idle){0, IDLE_SLEEP_MIN_NS};
		else
			rest(&idle, owed);
	}
	return NULL;
}

int fth_ctrl_workers_start(struct fth_nvme_ctrl *ctrl)
{
	sigset_t all, before;

	sigfillset(&all);
	for (unsigned i = 0; i < ctrl->thread_count; i++) {
		struct ctrl_worker *w = &ctrl->workers[i];
		int err;

		/* Signals are for the program's own threads: a handler could wait for this one. */
		pthread_sigmask(SIG_SETMASK, &all, &before);
		err = pthread_create(&w->thread, NULL, run, w);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (err)
			return fth_fail(err, "starting worker %u: %s", i, strerror(err));
		w->started = true;
	}
	return 0;
}

/* ---- life ---- */

static int open_bounces(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	size_t align =
		ctrl->info->align > FTH_NVME_PAGE_SIZE ? ctrl->info->align : FTH_NVME_PAGE_SIZE;
	void *memory;

	if (posix_memalign(&memory, align, CTRL_BOUNCE_COUNT * ctrl->bounce_size) != 0)
		return -ENOMEM;
	w->bounce_memory = memory;
	for (unsigned i = 0; i < CTRL_BOUNCE_COUNT; i++)
		w->bounces[w->bounce_count++] = w->bounce_memory + i * ctrl->bounce_size;
	return 0;
}

static int open_worker(struct ctrl_worker *w)
{
	unsigned depth = w->ctrl->depth;

	w->waiting_end = &w->waiting;
	w->cmds = calloc(depth, sizeof(*w->cmds));
	w->free = calloc(depth, sizeof(*w->free));
	w->ended = calloc(depth, sizeof(*w->ended));
	w->batch = calloc(depth, sizeof(*w->batch));
	w->done = calloc(depth, sizeof(*w->done));
	if (!w->cmds || !w->free || !w->ended || !w->batch || !w->done)
		return -ENOMEM;
	for (unsigned i = 0; i < depth; i++)
		w->free[w->free_count++] = &w->cmds[depth - 1 - i];
	if (open_bounces(w) < 0)
		return -ENOMEM;
	/* One more than there are contexts: a shutdown's flush always finds room. */
	return fth_dev_chan_open(w->ctrl->dev, depth < UINT16_MAX ? depth + 1 : depth, &w->chan);
}

int fth_ctrl_workers_open(struct fth_nvme_ctrl *ctrl)
{
	unsigned count = ctrl->worker_count;
	int rc = 0;

	ctrl->worker_count = 0;
	ctrl->workers = aligned_alloc(CTRL_CACHE_LINE, count * sizeof(*ctrl->workers));
	if (!ctrl->workers)
		return -ENOMEM;
	memset(ctrl->workers, 0, count * sizeof(*ctrl->workers));
	while (rc == 0 && ctrl->worker_count < count) {
		struct ctrl_worker *w = &ctrl->workers[ctrl->worker_count++];

		w->ctrl = ctrl;
		rc = open_worker(w);
	}
	return rc;
}

static void close_worker(struct ctrl_worker *w)
{
	fth_dev_chan_close(w->chan);
	free(w->bounce_memory);
	free(w->done);
	free(w->batch);
	free(w->ended);
	free(w->free);
	free(w->cmds);
}

void fth_ctrl_workers_close(struct fth_nvme_ctrl *ctrl)
{
	fth_store_relaxed_dev32(&ctrl->stop, 1);
	for (unsigned i = 0; i < ctrl->worker_count; i++)
		if (ctrl->workers[i].started)
			pthread_join(ctrl->workers[i].thread, NULL);
	for (unsigned i = 0; i < ctrl->worker_count; i++)
		close_worker(&ctrl->workers[i]);
	free(ctrl->workers);
}

/* ---- for the state machine; world exclusive ---- */

unsigned fth_ctrl_workers_in_flight(const struct fth_nvme_ctrl *ctrl)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ctrl->worker_count; i++)
		n += ctrl->depth - ctrl->workers[i].free_count;
	return n;
}

/* Forget the commands that have not reached the device. */
void fth_ctrl_workers_drop_waiting(struct fth_nvme_ctrl *ctrl)
{
	for (unsigned i = 0; i < ctrl->worker_count; i++) {
		struct ctrl_worker *w = &ctrl->workers[i];
		struct ctrl_cmd *next;

		for (unsigned b = 0; b < w->batch_count; b++)
			release_cmd(w, (struct ctrl_cmd *)w->batch[b]);
		w->batch_count = 0;
		for (struct ctrl_cmd *cmd = w->waiting; cmd; cmd = next) {
			next = cmd->next;
			release_cmd(w, cmd);
		}
		w->waiting = NULL;
		w->waiting_end = &w->waiting;
	}
}
