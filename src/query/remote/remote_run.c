/* SPDX-License-Identifier: BSD-2-Clause */
/* A task set at the daemon: send its text, take the rows, learn how it ended. */
#include "query/remote/remote.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "query/remote/wire_batch.h"
#include "query/task/task_show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS 100000000u /* how often a waiting host looks whether the query is canceled */
#define SILENT_NS \
	60000000000u /* a daemon that says nothing for so long is gone; it sends signs of life */

/* ---- sending ---- */

static bool has_table(struct fth_table **tables, unsigned count, const struct fth_table *table)
{
	for (unsigned i = 0; i < count; i++)
		if (tables[i] == table)
			return true;
	return false;
}

static unsigned list_tables(const struct task_set *set, struct fth_table **tables, unsigned room)
{
	unsigned n = 0;

	for (unsigned t = 0; t < set->task_count; t++) {
		const struct task *task = &set->tasks[t];

		if (task->source.kind == TASK_TABLE && n < room &&
		    !has_table(tables, n, task->source.table))
			tables[n++] = task->source.table;
		for (unsigned i = 0; i < task->step_count; i++)
			if (task->steps[i].kind == TASK_FETCH && n < room &&
			    !has_table(tables, n, task->steps[i].fetch.table))
				tables[n++] = task->steps[i].fetch.table;
	}
	return n;
}

static int put_run(struct remote_conn *c, const struct task_set *set,
		   const struct exec_options *options)
{
	struct fth_table *tables[256];
	unsigned n = list_tables(set, tables, 256);
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return -ENOMEM;
	task_print(out, set);
	if (fclose(out) != 0) {
		free(text);
		return -ENOMEM;
	}
	wire_begin(&c->out, WIRE_RUN);
	wire_u32(&c->out, options->threads);
	wire_u32(&c->out, n);
	for (unsigned i = 0; i < n; i++) {
		wire_string(&c->out, fth_table_name(tables[i]));
		wire_u64(&c->out, fth_table_version(tables[i]));
	}
	wire_u32(&c->out, (uint32_t)length);
	wire_put(&c->out, text, length);
	free(text);
	return c->out.used > WIRE_REQUEST_MAX
		       ? fth_fail(E2BIG,
				  "the task set is larger than %u bytes, the limit of a request",
				  WIRE_REQUEST_MAX)
		       : 0;
}

/* ---- receiving ---- */

static void add_stats(struct exec_stats *to, struct wire_in *in)
{
	uint64_t memory;

	to->source_rows += wire_get_u64(in);
	to->rows += wire_get_u64(in);
	to->groups_read += wire_get_u64(in);
	to->groups_skipped += wire_get_u64(in);
	to->bytes += wire_get_u64(in);
	to->chunks += wire_get_u64(in);
	to->chunks_skipped += wire_get_u64(in);
	to->spilled += wire_get_u64(in);
	memory = wire_get_u64(in);
	to->memory = memory > to->memory ? memory : to->memory;
	to->wall_ns += wire_get_u64(in);
	to->cpu_ns += wire_get_u64(in);
}

/* Errors that say something about the daemon or the way to it, not about the query. */
static bool is_suspension(int rc)
{
	switch (rc) {
	case -ENOMEM: /* the budget of the daemon */
	case -ESTALE: /* a table has changed since the host planned */
	case -ENOENT: /* or went */
	case -EMSGSIZE:
	case -E2BIG:
	case -EBADMSG:
	case -EPROTO:
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
	case -EBUSY:
	case -EPIPE:
		return true;
	default:
		return false;
	}
}

static int take_done(struct remote_conn *c, unsigned tasks, struct exec_stats *stats,
		     struct remote_end *end)
{
	int rc = (int)wire_get_u32(&c->payload);
	uint32_t n;
	char text[FTH_ERROR_TEXT_MAX];

	end->task = wire_get_u32(&c->payload);
	wire_get_string(&c->payload, text, sizeof(text));
	n = wire_get_u32(&c->payload);
	if (n != 0 && n != tasks)
		c->payload.bad = true;
	for (uint32_t i = 0; i < n && !c->payload.bad; i++)
		add_stats(&stats[i], &c->payload);
	if (!wire_get_end(&c->payload) || rc > 0 || rc < -4095) {
		c->broken = true;
		return fth_fail(EBADMSG, "the storage daemon sent a damaged end of a task set");
	}
	return rc == 0 ? 0 : fth_fail(-rc, "%s", text);
}

/*
 * The next frame of a run. If the query is canceled, the wait ends and the daemon gets a cancel
 * frame.
 */
static int next_frame(struct remote_conn *c, const struct exec_options *options, bool *canceled,
		      enum wire_type *type)
{
	uint64_t silent = fth_now_ns() + SILENT_NS;

	for (;;) {
		int rc;

		if (options->cancel && !*canceled &&
		    atomic_load_explicit(options->cancel, memory_order_relaxed)) {
			wire_begin(&c->out, WIRE_CANCEL);
			rc = remote_send(c);
			if (rc < 0)
				return rc;
			*canceled = true;
		}
		rc = wire_wait(&c->socket, fth_now_ns() + LOOK_NS);
		if (rc == 0)
			return remote_receive(c, fth_now_ns() + REMOTE_TIMEOUT_NS, type);
		if (fth_now_ns() > silent) {
			c->broken = true;
			return fth_fail(ETIMEDOUT, "timed out waiting for the storage daemon");
		}
	}
}

static int receive_all(struct remote_conn *c, const struct task_set *set,
		       const struct exec_options *options, struct batch *batch,
		       int (*take)(void *user, const struct fth_vec *columns, unsigned n),
		       void *user, struct exec_stats *stats, struct remote_end *end)
{
	const struct fth_vec *columns;
	bool canceled = false;
	enum wire_type type;
	int rc, n;

	for (;;) {
		rc = next_frame(c, options, &canceled, &type);
		if (rc < 0)
			break;
		if (type == WIRE_DONE)
			return take_done(c, set->task_count, stats, end);
		if (type == WIRE_ALIVE)
			continue;
		n = type == WIRE_BATCH
			    ? batch_get(batch, &c->payload, &columns)
			    : fth_fail(EBADMSG, "unexpected message from the storage daemon");
		rc = n <= 0 ? n : take(user, columns, (unsigned)n);
		if (rc < 0)
			break;
	}
	/* Rows that the daemon still sends are not read: it stops when the connection closes. */
	c->broken = true;
	return rc;
}

int remote_run(struct remote *r, const struct task_set *set, const struct exec_options *options,
	       int (*take)(void *user, const struct fth_vec *columns, unsigned n), void *user,
	       struct exec_stats *stats, struct remote_end *end)
{
	const struct task *last = &set->tasks[set->task_count - 1];
	struct remote_conn *c = NULL;
	struct batch *batch = NULL;
	int rc = batch_open(options->mem, last->result, last->result_count, &batch);

	*end = (struct remote_end){false, TASK_NONE};
	if (rc == 0) {
		rc = remote_take(r, &c);
		if (rc == 0)
			rc = put_run(c, set, options);
		if (rc == 0)
			rc = remote_send(c);
		if (rc == 0)
			rc = receive_all(c, set, options, batch, take, user, stats, end);
		end->suspended = is_suspension(rc);
	}
	remote_give(c);
	batch_close(batch);
	return rc;
}
