/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of a writer: they encode groups and write them. */
#include "table/facts/distinct_estimate.h"
#include "table/write/writer.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

static int fail_locked(struct fth_table_writer *w, int rc)
{
	if (rc < 0 && w->rc == 0) {
		w->rc = rc;
		snprintf(w->text, sizeof(w->text), "%s", fth_error_text(rc));
		pthread_cond_broadcast(&w->idle);
	}
	return rc;
}

int writer_fail(struct fth_table_writer *w, int rc)
{
	pthread_mutex_lock(&w->lock);
	fail_locked(w, rc);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int writer_failed(struct fth_table_writer *w)
{
	int rc;

	pthread_mutex_lock(&w->lock);
	rc = w->rc;
	if (rc < 0)
		fth_fail(-rc, "%s", w->text);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* ---- one group ---- */

/* Add what a chunk says to the facts of its column. */
static void add_notes(struct fth_table_writer *w, uint32_t c, const struct fth_table_chunk *chunk,
		      const struct chunk_notes *notes)
{
	struct fth_table_facts *facts = &w->manifest.column[c].facts;

	facts->min = chunk->min < facts->min ? chunk->min : facts->min;
	facts->max = chunk->max > facts->max ? chunk->max : facts->max;
	facts->max_length =
		notes->max_length > facts->max_length ? notes->max_length : facts->max_length;
	facts->string_bytes += notes->string_bytes;
	facts->nulls += chunk->nulls;
	facts->bytes += chunk->bytes;
	w->column[c].all_codes &= chunk->encoding == FTH_TABLE_CODES;
}

static int encode_group(struct fth_table_writer *w, struct encoder *e, struct group *group,
			struct fth_table_chunk *chunks)
{
	struct chunk_notes notes;
	int rc = 0;

	e->image.length = 0;
	e->image.failed = false;
	for (uint32_t c = 0; rc == 0 && c < group->columns; c++) {
		memset(e->sketch, 0, sizeof(e->sketch));
		rc = encode_column(e, &group->column[c], group->rows, &w->column[c].dict,
				   &chunks[c], &notes);
		if (rc < 0)
			break;
		pthread_mutex_lock(&w->lock);
		add_notes(w, c, &chunks[c], &notes);
		sketch_merge(w->manifest.column[c].sketch, e->sketch);
		pthread_mutex_unlock(&w->lock);
	}
	if (rc == 0 && !image_add(&e->image, 0, BATCH_ALIGN))
		rc = -ENOMEM;
	return rc;
}

static int place_group(struct fth_table_writer *w, struct encoder *e, struct group *group,
		       struct written_group *written)
{
	uint64_t offset = 0;
	int rc;

	pthread_mutex_lock(&w->lock);
	rc = w->output->ops->reserve(w->output, e->image.length, &written->file, &offset);
	pthread_mutex_unlock(&w->lock);
	if (rc < 0)
		return rc;
	for (uint32_t c = 0; c < group->columns; c++) {
		unsigned char *head = e->image.bytes + written->chunk[c].offset;

		written->chunk[c].offset += offset;
		chunk_seal(head, &written->chunk[c], w->manifest.id, c);
	}
	return w->output->ops->write(w->output, written->file, e->image.bytes, e->image.length,
				     offset);
}

static int write_group(struct fth_table_writer *w, struct encoder *e, struct group *group)
{
	struct written_group written = {.rows = group->rows};
	int rc;

	written.chunk = calloc(group->columns, sizeof(*written.chunk));
	if (!written.chunk)
		return -ENOMEM;
	rc = encode_group(w, e, group, written.chunk);
	if (rc == 0)
		rc = place_group(w, e, group, &written);
	if (rc < 0) {
		free(written.chunk);
		return rc;
	}
	pthread_mutex_lock(&w->lock);
	w->written[group->number] = written;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

/* ---- threads ---- */

static struct group *pop_group(struct fth_table_writer *w)
{
	struct group *group;

	while (!w->queue && !w->stop)
		pthread_cond_wait(&w->work, &w->lock);
	group = w->queue;
	if (!group || w->stop)
		return NULL;
	w->queue = group->next;
	if (!w->queue)
		w->queue_end = &w->queue;
	w->queued--;
	w->busy++;
	return group;
}

static void *encode_groups(void *argument)
{
	struct fth_table_writer *w = argument;
	struct encoder e;
	struct group *group;
	int rc = encoder_init(&e, w->compression, w->group_rows);

	pthread_mutex_lock(&w->lock);
	fail_locked(w, rc);
	while (rc == 0 && (group = pop_group(w))) {
		bool skip = w->rc < 0;

		pthread_mutex_unlock(&w->lock);
		rc = skip ? 0 : write_group(w, &e, group);
		pthread_mutex_lock(&w->lock);
		fail_locked(w, rc);
		rc = 0; /* the others are taken from the queue and dropped */
		w->busy--;
		group_clear(group);
		group->next = w->free;
		w->free = group;
		pthread_cond_broadcast(&w->idle);
	}
	pthread_mutex_unlock(&w->lock);
	encoder_release(&e);
	return NULL;
}

int writer_start(struct fth_table_writer *w)
{
	w->thread = calloc(w->threads, sizeof(*w->thread));
	if (!w->thread)
		return -ENOMEM;
	for (; w->started < w->threads; w->started++)
		if (pthread_create(&w->thread[w->started], NULL, encode_groups, w) != 0)
			break;
	return w->started ? 0 : fth_fail(EAGAIN, "cannot start a thread");
}

void writer_stop(struct fth_table_writer *w)
{
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->work);
	pthread_mutex_unlock(&w->lock);
	while (w->started)
		pthread_join(w->thread[--w->started], NULL);
	free(w->thread);
	w->thread = NULL;
}

static int make_written(struct fth_table_writer *w, uint32_t number)
{
	uint32_t room = w->written_room ? w->written_room * 2 : 64;
	struct written_group *grown;

	if (number < w->written_room)
		return 0;
	grown = reallocarray(w->written, room, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + w->written_room, 0, (room - w->written_room) * sizeof(*grown));
	w->written = grown;
	w->written_room = room;
	return 0;
}

int writer_push(struct fth_table_writer *w, struct group *group)
{
	int rc;

	group->number = w->numbers++;
	group->next = NULL;
	pthread_mutex_lock(&w->lock);
	rc = w->rc < 0 ? w->rc : fail_locked(w, make_written(w, group->number));
	if (rc < 0) {
		group->next = w->free;
		w->free = group;
	} else {
		*w->queue_end = group;
		w->queue_end = &group->next;
		w->queued++;
		pthread_cond_signal(&w->work);
	}
	pthread_mutex_unlock(&w->lock);
	return rc < 0 ? writer_failed(w) : 0;
}

int writer_drain(struct fth_table_writer *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->rc == 0 && (w->queued || w->busy))
		pthread_cond_wait(&w->idle, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return writer_failed(w);
}

int writer_take_group(struct fth_table_writer *w, struct group **out)
{
	pthread_mutex_lock(&w->lock);
	while (w->rc == 0 && !w->free && w->groups == w->group_max)
		pthread_cond_wait(&w->idle, &w->lock);
	*out = w->free;
	if (*out)
		w->free = (*out)->next;
	else
		w->groups++;
	pthread_mutex_unlock(&w->lock);
	if (!*out)
		*out = group_new(&w->manifest.schema, w->group_rows, w->group_text);
	if (!*out)
		return -ENOMEM;
	group_clear(*out);
	return 0;
}
