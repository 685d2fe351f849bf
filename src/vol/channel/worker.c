/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker of a volume: a thread that does what requests lead to and a thread that reaps must
 * not wait for.
 *
 *	verdicts	some devices did not take a write or flush; before it is acknowledged, the
 *			catalog has to say which:
 *
 *			parts are back --ask--> asked --worker: commit--> answered --reap--> done
 *
 *	repairs		blocks that could not be read are written back, one at a time
 *
 * It is started when the first replicated object is opened for writing, and ends with the volume.
 *
 * Invariants
 * 1. worker->lock guards the worker's queues, the rings between it and channels, and bells. It is
 *    not held across I/O, and no other lock is taken while it is held.
 * 2. A channel is in the queue while its ring `asked` is not empty, an object while
 *    `repair_queued`.
 * 3. An answer is pushed, and the bell rung, under the lock: once a channel has taken its last
 *    answer the worker does not look at the channel any more.
 */
#include "vol/channel/channel.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define REPAIRS_S 30 /* how long closing an object waits for the repairs that are noted */

/* ---- in the worker's thread; under its lock, which is let go for the work ---- */

static void append_chan(struct vol_worker *worker, struct vol_chan *chan)
{
	struct vol_chan **link = &worker->chans;

	while (*link)
		link = &(*link)->next_asked;
	chan->next_asked = NULL;
	*link = chan;
}

static void answer_one(struct vol_worker *worker)
{
	struct vol_chan *chan = worker->chans;
	struct fth_dev_req *req = vol_pop(&chan->asked);
	int result;

	worker->chans = chan->next_asked;
	if (chan->asked.count > 0) /* the other channels first */
		append_chan(worker, chan);
	pthread_mutex_unlock(&worker->lock);
	result = vol_devices_failed(chan->obj, req->scratch[1], -(int)(req->scratch[0] >> 32));
	pthread_mutex_lock(&worker->lock);
	req->result = result;
	vol_push(&chan->answered, req);
	vol_bell_update(chan);
}

static void repair_one(struct vol_worker *worker)
{
	struct vol_object *obj = worker->repairs;

	worker->repairs = obj->next_repair;
	obj->repair_queued = false;
	worker->repairing = obj;
	pthread_mutex_unlock(&worker->lock);
	vol_run_repairs(obj);
	pthread_mutex_lock(&worker->lock);
	worker->repairing = NULL;
}

static void *work(void *arg)
{
	struct vol_worker *worker = arg;

	pthread_mutex_lock(&worker->lock);
	/* Ends when the volume is closed. */
	while (!worker->stop) {
		worker->busy = worker->chans || worker->repairs;
		if (worker->chans) {
			answer_one(worker);
		} else if (worker->repairs) {
			repair_one(worker);
		} else {
			pthread_cond_broadcast(&worker->idle);
			pthread_cond_wait(&worker->wanted, &worker->lock);
			continue;
		}
		pthread_cond_broadcast(&worker->idle);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

/* ---- starting and ending ---- */

void vol_worker_init(struct vol_worker *worker)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->wanted, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&worker->idle, &attr);
	pthread_condattr_destroy(&attr);
}

int vol_worker_start(struct vol_worker *worker)
{
	sigset_t all, before;
	int rc;

	if (worker->started)
		return 0;
	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&worker->thread, NULL, work, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return fth_fail(rc, "cannot start the volume's thread: %s", strerror(rc));
	worker->started = true;
	return 0;
}

void vol_worker_release(struct vol_worker *worker)
{
	if (worker->started) {
		pthread_mutex_lock(&worker->lock);
		worker->stop = true;
		pthread_cond_signal(&worker->wanted);
		pthread_mutex_unlock(&worker->lock);
		pthread_join(worker->thread, NULL);
	}
	pthread_cond_destroy(&worker->wanted);
	pthread_cond_destroy(&worker->idle);
	pthread_mutex_destroy(&worker->lock);
}

