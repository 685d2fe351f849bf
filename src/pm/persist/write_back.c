/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rounds of drained memory: take the marks, copy their pages, write them, flush the device.
 *
 * Invariants, beside those of the door (fathom/detail/pm/view.h):
 *
 *	1. At most one thread is in a round (`busy`, under `lock`): it alone uses the channel, the slots and
 *	   the fields that begin with round_. The lock is not held while it waits for the device.
 *	2. A persisting thread that finds nobody in a round makes one itself; so one thread alone pays no
 *	   wake-up. Those that come meanwhile wait, and one of them makes the next round for all.
 *	3. A page is copied before it is written, word by word: the device sees bytes that do not change, and no
 *	   word of 8 bytes is torn.
 *	4. A failed write or flush is for good: marks were taken, and nobody knows what the device
 *	   holds. `error` is set, and no round begins after it.
 *	5. A slot whose request is in flight is not touched.
 *
 * A round with few pages costs as much as one with many. Threads that waited in the last one come back soon: so who begins a
 * round lets them mark their pages first, for a part of the time that a round takes (linger).
 *
 * The server is a thread for GPUs, which cannot make a round themselves: it polls `wanted`.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fathom/base/error.h"
#include "pm/pm_internal.h"

#define SLOT_PAGES 32u
#define SLOT_BYTES (SLOT_PAGES * FTH_PM_PAGE)
#define SLOTS	   16u
#define COARSE	   (1u << FTH_PM_COARSE_SHIFT)

struct pm_drain {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a round has ended, or stop was set */
	bool busy;
	unsigned inside;   /* threads that wait, with the one in a round */
	unsigned expected; /* of them, when the last round ended */
	uint64_t round_ns; /* that the last round took */
	struct fth_dev_chan *chan;
	uint8_t *buffer; /* SLOTS slots */
	struct fth_dev_req reqs[SLOTS];
	struct fth_dev_req flush;
	unsigned free[SLOTS], free_count;
	struct fth_dev_req *queue[SLOTS]; /* to be submitted together */
	unsigned queued;
	/* Of the round under way. */
	uint64_t round_deadline;
	uint64_t round_first, round_count; /* pages that wait to be written, behind each other */
	uint64_t round_pages, round_writes;
	bool serving, stop;
	pthread_t server;
};

/* ---- requests ---- */

/* Collect at least `min` requests; the first error. */
static int reap_requests(struct pm_drain *d, unsigned min)
{
	struct fth_dev_req *done[SLOTS + 1];
	int n = fth_dev_reap(d->chan, done, SLOTS + 1, min, d->round_deadline), rc = 0;

	if (n < 0)
		return n == -ETIME ? -ETIMEDOUT : n;
	for (int i = 0; i < n; i++) {
		if (done[i] != &d->flush)
			d->free[d->free_count++] = (unsigned)(done[i] - d->reqs);
		if (done[i]->result < 0 && rc == 0)
			rc = done[i]->result;
	}
	return rc;
}

/* Hand all queued requests to the device, at once if it takes so many. */
static int submit_queued(struct pm_drain *d)
{
	unsigned taken = 0;
	int rc = 0;

	while (taken < d->queued && rc == 0) {
		int n = fth_dev_submit(d->chan, d->queue + taken, d->queued - taken);

		if (n > 0)
			taken += (unsigned)n;
		else
			rc = n < 0 ? n : -EIO;
	}
	d->queued = 0;
	return rc;
}

/*
 * The user's threads may store into the page meanwhile: what is copied then is of no matter, but
 * each word is read once and as a whole. ThreadSanitizer would see a race with plain stores.
 */
__attribute__((no_sanitize("thread"), noinline)) static void copy_words(void *to, const void *from,
									uint64_t bytes)
{
	const volatile uint64_t *word = from;
	uint64_t *out = to;

	for (uint64_t i = 0; i < bytes / 8; i++)
		out[i] = word[i];
}

