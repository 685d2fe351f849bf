/* SPDX-License-Identifier: BSD-2-Clause */
/* From commands to operations of the cache, and from their results to answers. */
#include "kv/server/server.h"

#include "kv/kv_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char out_of_memory[] = "SERVER_ERROR out of memory storing object";

static const char bad_format[] = "CLIENT_ERROR bad command line format";

#define TRIES_MAX  8u /* of a counter that comes and goes while it is made */
#define SECRET_MAX 512u

/* ---- starting ---- */

static struct task *new_task(struct conn *conn)
{
	struct task *task = task_new(conn);

	if (!task)
		conn->state = CONN_CLOSING;
	return task;
}

static void finish(struct task *task, const char *text)
{
	task->simple = task->complete = true;
	task->text = text;
}

void command_say(struct conn *conn, const char *text)
{
	struct task *task = new_task(conn);

	if (task)
		finish(task, text);
}

/* What it would read has no room. conn.c, invariant 3. */
static bool memory_is_short(const struct task *task)
{
	const struct kvs_worker *w = task->conn->worker;

	if (task->op.verb != FTH_KV_GET && task->op.verb != FTH_KV_TOUCH)
		return false;
	return w->held + w->expected + task->conn->guess > conn_held_max(task->conn);
}

/* `more`: a further operation of its command, which cannot wait: another task may do so already. */
static void launch(struct task *task, bool more)
{
	struct conn *conn = task->conn;
	int rc;

	if (!more && memory_is_short(task)) {
		conn->worker->crowded = true;
		conn->waiting = task;
		conn_starve(conn);
		return;
	}
	conn_op_begins(task);
	rc = fth_kv_submit(conn->worker->kv, &task->op);
	if (rc == 0) {
		conn->worker->submitted = true;
		return;
	}
	if (rc == -EAGAIN && !more) { /* the cache has too many in flight */
		conn_op_ends(task);
		conn->waiting = task;
		conn_starve(conn);
		return;
	}
	if (rc < 0)
		task->op.result = rc;
	conn_op_done(task);
}

/* Does an operation under way have to end before this one starts? conn.c, invariant 2. */
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
	struct task *task = new_task(conn);

	if (!task)
		return NULL;
	task->line = *line;
	task->line.key = task->line.rest = (struct kvp_text){NULL, 0}; /* their line goes */
	task->op.verb = line->verb;
	task->op.flags = line->flags;
	task->op.expires = kvp_expires(line->expires, kv_now());
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

void command_key(struct conn *conn, const char *key, size_t length, bool last)
{
	struct task *task;

	conn->get.key = (struct kvp_text){key, length};
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

static void start_value(struct conn *conn, struct task *task)
{
	conn->storing = task;
	conn->state = CONN_VALUE;
}

void command_no_memory(struct conn *conn, struct task *task)
{
	finish(task, task->line.noreply ? "" : out_of_memory);
	conn->storing = NULL;
	skip_value(conn, task->line.bytes);
}

static void start_flush_all(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = new_task(conn);

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
	struct task *task = new_task(conn);

	if (!task)
		return;
	finish(task, NULL);
	/* It may be as long as several values. */
	if (kvp_is(kvp_word(&rest), "cachedump") && w->held > conn_held_max(conn)) {
		finish(task, no_memory);
		return;
	}
	stats_answer(w->server, line->rest, &task->long_text);
	if (task->long_text.failed)
		finish(task, no_memory);
	task->held = (uint32_t)task->long_text.room;
	conn->held += task->held;
	w->held += task->held;
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
	return task->line.command == KVP_META_DEBUG ? bad_format
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
		finish(task, wrong);
		if (line->has_bytes)
			skip_value(conn, line->bytes);
	} else if (line->has_bytes) {
		start_value(conn, task);
	} else {
		submit(task);
	}
}

/* ---- users ---- */

/* The first command of a connection that has to give a password: a set of "user password". */
static void start_secret(struct conn *conn, const struct kvp_line *line)
{
	struct task *task;

	if (line->command != KVP_STORE || line->verb != FTH_KV_SET || line->error ||
	    line->bytes > SECRET_MAX) {
		command_say(conn, "CLIENT_ERROR unauthenticated");
		conn->state = CONN_CLOSING;
		kvs_add(&conn->worker->counts.closed_auth, 1);
		return;
	}
	task = key_task(conn, line);
	if (task)
		start_value(conn, task);
}

static void take_secret(struct conn *conn, struct task *task, const char *value, bool good)
{
	if (good && access_check(conn->worker->server->access, value, (size_t)task->line.bytes)) {
		conn->trusted = true;
		finish(task, "STORED");
		return;
	}
	finish(task, "CLIENT_ERROR authentication failure");
	conn->state = CONN_CLOSING;
	kvs_add(&conn->worker->counts.closed_auth, 1);
}

/* ---- all commands ---- */

