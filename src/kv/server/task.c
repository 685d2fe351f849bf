/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks of a connection, and the memory that they hold: what a connection and its worker have
 * counted in `held` and `expected` changes here and in input.c only (conn.c, invariant 3).
 */
#include "kv/server/server.h"

#include <stdlib.h>
#include <string.h>

#define POOLED_MAX 1024u

struct task *task_new(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;
	struct task *task = w->pool;

	if (task) {
		w->pool = task->next;
		w->pooled--;
	} else {
		task = malloc(sizeof(*task));
		if (!task) {
			conn->state = CONN_CLOSING;
			return NULL;
		}
	}
	memset(task, 0, offsetof(struct task, key));
	task->conn = conn;
	task->started_ns = w->now;
	*conn->last = task;
	conn->last = &task->next;
	conn->tasks++;
	return task;
}

void task_free(struct task *task)
{
	struct conn *conn = task->conn;
	struct kvs_worker *w = conn->worker;

	conn->first = task->next;
	if (!conn->first)
		conn->last = &conn->first;
	conn->tasks--;
	conn->held -= task->held;
	w->held -= task->held + task->came;
	free(task->value);
	bytes_release(&task->long_text);
	if (w->pooled >= POOLED_MAX) {
		free(task);
		return;
	}
	task->next = w->pool;
	w->pool = task;
	w->pooled++;
}

void task_enters_cache(struct task *task)
{
	struct conn *conn = task->conn;

	task->flying = true;
	task->expected = (uint32_t)conn->value_estimate;
	conn->worker->expected += task->expected;
	conn->flying++;
	conn->mutating += task->mutates;
}

void task_leaves_cache(struct task *task)
{
	struct conn *conn = task->conn;

	task->flying = false;
	conn->worker->expected -= task->expected;
	conn->flying--;
	conn->mutating -= task->mutates;
}

/*
 * A longer value raises the estimate at once, shorter ones lower it by an eighth of the difference.
 */
static void learn(uint64_t *estimate, uint64_t length)
{
	*estimate = length > *estimate ? length : *estimate - (*estimate - length) / 8;
}

void task_hold(struct task *task, uint64_t bytes)
{
	task->held = (uint32_t)bytes;
	task->conn->held += bytes;
	task->conn->worker->held += bytes;
}

void task_complete(struct task *task)
{
	struct conn *conn = task->conn;

	task->complete = true;
	task_hold(task, task->op.length);
	if (task->op.result == 0 && !task->op.value) {
		learn(&conn->value_estimate, task->held);
		learn(&conn->worker->value_estimate, task->held);
	}
	if (conn->flying && conn->first != task)
		task_detach_value(task);
}

void task_detach_value(struct task *task)
{
	uint32_t length = task->op.length;

	/* A value that was read from flash is in a buffer of its own. */
	if (!length || (task->op.from_flash && !task->mutates) || task->value)
		return;
	task->value = malloc(length);
	if (!task->value)
		return;
	memcpy(task->value, task->op.data, length);
	fth_kv_release(task->conn->worker->kv, &task->op);
	task->op.data = (const uint8_t *)task->value;
	task->op.length = length;
}

void conn_retry_later(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	if (conn->retrying)
		return;
	conn->retrying = true;
	conn->next_retry = NULL;
	*w->retry_end = conn;
	w->retry_end = &conn->next_retry;
}
