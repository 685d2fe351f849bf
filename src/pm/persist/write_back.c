/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Write-back of drained memory, in rounds: take the marks, copy their pages, write them, flush the
 * device.
 *
 * Invariants, beside those of the control block (fathom/detail/pm/view.h):
 *
 *	1. At most one thread is in a round, the one that has set `busy`: it alone uses the
 *	   channel, the slots and the fields that begin with round_.
 *	2. A persisting thread that finds nobody in a round makes one itself; so one thread alone
 *	   pays no wake-up. Those that come meanwhile wait, and one of them makes the next round
 *	   for all.
 *	3. A page is copied before it is written, word by word: the device sees bytes that do not
 *	   change, and no word of 8 bytes is torn.
 *	4. A failed write or flush is for good: marks were taken, and nobody knows what the device
 *	   holds. `error` is set, and no round begins after it.
 *	5. A slot whose request is in flight is not touched.
 *
 * A round with few pages costs as much as one with many. Threads that waited in the last one come
 * back soon: so who begins a round lets them mark their pages first, for a part of the time that a
 * round takes (linger).
 *
 * The server is a thread for GPUs, which cannot make a round themselves: it polls `wanted`.
 */
#include "pm/pm_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOT_PAGES 32u
#define SLOT_BYTES (SLOT_PAGES * FTH_PM_PAGE)
#define SLOTS	   16u
#define COARSE	   (1u << FTH_PM_COARSE_SHIFT)

struct pm_write_back {
	/* Atomic. */
	uint32_t busy;	   /* 1: a thread is in a round */
	uint32_t ended;	   /* rounds; a futex on which threads sleep */
	uint32_t inside;   /* threads that wait, with the one in a round */
	uint32_t arrivals; /* of such threads, since the memory was mapped */
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
	/* Of the last round. */
	uint32_t round_arrivals; /* when it began */
	uint32_t round_inside;	 /* when it ended */
	uint64_t round_ns;	 /* that it took */
	pthread_mutex_t lock;	 /* guards the start of the server */
	bool serving, stop;
	pthread_t server;
};

/* ---- requests ---- */

/* Collect at least `min` requests; the first error. */
static int reap_requests(struct pm_write_back *w, unsigned min)
{
	struct fth_dev_req *done[SLOTS + 1];
	int n = fth_dev_reap(w->chan, done, SLOTS + 1, min, w->round_deadline), rc = 0;

	if (n < 0)
		return n == -ETIME ? -ETIMEDOUT : n;
	for (int i = 0; i < n; i++) {
		if (done[i] != &w->flush)
			w->free[w->free_count++] = (unsigned)(done[i] - w->reqs);
		if (done[i]->result < 0 && rc == 0)
			rc = done[i]->result;
	}
	return rc;
}

/* Hand all queued requests to the device, at once if it takes so many. */
static int submit_queued(struct pm_write_back *w)
{
	unsigned taken = 0;
	int rc = 0;

	while (taken < w->queued && rc == 0) {
		int n = fth_dev_submit(w->chan, w->queue + taken, w->queued - taken);

		if (n > 0)
			taken += (unsigned)n;
		else
			rc = n < 0 ? n : -EIO;
	}
	w->queued = 0;
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
	struct pm_write_back *w = pm->write_back;
	struct fth_dev_req *req;
	unsigned slot;
	int rc = 0;

	if (w->free_count == 0)
		rc = submit_queued(w);
	while (w->free_count == 0 && rc == 0)
		rc = reap_requests(w, 1);
	if (rc < 0)
		return rc;
	slot = w->free[--w->free_count];
	req = &w->reqs[slot];
	copy_words(w->buffer + slot * SLOT_BYTES, pm->memory + page * FTH_PM_PAGE,
		   count * FTH_PM_PAGE);
	fth_dev_req_init(req, FTH_DEV_WRITE, w->buffer + slot * SLOT_BYTES, count * FTH_PM_PAGE,
			 page * FTH_PM_PAGE);
	if (alone)
		req->flags = FTH_DEV_FUA;
	w->queue[w->queued++] = req;
	w->round_writes++;
	w->round_pages += count;
	return 0;
}

/* ---- a round ---- */

static int write_pending(struct fth_pm *pm, bool alone)
{
	struct pm_write_back *w = pm->write_back;
	int rc = w->round_count ? write_run(pm, w->round_first, w->round_count, alone) : 0;

	w->round_count = 0;
	return rc;
}

