/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants
 * 1. A block has at most one request in flight (BUSY), so there is one answer to what it holds.
 * 2. generations[b] without BUSY is what block b holds, or will when its write completes.
 * 3. The buffer of slot i holds body i whenever it is written from.
 */
#include "dev_load.h"

#include "cli.h"
#include "common/stamp.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>

#define BUSY	      ((uint32_t)1 << 31)
#define BULK_DEPTH    64
#define BULK_BATCH    8
#define REAP_NS	      ((uint64_t)30 * 1000000000) /* a device that is silent for so long is dead */
#define CLOCK_BATCHES 32			  /* between two looks at the clock */

struct slot {
	struct fth_dev_req req;
	uint64_t block;
	char *buf;
};

struct run {
	struct fth_dev_load *load;
	struct fth_dev_load_result *result;
	enum fth_dev_op op;
	bool sequential; /* every block once; else random ones until stop_at */
	bool check_all;
	uint64_t next; /* block, when sequential */
	uint64_t stop_at;
	unsigned batches; /* since the start */
	unsigned depth;
	unsigned batch; /* at most so many are reaped and submitted at once */
	struct fth_dev_chan *chan;
	struct slot *slots;
	struct fth_dev_req **list; /* depth entries: what reap gave and submit takes */
	char *memory;
};

/* ---- set up ---- */

static void release(struct run *run)
{
	fth_dev_chan_close(run->chan);
	fth_dev_buf_free(run->load->dev, run->memory, (size_t)run->depth * FTH_STAMP_BLOCK);
	free(run->slots);
	free(run->list);
}

static int prepare(struct run *run)
{
	int rc = fth_dev_chan_open(run->load->dev, run->depth, &run->chan);

	run->slots = calloc(run->depth, sizeof(*run->slots));
	run->list = calloc(run->depth, sizeof(struct fth_dev_req *));
	run->memory = fth_dev_buf_alloc(run->load->dev, (size_t)run->depth * FTH_STAMP_BLOCK);
	if (rc < 0 || !run->slots || !run->list || !run->memory) {
		release(run);
		return rc < 0 ? rc : -ENOMEM;
	}
	for (unsigned i = 0; i < run->depth; i++) {
		struct fth_stamp stamp = {.body = i};

		run->slots[i].buf = run->memory + (size_t)i * FTH_STAMP_BLOCK;
		fth_stamp_fill(run->slots[i].buf, &stamp);
		run->list[i] = &run->slots[i].req;
	}
	return 0;
}

/* ---- one request ---- */

static uint64_t choose_block(struct run *run)
{
	struct fth_dev_load *load = run->load;
	uint64_t block;

	if (run->sequential)
		return run->next++;
	/* Ends soon: few of many blocks are busy. */
	do
		block = fth_rng_below(&load->rng, load->blocks);
	while (load->generations[block] & BUSY);
	return block;
}

static void begin(struct run *run, struct slot *slot)
{
	uint32_t *generation;
	uint64_t address;

	slot->block = choose_block(run);
	generation = &run->load->generations[slot->block];
	address = slot->block * FTH_STAMP_BLOCK;
	if (run->op == FTH_DEV_WRITE) {
		struct fth_stamp stamp = {.address = address, .generation = ++*generation};

		stamp.body = (uint32_t)(slot - run->slots);
		fth_stamp_renew(slot->buf, &stamp);
	} else {
		fth_stamp_spoil(slot->buf);
	}
	*generation |= BUSY;
	fth_dev_req_init(&slot->req, run->op, slot->buf, FTH_STAMP_BLOCK, address);
}

static bool holds_right_data(const struct run *run, const struct slot *slot, uint32_t generation)
{
	uint64_t address = slot->block * FTH_STAMP_BLOCK;

	if (run->check_all || run->result->done % FTH_DEV_LOAD_SAMPLE == 0)
		return fth_stamp_matches(slot->buf, address, generation);
	return fth_stamp_ends_match(slot->buf, address, generation);
}

static void end(struct run *run, struct slot *slot)
{
	uint32_t *generation = &run->load->generations[slot->block];

	*generation &= ~BUSY;
	if (slot->req.result < 0)
		run->result->errors++;
	else if (run->op == FTH_DEV_READ && !holds_right_data(run, slot, *generation))
		run->result->wrong++;
	run->result->done++;
}

/* ---- many ---- */

/* How many of the next n requests are still to be made. */
static unsigned wanted(struct run *run, unsigned n)
{
	uint64_t left = run->load->blocks - run->next;

	if (fth_cli_stopped())
		return 0;
	if (run->sequential)
		return left < n ? (unsigned)left : n;
	if (++run->batches % CLOCK_BATCHES == 0 && fth_now_ns() >= run->stop_at)
		run->stop_at = 0;
	return run->stop_at ? n : 0;
}

/* Make new requests out of list[0 .. n) and submit them. */
static int submit(struct run *run, unsigned n)
{
	int rc;

	for (unsigned i = 0; i < n; i++)
		begin(run, (struct slot *)run->list[i]);
	rc = n > 0 ? fth_dev_submit(run->chan, run->list, n) : 0;
	return rc < 0 || (unsigned)rc == n ? rc : -EIO;
}

static int loop(struct run *run)
{
	int rc = submit(run, wanted(run, run->depth));

	while (rc >= 0 && fth_dev_chan_in_flight(run->chan) > 0) {
		int n = fth_dev_reap(run->chan, run->list, run->batch, 1, fth_deadline_ns(REAP_NS));

		if (n < 0)
			return n;
		for (int i = 0; i < n; i++)
			end(run, (struct slot *)run->list[i]);
		rc = submit(run, wanted(run, (unsigned)n));
	}
	return rc < 0 ? rc : 0;
}

static int execute(struct run *run)
{
	uint64_t start;
	int rc = prepare(run);

	if (rc < 0)
		return rc;
	start = fth_now_ns();
	run->stop_at += start;
	rc = loop(run);
	run->result->ns = fth_now_ns() - start;
	release(run);
	return rc;
}

int fth_dev_load_fill(struct fth_dev_load *load, struct fth_dev_load_result *result)
{
	struct run run = {.load = load, .result = result, .op = FTH_DEV_WRITE, .sequential = true};

	*result = (struct fth_dev_load_result){0};
	run.depth = BULK_DEPTH;
	run.batch = BULK_BATCH;
	return execute(&run);
}

int fth_dev_load_verify(struct fth_dev_load *load, struct fth_dev_load_result *result)
{
	struct run run = {.load = load, .result = result, .op = FTH_DEV_READ, .sequential = true};

	*result = (struct fth_dev_load_result){0};
	run.check_all = true;
	run.depth = BULK_DEPTH;
	run.batch = BULK_BATCH;
	return execute(&run);
}

int fth_dev_load_run(struct fth_dev_load *load, const struct fth_dev_load_kind *kind, uint64_t ns,
		     struct fth_dev_load_result *result)
{
	struct run run = {
		.load = load,
		.result = result,
		.op = kind->write ? FTH_DEV_WRITE : FTH_DEV_READ,
		.depth = kind->depth,
		.batch = kind->batch,
		.stop_at = ns,
	};

	*result = (struct fth_dev_load_result){0};
	return execute(&run);
}