/* ---- for others ---- */

void vol_worker_ask(struct vol_chan *chan, struct fth_dev_req *req)
{
	struct vol_worker *worker = &chan->obj->vol->worker;

	chan->asking++;
	pthread_mutex_lock(&worker->lock);
	if (chan->asked.count == 0)
		append_chan(worker, chan);
	vol_push(&chan->asked, req);
	worker->busy = true;
	pthread_cond_signal(&worker->wanted);
	pthread_mutex_unlock(&worker->lock);
}

void vol_worker_repair(struct vol_object *obj)
{
	struct vol_worker *worker = &obj->vol->worker;

	pthread_mutex_lock(&worker->lock);
	if (worker->started && !obj->repair_queued) {
		obj->repair_queued = true;
		obj->next_repair = worker->repairs;
		worker->repairs = obj;
		worker->busy = true;
		pthread_cond_signal(&worker->wanted);
	}
	pthread_mutex_unlock(&worker->lock);
}

void vol_worker_withdraw(struct vol_object *obj)
{
	struct vol_worker *worker = &obj->vol->worker;
	struct vol_object **link = &worker->repairs;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += REPAIRS_S;
	pthread_mutex_lock(&worker->lock);
	while ((obj->repair_queued || worker->repairing == obj) &&
	       pthread_cond_timedwait(&worker->idle, &worker->lock, &until) == 0)
		;
	if (obj->repair_queued) {
		while (*link != obj)
			link = &(*link)->next_repair;
		*link = obj->next_repair;
		obj->repair_queued = false;
	}
	/* relaxed: looked at between blocks, each of which ends by its deadline */
	fth_store_relaxed_dev32(&obj->repair_stop, 1);
	while (worker->repairing == obj)
		pthread_cond_wait(&worker->idle, &worker->lock);
	fth_store_relaxed_dev32(&obj->repair_stop, 0);
	pthread_mutex_unlock(&worker->lock);
}

/* ---- gates ---- */

static void unlist_awaiting(struct vol_worker *worker, struct vol_chan *chan)
{
	struct vol_chan **link = &worker->awaiting;

	if (!chan->listed_awaiting)
		return;
	while (*link != chan)
		link = &(*link)->next_awaiting;
	*link = chan->next_awaiting;
	chan->listed_awaiting = false;
}

bool vol_worker_await_repair(struct vol_chan *chan)
{
	struct vol_worker *worker = &chan->obj->vol->worker;
	bool entered;

	pthread_mutex_lock(&worker->lock);
	/* It is opened before the lock is taken: either this succeeds, or we are found listed. */
	entered = vol_change_begin(chan->obj);
	if (entered) {
		unlist_awaiting(worker, chan);
	} else if (!chan->listed_awaiting) {
		chan->listed_awaiting = true;
		chan->next_awaiting = worker->awaiting;
		worker->awaiting = chan;
	}
	pthread_mutex_unlock(&worker->lock);
	return entered;
}

void vol_worker_repair_ended(struct vol_object *obj)
{
	struct vol_worker *worker = &obj->vol->worker;
	struct vol_chan *next;

	pthread_mutex_lock(&worker->lock);
	for (struct vol_chan *chan = worker->awaiting; chan; chan = next) {
		next = chan->next_awaiting;
		if (chan->obj != obj)
			continue;
		unlist_awaiting(worker, chan);
		chan->repair_ended = true;
		vol_bell_update(chan);
	}
	pthread_mutex_unlock(&worker->lock);
}

void vol_worker_forget(struct vol_chan *chan)
{
	struct vol_worker *worker = &chan->obj->vol->worker;

	pthread_mutex_lock(&worker->lock);
	unlist_awaiting(worker, chan);
	/* Ends: each answer comes by the deadlines of a commit. As a rule there are none. */
	while (chan->asking > chan->answered.count)
		pthread_cond_wait(&worker->idle, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
}