static int write_run(struct fth_pm *pm, uint64_t page, uint64_t count, bool alone)
{
	struct pm_drain *d = pm->drain;
	struct fth_dev_req *req;
	unsigned slot;
	int rc = 0;

	if (d->free_count == 0)
		rc = submit_queued(d);
	while (d->free_count == 0 && rc == 0)
		rc = reap_requests(d, 1);
	if (rc < 0)
		return rc;
	slot = d->free[--d->free_count];
	req = &d->reqs[slot];
	copy_words(d->buffer + slot * SLOT_BYTES, pm->memory + page * FTH_PM_PAGE,
		   count * FTH_PM_PAGE);
	fth_dev_req_init(req, FTH_DEV_WRITE, d->buffer + slot * SLOT_BYTES, count * FTH_PM_PAGE,
			 page * FTH_PM_PAGE);
	if (alone)
		req->flags = FTH_DEV_FUA;
	d->queue[d->queued++] = req;
	d->round_writes++;
	d->round_pages += count;
	return 0;
}

/* ---- a round ---- */

static int write_pending(struct fth_pm *pm, bool alone)
{
	struct pm_drain *d = pm->drain;
	int rc = d->round_count ? write_run(pm, d->round_first, d->round_count, alone) : 0;

	d->round_count = 0;
	return rc;
}

static int add_page(struct fth_pm *pm, uint64_t page)
{
	struct pm_drain *d = pm->drain;
	int rc = 0;

	if (d->round_count == SLOT_PAGES || page != d->round_first + d->round_count)
		rc = write_pending(pm, false);
	if (d->round_count == 0)
		d->round_first = page;
	d->round_count++;
	return rc;
}

/* Take 8 marks at once. acquire: their data is seen; a mark that is set later stays. */
static uint64_t take_marks(uint8_t *marks)
{
	uint64_t *word = (uint64_t *)(void *)marks;

	return fth_load_relaxed_sys64(word) ? fth_xchg_acqrel_sys64(word, 0) : 0;
}

static int take_pages(struct fth_pm *pm, uint64_t from, uint64_t to)
{
	for (uint64_t page = from; page < to; page += 8) {
		uint64_t marks = take_marks(pm->view.marks + page);

		for (unsigned i = 0; marks >> (8 * i); i++) {
			int rc = (marks >> (8 * i)) & 0xff ? add_page(pm, page + i) : 0;

			if (rc < 0)
				return rc;
			if (i == 7)
				break;
		}
	}
	return 0;
}

