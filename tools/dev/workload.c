/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants
 * 1. Each thread has a range of blocks of its own (first_block()): no other touches them or
 *    their generations.
 * 2. A block has at most one request in flight (BUSY), so there is one answer to what it holds.
 * 3. generations[b] without its flags is the generation of the last write to b that was started.
 *    It is what b holds, unless UNKNOWN is set (that write failed) or it is 0 (never written).
 */
#include "workload.h"

#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUSY	   ((uint32_t)1 << 31)
#define UNKNOWN	   ((uint32_t)1 << 30)
#define GENERATION (UNKNOWN - 1)
#define POLL_NS	   20000000
#define RETRY_NS   10000000000u

struct slot {
	struct fth_dev_req req;
	uint64_t block;
	uint32_t run; /* blocks, from that one on */
	char *buf;
};

struct worker {
	const struct fth_workload *workload;
	unsigned index;
	pthread_t thread;
	struct fth_dev_chan *chan;
	struct slot *slots;
	char *memory;
	struct fth_rng rng;
	struct fth_workload_result result;
	uint64_t ended;	   /* when it was done */
	uint32_t finished; /* set last, read by the thread that waits */
	int rc;
};

/* ---- what a block holds ---- */

static uint64_t word_at(const struct fth_workload *w, uint64_t block, uint32_t generation,
			unsigned i)
{
	if (i == 0)
		return block;
	if (i == 1)
		return generation;
	return fth_mix64(w->seed ^ fth_mix64(block ^ ((uint64_t)generation << 32)) ^ i);
}

static void fill(const struct fth_workload *w, char *buf, uint64_t block, uint32_t generation)
{
	uint64_t *words = (uint64_t *)(void *)buf;

	for (unsigned i = 0; i < w->block / sizeof(*words); i++)
		words[i] = word_at(w, block, generation, i);
}

static bool holds(const struct fth_workload *w, const char *buf, uint64_t block,
		  uint32_t generation)
{
	const uint64_t *words = (const uint64_t *)(const void *)buf;

	for (unsigned i = 0; i < w->block / sizeof(*words); i++)
		if (words[i] != word_at(w, block, generation, i))
			return false;
	return true;
}

/* ---- one request ---- */

static uint32_t run_max(const struct fth_workload *w)
{
	return w->run_max ? w->run_max : 1;
}

static uint64_t first_block(const struct fth_workload *w, unsigned thread)
{
	return w->blocks * thread / w->threads;
}

/* A run of blocks of ours that nothing is in flight for; how many, and the first in *block. */
static uint32_t pick_run(struct worker *worker, uint64_t *block)
{
	const struct fth_workload *w = worker->workload;
	uint64_t first = first_block(w, worker->index), end = first_block(w, worker->index + 1);
	uint32_t wanted = 1 + (uint32_t)fth_rng_below(&worker->rng, run_max(w)), n = 1;

	do
		*block = first + fth_rng_below(&worker->rng, end - first);
	while (w->generations[*block] & BUSY);
	while (n < wanted && *block + n < end && !(w->generations[*block + n] & BUSY))
		n++;
	return n;
}

static bool is_readable(const struct fth_workload *w, const struct slot *slot)
{
	for (uint32_t i = 0; i < slot->run; i++) {
		uint32_t state = w->generations[slot->block + i];

		if (!state || state & UNKNOWN)
			return false;
	}
	return true;
}

static void prepare(struct worker *worker, struct slot *slot)
{
	const struct fth_workload *w = worker->workload;
	enum fth_dev_op op = FTH_DEV_READ;

	slot->run = pick_run(worker, &slot->block);
	if (!is_readable(w, slot) || fth_rng_unit(&worker->rng) < w->write_share)
		op = FTH_DEV_WRITE;
	for (uint32_t i = 0; i < slot->run; i++) {
		uint32_t *state = &w->generations[slot->block + i];

		if (op == FTH_DEV_WRITE) {
			*state = (*state + 1) & GENERATION;
			fill(w, slot->buf + (size_t)i * w->block, slot->block + i, *state);
		}
		*state |= BUSY;
	}
	fth_dev_req_init(&slot->req, op, slot->buf, (uint64_t)slot->run * w->block,
			 slot->block * w->block);
	slot->req.user = slot;
}

static void conclude_block(struct worker *worker, struct slot *slot, uint32_t i)
{
	const struct fth_workload *w = worker->workload;
	uint32_t *state = &w->generations[slot->block + i];

	*state &= ~BUSY;
	if (slot->req.result < 0) {
		if (slot->req.op == FTH_DEV_WRITE)
			*state |= UNKNOWN;
	} else if (slot->req.op == FTH_DEV_READ) {
		worker->result.checked++;
		if (!holds(w, slot->buf + (size_t)i * w->block, slot->block + i,
			   *state & GENERATION))
			worker->result.wrong++;
	}
}

