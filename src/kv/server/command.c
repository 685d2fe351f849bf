/* SPDX-License-Identifier: BSD-2-Clause */
/* From commands to operations of the cache, and from their results to answers. */
#include "kv/server/server.h"

#include "fathom/base/version.h"

#include "kv/kv_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char out_of_memory[] = "SERVER_ERROR out of memory storing object";

static void count(struct conn *conn, enum kvp_command command)
{
	__atomic_fetch_add(&conn->worker->commands[command], 1, __ATOMIC_RELAXED);
}

/* ---- starting ---- */

/* An answer that needs no operation. */
static void say(struct conn *conn, const char *text)
{
	struct task *task = task_new(conn);

	if (!task) {
		conn->state = CONN_CLOSING;
		return;
	}
	task->simple = task->complete = true;
	task->text = text;
}

static void submit(struct task *task)
{
	struct conn *conn = task->conn;
	int rc;

	conn->flying++;
	if (task->mutates)
		conn->mutating++;
	rc = fth_kv_submit(conn->worker->kv, &task->op);
	if (rc == 0)
		return;
	if (rc < 0)
		task->op.result = rc;
	conn_op_done(task);
}

static void set_key(struct task *task, struct kvp_text key)
{
	memcpy(task->key, key.at, key.length);
	task->op.key = task->key;
	task->op.key_length = (uint32_t)key.length;
}

static struct task *key_task(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = task_new(conn);

	if (!task) {
		conn->state = CONN_CLOSING;
		return NULL;
	}
	task->line = *line;
	task->op.verb = line->verb;
	task->op.flags = line->flags;
	task->op.expires = kvp_expires(line->expires, kv_now());
	task->op.cas = line->cas;
	task->op.delta = line->delta;
	set_key(task, line->key);
	return task;
}

/* Each key is a task of its own; the last one brings END. */
static void start_get(struct conn *conn, struct kvp_line *line)
{
	struct kvp_text rest = line->rest, key = line->key;

	line->verb = line->touch ? FTH_KV_TOUCH : FTH_KV_GET;
	while (key.length) {
		struct kvp_text next = kvp_word(&rest);
		struct task *task;

		if (key.length > FTH_KV_KEY_MAX) {
			say(conn, "CLIENT_ERROR bad command line format");
			return;
		}
		line->key = key;
		task = key_task(conn, line);
		if (!task)
			return;
		task->last_key = next.length == 0;
		task->mutates = line->touch;
		submit(task);
		key = next;
	}
}

static void start_value(struct conn *conn, struct task *task)
{
	task->value = malloc((size_t)task->line.bytes + 2);
	task->value_have = 0;
	if (!task->value) {
		task->simple = task->complete = true;
		task->text = task->line.noreply ? "" : out_of_memory;
		conn->skip = task->line.bytes + 2;
		conn->state = CONN_SKIP;
		return;
	}
	conn->storing = task;
	conn->state = CONN_VALUE;
}

static void start_store(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = key_task(conn, line);

	if (task)
		start_value(conn, task);
}

static void start_change(struct conn *conn, struct kvp_line *line)
{
	struct task *task;

	if (line->command == KVP_TOUCH)
		line->verb = FTH_KV_TOUCH;
	task = key_task(conn, line);
	if (!task)
		return;
	task->mutates = true;
	submit(task);
}

static void start_flush_all(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = task_new(conn);

	if (!task) {
		conn->state = CONN_CLOSING;
		return;
	}
	task->line = *line;
	task->op.verb = FTH_KV_FLUSH_ALL;
	task->op.expires = line->expires > 0 ? kvp_expires(line->expires, kv_now()) : 0;
	task->mutates = true;
	submit(task);
}

static void start_stats(struct conn *conn, const struct kvp_line *line)
{
	struct task *task = task_new(conn);

	if (!task) {
		conn->state = CONN_CLOSING;
		return;
	}
	task->simple = task->complete = true;
	stats_answer(conn->worker->server, line->rest, &task->long_text);
}

/* ---- meta ---- */

