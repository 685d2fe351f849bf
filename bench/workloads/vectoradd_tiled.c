/* SPDX-License-Identifier: BSD-2-Clause */
#include "vectoradd_tiled.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include "base/team.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS_MAX 64u

/* One tile under way: both inputs are read, the sum replaces the first and is written. */
struct slot {
	struct fth_dev_req reqs[2];
	double *a, *b;
	unsigned reading; /* reads not yet complete */
};

struct worker {
	const struct fth_tiled *tiled;
	struct fth_dev_chan *chan;
	unsigned slots;
	struct slot slot[SLOTS_MAX];
	uint64_t next, end; /* bytes not yet asked for */
};

static int submit(struct worker *worker, struct slot *slot, unsigned n)
{
	struct fth_dev_req *reqs[] = {&slot->reqs[0], &slot->reqs[1]};
	int rc = fth_dev_submit(worker->chan, reqs, n);

	/* The channel is deep enough for all; fewer were taken only if one is bad. */
	return rc == (int)n ? 0 : rc < 0 ? rc : -EIO;
}

/* Start the next tile in this slot, if there is one. */
static int read_tile(struct worker *worker, struct slot *slot)
{
	const struct fth_tiled *tiled = worker->tiled;
	uint64_t left = worker->end - worker->next;
	uint64_t length = left < tiled->tile ? left : tiled->tile;

	if (length == 0)
		return 0;
	fth_dev_req_init(&slot->reqs[0], FTH_DEV_READ, slot->a, length, tiled->a + worker->next);
	fth_dev_req_init(&slot->reqs[1], FTH_DEV_READ, slot->b, length, tiled->b + worker->next);
	slot->reqs[0].user = slot->reqs[1].user = slot;
	slot->reading = 2;
	worker->next += length;
	return submit(worker, slot, 2);
}

static void add(double *restrict a, const double *restrict b, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		a[i] += b[i];
}

static int write_tile(struct worker *worker, struct slot *slot)
{
	uint64_t length = slot->reqs[0].length, at = slot->reqs[0].offset - worker->tiled->a;

	add(slot->a, slot->b, length / sizeof(double));
	fth_dev_req_init(&slot->reqs[0], FTH_DEV_WRITE, slot->a, length, worker->tiled->c + at);
	slot->reqs[0].user = slot;
	return submit(worker, slot, 1);
}

static int completed(struct worker *worker, struct fth_dev_req *req)
{
	struct slot *slot = req->user;

	if (req->result < 0)
		return req->result;
	if (req->op == FTH_DEV_WRITE)
		return read_tile(worker, slot);
	return --slot->reading ? 0 : write_tile(worker, slot);
}

static int run_worker(struct worker *worker)
{
	struct fth_dev_req *done[2 * SLOTS_MAX];
	int rc = 0;

	for (unsigned i = 0; i < worker->slots && rc == 0; i++)
		rc = read_tile(worker, &worker->slot[i]);
	/* Ends when nothing is under way: every request completes. */
	while (rc == 0 && fth_dev_chan_in_flight(worker->chan)) {
		int n = fth_dev_reap(worker->chan, done, 2 * SLOTS_MAX, 1, FTH_NEVER);

		if (n < 0)
			return n;
		for (int i = 0; i < n && rc == 0; i++)
			rc = completed(worker, done[i]);
		if (worker->tiled->stopped && worker->tiled->stopped())
			rc = -EINTR;
	}
	return rc;
}

static int open_worker(struct worker *worker, unsigned thread)
{
	const struct fth_tiled *tiled = worker->tiled;
	uint64_t slots = tiled->memory / tiled->threads / (2 * tiled->tile);
	char *own = tiled->buffer + thread * slots * 2 * tiled->tile;

	if (slots < 2)
		return fth_fail(EINVAL, "the memory is too small for two tiles per thread");
	worker->slots = slots > SLOTS_MAX ? SLOTS_MAX : (unsigned)slots;
	for (unsigned i = 0; i < worker->slots; i++) {
		worker->slot[i].a = (double *)(void *)(own + 2 * i * tiled->tile);
		worker->slot[i].b = worker->slot[i].a + tiled->tile / sizeof(double);
	}
	fth_team_part(tiled->bytes, tiled->tile, tiled->threads, thread, &worker->next,
		      &worker->end);
	return fth_dev_chan_open(tiled->dev, 2 * worker->slots, &worker->chan);
}

static int work(void *context, unsigned thread)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int rc;

	if (!worker)
		return -ENOMEM;
	worker->tiled = context;
	rc = open_worker(worker, thread);
	if (rc == 0)
		rc = run_worker(worker);
	/* Waits for what is in flight, so that after an error no request outlives this. */
	fth_dev_chan_close(worker->chan);
	free(worker);
	return rc;
}

int fth_tiled_run(const struct fth_tiled *tiled)
{
	struct fth_tiled copy = *tiled;
	int rc = fth_team_run(tiled->threads, work, &copy);

	return rc < 0 ? rc : fth_dev_flush(tiled->dev, FTH_DEV_TIMEOUT);
}