static void start_error(struct conn *conn, const struct kvp_line *line)
{
	if (line->too_large && line->verb == FTH_KV_SET)
		start_too_large(conn, line);
	else
		command_say(conn, line->noreply ? "" : line->error);
	if (line->has_bytes && conn->state != CONN_CLOSING)
		skip_value(conn, line->bytes);
}

void command_start(struct conn *conn, const char *text, size_t length)
{
	struct kvp_line line;

	kvp_parse(text, length, conn->worker->server->value_max, &line);
	kvs_add(&conn->worker->counts.commands[line.command], 1);
	if (!conn->trusted) {
		start_secret(conn, &line);
		return;
	}
	if (line.error) {
		start_error(conn, &line);
		return;
	}
	switch (line.command) {
	case KVP_GET:
		conn->get = line;
		conn->state = CONN_KEYS;
		return;
	case KVP_FLUSH_ALL:
		start_flush_all(conn, &line);
		return;
	case KVP_VERSION:
		command_say(conn, "VERSION " KVS_VERSION);
		return;
	case KVP_VERBOSITY:
		command_say(conn, line.noreply ? "" : "OK");
		return;
	case KVP_STATS:
		start_stats(conn, &line);
		return;
	case KVP_META_NOOP:
		command_say(conn, "MN");
		return;
	case KVP_QUIT:
		conn->state = CONN_CLOSING;
		return;
	default:
		start_key(conn, &line);
	}
}