static int take_all(struct fth_pm *pm)
{
	uint64_t pages = pm->map_length / FTH_PM_PAGE, groups = (pages + COARSE - 1) / COARSE;

	for (uint64_t group = 0; group < groups; group += 8) {
		uint64_t marks = take_marks(pm->view.coarse + group);

		for (unsigned i = 0; i < 8 && marks >> (8 * i); i++) {
			uint64_t from = (group + i) * COARSE, to = from + COARSE;
			int rc = 0;

			if ((marks >> (8 * i)) & 0xff)
				rc = take_pages(pm, from, to < pages ? to : pages);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static int reap_all(struct pm_drain *d)
{
	int rc = 0;

	while (rc == 0 && fth_dev_chan_in_flight(d->chan) > 0)
		rc = reap_requests(d, fth_dev_chan_in_flight(d->chan));
	return rc;
}

static int flush_device(struct pm_drain *d)
{
	int rc;

	fth_dev_req_init(&d->flush, FTH_DEV_FLUSH, NULL, 0, 0);
	d->queue[d->queued++] = &d->flush;
	rc = submit_queued(d);
	return rc < 0 ? rc : reap_all(d);
}

/* A single write needs no flush behind it where the device has FUA. */
static int write_round(struct fth_pm *pm)
{
	struct pm_drain *d = pm->drain;
	bool alone;
	int rc;

	d->round_count = d->round_pages = d->round_writes = 0;
	d->round_deadline = fth_deadline_ns(pm->view.timeout_ns);
	rc = take_all(pm);
	if (rc < 0)
		return rc;
	alone = d->round_writes == 0 && fth_dev_info(pm->dev)->has_fua;
	rc = write_pending(pm, alone);
	if (rc == 0)
		rc = submit_queued(d);
	if (rc == 0)
		rc = reap_all(d);
	return rc < 0 || alone || d->round_pages == 0 ? rc : flush_device(d);
}

static void full_barrier(void)
{
#if defined(__x86_64__)
	__asm__ volatile("mfence" ::: "memory");
#else
	__asm__ volatile("dmb sy" ::: "memory");
#endif
}

#define LINGER_NS 200000u /* at most */

/* With the lock held and busy set; releases the lock meanwhile. */
static void linger(struct pm_drain *d)
{
	uint64_t patience = d->round_ns / 2 < LINGER_NS ? d->round_ns / 2 : LINGER_NS;
	uint64_t deadline = fth_deadline_ns(patience);

	while (d->inside < d->expected && fth_now_ns() < deadline) {
		pthread_mutex_unlock(&d->lock);
		sched_yield();
		pthread_mutex_lock(&d->lock);
	}
}

/* Called with the lock held and busy set; releases the lock meanwhile. */
static void make_round(struct fth_pm *pm)
{
	struct fth_pm_door *door = pm->view.door;
	struct pm_drain *d = pm->drain;
	uint64_t begun = door->begun + 1, start;
	int rc;

	linger(d);
	start = fth_now_ns();

	fth_store_release_sys64(&door->begun, begun);
	full_barrier(); /* the door's invariant 3: no mark is looked at before begun is stored */
	pthread_mutex_unlock(&d->lock);
	rc = write_round(pm);
	fth_stats_add(pm->stats, FTH_PM_STAT_ROUNDS, 1);
	fth_stats_add(pm->stats, FTH_PM_STAT_PAGES, d->round_pages);
	fth_stats_add(pm->stats, FTH_PM_STAT_WRITES, d->round_writes);
	pthread_mutex_lock(&d->lock);
	d->round_ns = fth_now_ns() - start;
	d->expected = d->inside;
	/* release: a thread that sees done also sees the effects of the round. */
	if (rc < 0)
		fth_store_release_sys64(&door->error, (uint64_t)-rc);
	else
		fth_store_release_sys64(&door->done, begun);
	d->busy = false;
	pthread_cond_broadcast(&d->changed);
}

static int drain_error(const struct fth_pm *pm)
{
	uint64_t error = fth_load_acquire_sys64(&pm->view.door->error);

	return error ? fth_fail((int)error, "%s: an earlier write to the device failed: %s",
				pm->name, strerror((int)error))
		     : 0;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

/* With the lock held. */
static int wait_served(struct fth_pm *pm, uint64_t begun)
{
	struct pm_drain *d = pm->drain;
	/* The round under way and the next one, each of which the timeout bounds. */
	struct timespec until = to_timespec(fth_deadline_ns(3 * pm->view.timeout_ns));

	while (pm->view.door->done <= begun) {
		int rc = drain_error(pm);

		if (rc < 0)
			return rc;
		if (!d->busy) {
			d->busy = true;
			make_round(pm);
		} else if (pthread_cond_timedwait(&d->changed, &d->lock, &until) == ETIMEDOUT) {
			/* For good: what this thread stored may become durable later. */
			fth_store_release_sys64(&pm->view.door->error, ETIMEDOUT);
			return fth_fail(ETIMEDOUT,
					"%s: timed out after %u ms waiting for the device",
					pm->name, pm->timeout_ms);
		}
	}
	return 0;
}

int pm_drain_wait(struct fth_pm *pm)
{
	struct pm_drain *d = pm->drain;
	int rc;

	if (!d)
		return -EROFS;
	/* The lock is the full barrier of the door's invariant 3. */
	pthread_mutex_lock(&d->lock);
	d->inside++;
	rc = wait_served(pm, pm->view.door->begun);
	d->inside--;
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* ---- the server ---- */

#define IDLE_SPINS 20000u
#define IDLE_NS	   50000

static void serve_once(struct fth_pm *pm)
{
	struct pm_drain *d = pm->drain;

	/* Invariant 4 of the door: cleared before the round begins. acqrel: what was marked before. */
	fth_xchg_acqrel_sys64(&pm->view.door->wanted, 0);
	pthread_mutex_lock(&d->lock);
	wait_served(pm, pm->view.door->begun);
	pthread_mutex_unlock(&d->lock);
}

static void *serve(void *arg)
{
	struct fth_pm *pm = arg;
	struct pm_drain *d = pm->drain;
	unsigned idle = 0;

	while (!__atomic_load_n(&d->stop, __ATOMIC_ACQUIRE)) {
		if (fth_load_acquire_sys64(&pm->view.door->wanted)) {
			serve_once(pm);
			idle = 0;
		} else if (++idle < IDLE_SPINS) {
			fth_cpu_relax();
		} else {
			nanosleep(&(struct timespec){.tv_nsec = IDLE_NS}, NULL);
		}
	}
	return NULL;
}

int fth_pm_serve(struct fth_pm *pm)
{
	struct pm_drain *d = pm->drain;
	int rc = pm_process_check(pm);

	if (rc < 0 || !d)
		return rc;
	pthread_mutex_lock(&d->lock);
	if (!d->serving) {
		rc = -pthread_create(&d->server, NULL, serve, pm);
		d->serving = rc == 0;
	}
	pthread_mutex_unlock(&d->lock);
	return rc < 0 ? fth_fail(-rc, "cannot start the drain thread: %s", strerror(-rc)) : 0;
}

/* ---- open and close ---- */

static void init_lock(struct pm_drain *d)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void free_drain(struct fth_pm *pm)
{
	struct pm_drain *d = pm->drain;

	fth_dev_chan_close(d->chan);
	if (d->buffer)
		fth_dev_buf_free(pm->dev, d->buffer, (size_t)SLOTS * SLOT_BYTES);
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	free(d);
	pm->drain = NULL;
}

int pm_drain_open(struct fth_pm *pm)
{
	struct pm_drain *d = calloc(1, sizeof *d);
	int rc;

	if (!d)
		return -ENOMEM;
	init_lock(d);
	pm->drain = d;
	for (unsigned i = 0; i < SLOTS; i++)
		d->free[d->free_count++] = i;
	d->buffer = fth_dev_buf_alloc(pm->dev, (size_t)SLOTS * SLOT_BYTES);
	rc = d->buffer ? fth_dev_chan_open(pm->dev, SLOTS + 1, &d->chan) : -ENOMEM;
	if (rc < 0)
		free_drain(pm);
	return rc;
}

int pm_drain_close(struct fth_pm *pm)
{
	struct pm_drain *d = pm->drain;
	int rc = -(int)fth_load_acquire_sys64(&pm->view.door->error);

	if (d->serving) {
		__atomic_store_n(&d->stop, true, __ATOMIC_RELEASE);
		pthread_join(d->server, NULL);
	}
	d->round_deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	while (fth_dev_chan_in_flight(d->chan) > 0)
		if (reap_requests(d, 1) == -ETIMEDOUT)
			break;
	if (fth_dev_chan_in_flight(d->chan) > 0) {
		/* The device may still read the slots: they, the channel and the device are leaked. */
		pm->drain = NULL;
		pm->owns_dev = false;
		return rc < 0 ? rc : -ETIMEDOUT;
	}
	free_drain(pm);
	return rc;
}
