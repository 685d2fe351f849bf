/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engine "threads": a few threads make blocking system calls, for where io_uring is not available.
 *
 * The threads belong to the device, not to a channel: how many calls a medium can use at once does
 * not grow with the number of channels, and channels that are not in use cost no threads. They are
 * started when there is more to do than threads that wait, or by fth_dev_chan_prepare(), and end
 * with the device.
 *
 *	submit --> queued (of its channel) --> a thread --> completed (of its channel) --> reap
 *
 * Channels with queued requests stand in a line. A thread takes one request of the first channel
 * and puts the channel at the end, so that a channel with a long queue does not keep the others
 * waiting. A request that needs several calls (a short transfer) stays with its thread.
 *
 * Nothing is cancelled: a call that hangs in the kernel, say because a network filesystem is gone,
 * keeps its thread, its buffers and its channel until it returns, as it would with io_uring.
 * Deadlines of reap hold all the same, since it never makes such a call itself.
 *
 * Invariants
 * 1. Everything in struct file_pool, and the part of struct chan_pool so marked, is guarded by the
 *    pool's lock. It is never held during a call that may block.
 * 2. A channel is in the pool's line exactly while its `queued` is not empty.
 * 3. `ready` is the number of requests in `completed`.
 * 4. When the lock is free and no submit or reap of the channel runs, `wake` is set exactly while
 *    `completed` or `done` is not empty.
 */
#include "dev/file/dev_file.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_NS 1000000 /* pause before another attempt when the kernel was short of something */

struct chan_pool {
	struct chan_file file;

	/* Guarded by the pool's lock. */
	struct chan_pool *next; /* in the pool's line */
	struct file_list queued;
	struct file_list completed; /* result set */
	uint32_t ready;		    /* written under the lock, read without it */
	unsigned wanted;	    /* reap sleeps until so many are ready; 0: it does not sleep */
	pthread_cond_t enough;	    /* they are */
	struct fth_wake wake;	    /* of fth_dev_chan_fd() */
};

struct file_pool {
	struct dev_file *file;
	pthread_mutex_t lock;
	pthread_cond_t work; /* the line is not empty, or stop is set */
	struct chan_pool *first, *last;
	unsigned queued; /* requests in all channels of the line */
	unsigned idle;	 /* threads that wait for work */
	unsigned count;	 /* threads there are */
	bool stop;
	pthread_t threads[FILE_THREADS_MAX];
};

static struct file_pool *pool_of(const struct chan_pool *chan)
{
	return chan_file_dev(&chan->file)->pool;
}

/* ---- the line; under the lock ---- */

static void line_push(struct file_pool *pool, struct chan_pool *chan)
{
	chan->next = NULL;
	if (pool->first)
		pool->last->next = chan;
	else
		pool->first = chan;
	pool->last = chan;
}

/* The next request and the channel it belongs to, or NULL. */
static struct fth_dev_req *line_take(struct file_pool *pool, struct chan_pool **chan)
{
	struct fth_dev_req *req;

	*chan = pool->first;
	if (!*chan)
		return NULL;
	pool->first = (*chan)->next;
	req = file_list_pop(&(*chan)->queued);
	pool->queued--;
	if ((*chan)->queued.first)
		line_push(pool, *chan);
	return req;
}

/* ---- completions; under the lock ---- */

static void update_wake(struct chan_pool *chan)
{
	fth_wake_set(&chan->wake, chan->ready > 0 || chan->file.done.first);
}

static void deliver(struct chan_pool *chan, struct fth_dev_req *req)
{
	file_list_push(&chan->completed, req);
	/* release: reap looks without the lock whether there is something, and then takes it. */
	fth_store_release_dev32(&chan->ready, chan->ready + 1);
	if (chan->wanted && chan->ready >= chan->wanted) {
		chan->wanted = 0;
		pthread_cond_signal(&chan->enough);
	}
	fth_wake_set(&chan->wake, true);
}

/* ---- the threads ---- */

