/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Appending, group commit and trimming of the log. persist_log.h has the invariants; log_medium.c
 * reads and writes, log_replay.c reads it back after a crash.
 *
 * Group commit, on blocks: records gather in `pending`. The first thread that waits for one of them
 * takes all that are there, writes and flushes; records that come meanwhile gather for the next
 * write. In a window a record is stored where it belongs at once, and each thread persists
 * everything up to its own.
 */
#include "flat/durable/persist_log.h"
#include "flat/paging/race.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_MAX (256u << 10)

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* ---- life ---- */

int log_format(struct flat_log *log, uint64_t region_at, uint64_t region_size)
{
	struct log_header header = {.region_at = region_at,
				    .region_size = region_size,
				    .size = log->size,
				    .sequence = 1,
				    .epoch = 1};

	/* of the time: records of a log that was here before do not verify */
	header.id = fth_mix64(fth_now_ns() ^ (uint64_t)time(NULL) << 32);
	log->id = header.id;
	return log_write_header(log, &header, fth_deadline_ns(FTH_DEV_TIMEOUT_NS));
}

static int open_batches(struct flat_log *log)
{
	log->batch_size = log->window ? sizeof(struct log_record) + LOG_PIECE
				      : round_up(log->size / 4, log->unit);
	if (!log->window && log->batch_size > BATCH_MAX)
		log->batch_size = BATCH_MAX;
	log->pending.bytes = aligned_alloc(4096, round_up(log->batch_size, 4096));
	log->spare.bytes = aligned_alloc(4096, round_up(log->batch_size, 4096));
	return log->pending.bytes && log->spare.bytes
		       ? 0
		       : fth_fail(ENOMEM, "flat: no memory for the log");
}

int log_begin(struct flat_log *log)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&log->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&log->changed, &attr);
	pthread_condattr_destroy(&attr);
	log->tail = log->durable = log->head = log->header.tail;
	log->sequence = log->header.sequence;
	log->epoch = log->header.epoch;
	return open_batches(log);
}

void log_close(struct flat_log *log)
{
	free(log->pending.bytes);
	free(log->spare.bytes);
	pthread_cond_destroy(&log->changed);
	pthread_mutex_destroy(&log->lock);
}

/* ---- appending ---- */

uint64_t log_piece(const struct flat_log *log)
{
	uint64_t most = log->size / 8 - sizeof(struct log_record);

	return most < LOG_PIECE ? most / 8 * 8 : LOG_PIECE;
}

/* Where a record of `need` bytes goes. In a batch it follows the one before it. */
static int place_record(const struct flat_log *log, uint64_t need, uint64_t *position)
{
	uint64_t size = log->size, at;
	bool first = log->window || log->pending.used == 0;

	at = first ? round_up(log->head, log->unit) : log->pending.start + log->pending.used;
	if (at % size + round_up(need, log->unit) > size ||
	    (!first &&
	     (log->pending.start % size + round_up(log->pending.used + need, log->unit) > size))) {
		if (!first)
			return -EAGAIN;
		at = round_up(at, size);
	}
	if (!first && log->pending.used + need > log->batch_size)
		return -EAGAIN;
	if (round_up(at + need, log->unit) - log->tail > size)
		return -ENOSPC;
	*position = at;
	return 0;
}

static struct log_record *fill_record(struct flat_log *log, uint8_t *to, uint64_t at,
				      const struct log_part *parts, unsigned n)
{
	struct log_record *record = (struct log_record *)to;
	uint8_t *data = to + sizeof(*record);

	*record = (struct log_record){.at = at, .sequence = log->sequence, .epoch = log->epoch};
	FLAT_READS_BEGIN();
	for (unsigned i = 0; i < n; i++) {
		memcpy(data + record->length, parts[i].from, parts[i].length);
		record->length += (uint32_t)parts[i].length;
	}
	FLAT_READS_END();
	memset(data + record->length, 0, round_up(record->length, 8) - record->length);
	record->sum = log_record_sum(log, record);
	return record;
}

static int append_locked(struct flat_log *log, uint64_t at, const struct log_part *parts,
			 unsigned n, uint64_t *position)
{
	uint64_t need = sizeof(struct log_record), start = 0;
	struct log_batch *batch = &log->pending;
	struct log_record *record;
	int rc;

	for (unsigned i = 0; i < n; i++)
		need += parts[i].length;
	need = round_up(need, 8);
	rc = log->dead ? log->dead : log->broken ? -ENOSPC : place_record(log, need, &start);
	if (rc < 0)
		return rc;
	if (!log->window && batch->used == 0)
		batch->start = start;
	record = fill_record(log, batch->bytes + batch->used, at, parts, n);
	if (log->window)
		rc = log_write(log, log->ring_at + start % log->size, record, need, 0);
	else
		batch->used += need;
	if (rc < 0)
		return rc;
	log->head = start + need;
	log->sequence++;
	log->records++;
	log->bytes += need;
	*position = log->head;
	return 0;
}

int log_append(struct flat_log *log, uint64_t at, const struct log_part *parts, unsigned n,
	       uint64_t *position)
{
	int rc;

	pthread_mutex_lock(&log->lock);
	rc = append_locked(log, at, parts, n, position);
	pthread_mutex_unlock(&log->lock);
	return rc;
}

uint64_t log_head(struct flat_log *log)
{
	uint64_t head;

	pthread_mutex_lock(&log->lock);
	head = log->head;
	pthread_mutex_unlock(&log->lock);
	return head;
}

