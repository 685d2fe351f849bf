/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From requests to operations of the cache, until the command is complete: most need one operation,
 * ma and mg up to several. answer.c writes the answer.
 */
#include "kv/server/server.h"

#include "kv/kv_access.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRIES_MAX    8u	  /* of a counter that comes and goes while it is made */
#define PASSWORD_MAX 512u /* bytes of "user password" */

/* Complete a task without an operation. */
static void finish_with(struct task *task, const char *text)
{
	task->simple = task->complete = true;
	task->text = text;
}

void command_say(struct conn *conn, const char *text)
{
	struct task *task = task_new(conn);

	if (task)
		finish_with(task, text);
}

/* The value that the operation would read has no room: conn.c, invariant 3. */
static bool memory_is_short(const struct task *task)
{
	const struct kvs_worker *w = task->conn->worker;

	if (task->op.verb != FTH_KV_GET && task->op.verb != FTH_KV_TOUCH)
		return false;
	return w->held + w->expected + task->conn->value_estimate > conn_held_max(task->conn);
}

/*
 * Give the operation to the cache. `further`: it is not the first one of its command, and cannot
 * wait, since another task may wait already.
 */
static void launch(struct task *task, bool further)
{
	struct conn *conn = task->conn;
	int rc;

	if (!further && memory_is_short(task)) {
		conn->worker->memory_short = true;
		conn->waiting = task;
		conn_retry_later(conn);
		return;
	}
	task_enters_cache(task);
	rc = fth_kv_submit(conn->worker->kv, &task->op);
	if (rc == 0) {
		conn->worker->submitted = true;
		return;
	}
	if (rc == -EAGAIN && !further) { /* the cache has too many in flight */
		task_leaves_cache(task);
		conn->waiting = task;
		conn_retry_later(conn);
		return;
	}
	if (rc < 0)
		task->op.result = rc;
	command_done(task);
}

/* An operation in the cache has to end before this one starts: conn.c, invariant 2. */
static bool conflicts(const struct task *task)
{
	const struct conn *conn = task->conn;

	if (conn->flying == 0 || (conn->mutating == 0 && !task->mutates))
		return false;
	for (const struct task *t = conn->first; t != task; t = t->next) {
		if (!t->flying || (!t->mutates && !task->mutates))
			continue;
		if (t->op.verb == FTH_KV_FLUSH_ALL || task->op.verb == FTH_KV_FLUSH_ALL)
			return true;
		if (t->op.key_length == task->op.key_length &&
		    memcmp(t->key, task->key, task->op.key_length) == 0)
			return true;
	}
	return false;
}

static void submit(struct task *task)
{
	if (conflicts(task))
		task->conn->waiting = task;
	else
		launch(task, false);
}

void command_retry(struct conn *conn)
{
	struct task *task = conn->waiting;

	if (conflicts(task))
		return;
	conn->waiting = NULL;
	launch(task, false);
}

static void set_key(struct task *task, const char *key, size_t length)
{
	memcpy(task->key, key, length);
	task->op.key = task->key;
	task->op.key_length = (uint32_t)length;
}

static struct task *key_task(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = task_new(conn);

	if (!task)
		return NULL;
	task->line = *line;
	task->line.key = task->line.rest = (struct kvp_text){NULL, 0}; /* their line goes */
	task->op.verb = line->verb;
	task->op.flags = line->flags;
	task->op.expires = line->expires ? kvp_expires(line->expires, kv_now()) : 0;
	/* No item has the number 0, which means none to the cache. */
	task->op.cas = line->has_cas ? (line->cas ? line->cas : UINT64_MAX) : 0;
	task->op.delta = line->delta;
	if (line->command == KVP_META_SET && kvp_has(line, 'I'))
		task->op.options = FTH_KV_STORE_STALE;
	if (line->command == KVP_META_DELETE && !kvp_has(line, 'T'))
		task->op.options = FTH_KV_KEEP_EXPIRES;
	/* With N or R the first of several takes the token. */
	task->mutates = line->verb != FTH_KV_GET || (line->command == KVP_META_GET &&
						     (kvp_has(line, 'N') || kvp_has(line, 'R')));
	set_key(task, line->key.at, line->key.length);
	return task;
}

void command_get_key(struct conn *conn, struct kvp_text key, bool last)
{
	struct task *task;

	conn->get.key = key;
	task = key_task(conn, &conn->get);
	if (!task)
		return;
	task->last_key = last;
	submit(task);
}

static void skip_value(struct conn *conn, uint64_t bytes)
{
	conn->skip = bytes + 2;
	conn->state = CONN_SKIP;
}

static void expect_value(struct conn *conn, struct task *task)
{
	conn->storing = task;
	conn->state = CONN_VALUE;
}

void command_no_memory(struct conn *conn, struct task *task)
{
	finish_with(task, task->line.noreply ? "" : KVS_NO_MEMORY);
	conn->storing = NULL;
	skip_value(conn, task->line.bytes);
}