static void conclude(struct worker *worker, struct slot *slot)
{
	for (uint32_t i = 0; i < slot->run; i++)
		conclude_block(worker, slot, i);
	if (slot->req.result < 0)
		worker->result.errors++;
	else if (slot->req.op == FTH_DEV_WRITE)
		worker->result.writes++;
	else
		worker->result.reads++;
}

/* ---- one thread ---- */

/* A device that is just coming back from a failure refuses for a moment: that is an error too. */
static int start(struct worker *worker, struct slot *slot)
{
	uint64_t deadline = fth_deadline_ns(RETRY_NS);
	struct fth_dev_req *req = &slot->req;
	int rc;

	prepare(worker, slot);
	while ((rc = fth_dev_submit(worker->chan, &req, 1)) == -EIO && fth_now_ns() < deadline) {
		worker->result.errors++;
		sched_yield();
	}
	return rc;
}

static int start_all(struct worker *worker, uint64_t *started)
{
	const struct fth_workload *w = worker->workload;
	int rc = 0;

	for (; *started < w->depth && *started < w->ops && rc >= 0; ++*started)
		rc = start(worker, &worker->slots[*started]);
	return rc;
}

static int collect(struct worker *worker, uint64_t *started)
{
	struct fth_dev_req *done[32];
	int n = fth_dev_reap(worker->chan, done, 32, 1, FTH_NEVER), rc = n;

	for (int i = 0; i < n; i++) {
		conclude(worker, done[i]->user);
		if (rc >= 0 && *started < worker->workload->ops && !fth_cli_stopped()) {
			rc = start(worker, done[i]->user);
			++*started;
		}
	}
	return rc;
}

static int work(struct worker *worker)
{
	uint64_t started = 0;
	int rc = start_all(worker, &started);

	while (rc >= 0 && fth_dev_chan_in_flight(worker->chan) > 0)
		rc = collect(worker, &started);
	return rc < 0 ? rc : 0;
}

static void *thread_main(void *arg)
{
	struct worker *worker = arg;

	worker->rc = work(worker);
	worker->ended = fth_now_ns();
	/* release: whoever sees it finished sees its result */
	fth_store_release_dev32(&worker->finished, 1);
	return NULL;
}

static size_t memory_size(const struct fth_workload *w)
{
	return (size_t)w->depth * run_max(w) * w->block;
}

static int worker_init(struct worker *worker, const struct fth_workload *w, unsigned index)
{
	int rc = fth_dev_chan_open(w->dev, w->depth, &worker->chan);

	worker->workload = w;
	worker->index = index;
	worker->rng.state = fth_mix64(w->seed + fth_mix64(w->round)) + index;
	if (rc < 0)
		return rc;
	worker->slots = calloc(w->depth, sizeof(*worker->slots));
	worker->memory = fth_dev_buf_alloc(w->dev, memory_size(w));
	if (!worker->slots || !worker->memory)
		return -ENOMEM;
	for (unsigned i = 0; i < w->depth; i++)
		worker->slots[i].buf = worker->memory + i * (memory_size(w) / w->depth);
	return 0;
}

static void worker_release(struct worker *worker)
{
	const struct fth_workload *w = worker->workload;

	/* First, since requests in flight still use the buffers. */
	fth_dev_chan_close(worker->chan);
	if (worker->memory)
		fth_dev_buf_free(w->dev, worker->memory, memory_size(w));
	free(worker->slots);
}

/* ---- all threads ---- */

static int check(const struct fth_workload *w)
{
	const struct fth_dev_info *info = fth_dev_info(w->dev);

	if (w->block < 16 || w->block % 8 || w->block % info->block)
		return fth_fail(EINVAL,
				"request size %u is not a multiple of the device's block size %u",
				w->block, info->block);
	if (w->blocks > info->size / w->block)
		return fth_fail(EINVAL, "the device has fewer than %llu blocks of %u bytes",
				(unsigned long long)w->blocks, w->block);
	if ((uint64_t)run_max(w) * w->block > info->max_length)
		return fth_fail(EINVAL,
				"requests of %u blocks of %u bytes exceed the device's maximum",
				run_max(w), w->block);
	if (w->threads == 0 || w->depth == 0 ||
	    (uint64_t)w->threads * w->depth * run_max(w) >= w->blocks)
		return fth_fail(EINVAL, "%u threads with depth %u need more than %llu blocks",
				w->threads, w->depth, (unsigned long long)w->blocks);
	return 0;
}