bool log_holds_records(struct flat_log *log)
{
	bool holds;

	pthread_mutex_lock(&log->lock);
	holds = log->head != log->tail || log->broken;
	pthread_mutex_unlock(&log->lock);
	return holds;
}

/* ---- committing ---- */

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

/* Invariant 4: all records that are not durable have failed. */
static void fail_locked(struct flat_log *log, int rc)
{
	log->broken = true;
	log->failed = rc;
	log->failed_end = log->head;
	log->pending.used = 0;
	if (rc == -ETIMEDOUT && !log->window)
		log->dead = rc;
}

/* Write what is pending. Releases the lock meanwhile. */
static void write_batch(struct flat_log *log, uint64_t deadline)
{
	struct log_batch batch = log->pending;
	uint64_t length = round_up(batch.used, log->unit);
	uint64_t at = log->ring_at + batch.start % log->size;
	int rc;

	log->pending = log->spare;
	log->pending.used = 0;
	log->spare = batch;
	log->writing = true;
	pthread_mutex_unlock(&log->lock);
	memset(batch.bytes + batch.used, 0, length - batch.used);
	rc = log_write(log, at, batch.bytes, length, deadline);
	if (rc == 0)
		rc = log_flush(log, at, length, deadline);
	pthread_mutex_lock(&log->lock);
	log->writing = false;
	log->commits++;
	if (rc < 0)
		fail_locked(log, rc);
	else
		log->durable = batch.start + batch.used;
	pthread_cond_broadcast(&log->changed);
}

/* Bytes [from, to) of the ring in the window. */
static int persist_window(struct flat_log *log, uint64_t from, uint64_t to, uint64_t deadline)
{
	uint64_t size = log->size;
	int rc = 0;

	while (from < to && rc == 0) {
		uint64_t part = size - from % size;

		part = part < to - from ? part : to - from;
		rc = log_flush(log, log->ring_at + from % size, part, deadline);
		from += part;
	}
	return rc;
}

/*
 * Flush, fence and read back: the read of the last word pushes the stores before it through the
 * bus.
 */
static int write_window(struct flat_log *log, uint64_t position, uint64_t deadline)
{
	uint64_t from = log->durable, at = log->ring_at + (position - 8) % log->size;
	uint64_t word = 0;
	int rc;

	pthread_mutex_unlock(&log->lock);
	rc = persist_window(log, from, position, deadline);
	if (rc == 0)
		rc = log_read(log, at, &word, sizeof(word));
	pthread_mutex_lock(&log->lock);
	log->commits++;
	if (rc < 0)
		fail_locked(log, rc);
	else if (log->durable < position)
		log->durable = position;
	pthread_cond_broadcast(&log->changed);
	return rc;
}

int log_commit(struct flat_log *log, uint64_t position, uint64_t deadline)
{
	struct timespec until = to_timespec(deadline);
	int rc = 0;

	pthread_mutex_lock(&log->lock);
	while (rc == 0 && log->durable < position) {
		if (log->dead)
			rc = log->dead;
		else if (log->broken && position <= log->failed_end)
			rc = log->failed;
		else if (log->window)
			rc = write_window(log, position, deadline);
		else if (!log->writing)
			write_batch(log, deadline);
		else if (pthread_cond_timedwait(&log->changed, &log->lock, &until) == ETIMEDOUT)
			rc = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&log->lock);
	return rc;
}

/* ---- checkpoints ---- */

int log_lock(struct flat_log *log, uint64_t deadline)
{
	struct timespec until = to_timespec(deadline);
	int rc = 0;

	pthread_mutex_lock(&log->lock);
	while (log->trimming && rc == 0)
		rc = pthread_cond_timedwait(&log->changed, &log->lock, &until);
	if (!log->trimming)
		rc = 0;
	log->trimming |= rc == 0;
	pthread_mutex_unlock(&log->lock);
	return -rc;
}

void log_unlock(struct flat_log *log)
{
	pthread_mutex_lock(&log->lock);
	log->trimming = false;
	pthread_cond_broadcast(&log->changed);
	pthread_mutex_unlock(&log->lock);
}

struct log_mark log_mark(struct flat_log *log)
{
	struct log_mark mark;

	pthread_mutex_lock(&log->lock);
	mark = (struct log_mark){
		.position = log->head, .sequence = log->sequence, .reset = log->broken};
	pthread_mutex_unlock(&log->lock);
	return mark;
}

int log_trim(struct flat_log *log, const struct log_mark *mark, uint64_t deadline)
{
	struct log_header header = log->header;
	int rc;

	pthread_mutex_lock(&log->lock);
	rc = log->dead;
	pthread_mutex_unlock(&log->lock);
	if (rc < 0)
		return rc;
	header.tail = mark->position;
	header.sequence = mark->sequence;
	header.epoch += mark->reset ? log->epoch_step : 0;
	rc = log_write_header(log, &header, deadline);
	if (rc < 0)
		return rc;
	if (mark->reset)
		log->epoch_step = 1;
	pthread_mutex_lock(&log->lock);
	log->tail = mark->position;
	if (mark->reset) { /* nothing was appended since: all of it is in place */
		log->epoch = header.epoch;
		log->durable = log->head = mark->position;
		log->sequence = mark->sequence;
		log->broken = false;
		pthread_cond_broadcast(&log->changed);
	}
	pthread_mutex_unlock(&log->lock);
	return 0;
}