static void start_flush_all(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = task_new(conn);

	if (!task)
		return;
	task->line = *line;
	task->op.verb = FTH_KV_FLUSH_ALL;
	task->op.expires = line->expires > 0 ? kvp_expires(line->expires, kv_now()) : 0;
	task->mutates = true;
	submit(task);
}

static void start_stats(struct conn *conn, const struct kvp_line *line)
{
	static const char no_memory[] = "SERVER_ERROR out of memory writing stats";
	struct kvs_worker *w = conn->worker;
	struct kvp_text rest = line->rest;
	struct task *task = task_new(conn);

	if (!task)
		return;
	finish_with(task, NULL);
	/* It may be as long as several values. */
	if (kvp_is(kvp_word(&rest), "cachedump") && w->held > conn_held_max(conn)) {
		finish_with(task, no_memory);
		return;
	}
	stats_answer(w->server, line->rest, &task->long_text);
	if (task->long_text.failed)
		finish_with(task, no_memory);
	task_hold(task, task->long_text.room);
}

static const char *decode_key(struct task *task)
{
	char text[FTH_KV_KEY_MAX];
	size_t length = task->op.key_length;
	int n;

	if (!kvp_has(&task->line, 'b'))
		return NULL;
	memcpy(text, task->key, length);
	n = kvp_base64_decode((struct kvp_text){text, length}, task->key, sizeof(task->key));
	if (n > 0) {
		task->op.key_length = (uint32_t)n;
		return NULL;
	}
	return task->line.command == KVP_META_DEBUG ? KVS_BAD_FORMAT
						    : "CLIENT_ERROR error decoding key";
}

/*
 * A set of too long a value: the value that is there would be stale, so that it goes, as
 * memcached's does. The answer is the error all the same.
 */
static void start_too_large(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = key_task(conn, line);

	if (!task)
		return;
	(void)decode_key(task);
	task->op.verb = FTH_KV_DELETE;
	task->op.cas = 0;
	task->mutates = true;
	submit(task);
}

static void start_key(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = key_task(conn, line);
	const char *wrong;

	if (!task)
		return;
	wrong = decode_key(task);
	if (wrong) {
		finish_with(task, wrong);
		if (line->has_bytes)
			skip_value(conn, line->bytes);
	} else if (line->has_bytes) {
		expect_value(conn, task);
	} else {
		submit(task);
	}
}

/* ---- users ---- */

/* The first command of a connection that has to give a password: a set of "user password". */
static void start_password(struct conn *conn, const struct kvp_line *line)
{
	struct task *task;

	if (line->command != KVP_STORE || line->verb != FTH_KV_SET || line->error ||
	    line->bytes > PASSWORD_MAX) {
		command_say(conn, "CLIENT_ERROR unauthenticated");
		conn->state = CONN_CLOSING;
		kvs_add(&conn->worker->counts.closed_auth, 1);
		return;
	}
	task = key_task(conn, line);
	if (task)
		expect_value(conn, task);
}

static void check_password(struct conn *conn, struct task *task, const char *value, bool good)
{
	if (good && access_check(conn->worker->server->access, value, (size_t)task->line.bytes)) {
		conn->trusted = true;
		finish_with(task, "STORED");
		return;
	}
	finish_with(task, "CLIENT_ERROR authentication failure");
	conn->state = CONN_CLOSING;
	kvs_add(&conn->worker->counts.closed_auth, 1);
}

/* ---- requests, from input.c ---- */

static void start_error(struct conn *conn, const struct kvp_line *line)
{
	if (line->too_large && line->verb == FTH_KV_SET)
		start_too_large(conn, line);
	else
		command_say(conn, line->noreply ? "" : line->error);
	if (line->has_bytes && conn->state != CONN_CLOSING)
		skip_value(conn, line->bytes);
}

void command_start(struct conn *conn, const struct kvp_line *line)
{
	if (!conn->trusted) {
		start_password(conn, line);
		return;
	}
	if (line->error) {
		start_error(conn, line);
		return;
	}
	switch (line->command) {
	case KVP_FLUSH_ALL:
		start_flush_all(conn, line);
		return;
	case KVP_VERSION:
		command_say(conn, "VERSION " KVS_VERSION);
		return;
	case KVP_VERBOSITY:
		command_say(conn, line->noreply ? "" : "OK");
		return;
	case KVP_STATS:
		start_stats(conn, line);
		return;
	case KVP_META_NOOP:
		command_say(conn, "MN");
		return;
	case KVP_QUIT:
		conn->state = CONN_CLOSING;
		return;
	default:
		start_key(conn, line);
	}
}

void command_value(struct conn *conn, struct task *task, const char *value, bool good)
{
	if (!conn->trusted) {
		check_password(conn, task, value, good);
		return;
	}
	if (!good) {
		/* What follows is taken as commands, as memcached does. */
		finish_with(task, task->line.noreply ? "" : "CLIENT_ERROR bad data chunk");
		return;
	}
	task->op.value = value;
	task->op.value_length = (uint32_t)task->line.bytes;
	submit(task);
}

