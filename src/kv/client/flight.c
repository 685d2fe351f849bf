/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv/client/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 20u /* digits of 64 bits */
/* A line without its key: a verb, four numbers, spaces, and both line ends of a store. */
#define LINE_EXTRA (16u + 4 * (NUMBER_MAX + 1) + 4)

/* ---- bytes ---- */

char *kvc_bytes_room(struct kvc_bytes *b, size_t n)
{
	size_t have = b->to - b->from, room = b->room ? b->room : 4096;
	char *data;

	if (b->room - b->to >= n && b->data)
		return b->data + b->to;
	if (b->from && b->room - have >= n) {
		memmove(b->data, b->data + b->from, have);
		b->from = 0;
		b->to = have;
		return b->data + b->to;
	}
	while (room - have < n)
		room *= 2;
	data = malloc(room);
	if (!data)
		return NULL;
	if (have)
		memcpy(data, b->data + b->from, have);
	free(b->data);
	*b = (struct kvc_bytes){.data = data, .to = have, .room = room};
	return data + have;
}

void kvc_bytes_release(struct kvc_bytes *b)
{
	free(b->data);
	*b = (struct kvc_bytes){0};
}

/* ---- requests ---- */

bool kvc_key_valid(const void *key, uint32_t length)
{
	const uint8_t *at = key;

	if (!key || length == 0 || length > FTH_KV_KEY_MAX)
		return false;
	for (uint32_t i = 0; i < length; i++)
		if (at[i] <= ' ' || at[i] == 0x7f)
			return false;
	return true;
}

/* The room was made by the caller. */
static void put(struct kvc_bytes *out, const void *data, size_t n)
{
	memcpy(out->data + out->to, data, n);
	out->to += n;
}

static void put_text(struct kvc_bytes *out, const char *text)
{
	put(out, text, strlen(text));
}

