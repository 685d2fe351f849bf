/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the load generator, pace and figures. kv_load_internal.h lists the siblings.
 *
 * The connections are made before the clock starts. When the time is over no request is sent any
 * more, and those under way are waited for, until they time out.
 */
#include "kv_load_internal.h"

#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS	  64
#define TICK_NS	  UINT64_C(20000000) /* how often time-outs and signals are looked at */
#define SECOND_NS 1e9
#define BURST	  64 /* keys that a thread may be ahead of its pace */

/* ---- a thread ---- */

static bool is_over(const struct load_run *run, uint64_t now)
{
	return now >= __atomic_load_n(&run->end, __ATOMIC_RELAXED) || fth_cli_stopped();
}

/* Has it sent its share of load->keys? */
static bool has_all_keys(const struct load_thread *thread)
{
	const struct fth_kv_load *load = thread->run->load;

	return load->keys && thread->issued >= (load->keys + load->threads - 1) / load->threads;
}

bool load_may_send(const struct load_thread *thread, uint64_t now)
{
	const struct load_run *run = thread->run;

	if (is_over(run, now) || has_all_keys(thread))
		return false;
	return !run->load->rate ||
	       (double)thread->issued < (double)run->load->rate / run->load->threads *
							(double)(now - run->begin) / SECOND_NS +
						BURST;
}

void load_add_idle(struct load_thread *thread, struct load_conn *conn)
{
	conn->next_idle = thread->idle;
	thread->idle = conn;
}

/* False: there will be nothing to send any more. */
static bool start_idle(struct load_thread *thread, uint64_t now)
{
	struct load_run *run = thread->run;

	while (thread->idle && load_may_send(thread, now)) {
		struct load_conn *conn = thread->idle;

		if (conn->state == CONN_CLOSED) {
			thread->idle = conn->next_idle;
			continue;
		}
		if (!load_conn_start(conn, now))
			return false;
		thread->idle = conn->next_idle;
	}
	if (run->load->mode != FTH_KV_LOAD_MIX &&
	    __atomic_load_n(&run->next, __ATOMIC_RELAXED) >= run->load->data->items)
		return false;
	return !is_over(run, now) && !has_all_keys(thread) && thread->closed < thread->conn_count;
}

static void give_up_late(struct load_thread *thread, uint64_t now)
{
	uint64_t limit = thread->run->load->timeout_ns;

	for (unsigned i = 0; i < thread->conn_count; i++) {
		struct load_conn *conn = &thread->conns[i];

		if (conn->state == CONN_BUSY && now > conn->started && now - conn->started > limit)
			load_conn_give_up(conn);
	}
}

static void *thread_main(void *context)
{
	struct load_thread *thread = context;
	struct epoll_event events[EVENTS];
	uint64_t now = fth_now_ns(), ticked = now;

	while (start_idle(thread, now) || thread->busy) {
		/* Connections that wait for their turn: a millisecond is near enough. */
		int n = epoll_wait(thread->epoll, events, EVENTS, thread->idle ? 1 : 10);

		now = fth_now_ns();
		for (int i = 0; i < n; i++)
			load_conn_event(events[i].data.ptr, events[i].events);
		if (now - ticked > TICK_NS) {
			give_up_late(thread, now);
			ticked = now;
		}
	}
	return NULL;
}

/* ---- all of it ---- */

static int thread_init(struct load_thread *thread, struct load_run *run, unsigned number)
{
	const struct fth_kv_load *load = run->load;
	unsigned from = load->connections * number / load->threads;
	unsigned to = load->connections * (number + 1) / load->threads;
	int rc = 0;

	thread->run = run;
	thread->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (thread->epoll < 0)
		return -errno;
	thread->conns = calloc(to - from, sizeof(*thread->conns));
	if (!thread->conns)
		return -ENOMEM;
	for (unsigned i = from; i < to; i++)
		thread->conns[i - from].wire.fd = -1;
	for (unsigned i = from; i < to && rc == 0; i++, thread->conn_count++)
		rc = load_conn_init(&thread->conns[i - from], thread, i);
	return rc;
}

static void thread_release(struct load_thread *thread)
{
	for (unsigned i = 0; i < thread->conn_count; i++)
		load_conn_release(&thread->conns[i]);
	free(thread->conns);
	if (thread->epoll >= 0)
		close(thread->epoll);
}