static void carry_out(struct file_pool *pool, int fd, struct fth_dev_req *req)
{
	const struct timespec pause = {0, RETRY_NS};
	int answer = dev_file_call(pool->file, fd, req);

	/* Ends as the medium does: each round makes progress or was asked for by the kernel. */
	while (!dev_file_req_answer(pool->file, req, answer)) {
		if (answer == -EAGAIN)
			nanosleep(&pause, NULL);
		answer = dev_file_call(pool->file, fd, req);
	}
}

static void *pool_thread(void *arg)
{
	struct file_pool *pool = arg;
	struct fth_dev_req *req;
	struct chan_pool *chan;

	pthread_mutex_lock(&pool->lock);
	while (!pool->stop) {
		req = line_take(pool, &chan);
		if (!req) {
			pool->idle++;
			pthread_cond_wait(&pool->work, &pool->lock);
			pool->idle--;
			continue;
		}
		pthread_mutex_unlock(&pool->lock);
		carry_out(pool, chan->file.fd, req);
		pthread_mutex_lock(&pool->lock);
		deliver(chan, req);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Under the lock. Signals stay with the program's own threads. */
static int add_thread(struct file_pool *pool)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&pool->threads[pool->count], NULL, pool_thread, pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return fth_fail(err, "cannot start a thread for I/O: %s", strerror(err));
	pool->count++;
	return 0;
}

/* Under the lock: n requests were added. More threads are a matter of speed, so one may fail. */
static void wake_threads(struct file_pool *pool, unsigned n)
{
	for (unsigned i = 0; i < n && i < pool->idle; i++)
		pthread_cond_signal(&pool->work);
	for (unsigned missing = pool->queued > pool->idle ? pool->queued - pool->idle : 0;
	     missing > 0 && pool->count < pool->file->threads; missing--)
		if (add_thread(pool) < 0)
			break;
}

/* ---- the device ---- */

static int pool_probe(void)
{
	return 0;
}

static int pool_open(struct dev_file *file)
{
	struct file_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pool->file = file;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	file->pool = pool;
	file->try_cached = !file->direct && file->inline_max == 0;
	return 0;
}

static void pool_close(struct dev_file *file)
{
	struct file_pool *pool = file->pool;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->count; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* ---- channels ---- */

/* The first thread is started here, where a failure can be told. */
static int start_first(struct file_pool *pool)
{
	int rc = 0;

	pthread_mutex_lock(&pool->lock);
	if (pool->count == 0)
		rc = add_thread(pool);
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

static int pool_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct dev_file *file = (struct dev_file *)dev;
	int rc = start_first(file->pool);
	pthread_condattr_t attr;
	struct chan_pool *chan;

	(void)depth;
	if (rc < 0)
		return rc;
	chan = calloc(1, sizeof(*chan));
	if (!chan)
		return -ENOMEM;
	chan->wake = (struct fth_wake)FTH_WAKE_NONE;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* fth_now_ns()'s */
	pthread_cond_init(&chan->enough, &attr);
	pthread_condattr_destroy(&attr);
	chan_file_init(&chan->file, file);
	*out = &chan->file.chan;
	return 0;
}

static void pool_chan_close(struct fth_dev_chan *base)
{
	struct chan_pool *chan = (struct chan_pool *)base;

	fth_wake_close(&chan->wake);
	pthread_cond_destroy(&chan->enough);
	chan_file_release(&chan->file);
	free(chan);
}

static int pool_chan_fd(struct fth_dev_chan *base)
{
	struct chan_pool *chan = (struct chan_pool *)base;
	struct file_pool *pool = pool_of(chan);
	int fd;

	pthread_mutex_lock(&pool->lock);
	fd = fth_wake_open(&chan->wake);
	update_wake(chan);
	pthread_mutex_unlock(&pool->lock);
	return fd;
}

/* A thread that is started allocates: all of them start here, and none later. */
static int pool_chan_prepare(struct fth_dev_chan *base)
{
	struct file_pool *pool = pool_of((struct chan_pool *)base);

	pthread_mutex_lock(&pool->lock);
	while (pool->count < pool->file->threads && add_thread(pool) == 0)
		;
	pool->file->threads = pool->count;
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

/* ---- submitting ---- */

/* Under the lock: all that is in `again` becomes queued. */
static void enqueue(struct chan_pool *chan)
{
	struct file_pool *pool = pool_of(chan);
	bool in_line = chan->queued.first != NULL;
	struct fth_dev_req *req;
	unsigned n = 0;

	while ((req = file_list_pop(&chan->file.again))) {
		file_list_push(&chan->queued, req);
		n++;
	}
	if (n == 0)
		return;
	pool->queued += n;
	if (!in_line)
		line_push(pool, chan);
	wake_threads(pool, n);
}

static int pool_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct chan_pool *chan = (struct chan_pool *)base;
	struct file_pool *pool = pool_of(chan);

	chan->file.batch = n > 1;
	for (unsigned i = 0; i < n; i++)
		if (chan_file_begin(&chan->file, reqs[i]))
			file_list_push(&chan->file.again, reqs[i]);
	if (!chan->file.again.first && chan->wake.fd < 0)
		return (int)n; /* all was done inline */
	pthread_mutex_lock(&pool->lock);
	enqueue(chan);
	update_wake(chan);
	pthread_mutex_unlock(&pool->lock);
	return (int)n;
}

/* ---- reaping ---- */

/* Under the lock. */
static unsigned take_completed(struct chan_pool *chan, struct fth_dev_req **done, unsigned max)
{
	unsigned n = 0;

	while (n < max && chan->completed.first)
		done[n++] = file_list_pop(&chan->completed);
	/* relaxed: only this thread reads it without the lock. */
	fth_store_relaxed_dev32(&chan->ready, chan->ready - n);
	for (unsigned i = 0; i < n; i++)
		chan_file_end(&chan->file, done[i]);
	return n;
}

static unsigned take(struct chan_pool *chan, struct fth_dev_req **done, unsigned max)
{
	struct file_pool *pool = pool_of(chan);
	unsigned n = 0;

	/* acquire: what the thread has read into the buffers is there as well. */
	if (fth_load_acquire_dev32(&chan->ready) > 0) {
		pthread_mutex_lock(&pool->lock);
		n = take_completed(chan, done, max);
		enqueue(chan);
		pthread_mutex_unlock(&pool->lock);
	}
	n += chan_file_take_done(&chan->file, done + n, max - n);
	if (n > 0 && chan->wake.fd >= 0) {
		pthread_mutex_lock(&pool->lock);
		update_wake(chan);
		pthread_mutex_unlock(&pool->lock);
	}
	return n;
}

static bool has_expired(uint64_t deadline)
{
	return deadline != FTH_NEVER && fth_now_ns() >= deadline;
}

/* Sleep until so many are completed or the deadline has passed. */
static void wait_completed(struct chan_pool *chan, unsigned count, uint64_t deadline)
{
	struct file_pool *pool = pool_of(chan);
	const struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};

	pthread_mutex_lock(&pool->lock);
	while (chan->ready < count && !has_expired(deadline)) {
		chan->wanted = count;
		if (deadline == FTH_NEVER)
			pthread_cond_wait(&chan->enough, &pool->lock);
		else
			pthread_cond_timedwait(&chan->enough, &pool->lock, &until);
	}
	chan->wanted = 0;
	pthread_mutex_unlock(&pool->lock);
}

static int pool_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		     unsigned min, uint64_t deadline)
{
	struct chan_pool *chan = (struct chan_pool *)base;
	unsigned n = take(chan, done, max);

	while (n < min && deadline != 0 && !has_expired(deadline)) {
		/* A parked flush is not completed by a thread of its own. */
		wait_completed(chan, chan->file.flush.parked ? 1 : min - n, deadline);
		n += take(chan, done + n, max - n);
	}
	return (int)n;
}

const struct file_engine dev_file_threads = {
	.name = "threads",
	.probe = pool_probe,
	.open = pool_open,
	.close = pool_close,
	.ops =
		{
			.close = dev_file_close,
			.chan_open = pool_chan_open,
			.chan_close = pool_chan_close,
			.submit = pool_submit,
			.reap = pool_reap,
			.chan_fd = pool_chan_fd,
			.chan_prepare = pool_chan_prepare,
			.flush_forgive = dev_file_flush_forgive,
			.window_open = dev_file_window_open,
		},
};
