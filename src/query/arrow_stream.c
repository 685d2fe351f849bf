/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A result as an Arrow stream. The statement runs in a thread of its own and pushes batches; the
 * consumer pulls them. One batch waits in between.
 *
 * Invariants, under the lock:
 *  - `waiting.release` is not NULL while a batch waits; the producer sets it, the consumer takes
 *    it.
 *  - `done` is set last; `rc` and `error` do not change after it.
 *  - After `closing` the producer puts nothing more, and its next call ends the statement.
 */
#include "query/arrow.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct stream {
	struct fth_query *query;
	char *sql;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ArrowArray waiting;
	struct fth_query_column *columns; /* NULL: not known yet */
	unsigned column_count;
	bool done, closing;
	int rc;
	char error[FTH_ERROR_TEXT_MAX];
};

/* ---- the producer ---- */

static int keep_columns(struct stream *s, const struct fth_query_batch *batch)
{
	unsigned count = fth_query_columns(batch);
	struct fth_query_column *columns = calloc(count + 1, sizeof(*columns));

	if (!columns)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		columns[i] = *fth_query_column(batch, i);
		columns[i].name = strdup(columns[i].name);
	}
	pthread_mutex_lock(&s->lock);
	s->columns = columns;
	s->column_count = count;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < count; i++)
		if (!columns[i].name)
			return -ENOMEM;
	return 0;
}

static int put_batch(const struct fth_query_batch *batch, void *user)
{
	struct stream *s = user;
	struct ArrowArray array;
	bool closing;
	int rc;

	if (!s->columns)
		return keep_columns(s, batch);
	rc = arrow_array(batch, &array);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&s->lock);
	while (s->waiting.release && !s->closing)
		pthread_cond_wait(&s->changed, &s->lock);
	closing = s->closing;
	if (!closing)
		s->waiting = array;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (closing)
		array.release(&array);
	return closing ? -ECANCELED : 0;
}

static void *produce(void *user)
{
	struct stream *s = user;
	int rc = fth_query_run(s->query, s->sql, put_batch, s);

	pthread_mutex_lock(&s->lock);
	if (rc < 0)
		strncpy(s->error, fth_error_text(rc), sizeof(s->error) - 1);
	s->rc = rc;
	s->done = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- the consumer ---- */

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	struct stream *s = stream->private_data;

	return -arrow_schema(s->columns, s->column_count, out);
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct stream *s = stream->private_data;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&s->lock);
	while (!s->waiting.release && !s->done)
		pthread_cond_wait(&s->changed, &s->lock);
	if (s->waiting.release) {
		*out = s->waiting;
		s->waiting.release = NULL;
		pthread_cond_broadcast(&s->changed);
	} else {
		rc = -s->rc;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static const char *stream_error(struct ArrowArrayStream *stream)
{
	struct stream *s = stream->private_data;

	return s->error[0] == '\0' ? NULL : s->error;
}

static void free_stream(struct stream *s)
{
	if (s->waiting.release)
		s->waiting.release(&s->waiting);
	for (unsigned i = 0; i < s->column_count; i++)
		free((char *)s->columns[i].name);
	free(s->columns);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s->sql);
	free(s);
}

static void stream_release(struct ArrowArrayStream *stream)
{
	struct stream *s = stream->private_data;

	pthread_mutex_lock(&s->lock);
	s->closing = true;
	/* A statement that has not begun yet would forget this: put_batch() looks at `closing`. */
	if (!s->done)
		fth_query_cancel(s->query);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	free_stream(s);
	stream->release = NULL;
	stream->private_data = NULL;
}

/* Wait until the columns are known, or there are none to wait for. */
static int wait_for_columns(struct stream *s)
{
	int rc;

	pthread_mutex_lock(&s->lock);
	while (!s->columns && !s->done)
		pthread_cond_wait(&s->changed, &s->lock);
	rc = s->columns ? 0 : s->rc < 0 ? s->rc : -EINVAL;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int fth_query_arrow(struct fth_query *query, const char *sql, struct ArrowArrayStream *out)
{
	struct stream *s = calloc(1, sizeof(*s));
	char error[FTH_ERROR_TEXT_MAX];
	int rc;

	memset(out, 0, sizeof(*out));
	if (!s)
		return -ENOMEM;
	s->query = query;
	s->sql = strdup(sql);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (!s->sql || pthread_create(&s->thread, NULL, produce, s) != 0) {
		free_stream(s);
		return -ENOMEM;
	}
	*out = (struct ArrowArrayStream){stream_schema, stream_next, stream_error, stream_release,
					 s};
	rc = wait_for_columns(s);
	if (rc == 0)
		return 0;
	memcpy(error, s->error, sizeof(error));
	stream_release(out);
	return fth_fail(-rc, "%s", error[0] != '\0' ? error : "the statement does not return rows");
}