static void add_result(struct fth_kv_load_result *sum, const struct fth_kv_load_result *r)
{
	sum->requests += r->requests;
	sum->gets += r->gets;
	sum->hits += r->hits;
	sum->sets += r->sets;
	sum->stored += r->stored;
	sum->refused += r->refused;
	sum->wrong += r->wrong;
	sum->stale += r->stale;
	sum->timeouts += r->timeouts;
	sum->broken += r->broken;
	if (!*sum->answer)
		memcpy(sum->answer, r->answer, sizeof(sum->answer));
	fth_latency_merge(&sum->latency, &r->latency);
}

static void show_progress(const struct load_run *run)
{
	const struct fth_kv_load *load = run->load;
	uint64_t now = fth_now_ns();

	if (!load->label)
		return;
	if (load->mode == FTH_KV_LOAD_MIX)
		fth_cli_progress(load->label, now - run->begin, run->end - run->begin);
	else
		fth_cli_progress(load->label, __atomic_load_n(&run->done, __ATOMIC_RELAXED),
				 load->data->items);
}

static int start_threads(struct load_run *run, struct load_thread *threads)
{
	int rc = 0;

	for (unsigned i = 0; i < run->load->threads && rc == 0; i++) {
		rc = -pthread_create(&threads[i].thread, NULL, thread_main, &threads[i]);
		threads[i].runs = rc == 0;
	}
	return rc;
}

/* Threads end by themselves; this one shows how far they are. */
static void join_threads(struct load_run *run, struct load_thread *threads)
{
	for (unsigned i = 0; i < run->load->threads; i++) {
		while (threads[i].runs) {
			struct timespec until;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += 200000000;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
			if (pthread_timedjoin_np(threads[i].thread, NULL, &until) == 0)
				threads[i].runs = false;
			else
				show_progress(run);
		}
	}
	if (run->load->label)
		fth_cli_progress_end();
}

static int check(const struct fth_kv_load *load)
{
	if (!load->connections || !load->threads || load->threads > load->connections)
		return fth_fail(EINVAL,
				"%u connections for %u threads: each thread needs a connection",
				load->connections, load->threads);
	if (!load->batch || load->batch > FTH_KV_LOAD_BATCH_MAX)
		return fth_fail(EINVAL, "%u keys per request, the maximum is %u", load->batch,
				FTH_KV_LOAD_BATCH_MAX);
	if (load->zipf < 0 || load->zipf >= 1)
		return fth_fail(EINVAL, "zipf exponent %g is not between 0 and 1", load->zipf);
	return 0;
}

static int run_threads(struct load_run *run, struct load_thread *threads,
		       struct fth_kv_load_result *result)
{
	const struct fth_kv_load *load = run->load;
	unsigned closed = 0;
	int rc = 0;

	for (unsigned i = 0; i < load->threads && rc == 0; i++)
		rc = thread_init(&threads[i], run, i);
	if (rc < 0)
		return rc;
	run->begin = fth_now_ns();
	run->end = load->mode == FTH_KV_LOAD_MIX
			   ? run->begin + (uint64_t)(load->seconds * SECOND_NS)
			   : UINT64_MAX;
	rc = start_threads(run, threads);
	if (rc < 0)
		__atomic_store_n(&run->end, 0, __ATOMIC_RELAXED);
	join_threads(run, threads);
	result->ns = fth_now_ns() - run->begin;
	for (unsigned i = 0; i < load->threads; i++) {
		add_result(result, &threads[i].result);
		closed += threads[i].closed;
	}
	if (rc == 0 && closed == load->connections)
		rc = fth_fail(ECONNRESET, "%s: all connections failed%s%s", load->server,
			      *result->answer ? "; the last reply was " : "", result->answer);
	return rc;
}

int fth_kv_load_run(const struct fth_kv_load *load, struct fth_kv_load_result *result)
{
	struct load_run run = {.load = load};
	struct load_thread *threads;
	int rc = check(load);

	memset(result, 0, sizeof(*result));
	if (rc < 0)
		return rc;
	threads = calloc(load->threads, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (unsigned i = 0; i < load->threads; i++)
		threads[i].epoll = -1;
	snprintf(run.set_tail, sizeof(run.set_tail), " 0 0 %u\r\n", load->data->value_bytes);
	if (load->zipf > 0)
		kv_zipf_init(&run.zipf, load->data->items, load->zipf);
	rc = run_threads(&run, threads, result);
	for (unsigned i = 0; i < load->threads; i++)
		thread_release(&threads[i]);
	free(threads);
	return rc;
}