/* Texts of the flags are needed until the answer: copy the line to where they stay. */
static bool keep_words(struct task *task)
{
	struct kvp_flags *meta = &task->line.meta;
	size_t used = 0;

	for (unsigned i = 0; i < meta->count; i++) {
		struct kvp_text *value = &meta->flag[i].value;

		if (used + value->length > sizeof(task->words))
			return false;
		memcpy(task->words + used, value->at, value->length);
		value->at = task->words + used;
		used += value->length;
	}
	return true;
}

static bool flag_i64(const struct kvp_flags *meta, char name, int64_t *out)
{
	const struct kvp_text *value = kvp_flag(meta, name);

	return !value || kvp_i64(*value, out);
}

static bool flag_u64(const struct kvp_flags *meta, char name, uint64_t *out)
{
	const struct kvp_text *value = kvp_flag(meta, name);

	return !value || kvp_u64(*value, out);
}

static const char *meta_set_mode(struct task *task)
{
	const struct kvp_text *mode = kvp_flag(&task->line.meta, 'M');
	char letter = mode && mode->length == 1 ? *mode->at : mode ? '?' : 'S';

	switch (letter) {
	case 'S':
	case 's':
		task->op.verb = FTH_KV_SET;
		return NULL;
	case 'E':
	case 'e':
		task->op.verb = FTH_KV_ADD;
		return NULL;
	case 'A':
	case 'a':
		task->op.verb = FTH_KV_APPEND;
		return NULL;
	case 'P':
	case 'p':
		task->op.verb = FTH_KV_PREPEND;
		return NULL;
	case 'R':
	case 'r':
		task->op.verb = FTH_KV_REPLACE;
		return NULL;
	default:
		return "CLIENT_ERROR invalid mode for ms M token";
	}
}

static const char *meta_count_mode(struct task *task)
{
	const struct kvp_text *mode = kvp_flag(&task->line.meta, 'M');

	task->op.verb = FTH_KV_INCREMENT;
	if (!mode)
		return NULL;
	if (kvp_is(*mode, "I") || kvp_is(*mode, "i") || kvp_is(*mode, "+") || kvp_is(*mode, "incr"))
		return NULL;
	task->op.verb = FTH_KV_DECREMENT;
	if (kvp_is(*mode, "D") || kvp_is(*mode, "d") || kvp_is(*mode, "-") || kvp_is(*mode, "decr"))
		return NULL;
	return "CLIENT_ERROR invalid mode for ma M token";
}

/* Numbers that flags bring along. NULL, or what is wrong. */
static const char *meta_numbers(struct task *task, int64_t *ttl)
{
	const struct kvp_flags *meta = &task->line.meta;
	uint64_t flags = 0;

	task->op.delta = 1;
	if (!flag_i64(meta, 'T', ttl) || !flag_u64(meta, 'C', &task->op.cas) ||
	    !flag_u64(meta, 'D', &task->op.delta) ||
	    (task->line.command == KVP_META_SET && !flag_u64(meta, 'F', &flags)) ||
	    flags > UINT32_MAX)
		return "CLIENT_ERROR bad token in command line format";
	task->op.flags = (uint32_t)flags;
	task->op.expires = kvp_expires(*ttl, kv_now());
	return NULL;
}

static const char *meta_key(struct task *task)
{
	int n;

	if (!kvp_flag(&task->line.meta, 'b'))
		return NULL;
	n = kvp_base64_decode(task->line.key, task->key, sizeof(task->key));
	if (n <= 0)
		return "CLIENT_ERROR error decoding key";
	task->op.key_length = (uint32_t)n;
	return NULL;
}

static const char *prepare_meta(struct task *task)
{
	const char *wrong = meta_key(task);
	int64_t ttl = 0;

	if (!wrong)
		wrong = meta_numbers(task, &ttl);
	if (!wrong && !keep_words(task))
		wrong = "CLIENT_ERROR options flags too long";
	task->line.key = (struct kvp_text){NULL, 0}; /* its line goes */
	if (wrong)
		return wrong;
	switch (task->line.command) {
	case KVP_META_GET:
		task->op.verb = kvp_flag(&task->line.meta, 'T') ? FTH_KV_TOUCH : FTH_KV_GET;
		task->mutates = task->op.verb == FTH_KV_TOUCH;
		return NULL;
	case KVP_META_SET:
		return meta_set_mode(task);
	case KVP_META_DELETE:
		task->op.verb = FTH_KV_DELETE;
		task->mutates = true;
		return NULL;
	case KVP_META_COUNT:
		task->mutates = true;
		return meta_count_mode(task);
	default:
		task->op.verb = FTH_KV_GET;
		return NULL;
	}
}

