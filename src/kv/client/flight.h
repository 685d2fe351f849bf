/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of one connection that were sent, in the order of their answers. Nothing here touches a
 * socket or a lock; the connection's lock is held around every call.
 *
 * 1. Answers come in the order of the requests. The slots from head to tail are those that wait.
 * 2. Adjacent gets are one command. Its slots end with one that has `last` set; each VALUE names
 *    the key that it answers, and END answers the rest. A proxy may send the values in any order.
 * 3. A slot whose operation was given up (`op` is NULL) stays until its answer has come. It has a
 *    copy of the key, to tell which values are for others.
 */
#ifndef FTH_KVC_FLIGHT_H
#define FTH_KVC_FLIGHT_H

#include "fathom/kv/client.h"

#include "kv/client/reply.h"

#define KVC_FLIGHT_MAX 2048u /* requests; a power of two */
#define KVC_GET_KEYS   100u  /* of one get command */

/* Bytes that are added at the end and consumed from the front. */
struct kvc_bytes {
	char *data;
	size_t from, to, room;
};
/* Room for n more bytes; NULL when memory is short. */
char *kvc_bytes_room(struct kvc_bytes *b, size_t n);
void kvc_bytes_release(struct kvc_bytes *b);

struct kvc_slot {
	struct fth_kvc_op *op; /* NULL: given up, or the password */
	char *key;	       /* a copy, when op was given up */
	uint8_t key_length;
	uint8_t verb;	  /* enum fth_kv_verb */
	bool conditional; /* a store with cas */
	bool password;
	bool last;     /* of its get command */
	bool answered; /* its value has come, END has not */
};

struct kvc_flight {
	struct kvc_slot slots[KVC_FLIGHT_MAX];
	uint32_t head, tail;
	uint32_t hint;	   /* the slot that the next value is probably for */
	uint32_t get_keys; /* of the get command that is being written; 0: none */
	bool get_cas;	   /* it is gets */
	uint32_t value_max;
	uint64_t gets, late; /* statistics */
	void (*done)(void *context, struct fth_kvc_op *op, int result);
	void *context;
};

static inline uint32_t kvc_flight_count(const struct kvc_flight *f)
{
	return f->tail - f->head;
}

static inline bool kvc_flight_full(const struct kvc_flight *f)
{
	return kvc_flight_count(f) == KVC_FLIGHT_MAX;
}

/*
 * Write a request and take a slot, whose number goes to *slot. The flight must not be full. Returns
 * -ENOMEM without effect. After the last one call kvc_flight_end(), before the bytes are sent.
 */
int kvc_flight_put(struct kvc_flight *f, struct fth_kvc_op *op, struct kvc_bytes *out,
		   uint32_t *slot);
int kvc_flight_password(struct kvc_flight *f, const char *auth, struct kvc_bytes *out);
void kvc_flight_end(struct kvc_flight *f, struct kvc_bytes *out);

/*
 * Take the answers in n bytes and report each operation that is complete by f->done. Returns how
 * many bytes were consumed; then *need is how many the next answer has at least. -EPROTO: not an
 * answer to the requests, or one after which the next cannot be told; -EACCES: the password was
 * refused. The caller closes the connection then.
 */
ssize_t kvc_flight_take(struct kvc_flight *f, const char *data, size_t n, size_t *need);

/* The operation in a slot is given up. -ENOMEM: no memory; break the connection. */
int kvc_flight_abandon(struct kvc_flight *f, uint32_t slot);

/* Empty it; returns the first operation that had no answer, then the next, NULL at the end. */
struct fth_kvc_op *kvc_flight_pop(struct kvc_flight *f);

/* Whether a key can be sent. */
bool kvc_key_valid(const void *key, uint32_t length);

#endif
