/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole table as text, by many threads.
 *
 * A table is cut into chunks of units. A thread takes the next chunk, makes its text in a buffer of
 * its own, and waits for its turn: chunk n has its turn when all chunks before it have told how
 * long they are, so that its offset is known. What the turn covers is this addition, and with
 * in_order the callback as well.
 *
 * Invariants, under `lock`:
 *
 *  1. Chunks are taken in order. The thread that has the lowest chunk that was taken and not yet
 *     told never waits for another, so that turns go on.
 *  2. `rc` is 0 or the first error; once it is set nobody takes a chunk or waits for a turn.
 */
#include "tpch_internal.h"

#include "base/team.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER	    (1u << 20)
#define THREADS_MAX 1024u

struct job {
	const struct fth_tpch *tpch;
	enum fth_tpch_table table;
	const struct fth_tpch_write_options *options;
	uint64_t units, chunk_units;

	pthread_mutex_t lock;
	pthread_cond_t turned;
	uint64_t taken, turn;	    /* chunks that were taken; the one whose turn it is */
	struct tpch_part_keys keys; /* at the next chunk */
	struct fth_tpch_totals totals;
	int rc;
	char error[FTH_ERROR_TEXT_MAX];
};

/* A chunk in the hands of a thread. */
struct chunk {
	uint64_t number;
	struct tpch_part_keys keys;
	char *text; /* BUFFER bytes */
	size_t length;
	uint64_t rows;
};

static void job_fail(struct job *job, int rc)
{
	pthread_mutex_lock(&job->lock);
	if (job->rc == 0) {
		job->rc = rc;
		snprintf(job->error, sizeof(job->error), "%s", fth_error_text(rc));
	}
	pthread_cond_broadcast(&job->turned);
	pthread_mutex_unlock(&job->lock);
}

/* False when none is left, or something failed. */
static bool take_chunk(struct job *job, struct chunk *chunk)
{
	bool taken;

	pthread_mutex_lock(&job->lock);
	taken = job->rc == 0 && job->taken * job->chunk_units < job->units;
	if (taken) {
		chunk->number = job->taken++;
		if (tpch_uses_part_keys(job->tpch, job->table)) {
			tpch_part_keys_follow(&job->keys, chunk->number * job->chunk_units);
			chunk->keys = job->keys;
		}
	}
	pthread_mutex_unlock(&job->lock);
	return taken;
}

static int make_text(const struct job *job, struct chunk *chunk)
{
	bool keys = tpch_uses_part_keys(job->tpch, job->table);
	struct fth_tpch_cursor *cursor;
	union fth_tpch_row row;
	int rc = tpch_cursor_open_at(job->tpch, job->table, chunk->number * job->chunk_units,
				     job->chunk_units, keys ? &chunk->keys : NULL, &cursor);

	if (rc < 0)
		return rc;
	chunk->length = 0;
	for (chunk->rows = 0; fth_tpch_next(cursor, &row); chunk->rows++)
		chunk->length +=
			fth_tpch_format(job->tpch, job->table, &row, chunk->text + chunk->length);
	fth_tpch_cursor_close(cursor);
	return 0;
}

/* Wait for the chunk's turn. False when something failed. */
static bool await_turn(struct job *job, const struct chunk *chunk)
{
	bool ok;

	pthread_mutex_lock(&job->lock);
	while (job->rc == 0 && job->turn != chunk->number)
		pthread_cond_wait(&job->turned, &job->lock);
	ok = job->rc == 0;
	pthread_mutex_unlock(&job->lock);
	return ok;
}

static void pass_turn(struct job *job)
{
	pthread_mutex_lock(&job->lock);
	job->turn++;
	pthread_cond_broadcast(&job->turned);
	pthread_mutex_unlock(&job->lock);
}

/* 0 also when another thread failed. */
static int hand_out(struct job *job, const struct chunk *chunk)
{
	const struct fth_tpch_write_options *options = job->options;
	struct fth_tpch_block block = {chunk->text, chunk->length, 0};
	int rc;

	if (!await_turn(job, chunk))
		return 0;
	/* Only the thread whose turn it is touches the totals. */
	block.offset = job->totals.bytes;
	job->totals.bytes += chunk->length;
	job->totals.rows += chunk->rows;
	if (!options->in_order)
		pass_turn(job);
	rc = options->block(options->context, &block);
	if (options->in_order && rc >= 0)
		pass_turn(job);
	return rc < 0 ? rc : 0;
}

static int report(const struct job *job, const struct chunk *chunk)
{
	const struct fth_tpch_write_options *options = job->options;
	uint64_t done = (chunk->number + 1) * job->chunk_units;
	int rc = 0;

	if (options->progress)
		rc = options->progress(options->context, done < job->units ? done : job->units,
				       job->units);
	return rc < 0 ? rc : 0;
}

static int work(void *context, unsigned thread)
{
	struct chunk chunk = {.text = malloc(BUFFER)};
	struct job *job = context;
	int rc = chunk.text ? 0 : -ENOMEM;

	while (rc == 0 && take_chunk(job, &chunk)) {
		rc = make_text(job, &chunk);
		if (rc == 0)
			rc = hand_out(job, &chunk);
		if (rc == 0 && thread == 0)
			rc = report(job, &chunk);
	}
	if (rc < 0)
		job_fail(job, rc);
	free(chunk.text);
	return 0;
}

static unsigned count_threads(const struct job *job)
{
	uint64_t chunks = (job->units + job->chunk_units - 1) / job->chunk_units;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = job->options->threads;

	if (threads == 0)
		threads = cpus < 1 ? 1 : (unsigned)cpus;
	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	return threads < chunks ? threads : (unsigned)chunks;
}

int fth_tpch_write(const struct fth_tpch *tpch, enum fth_tpch_table table,
		   const struct fth_tpch_write_options *options, struct fth_tpch_totals *out)
{
	struct job job = {.tpch = tpch, .table = table, .options = options};
	int rc;

	job.units = fth_tpch_units(tpch, table);
	job.chunk_units = BUFFER / (FTH_TPCH_LINE_MAX * tpch_rows_per_unit(table));
	tpch_part_keys_init(&job.keys);
	pthread_mutex_init(&job.lock, NULL);
	pthread_cond_init(&job.turned, NULL);
	rc = fth_team_run(count_threads(&job), work, &job);
	pthread_cond_destroy(&job.turned);
	pthread_mutex_destroy(&job.lock);
	if (job.rc < 0)
		rc = fth_fail(-job.rc, "%s", job.error);
	if (rc == 0)
		*out = job.totals;
	return rc;
}
