/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A load generator for servers that speak memcached's text protocol.
 *
 * Connections are spread over threads, each with one epoll set, and have one request in flight.
 * Every connection has its own sequence of keys. Every value says which key and version it is, and
 * all of its bytes follow from these, so that a wrong or stale value is found.
 *
 *	struct fth_kv_data data;
 *	struct fth_kv_load load = FTH_KV_LOAD_INIT;
 *	struct fth_kv_load_result result;
 *
 *	fth_kv_data_init(&data, 1000000, 1024);
 *	load.server = "127.0.0.1:11211";
 *	load.data = &data;
 *	load.mode = FTH_KV_LOAD_FILL;
 *	fth_kv_load_run(&load, &result);
 */
#ifndef FTH_TOOLS_KV_LOAD_H
#define FTH_TOOLS_KV_LOAD_H

#include "latency.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FTH_KV_LOAD_BATCH_MAX 256u
#define FTH_KV_LOAD_VALUE_MIN 16u /* a value begins with its key's number and its version */
#define FTH_KV_LOAD_KEY	      16u /* bytes of a key */

/*
 * The items of one server: key i for i below `items`. Kept from run to run, since it knows which
 * versions the server has acknowledged.
 */
struct fth_kv_data {
	uint64_t items;
	uint32_t value_bytes;
	uint32_t run;	    /* tells values of this program from those of an earlier one */
	uint32_t *versions; /* atomic, [items]: kv_load_data.c */
};

int fth_kv_data_init(struct fth_kv_data *data, uint64_t items, uint32_t value_bytes);
/* Accepts a zeroed one. */
void fth_kv_data_release(struct fth_kv_data *data);

enum fth_kv_load_mode {
	FTH_KV_LOAD_MIX,   /* random keys, gets and sets, until the time is over */
	FTH_KV_LOAD_FILL,  /* set every key once, in order */
	FTH_KV_LOAD_SWEEP, /* get every key once, in order */
};

struct fth_kv_tls; /* kv_wire.h */

struct fth_kv_load {
	const char *server; /* HOST:PORT or unix:PATH */
	struct fth_kv_data *data;
	enum fth_kv_load_mode mode;
	unsigned connections, threads;
	unsigned batch;	     /* keys of a get; with FILL, sets that are sent at once */
	double set_share;    /* of the requests, 0 to 1 */
	double zipf;	     /* exponent of the popularity of keys, below 1; 0: all the same */
	double seconds;	     /* of MIX, */
	uint64_t keys;	     /* or so many keys; 0: only the time counts */
	uint64_t rate;	     /* keys in a second, of all connections; 0: as fast as possible */
	uint64_t timeout_ns; /* of a request: then its connection is closed */
	uint64_t seed;
	const char *label;	      /* what a terminal shows as progress; NULL: nothing */
	const struct fth_kv_tls *tls; /* NULL: none */
	const char *auth; /* "user password" that each connection begins with; NULL: none */
};

#define FTH_KV_LOAD_INIT                                                                          \
	{                                                                                         \
		NULL, NULL, FTH_KV_LOAD_MIX, 32, 1, 1, 0, 0, 5, 0, 0, 5000000000u, 1, NULL, NULL, \
			NULL                                                                      \
	}

struct fth_kv_load_result {
	uint64_t ns;
	uint64_t requests;
	uint64_t gets, hits; /* keys */
	uint64_t sets, stored;
	uint64_t refused;  /* sets that the server answered with something else */
	uint64_t wrong;	   /* values that are not those of the key */
	uint64_t stale;	   /* values that are older than one that was acknowledged */
	uint64_t timeouts; /* requests */
	uint64_t broken;   /* connections that the server closed, or whose answer made no sense */
	char answer[80];   /* the first answer that made no sense or refused a set */
	struct fth_latency latency;
};

/*
 * Run it; blocks until it is over or fth_cli_stopped(). Returns 0, with what was reached so far
 * even if it was stopped, or a negative errno with an error text: the server cannot be reached, or
 * no connection is left. Wrong values are counted, not an error.
 */
int fth_kv_load_run(const struct fth_kv_load *load, struct fth_kv_load_result *result);

#endif
