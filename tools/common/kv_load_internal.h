/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the load generator.
 *
 *	kv_load.c	threads, pace, figures
 *	kv_load_conn.c	a connection: requests and answers
 *	kv_load_data.c	keys, values and which are picked
 *	kv_wire.c	connecting, TLS, passwords
 */
#ifndef FTH_TOOLS_KV_LOAD_INTERNAL_H
#define FTH_TOOLS_KV_LOAD_INTERNAL_H

#include "kv_load.h"
#include "kv_wire.h"

#include "fathom/base/rng.h"

#include <pthread.h>

/* ---- kv_load_data.c ---- */

struct kv_zipf {
	double theta, zeta, alpha, eta;
	uint64_t items;
};

void kv_zipf_init(struct kv_zipf *zipf, uint64_t items, double theta);
/* A key's number; popular ones are spread over all numbers. */
uint64_t kv_zipf_pick(const struct kv_zipf *zipf, struct fth_rng *rng);

void kv_data_key(uint64_t index, char key[FTH_KV_LOAD_KEY]);
/* False: this is no key of ours. */
bool kv_data_parse_key(const char *key, size_t length, uint64_t *index);

/* Begin a set of a key: false if another connection sets it. */
bool kv_data_begin_set(struct fth_kv_data *data, uint64_t index, uint32_t *version);
/* It was stored, or nothing has changed. A set of which nobody knows is not ended. */
void kv_data_end_set(struct fth_kv_data *data, uint64_t index, bool stored);
void kv_data_value(const struct fth_kv_data *data, uint64_t index, uint32_t version, char *out);
/* Before a get is sent; what is returned goes to kv_data_check(). */
uint32_t kv_data_before_get(const struct fth_kv_data *data, uint64_t index);

enum kv_verdict { KV_RIGHT, KV_WRONG, KV_STALE };
enum kv_verdict kv_data_check(const struct fth_kv_data *data, uint64_t index, uint32_t before,
			      const char *value, size_t length);

/* ---- kv_load_conn.c ---- */

enum load_conn_state { CONN_IDLE, CONN_BUSY, CONN_CLOSED };

struct load_conn {
	struct load_thread *thread;
	struct load_conn *next_idle;
	struct fth_kv_wire wire;
	enum load_conn_state state;
	bool wants_write;
	bool is_set;
	struct fth_rng rng;
	uint64_t started;
	unsigned count;	   /* keys of the request */
	unsigned answered; /* of these */
	uint64_t keys[FTH_KV_LOAD_BATCH_MAX];
	uint32_t before[FTH_KV_LOAD_BATCH_MAX]; /* gets: kv_data_before_get() */
	char *out, *in;
	size_t out_from, out_to, out_room;
	size_t in_from, in_to, in_room;
};

int load_conn_init(struct load_conn *conn, struct load_thread *thread, unsigned number);
void load_conn_release(struct load_conn *conn);
/* Send the next request. False: there is none, and the connection stays idle. */
bool load_conn_start(struct load_conn *conn, uint64_t now);
void load_conn_event(struct load_conn *conn, unsigned events);
/* The request takes too long. */
void load_conn_give_up(struct load_conn *conn);

/* ---- kv_load.c ---- */

/* What all threads share. */
struct load_run {
	const struct fth_kv_load *load;
	struct kv_zipf zipf;
	char set_tail[32]; /* of the line of a set, behind its key */
	uint64_t begin;
	uint64_t end;  /* atomic: no request is sent after it, ns */
	uint64_t next; /* atomic: the next key of FILL and SWEEP */
	uint64_t done; /* atomic: keys, for progress */
};

struct load_thread {
	struct load_run *run;
	pthread_t thread;
	bool runs;
	int epoll;
	unsigned conn_count;
	struct load_conn *conns;
	struct load_conn *idle;
	unsigned busy, closed;
	uint64_t issued; /* keys */
	struct fth_kv_load_result result;
};

/* May this thread send another key now? */
bool load_may_send(const struct load_thread *thread, uint64_t now);
/* A connection has become idle. */
void load_add_idle(struct load_thread *thread, struct load_conn *conn);

#endif
