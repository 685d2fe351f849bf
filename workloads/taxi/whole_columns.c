/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A taxi query that reads whole columns, and then looks. Each thread has a stretch of the rows and
 * SLOTS pieces of it under way: while one is looked at, the others are being read.
 */
#include "answer.h"
#include "base/team.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS	  8u
#define PIECE_MAX (1u << 18) /* bytes of a column */
#define PIECE_MIN 65536u
#define MEMORY	  (32u << 20)

/* A piece of each column, being read or looked at. */
struct slot {
	uint64_t rows; /* 0: there is no more */
	unsigned pending;
	int error;
	struct fth_dev_req reqs[FTH_TAXI_COLUMNS];
	double *values[FTH_TAXI_COLUMNS];
};

struct job {
	struct fth_dev *dev;
	const struct fth_taxi_table *table;
	const struct fth_taxi_query *query;
	unsigned threads;
	uint64_t piece; /* bytes */
	bool (*stopped)(void);
	struct share *shares;
};

/* One thread's. */
struct share {
	const struct job *job;
	struct fth_dev_chan *chan;
	char *memory;
	struct slot slots[SLOTS];
	uint64_t next, end; /* rows not yet asked for */
	uint64_t bytes, requests;
	struct taxi_tally tally;
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Ask for the next piece of every column that is needed. */
static int start(struct share *share, struct slot *slot)
{
	const struct job *job = share->job;
	uint64_t rows = share->end - share->next, most = job->piece / sizeof(double), length;

	slot->rows = rows = rows < most ? rows : most;
	slot->error = 0;
	length = round_up(rows * sizeof(double), fth_dev_info(job->dev)->block);
	for (unsigned c = 0; c <= job->query->query && rows; c++) {
		struct fth_dev_req *req = &slot->reqs[c];
		int rc;

		fth_dev_req_init(req, FTH_DEV_READ, slot->values[c], length,
				 fth_taxi_offset(job->table, c) + share->next * sizeof(double));
		req->user = slot;
		rc = fth_dev_submit(share->chan, &req, 1);
		if (rc < 0)
			return rc;
		slot->pending++;
		share->bytes += length;
		share->requests++;
	}
	share->next += rows;
	return 0;
}

/* Ends when the device has answered: every request completes. */
static int finish(struct share *share, struct slot *slot)
{
	struct fth_dev_req *done[SLOTS * FTH_TAXI_COLUMNS];

	while (slot->pending) {
		int n = fth_dev_reap(share->chan, done, SLOTS * FTH_TAXI_COLUMNS, 1, FTH_NEVER);

		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			struct slot *of = done[i]->user;

			of->pending--;
			if (done[i]->result < 0)
				of->error = done[i]->result;
		}
	}
	return slot->error;
}

static void look(struct share *share, const struct slot *slot)
{
	const struct fth_taxi_query *query = share->job->query;
	const double *miles = slot->values[FTH_TAXI_DISTANCE];

	for (uint64_t row = 0; row < slot->rows; row++) {
		if (!(miles[row] >= query->miles))
			continue;
		share->tally.trips++;
		for (unsigned c = 0; c <= query->query; c++)
			taxi_sum_add(&share->tally.columns[c], slot->values[c][row]);
	}
}

static int read_share(struct share *share)
{
	const struct job *job = share->job;
	int rc = 0;

	for (unsigned i = 0; i < SLOTS && rc == 0; i++)
		rc = start(share, &share->slots[i]);
	for (unsigned i = 0; rc == 0; i = (i + 1) % SLOTS) {
		struct slot *slot = &share->slots[i];

		if (slot->rows == 0)
			break;
		rc = job->stopped && job->stopped() ? -EINTR : finish(share, slot);
		if (rc < 0)
			break;
		look(share, slot);
		rc = start(share, slot);
	}
	return rc;
}

static int work(void *context, unsigned thread)
{
	struct job *job = context;
	struct share *share = &job->shares[thread];
	size_t memory = SLOTS * FTH_TAXI_COLUMNS * job->piece;
	int rc = fth_dev_chan_open(job->dev, SLOTS * FTH_TAXI_COLUMNS, &share->chan);

	share->job = job;
	fth_team_part(job->table->rows, job->piece / sizeof(double), job->threads, thread,
		      &share->next, &share->end);
	if (rc == 0)
		share->memory = fth_dev_buf_alloc(job->dev, memory);
	if (rc == 0 && !share->memory)
		rc = -ENOMEM;
	for (unsigned i = 0; i < SLOTS * FTH_TAXI_COLUMNS && rc == 0; i++)
		share->slots[i / FTH_TAXI_COLUMNS].values[i % FTH_TAXI_COLUMNS] =
			(double *)(void *)(share->memory + i * job->piece);
	if (rc == 0)
		rc = read_share(share);
	/* Waits for what is in flight, so that after an error no read ends in freed memory. */
	fth_dev_chan_close(share->chan);
	fth_dev_buf_free(job->dev, share->memory, memory);
	return rc;
}

static void collect(const struct job *job, struct fth_taxi_answer *out)
{
	struct taxi_tally tally = {0};

	for (unsigned i = 0; i < job->threads; i++) {
		taxi_tally_add(&tally, &job->shares[i].tally);
		out->bytes_read += job->shares[i].bytes;
		out->requests += job->shares[i].requests;
	}
	taxi_answer_set(out, job->query, job->table, &tally);
}

/* As much as the memory allows, in whole lines of the longest kind. */
static uint64_t piece_of(const struct fth_taxi_options *options, unsigned threads)
{
	uint64_t memory = options && options->memory ? options->memory : MEMORY;
	uint64_t piece = memory / threads / SLOTS / FTH_TAXI_COLUMNS / PIECE_MIN * PIECE_MIN;

	return piece > PIECE_MAX ? PIECE_MAX : piece < PIECE_MIN ? PIECE_MIN : piece;
}

int fth_taxi_run_whole(struct fth_dev *dev, const struct fth_taxi_table *table,
		       const struct fth_taxi_query *query, const struct fth_taxi_options *options,
		       struct fth_taxi_answer *out)
{
	struct job job = {.dev = dev, .table = table, .query = query};
	uint64_t begin = fth_now_ns();
	int rc = taxi_query_check(query);

	*out = (struct fth_taxi_answer){0};
	if (rc < 0)
		return rc;
	job.threads = options && options->threads ? options->threads : 1;
	job.stopped = options ? options->stopped : NULL;
	job.piece = piece_of(options, job.threads);
	job.shares = calloc(job.threads, sizeof(*job.shares));
	if (!job.shares)
		return -ENOMEM;
	rc = fth_team_run(job.threads, work, &job);
	if (rc == 0)
		collect(&job, out);
	out->ns = fth_now_ns() - begin;
	free(job.shares);
	return rc;
}