static void show_progress(const struct fth_workload *w, const char *what, uint64_t done,
			  uint64_t total)
{
	if (!w->quiet)
		fth_cli_progress(what, done, total);
}

static void end_progress(const struct fth_workload *w)
{
	if (!w->quiet)
		fth_cli_progress_end();
}

static void await(struct worker *workers, unsigned n, uint64_t before)
{
	const struct fth_workload *w = workers->workload;
	struct timespec pause = {.tv_nsec = POLL_NS};

	for (unsigned i = 0; i < n; i++) {
		while (!fth_load_acquire_dev32(&workers[i].finished)) {
			uint64_t now = fth_dev_stat(w->dev, FTH_DEV_STAT_READS) +
				       fth_dev_stat(w->dev, FTH_DEV_STAT_WRITES);

			show_progress(w, "reading and writing", now - before, w->ops * w->threads);
			nanosleep(&pause, NULL);
		}
		pthread_join(workers[i].thread, NULL);
	}
	end_progress(w);
}

static int run_workers(struct worker *workers, const struct fth_workload *w)
{
	uint64_t before = fth_dev_stat(w->dev, FTH_DEV_STAT_READS) +
			  fth_dev_stat(w->dev, FTH_DEV_STAT_WRITES);
	unsigned started = 0;
	int rc = 0;

	for (unsigned i = 0; i < w->threads && rc == 0; i++)
		rc = worker_init(&workers[i], w, i);
	while (rc == 0 && started < w->threads) {
		rc = -pthread_create(&workers[started].thread, NULL, thread_main,
				     &workers[started]);
		if (rc == 0)
			started++;
	}
	if (started > 0)
		await(workers, started, before);
	return rc;
}

static int add_up(const struct worker *workers, unsigned n, uint64_t begin,
		  struct fth_workload_result *result)
{
	int rc = 0;

	for (unsigned i = 0; i < n; i++) {
		result->reads += workers[i].result.reads;
		result->writes += workers[i].result.writes;
		result->errors += workers[i].result.errors;
		result->checked += workers[i].result.checked;
		result->wrong += workers[i].result.wrong;
		if (workers[i].ended > begin + result->elapsed_ns)
			result->elapsed_ns = workers[i].ended - begin;
		if (workers[i].rc < 0)
			rc = workers[i].rc;
	}
	return rc;
}

int fth_workload_run(const struct fth_workload *workload, struct fth_workload_result *result)
{
	struct worker *workers;
	uint64_t begin = fth_now_ns();
	int rc = check(workload), failed;

	memset(result, 0, sizeof(*result));
	if (rc < 0)
		return rc;
	workers = calloc(workload->threads, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	rc = run_workers(workers, workload);
	failed = add_up(workers, workload->threads, begin, result);
	for (unsigned i = 0; i < workload->threads; i++)
		if (workers[i].workload)
			worker_release(&workers[i]);
	free(workers);
	return rc < 0 ? rc : failed;
}

void fth_workload_doubt(const struct fth_workload *w, const uint32_t *since)
{
	for (uint64_t block = 0; block < w->blocks; block++)
		if (w->generations[block] != since[block])
			w->generations[block] |= UNKNOWN;
}

/* Blocks per read while verifying. */
#define VERIFY_RUN 64

static void verify_run(const struct fth_workload *w, uint64_t first, uint64_t n, char *buf,
		       struct fth_workload_result *result)
{
	if (fth_dev_read(w->dev, buf, n * w->block, first * w->block, FTH_DEV_TIMEOUT) < 0) {
		result->errors++;
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint32_t state = w->generations[first + i];

		if (state == 0 || (state & UNKNOWN))
			continue;
		result->checked++;
		if (!holds(w, buf + i * w->block, first + i, state & GENERATION))
			result->wrong++;
	}
}

int fth_workload_verify(const struct fth_workload *w, struct fth_workload_result *result)
{
	char *buf = fth_dev_buf_alloc(w->dev, (size_t)VERIFY_RUN * w->block);
	uint64_t first = 0;

	if (!buf)
		return -ENOMEM;
	while (first < w->blocks && !fth_cli_stopped()) {
		uint64_t left = w->blocks - first, n = left < VERIFY_RUN ? left : VERIFY_RUN;

		verify_run(w, first, n, buf, result);
		first += n;
		show_progress(w, "checking", first, w->blocks);
	}
	end_progress(w);
	fth_dev_buf_free(w->dev, buf, (size_t)VERIFY_RUN * w->block);
	return 0;
}
