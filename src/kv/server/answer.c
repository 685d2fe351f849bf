/* SPDX-License-Identifier: BSD-2-Clause */
/* From the result of an operation to the answer of its command. */
#include "kv/server/server.h"

#include "kv/kv_access.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

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
		return KVS_BAD_FORMAT;
	case -EIO:
		return "SERVER_ERROR the change could not be made durable";
	default:
		return KVS_NO_MEMORY;
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

void answer_write(struct task *task, struct bytes *out)
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