static void start_meta(struct conn *conn, struct kvp_line *line)
{
	struct task *task = key_task(conn, line);
	const char *wrong;

	if (!task)
		return;
	wrong = prepare_meta(task);
	if (wrong) {
		task->simple = task->complete = true;
		task->text = wrong;
		if (line->command == KVP_META_SET) {
			conn->skip = line->bytes + 2;
			conn->state = CONN_SKIP;
		}
	} else if (line->command == KVP_META_SET) {
		start_value(conn, task);
	} else {
		submit(task);
	}
}

/* ---- all commands ---- */

void command_start(struct conn *conn, const char *text, size_t length)
{
	struct kvp_line line;

	kvp_parse(text, length, conn->worker->server->value_max, &line);
	count(conn, line.command);
	if (line.error) {
		say(conn, line.noreply && line.command == KVP_STORE ? "" : line.error);
		if (line.has_bytes) {
			conn->skip = line.bytes + 2;
			conn->state = CONN_SKIP;
		}
		return;
	}
	switch (line.command) {
	case KVP_GET:
		start_get(conn, &line);
		return;
	case KVP_STORE:
		start_store(conn, &line);
		return;
	case KVP_DELETE:
	case KVP_COUNT:
	case KVP_TOUCH:
		start_change(conn, &line);
		return;
	case KVP_FLUSH_ALL:
		start_flush_all(conn, &line);
		return;
	case KVP_VERSION:
		say(conn, "VERSION fathom-" FTH_VERSION_STRING);
		return;
	case KVP_VERBOSITY:
		say(conn, line.noreply ? "" : "OK");
		return;
	case KVP_STATS:
		start_stats(conn, &line);
		return;
	case KVP_META_NOOP:
		say(conn, "MN");
		return;
	case KVP_QUIT:
		conn->state = CONN_CLOSING;
		return;
	case KVP_NONE:
		say(conn, "ERROR");
		return;
	default:
		start_meta(conn, &line);
	}
}