/* ---- commands of several operations ---- */

static bool again(struct task *task, enum fth_kv_verb verb, int64_t ttl)
{
	fth_kv_release(task->conn->worker->kv, &task->op);
	task->op.verb = verb;
	task->op.expires = kvp_expires(ttl, kv_now());
	launch(task, true);
	return true;
}

static void keep_number(struct task *task)
{
	uint32_t length = task->op.length;

	while (length > 1 && task->op.data[length - 1] == ' ')
		length--;
	task->number_length = (uint8_t)(length < sizeof(task->number) ? length : 0);
	memcpy(task->number, task->op.data, task->number_length);
}

/* ma with N on a key that is not there: add it, unless another connection did meanwhile. */
static bool make_counter(struct task *task)
{
	const struct kvp_line *line = &task->line;
	int n = snprintf(task->number, sizeof(task->number), "%" PRIu64, line->initial);

	task->number_length = (uint8_t)n;
	task->op.value = task->number;
	task->op.value_length = (uint32_t)n;
	task->op.cas = 0;
	task->tries++;
	return again(task, FTH_KV_ADD, line->vivify);
}

/* ma: with N it may make the counter, with T its time to live is changed afterwards. */
static bool more_of_count(struct task *task)
{
	const struct kvp_line *line = &task->line;
	enum fth_kv_verb verb = task->op.verb;
	int result = task->op.result;

	if (verb == FTH_KV_ADD) {
		if (result == 0)
			task->op.item_expires = task->op.expires;
		return result == -EEXIST && task->tries < TRIES_MAX && again(task, line->verb, 0);
	}
	if (verb == FTH_KV_TOUCH) { /* the counter is changed, whatever came of this */
		task->op.result = 0;
		return false;
	}
	if (result == -ENOENT && kvp_has(line, 'N') && !line->has_cas && task->tries < TRIES_MAX)
		return make_counter(task);
	if (result < 0)
		return false;
	keep_number(task);
	return kvp_has(line, 'T') && again(task, FTH_KV_TOUCH, line->expires);
}

/* mg with N on a key that is not there: an empty item, whose token this client has. */
static bool make_empty(struct task *task)
{
	const struct kvp_line *line = &task->line;
	int64_t ttl = line->vivify;

	for (unsigned i = 0; i < line->order_count; i++)
		if (line->order[i] == 'T' || line->order[i] == 'N')
			ttl = line->order[i] == 'T' ? line->expires : line->vivify;
	task->op.value_length = 0;
	task->op.flags = 0;
	task->op.cas = 0;
	task->op.options = FTH_KV_STORE_CLAIMED;
	task->tries++;
	return again(task, FTH_KV_ADD, ttl);
}

/* Should the client that reads this item compute its next value? */
static bool wants_token(const struct task *task)
{
	const struct fth_kv_op *op = &task->op;

	if (op->item_state & FTH_KV_ITEM_CLAIMED)
		return false;
	return op->item_state & FTH_KV_ITEM_STALE ||
	       (kvp_has(&task->line, 'R') && op->item_expires &&
		op->item_expires < kvp_expires(task->line.recache, kv_now()));
}

/*
 * mg: an item may be made, or its token be taken. Where another connection was faster, look again;
 * after TRIES_MAX times the answer is what is there.
 */
static bool more_of_get(struct task *task)
{
	const struct kvp_line *line = &task->line;
	struct fth_kv_op *op = &task->op;

	if (op->verb == FTH_KV_ADD) {
		task->won = op->result == 0;
		op->item_expires = op->expires;
		op->options = 0;
		return op->result == -EEXIST && again(task, line->verb, line->expires);
	}
	if (op->verb == FTH_KV_CLAIM) {
		task->won = op->result == 0;
		op->item_read = task->was_read;
		op->item_age = task->age;
		/* The answer shows the item as it was before. */
		op->item_state &= (uint8_t)~FTH_KV_ITEM_CLAIMED;
		return (op->result == -EALREADY || op->result == -EBUSY || op->result == -ENOENT) &&
		       again(task, line->verb, line->expires);
	}
	if (task->tries >= TRIES_MAX)
		return false;
	if (op->result == -ENOENT && kvp_has(line, 'N'))
		return make_empty(task);
	if (op->result < 0 || !wants_token(task))
		return false;
	task->was_read = op->item_read;
	task->age = op->item_age;
	op->cas = op->item_cas;
	task->tries++;
	return again(task, FTH_KV_CLAIM, 0);
}

/* Start the next operation of the task's command. False: there is none. */
static bool start_next(struct task *task)
{
	switch (task->line.command) {
	case KVP_META_COUNT:
		return more_of_count(task);
	case KVP_META_GET:
		return more_of_get(task);
	default:
		return false;
	}
}

void command_done(struct task *task)
{
	task_leaves_cache(task);
	if (!start_next(task))
		task_complete(task);
}