static int add_page(struct fth_pm *pm, uint64_t page)
{
	struct pm_write_back *w = pm->write_back;
	int rc = 0;

	if (w->round_count == SLOT_PAGES || page != w->round_first + w->round_count)
		rc = write_pending(pm, false);
	if (w->round_count == 0)
		w->round_first = page;
	w->round_count++;
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

static int reap_all(struct pm_write_back *w)
{
	int rc = 0;

	while (rc == 0 && fth_dev_chan_in_flight(w->chan) > 0)
		rc = reap_requests(w, fth_dev_chan_in_flight(w->chan));
	return rc;
}

static int flush_device(struct pm_write_back *w)
{
	int rc;

	fth_dev_req_init(&w->flush, FTH_DEV_FLUSH, NULL, 0, 0);
	w->queue[w->queued++] = &w->flush;
	rc = submit_queued(w);
	return rc < 0 ? rc : reap_all(w);
}

/* A single write needs no flush behind it where the device has FUA. */
static int write_round(struct fth_pm *pm)
{
	struct pm_write_back *w = pm->write_back;
	bool alone;
	int rc;

	w->round_count = w->round_pages = w->round_writes = 0;
	w->round_deadline = fth_deadline_ns(pm->view.timeout_ns);
	rc = take_all(pm);
	if (rc < 0)
		return rc;
	alone = w->round_writes == 0 && fth_dev_info(pm->dev)->has_fua;
	rc = write_pending(pm, alone);
	if (rc == 0)
		rc = submit_queued(w);
	if (rc == 0)
		rc = reap_all(w);
	return rc < 0 || alone || w->round_pages == 0 ? rc : flush_device(w);
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

/* The threads that waited in the last round, or already for this one, arrive once each. */
static void linger(struct pm_write_back *w)
{
	uint64_t patience = w->round_ns / 2 < LINGER_NS ? w->round_ns / 2 : LINGER_NS;
	uint64_t deadline = fth_deadline_ns(patience);

	while (fth_load_relaxed_dev32(&w->arrivals) - w->round_arrivals < w->round_inside &&
	       fth_now_ns() < deadline)
		sched_yield();
}

/* With busy set. */
static void make_round(struct fth_pm *pm)
{
	struct fth_pm_control *control = pm->view.control;
	struct pm_write_back *w = pm->write_back;
	uint64_t begun = control->begun + 1, start;
	int rc;

	linger(w);
	start = fth_now_ns();
	w->round_arrivals = fth_load_relaxed_dev32(&w->arrivals);
	fth_store_release_sys64(&control->begun, begun);
	/* invariant 3 of the control block: no mark is looked at before begun is stored */
	full_barrier();
	rc = write_round(pm);
	fth_stats_add(pm->stats, FTH_PM_STAT_ROUNDS, 1);
	fth_stats_add(pm->stats, FTH_PM_STAT_PAGES, w->round_pages);
	fth_stats_add(pm->stats, FTH_PM_STAT_WRITES, w->round_writes);
	w->round_ns = fth_now_ns() - start;
	w->round_inside = fth_load_relaxed_dev32(&w->inside);
	/* release: a thread that sees done also sees the effects of the round. */
	if (rc < 0)
		fth_store_release_sys64(&control->error, (uint64_t)-rc);
	else
		fth_store_release_sys64(&control->done, begun);
}

/* After make_round(). */
static void leave_round(struct pm_write_back *w)
{
	/* release: the next thread in a round sees the fields of this one. */
	fth_store_release_dev32(&w->busy, 0);
	/* release: a thread that sees it finds busy released, or set again. */
	fth_add_release_dev32(&w->ended, 1);
	/* A thread that is not seen inside now reads `ended` after this, and does not sleep. */
	full_barrier();
	if (fth_load_relaxed_dev32(&w->inside) > 1)
		syscall(SYS_futex, &w->ended, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* Sleep unless more than `ended` rounds have ended. False after the deadline. */
static bool sleep_until(struct pm_write_back *w, uint32_t ended, uint64_t deadline)
{
	uint64_t now = fth_now_ns(), left = deadline > now ? deadline - now : 0;
	struct timespec wait = {.tv_sec = (time_t)(left / 1000000000u),
				.tv_nsec = (long)(left % 1000000000u)};

	if (left > 0)
		syscall(SYS_futex, &w->ended, FUTEX_WAIT_PRIVATE, ended, &wait);
	return left > 0;
}

static int sticky_error(const struct fth_pm *pm)
{
	uint64_t error = fth_load_acquire_sys64(&pm->view.control->error);

	return error ? fth_fail((int)error, "%s: an earlier write to the device failed: %s",
				pm->name, strerror((int)error))
		     : 0;
}

/* Until a round has ended that began after `begun`. */
static int wait_served(struct fth_pm *pm, uint64_t begun)
{
	struct pm_write_back *w = pm->write_back;
	/* The round under way and the next one, each of which the timeout bounds. */
	uint64_t deadline = fth_deadline_ns(3 * pm->view.timeout_ns);

	/* acquire: the effects of the round. */
	while (fth_load_acquire_sys64(&pm->view.control->done) <= begun) {
		/* acquire: read before busy, so that the end of that round is not missed. */
		uint32_t ended = fth_load_acquire_dev32(&w->ended), idle = 0;
		int rc = sticky_error(pm);

		if (rc < 0)
			return rc;
		/* acquire: the fields of the last round. */
		if (fth_cas_acquire_dev32(&w->busy, &idle, 1)) {
			if (fth_load_acquire_sys64(&pm->view.control->done) <= begun)
				make_round(pm);
			leave_round(w);
		} else if (!sleep_until(w, ended, deadline)) {
			/* For good: what this thread stored may become durable later. */
			fth_store_release_sys64(&pm->view.control->error, ETIMEDOUT);
			return fth_fail(ETIMEDOUT,
					"%s: timed out after %u ms waiting for the device",
					pm->name, pm->timeout_ms);
		}
	}
	return 0;
}

/* Until what was marked before is durable. */
static int wait_round(struct fth_pm *pm)
{
	struct pm_write_back *w = pm->write_back;
	int rc;

	fth_add_relaxed_dev32(&w->inside, 1);
	fth_add_relaxed_dev32(&w->arrivals, 1);
	full_barrier(); /* invariant 3 of the control block: marks are set before begun is read */
	rc = wait_served(pm, fth_load_acquire_sys64(&pm->view.control->begun));
	fth_add_relaxed_dev32(&w->inside, (uint32_t)-1);
	return rc;
}

int fth_pm_fence_device(const struct fth_pm_view *view)
{
	struct fth_pm *pm = view->host;
	struct pm_write_back *w = pm->write_back;
	int rc = pm_process_check(pm);

	if (rc < 0)
		return rc;
	if (view->mode != FTH_PM_MODE_WRITE_BACK) /* a window: its flush has waited */
		return -(int)fth_load_acquire_sys64(&view->control->error);
	if (!w)
		return -EROFS;
	return wait_round(pm);
}

/* ---- the server ---- */

#define IDLE_SPINS 20000u
#define IDLE_NS	   50000

static void serve_once(struct fth_pm *pm)
{
	/*
	 * Invariant 4 of the control block: cleared before the round begins. acqrel: what was
	 * marked before.
	 */
	fth_xchg_acqrel_sys64(&pm->view.control->wanted, 0);
	wait_round(pm);
}

static void *serve(void *arg)
{
	struct fth_pm *pm = arg;
	struct pm_write_back *w = pm->write_back;
	unsigned idle = 0;

	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		if (fth_load_acquire_sys64(&pm->view.control->wanted)) {
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
	struct pm_write_back *w = pm->write_back;
	int rc = pm_process_check(pm);

	if (rc < 0 || !w)
		return rc;
	pthread_mutex_lock(&w->lock);
	if (!w->serving) {
		rc = -pthread_create(&w->server, NULL, serve, pm);
		w->serving = rc == 0;
	}
	pthread_mutex_unlock(&w->lock);
	return rc < 0 ? fth_fail(-rc, "cannot start the write-back thread: %s", strerror(-rc)) : 0;
}

/* ---- open and close ---- */

static void free_write_back(struct fth_pm *pm)
{
	struct pm_write_back *w = pm->write_back;

	fth_dev_chan_close(w->chan);
	if (w->buffer)
		fth_dev_buf_free(pm->dev, w->buffer, (size_t)SLOTS * SLOT_BYTES);
	pthread_mutex_destroy(&w->lock);
	free(w);
	pm->write_back = NULL;
}

int pm_write_back_open(struct fth_pm *pm)
{
	struct pm_write_back *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	pm->write_back = w;
	for (unsigned i = 0; i < SLOTS; i++)
		w->free[w->free_count++] = i;
	w->buffer = fth_dev_buf_alloc(pm->dev, (size_t)SLOTS * SLOT_BYTES);
	rc = w->buffer ? fth_dev_chan_open(pm->dev, SLOTS + 1, &w->chan) : -ENOMEM;
	if (rc < 0)
		free_write_back(pm);
	return rc;
}

int pm_write_back_close(struct fth_pm *pm)
{
	struct pm_write_back *w = pm->write_back;
	int rc = -(int)fth_load_acquire_sys64(&pm->view.control->error);

	if (w->serving) {
		__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
		pthread_join(w->server, NULL);
	}
	w->round_deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	while (fth_dev_chan_in_flight(w->chan) > 0)
		if (reap_requests(w, 1) == -ETIMEDOUT)
			break;
	if (fth_dev_chan_in_flight(w->chan) > 0) {
		/*
		 * The device may still read the slots: they, the channel and the device are leaked.
		 */
		pm->write_back = NULL;
		pm->owns_dev = false;
		return rc < 0 ? rc : -ETIMEDOUT;
	}
	free_write_back(pm);
	return rc;
}