void command_value(struct conn *conn, struct task *task, const char *value, bool good)
{
	if (!conn->trusted) {
		take_secret(conn, task, value, good);
		return;
	}
	if (!good) {
		/* What follows is taken as commands, as memcached does. */
		finish(task, task->line.noreply ? "" : "CLIENT_ERROR bad data chunk");
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

bool command_more(struct task *task)
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

/* ---- answers ---- */

static const char *plain_answer(const struct task *task)
{
	switch (task->op.result) {
	case 0:
		break;
	case -ENOENT:
		/* Append and the like say that they did not store; cas that there is nothing. */
		if (task->line.command == KVP_STORE)
			return task->line.has_cas ? "NOT_FOUND" : "NOT_STORED";
		return "NOT_FOUND";
	case -EEXIST:
		return "NOT_STORED";
	case -EBUSY:
		return "EXISTS";
	case -EDOM:
		return "CLIENT_ERROR cannot increment or decrement non-numeric value";
	case -EMSGSIZE:
		return "SERVER_ERROR object too large for cache";
	case -EINVAL:
		return bad_format;
	case -EIO:
		return "SERVER_ERROR the change could not be made durable";
	default:
		return out_of_memory;
	}
	switch (task->line.command) {
	case KVP_STORE:
		return "STORED";
	case KVP_DELETE:
		return "DELETED";
	case KVP_TOUCH:
		return "TOUCHED";
	default:
		return "OK";
	}
}

static char *put_u64(char *to, uint64_t n)
{
	char digits[20];
	unsigned count = 0;

	do
		digits[count++] = (char)('0' + n % 10);
	while (n /= 10);
	while (count)
		*to++ = digits[--count];
	return to;
}

static void answer_get(const struct task *task, struct bytes *out)
{
	const struct fth_kv_op *op = &task->op;

	if (op->result == 0) {
		char *to = bytes_room(out, op->key_length + op->length + 80), *at = to;

		if (!to)
			return;
		memcpy(at, "VALUE ", 6);
		memcpy(at + 6, op->key, op->key_length);
		at += 6 + op->key_length;
		*at++ = ' ';
		at = put_u64(at, op->item_flags);
		*at++ = ' ';
		at = put_u64(at, op->length);
		if (task->line.with_cas) {
			*at++ = ' ';
			at = put_u64(at, op->item_cas);
		}
		memcpy(at, "\r\n", 2);
		memcpy(at + 2, op->data, op->length);
		memcpy(at + 2 + op->length, "\r\n", 2);
		out->to += (size_t)(at - to) + op->length + 4;
	}
	if (task->last_key)
		bytes_put(out, "END\r\n", 5);
}

/* In base64 if it came so; then b follows. */
static void put_key(const struct task *task, struct bytes *out)
{
	char text[FTH_KV_KEY_MAX * 4 / 3 + 4];

	if (!kvp_has(&task->line, 'b')) {
		bytes_put(out, task->key, task->op.key_length);
		return;
	}
	bytes_put(out, text, kvp_base64_encode(task->key, task->op.key_length, text));
	bytes_put(out, " b", 2);
}

static long long ttl(const struct fth_kv_op *op)
{
	uint32_t now = kv_now();

	if (!op->item_expires)
		return -1;
	return op->item_expires > now ? (long long)op->item_expires - now : 0;
}

/* A flag about the item that is there. */
static void put_item_flag(const struct task *task, char name, struct bytes *out)
{
	const struct fth_kv_op *op = &task->op;

	if (name == 'c')
		bytes_printf(out, " c%" PRIu64, op->item_cas);
	else if (name == 't' && task->line.command != KVP_META_SET)
		bytes_printf(out, " t%lld", ttl(op));
	if (task->line.command != KVP_META_GET)
		return;
	if (name == 'f')
		bytes_printf(out, " f%u", op->item_flags);
	else if (name == 's')
		bytes_printf(out, " s%u", op->length);
	else if (name == 'h')
		bytes_printf(out, " h%d", op->item_read);
	else if (name == 'l')
		bytes_printf(out, " l%u", op->item_age);
}

/* What the flags of a meta command ask for, in their order. */
static void put_flags(const struct task *task, struct bytes *out)
{
	const struct kvp_line *line = &task->line;

	for (unsigned i = 0; i < line->order_count; i++) {
		char name = line->order[i];

		if (name == 'O') {
			bytes_put(out, " O", 2);
			bytes_put(out, line->opaque, line->opaque_length);
		} else if (name == 'k') {
			bytes_put(out, " k", 2);
			put_key(task, out);
		} else if (task->op.result == 0 && line->command != KVP_META_DELETE) {
			put_item_flag(task, name, out);
		}
	}
}

/* mg: whether the token is taken, the item stale, and the token this client's. */
static void put_state(const struct task *task, struct bytes *out)
{
	if (task->op.item_state & FTH_KV_ITEM_CLAIMED)
		bytes_put(out, " Z", 2);
	if (task->op.item_state & FTH_KV_ITEM_STALE)
		bytes_put(out, " X", 2);
	if (task->won)
		bytes_put(out, " W", 2);
}

static const char *meta_status(const struct task *task, bool *quiet)
{
	enum kvp_command command = task->line.command;
	bool get = command == KVP_META_GET, count = command == KVP_META_COUNT;

	*quiet = false;
	switch (task->op.result) {
	case 0:
		*quiet = !get;
		return (get || count) && kvp_has(&task->line, 'v') ? "VA" : "HD";
	case -ENOENT:
		*quiet = get;
		if (get)
			return "EN";
		return command == KVP_META_SET && !task->line.has_cas ? "NS" : "NF";
	case -EEXIST:
		return "NS";
	case -EBUSY:
		return "EX";
	default:
		return NULL;
	}
}

static void answer_meta(const struct task *task, struct bytes *out)
{
	bool count = task->line.command == KVP_META_COUNT, quiet, value;
	const void *data = count ? (const void *)task->number : task->op.data;
	uint32_t length = count ? task->number_length : task->op.length;
	const char *status = meta_status(task, &quiet);

	if (!status) {
		bytes_printf(out, "%s\r\n", plain_answer(task));
		return;
	}
	if (quiet && kvp_has(&task->line, 'q'))
		return;
	value = strcmp(status, "VA") == 0;
	bytes_put(out, status, 2);
	if (value)
		bytes_printf(out, " %u", length);
	put_flags(task, out);
	if (task->line.command == KVP_META_GET && task->op.result == 0)
		put_state(task, out);
	bytes_put(out, "\r\n", 2);
	if (value) {
		bytes_put(out, data, length);
		bytes_put(out, "\r\n", 2);
	}
}

static void answer_debug(const struct task *task, struct bytes *out)
{
	const struct fth_kv_op *op = &task->op;

	if (op->result < 0) {
		bytes_put(out, "EN\r\n", 4);
		return;
	}
	bytes_put(out, "ME ", 3);
	put_key(task, out);
	bytes_printf(out, " exp=%lld la=%u cas=%" PRIu64 " fetch=%s cls=1 size=%u flash=%s\r\n",
		     ttl(op), op->item_age, op->item_cas, op->item_read ? "yes" : "no", op->length,
		     op->from_flash ? "yes" : "no");
}

static void answer_count(const struct task *task, struct bytes *out)
{
	uint32_t length = task->op.length;

	while (length > 1 && task->op.data[length - 1] == ' ')
		length--;
	bytes_put(out, task->op.data, length);
	bytes_put(out, "\r\n", 2);
}

static void put_line(struct bytes *out, const char *text)
{
	size_t length = strlen(text);

	if (!length)
		return;
	bytes_put(out, text, length);
	bytes_put(out, "\r\n", 2);
}

void command_answer(struct task *task, struct bytes *out)
{
	const struct kvp_line *line = &task->line;

	if (task->simple && task->text)
		put_line(out, task->text);
	else if (task->simple)
		bytes_put(out, task->long_text.data, bytes_count(&task->long_text));
	else if (line->command == KVP_GET)
		answer_get(task, out);
	else if (line->too_large)
		put_line(out, line->noreply ? "" : line->error);
	else if (line->command == KVP_META_DEBUG)
		answer_debug(task, out);
	else if (line->command >= KVP_META_GET)
		answer_meta(task, out);
	else if (line->noreply)
		return;
	else if (line->command == KVP_COUNT && task->op.result == 0)
		answer_count(task, out);
	else
		put_line(out, plain_answer(task));
}