void command_value(struct conn *conn, struct task *task, bool good)
{
	if (!good) {
		task->simple = task->complete = true;
		task->text = "CLIENT_ERROR bad data chunk";
		/* What follows cannot be told from commands: up to the next end of line. */
		return;
	}
	task->op.value = task->value;
	task->op.value_length = (uint32_t)task->line.bytes;
	task->mutates = true;
	(void)conn;
	submit(task);
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
			return task->op.cas ? "NOT_FOUND" : "NOT_STORED";
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
		return "CLIENT_ERROR bad command line format";
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

static void answer_get(const struct task *task, struct bytes *out)
{
	const struct fth_kv_op *op = &task->op;

	if (op->result == 0) {
		char head[FTH_KV_KEY_MAX + 80];
		int n;

		memcpy(head, "VALUE ", 6);
		memcpy(head + 6, op->key, op->key_length);
		n = 6 + (int)op->key_length;
		n += snprintf(head + n, sizeof(head) - (size_t)n,
			      task->line.with_cas ? " %u %u %" PRIu64 "\r\n" : " %u %u\r\n",
			      op->item_flags, op->length, op->item_cas);
		bytes_put(out, head, (size_t)n);
		bytes_put(out, op->data, op->length);
		bytes_put(out, "\r\n", 2);
	}
	if (task->last_key)
		bytes_put(out, "END\r\n", 5);
}

static void put_key(const struct task *task, struct bytes *out)
{
	char text[FTH_KV_KEY_MAX * 4 / 3 + 4];

	if (kvp_flag(&task->line.meta, 'b'))
		bytes_put(out, text, kvp_base64_encode(task->key, task->op.key_length, text));
	else
		bytes_put(out, task->key, task->op.key_length);
}

/* What the flags of a meta command ask for about the item. */
static void put_flags(const struct task *task, struct bytes *out)
{
	const struct kvp_flags *meta = &task->line.meta;
	const struct fth_kv_op *op = &task->op;

	for (unsigned i = 0; i < meta->count; i++) {
		char name = meta->flag[i].name;

		switch (name) {
		case 'O':
			bytes_put(out, " O", 2);
			bytes_put(out, meta->flag[i].value.at, meta->flag[i].value.length);
			break;
		case 'k':
			bytes_put(out, " k", 2);
			put_key(task, out);
			break;
		case 'b':
			bytes_put(out, " b", 2);
			break;
		case 'c':
			bytes_printf(out, " c%" PRIu64, op->item_cas);
			break;
		default:
			break;
		}
		if (op->result < 0 || task->line.command == KVP_META_SET ||
		    task->line.command == KVP_META_DELETE)
			continue;
		if (name == 'f')
			bytes_printf(out, " f%u", op->item_flags);
		else if (name == 's')
			bytes_printf(out, " s%u", op->length);
		else if (name == 'h')
			bytes_printf(out, " h%d", op->item_read);
		else if (name == 'l')
			bytes_printf(out, " l%u", op->item_age);
		else if (name == 't')
			bytes_printf(out, " t%lld",
				     op->item_expires ? (long long)op->item_expires - kv_now()
						      : -1LL);
	}
}

static const char *meta_status(const struct task *task, bool *quiet)
{
	bool value = kvp_flag(&task->line.meta, 'v') != NULL;
	enum kvp_command command = task->line.command;

	*quiet = false;
	switch (task->op.result) {
	case 0:
		*quiet = command != KVP_META_GET;
		if (command == KVP_META_COUNT)
			return value ? "VA" : "HD";
		return command == KVP_META_GET && value ? "VA" : "HD";
	case -ENOENT:
		*quiet = command == KVP_META_GET || command == KVP_META_DELETE;
		if (command == KVP_META_GET)
			return "EN";
		return command == KVP_META_SET && !task->op.cas ? "NS" : "NF";
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
	const struct fth_kv_op *op = &task->op;
	bool quiet, value;
	const char *status = meta_status(task, &quiet);

	if (!status) {
		bytes_printf(out, "%s\r\n", plain_answer(task));
		return;
	}
	if (quiet && kvp_flag(&task->line.meta, 'q'))
		return;
	value = strcmp(status, "VA") == 0;
	bytes_put(out, status, 2);
	if (strcmp(status, "EN") == 0) {
		bytes_put(out, "\r\n", 2);
		return;
	}
	if (value)
		bytes_printf(out, " %u", op->length);
	put_flags(task, out);
	bytes_put(out, "\r\n", 2);
	if (value) {
		bytes_put(out, op->data, op->length);
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
	bytes_printf(out, " exp=%lld la=%u cas=%" PRIu64 " fetch=%s cls=0 size=%u\r\n",
		     op->item_expires ? (long long)op->item_expires - kv_now() : -1LL, op->item_age,
		     op->item_cas, op->item_read ? "yes" : "no", op->length);
}

void command_answer(struct task *task, struct bytes *out)
{
	const struct fth_kv_op *op = &task->op;

	if (task->simple) {
		if (bytes_count(&task->long_text))
			bytes_put(out, task->long_text.data, bytes_count(&task->long_text));
		else if (task->text && *task->text)
			bytes_printf(out, "%s\r\n", task->text);
		return;
	}
	if (task->line.command == KVP_GET) {
		answer_get(task, out);
	} else if (task->line.command == KVP_META_DEBUG) {
		answer_debug(task, out);
	} else if (task->line.command >= KVP_META_GET) {
		answer_meta(task, out);
	} else if (!task->line.noreply) {
		if (task->line.command == KVP_COUNT && op->result == 0) {
			uint32_t length = op->length;

			while (length > 1 && op->data[length - 1] == ' ')
				length--;
			bytes_put(out, op->data, length);
			bytes_put(out, "\r\n", 2);
		} else {
			bytes_printf(out, "%s\r\n", plain_answer(task));
		}
	}
}