static void put_number(struct kvc_bytes *out, uint64_t n)
{
	char digits[NUMBER_MAX + 1], *at = digits + sizeof(digits);

	do {
		*--at = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	*--at = ' ';
	put(out, at, (size_t)(digits + sizeof(digits) - at));
}

static struct kvc_slot *slot_at(struct kvc_flight *f, uint32_t number)
{
	return &f->slots[number & (KVC_FLIGHT_MAX - 1)];
}

static uint32_t take_slot(struct kvc_flight *f, struct fth_kvc_op *op)
{
	*slot_at(f, f->tail) = (struct kvc_slot){
		.op = op,
		.key_length = (uint8_t)op->key_length,
		.verb = (uint8_t)op->verb,
		.conditional = op->cas != 0,
		.last = true,
	};
	return f->tail++;
}

void kvc_flight_end(struct kvc_flight *f, struct kvc_bytes *out)
{
	if (f->get_keys == 0)
		return;
	put(out, "\r\n", 2); /* kvc_flight_put() has made room for it */
	f->get_keys = 0;
}

/* One more key of the get command that is open, or a new command. */
static void put_get(struct kvc_flight *f, struct fth_kvc_op *op, struct kvc_bytes *out)
{
	if (f->get_keys == KVC_GET_KEYS || f->get_cas != op->want_cas)
		kvc_flight_end(f, out);
	if (f->get_keys == 0) {
		put_text(out, op->want_cas ? "gets" : "get");
		f->get_cas = op->want_cas;
		f->gets++;
	} else {
		slot_at(f, f->tail - 1)->last = false;
	}
	f->get_keys++;
	put(out, " ", 1);
	put(out, op->key, op->key_length);
}

static const char *verb_of(const struct fth_kvc_op *op)
{
	switch (op->verb) {
	case FTH_KV_SET:
		return op->cas ? "cas " : "set ";
	case FTH_KV_ADD:
		return "add ";
	case FTH_KV_REPLACE:
		return "replace ";
	case FTH_KV_APPEND:
		return "append ";
	case FTH_KV_PREPEND:
		return "prepend ";
	case FTH_KV_INCREMENT:
		return "incr ";
	case FTH_KV_DECREMENT:
		return "decr ";
	default:
		return "delete ";
	}
}

static void put_store(struct fth_kvc_op *op, struct kvc_bytes *out)
{
	put_number(out, op->flags);
	put_number(out, op->expires);
	put_number(out, op->value_length);
	if (op->verb == FTH_KV_SET && op->cas)
		put_number(out, op->cas);
	put(out, "\r\n", 2);
	if (op->value_length)
		put(out, op->value, op->value_length);
}

static void put_other(struct fth_kvc_op *op, struct kvc_bytes *out)
{
	if (op->verb == FTH_KV_TOUCH) {
		put_text(out, op->want_cas ? "gats" : "gat");
		put_number(out, op->expires);
		put(out, " ", 1);
		put(out, op->key, op->key_length);
	} else {
		put_text(out, verb_of(op));
		put(out, op->key, op->key_length);
	}
	if (op->verb == FTH_KV_INCREMENT || op->verb == FTH_KV_DECREMENT)
		put_number(out, op->delta);
	else if (op->verb != FTH_KV_TOUCH && op->verb != FTH_KV_DELETE)
		put_store(op, out);
	put(out, "\r\n", 2);
}

int kvc_flight_put(struct kvc_flight *f, struct fth_kvc_op *op, struct kvc_bytes *out,
		   uint32_t *slot)
{
	if (!kvc_bytes_room(out, (size_t)LINE_EXTRA + op->key_length + op->value_length))
		return -ENOMEM;
	if (op->verb == FTH_KV_GET) {
		put_get(f, op, out);
	} else {
		kvc_flight_end(f, out);
		put_other(op, out);
	}
	*slot = take_slot(f, op);
	return 0;
}

int kvc_flight_password(struct kvc_flight *f, const char *auth, struct kvc_bytes *out)
{
	struct fth_kvc_op op = {.verb = FTH_KV_SET,
				.key = "auth",
				.key_length = 4,
				.value = auth,
				.value_length = (uint32_t)strlen(auth)};
	uint32_t number;
	int rc = kvc_flight_put(f, &op, out, &number);

	if (rc < 0)
		return rc;
	slot_at(f, number)->op = NULL;
	slot_at(f, number)->password = true;
	return 0;
}

/* ---- answers ---- */

static bool is_store(unsigned verb)
{
	return verb == FTH_KV_SET || verb == FTH_KV_ADD || verb == FTH_KV_REPLACE ||
	       verb == FTH_KV_APPEND || verb == FTH_KV_PREPEND;
}

static bool is_get(unsigned verb)
{
	return verb == FTH_KV_GET || verb == FTH_KV_TOUCH;
}

static bool is_count(unsigned verb)
{
	return verb == FTH_KV_INCREMENT || verb == FTH_KV_DECREMENT;
}

static bool begins(const struct kvc_reply *reply, const char *text)
{
	size_t n = strlen(text);

	return reply->text_length >= n && memcmp(reply->text, text, n) == 0;
}

static int server_error(const struct kvc_reply *reply)
{
	if (begins(reply, "object too large"))
		return -EMSGSIZE;
	return begins(reply, "out of memory") ? -ENOMEM : -EREMOTEIO;
}

/* What an answer of one line means for a request; -EPROTO: it is no answer to that. */
static int result_of(const struct kvc_slot *slot, const struct kvc_reply *reply)
{
	switch (reply->kind) {
	case KVC_STORED:
		return is_store(slot->verb) ? 0 : -EPROTO;
	case KVC_NOT_STORED:
		if (slot->verb == FTH_KV_ADD)
			return -EEXIST;
		return !is_store(slot->verb)	  ? -EPROTO
		       : slot->verb == FTH_KV_SET ? -EREMOTEIO
						  : -ENOENT;
	case KVC_EXISTS:
		return slot->conditional ? -EBUSY : -EPROTO;
	case KVC_NOT_FOUND:
		return slot->conditional || is_count(slot->verb) || slot->verb == FTH_KV_DELETE
			       ? -ENOENT
			       : -EPROTO;
	case KVC_DELETED:
		return slot->verb == FTH_KV_DELETE ? 0 : -EPROTO;
	case KVC_NUMBER:
		return is_count(slot->verb) ? 0 : -EPROTO;
	case KVC_CLIENT_ERROR:
		return is_count(slot->verb) && begins(reply, "cannot increment") ? -EDOM
										 : -EREMOTEIO;
	case KVC_SERVER_ERROR:
		return server_error(reply);
	case KVC_ERROR:
		return -EREMOTEIO;
	default:
		return -EPROTO;
	}
}

static void drop_slot(struct kvc_flight *f)
{
	struct kvc_slot *slot = slot_at(f, f->head++);

	free(slot->key);
	slot->key = NULL;
	slot->op = NULL;
}

/* The first request has its result. */
static void finish_first(struct kvc_flight *f, int result)
{
	struct kvc_slot *slot = slot_at(f, f->head);
	struct fth_kvc_op *op = slot->answered ? NULL : slot->op;

	f->late += !slot->op && !slot->password && !slot->answered;
	drop_slot(f);
	if (op)
		f->done(f->context, op, result);
}

/* All of the first get command that have no value. */
static void finish_get(struct kvc_flight *f, int result)
{
	bool last;

	do {
		last = slot_at(f, f->head)->last;
		finish_first(f, result);
	} while (!last);
	f->hint = f->head;
}

static bool slot_has_key(const struct kvc_slot *slot, const struct kvc_reply *reply)
{
	const void *key = slot->op ? slot->op->key : slot->key;

	return !slot->answered && slot->key_length == reply->key_length &&
	       memcmp(key, reply->key, reply->key_length) == 0;
}

/* The request of the first get command that a value is for; head - 1 if none is. */
static uint32_t find_key(struct kvc_flight *f, const struct kvc_reply *reply)
{
	uint32_t end = f->head, at;

	while (!slot_at(f, end)->last)
		end++;
	end++;
	if (f->hint - f->head >= end - f->head)
		f->hint = f->head;
	at = f->hint;
	do {
		if (slot_has_key(slot_at(f, at), reply))
			return at;
		at = at + 1 == end ? f->head : at + 1;
	} while (at != f->hint);
	return f->head - 1;
}

static int give_value(struct fth_kvc_op *op, const struct kvc_reply *reply)
{
	op->length = reply->length;
	op->item_flags = reply->flags;
	op->item_cas = reply->cas;
	if (op->buffer && reply->length > op->room)
		return -EMSGSIZE;
	op->data = op->buffer ? op->buffer : malloc(reply->length ? reply->length : 1);
	if (!op->data)
		return -ENOMEM;
	if (reply->length)
		memcpy(op->data, reply->data, reply->length);
	return 0;
}

static int take_value(struct kvc_flight *f, const struct kvc_reply *reply)
{
	uint32_t at = find_key(f, reply);
	struct kvc_slot *slot = slot_at(f, at);
	struct fth_kvc_op *op = slot->op;

	if (at == f->head - 1)
		return -EPROTO;
	slot->answered = true;
	f->hint = at + 1;
	if (!op) {
		f->late++;
		return 0;
	}
	/* The operation leaves; its key has to stay for those that have the same. */
	slot->op = NULL;
	f->done(f->context, op, give_value(op, reply));
	return 0;
}

static int take_get(struct kvc_flight *f, const struct kvc_reply *reply)
{
	switch (reply->kind) {
	case KVC_VALUE:
		return take_value(f, reply);
	case KVC_END:
		finish_get(f, -ENOENT);
		return 0;
	case KVC_ERROR:
	case KVC_CLIENT_ERROR:
	case KVC_SERVER_ERROR:
		finish_get(f, -EREMOTEIO);
		return 0;
	default:
		return -EPROTO;
	}
}

static int take_line(struct kvc_flight *f, const struct kvc_reply *reply)
{
	struct kvc_slot *slot = slot_at(f, f->head);
	int result = result_of(slot, reply);
	/* A store that was not understood: the server may take its value for commands. */
	bool lost = result == -EPROTO ||
		    (is_store(slot->verb) &&
		     (reply->kind == KVC_ERROR || reply->kind == KVC_CLIENT_ERROR));

	if (slot->password) {
		finish_first(f, 0);
		return reply->kind == KVC_STORED ? 0 : -EACCES;
	}
	if (result == 0 && reply->kind == KVC_NUMBER && slot->op)
		slot->op->number = reply->number;
	finish_first(f, result);
	f->hint = f->head;
	return lost ? -EPROTO : 0;
}

ssize_t kvc_flight_take(struct kvc_flight *f, const char *data, size_t n, size_t *need)
{
	size_t taken = 0;

	*need = 1;
	while (taken < n) {
		struct kvc_reply reply;
		ssize_t length =
			kvc_reply_parse(data + taken, n - taken, f->value_max, &reply, need);
		int rc;

		if (length == 0)
			break;
		if (length < 0 || f->head == f->tail)
			return -EPROTO; /* nobody has asked */
		rc = is_get(slot_at(f, f->head)->verb) ? take_get(f, &reply) : take_line(f, &reply);
		if (rc < 0)
			return rc;
		taken += (size_t)length;
		*need = 1;
	}
	return (ssize_t)taken;
}

int kvc_flight_abandon(struct kvc_flight *f, uint32_t number)
{
	struct kvc_slot *slot = slot_at(f, number);
	char *key = malloc(slot->key_length);

	if (key)
		memcpy(key, slot->op->key, slot->key_length);
	slot->op = NULL;
	slot->key = key;
	return key ? 0 : -ENOMEM;
}

struct fth_kvc_op *kvc_flight_pop(struct kvc_flight *f)
{
	while (f->head != f->tail) {
		struct fth_kvc_op *op = slot_at(f, f->head)->op;

		drop_slot(f);
		if (op)
			return op;
	}
	f->hint = f->head;
	return NULL;
}
