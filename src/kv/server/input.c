/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From bytes that have come to requests: a function for each state of a connection's input. conn.c
 * has the diagram of the states, and calls the functions.
 *
 * Each returns true if it has consumed what it takes, so that the function of the (perhaps new)
 * state can go on, and false if it needs bytes that have not come yet.
 */
#include "kv/server/server.h"

#include <stdlib.h>
#include <string.h>

#define READ_BYTES  16384u
#define BINARY	    0x80 /* first byte of a request of the binary protocol */
#define BINARY_HEAD 24u

/* The binary protocol has its own way to say no. */
static bool refuse_binary(struct conn *conn)
{
	static const char text[] = "the binary protocol is not supported, use the text protocol";
	const uint8_t *head = (const uint8_t *)conn->in.data + conn->in.from;
	uint8_t answer[BINARY_HEAD] = {0x81, head[1], [7] = 0x83, [11] = sizeof(text) - 1};

	if (bytes_count(&conn->in) < BINARY_HEAD)
		return false;
	memcpy(answer + 12, head + 12, 4); /* opaque */
	bytes_put(&conn->out, answer, sizeof(answer));
	bytes_put(&conn->out, text, sizeof(text) - 1);
	conn->state = CONN_CLOSING;
	return true;
}

bool input_first(struct conn *conn)
{
	if (!bytes_count(&conn->in))
		return false;
	if ((uint8_t)conn->in.data[conn->in.from] == BINARY)
		return refuse_binary(conn);
	conn->state = CONN_LINE;
	return true;
}

/*
 * The keys of a get are taken one by one while they come, so that its line may have any length;
 * other lines are taken when their end has come.
 */
bool input_line(struct conn *conn)
{
	size_t count = bytes_count(&conn->in), length = count;
	const char *at = conn->in.data + conn->in.from;
	const char *end = count ? memchr(at, '\n', count) : NULL;
	struct kvp_line line;

	if (!end && count <= LINE_MAX_BYTES)
		return false;
	if (end) {
		length = (size_t)(end - at);
		if (length && at[length - 1] == '\r')
			length--;
	}
	kvp_parse(at, length, conn->worker->server->value_max, &line);
	if (line.command == KVP_GET && !line.error && conn->trusted) {
		kvs_add(&conn->worker->counts.commands[KVP_GET], 1);
		conn->get = line;
		conn->in.from += (size_t)(line.key.at - at);
		conn->state = CONN_KEYS;
	} else if (end) {
		kvs_add(&conn->worker->counts.commands[line.command], 1);
		conn->in.from += (size_t)(end - at) + 1;
		command_start(conn, &line);
	} else {
		command_say(conn, "CLIENT_ERROR line too long");
		conn->state = CONN_CLOSING;
	}
	return true;
}

bool input_discard(struct conn *conn)
{
	size_t count = bytes_count(&conn->in);
	const char *at = conn->in.data + conn->in.from;
	const char *end = count ? memchr(at, '\n', count) : NULL;

	if (!end) {
		conn->in.from = conn->in.to;
		return false;
	}
	conn->in.from += (size_t)(end - at) + 1;
	conn->state = CONN_LINE;
	return true;
}

static size_t skip_spaces(const char *at, size_t count)
{
	size_t n = 0;

	while (n < count && at[n] == ' ')
		n++;
	return n;
}

/* Is the end of the line next? Bytes up to behind it; 0: no, or it cannot be told yet. */
static size_t line_end(const char *at, size_t count)
{
	size_t n = skip_spaces(at, count);

	if (n < count && at[n] == '\r')
		n++;
	return n < count && at[n] == '\n' ? n + 1 : 0;
}

bool input_key(struct conn *conn)
{
	const char *at = conn->in.data + conn->in.from;
	size_t count = bytes_count(&conn->in), skip = skip_spaces(at, count), n = 0, end;

	conn->in.from += skip;
	at += skip;
	count -= skip;
	end = line_end(at, count);
	if (end) {
		conn->in.from += end;
		conn->state = CONN_LINE;
		command_say(conn, "END");
		return true;
	}
	while (n < count && n <= FTH_KV_KEY_MAX + 1 && at[n] != ' ' && at[n] != '\n')
		n++;
	if (n == count && n <= FTH_KV_KEY_MAX + 1)
		return false;
	if (at[n] == '\n' && n && at[n - 1] == '\r')
		n--;
	if (n > FTH_KV_KEY_MAX) {
		conn->state = CONN_DISCARD;
		command_say(conn, KVS_BAD_FORMAT);
		return true;
	}
	end = line_end(at + n, count - n);
	conn->in.from += n + end;
	if (end)
		conn->state = CONN_LINE;
	command_get_key(conn, (struct kvp_text){at, n}, end > 0);
	return true;
}

/* ---- values ---- */

static void value_came(struct task *task, size_t n)
{
	task->value_have += n;
	task->came += (uint32_t)n;
	task->conn->worker->held += n;
}

/*
 * The operation is not complete, and its value is in the connection's buffer: copy it. If memory is
 * short the task takes the buffer, and the connection ends, since the requests that follow are in
 * it.
 */
static void keep_value(struct conn *conn, struct task *task)
{
	size_t n = (size_t)task->line.bytes;

	value_came(task, n);
	task->value = malloc(n + 1);
	if (task->value) {
		task->op.value = memcpy(task->value, task->op.value, n);
		return;
	}
	task->value = conn->in.data;
	memset(&conn->in, 0, sizeof(conn->in));
	conn->state = CONN_CLOSING;
}

/* `value` and the end of its line have come. */
static void end_value(struct conn *conn, struct task *task, const char *value)
{
	bool good = memcmp(value + task->line.bytes, "\r\n", 2) == 0;

	conn->storing = NULL;
	conn->state = CONN_LINE;
	command_value(conn, task, value, good);
}

bool input_value(struct conn *conn)
{
	struct task *task = conn->storing;
	size_t want = (size_t)task->line.bytes + 2 - task->value_have;
	size_t have = bytes_count(&conn->in);

	if (!task->value && have >= want) { /* all of it is in the buffer: store it from there */
		const char *value = conn->in.data + conn->in.from;

		conn->in.from += want;
		end_value(conn, task, value);
		if (!task->complete)
			keep_value(conn, task);
		return true;
	}
	if (!task->value && !(task->value = malloc(want))) {
		command_no_memory(conn, task);
		return true;
	}
	if (have > want)
		have = want;
	if (have)
		memcpy(task->value + task->value_have, conn->in.data + conn->in.from, have);
	conn->in.from += have;
	value_came(task, have);
	if (have < want)
		return false;
	conn->holds_ns = conn->worker->now;
	end_value(conn, task, task->value);
	return true;
}

bool input_skip(struct conn *conn)
{
	uint64_t have = bytes_count(&conn->in);

	if (have > conn->skip)
		have = conn->skip;
	conn->in.from += (size_t)have;
	conn->skip -= have;
	if (conn->skip)
		return false;
	conn->state = CONN_LINE;
	return true;
}

/* ---- received bytes ---- */

/* The rest of a long value is received straight into its place. */
static bool goes_to_value(const struct conn *conn)
{
	const struct task *task = conn->storing;

	return conn->state == CONN_VALUE && task->value && bytes_count(&conn->in) == 0 &&
	       task->line.bytes + 2 - task->value_have > READ_BYTES;
}

char *input_room(struct conn *conn, size_t *room)
{
	struct task *task = conn->storing;

	if (goes_to_value(conn)) {
		*room = (size_t)task->line.bytes + 2 - task->value_have;
		return task->value + task->value_have;
	}
	bytes_lend(&conn->in, conn->worker);
	*room = READ_BYTES;
	return bytes_room(&conn->in, READ_BYTES);
}

void input_came(struct conn *conn, size_t n)
{
	if (goes_to_value(conn))
		value_came(conn->storing, n);
	else
		conn->in.to += n;
}
