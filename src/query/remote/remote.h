/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storage daemon as the host sees it: connections, its tables, and task sets that it runs.
 *
 *	remote.c	connections and requests
 *	remote_table.c	its tables, read column by column over the wire
 *	remote_run.c	task sets
 */
#ifndef FTH_QUERY_REMOTE_H
#define FTH_QUERY_REMOTE_H

#include "fathom/table/db.h"
#include "query/remote/wire.h"
#include "query/exec/exec.h"

#include <pthread.h>
#include <stdatomic.h>

#define REMOTE_TIMEOUT_NS 30000000000u /* for an answer, but that of RUN */

struct remote {
	char *where;
	uint64_t budget;		 /* of the daemon */
	_Atomic uint64_t sent, received; /* of connections that are closed or idle */
	_Atomic uint64_t column_bytes;	 /* of them: for reading columns */
	pthread_mutex_t lock;
	struct remote_conn *idle; /* connections that nobody uses, under the lock */
	unsigned idle_count;
};

struct remote_conn {
	struct remote *remote;
	struct remote_conn *next;
	struct wire_socket socket;
	uint64_t counted_sent, counted_received;
	struct wire_out out;
	unsigned char *in; /* the latest payload, of malloc() */
	size_t in_room;
	struct wire_in payload;
	bool broken; /* not to be used again */
};

/*
 * `where` is unix:PATH or HOST:PORT. Connects once, to learn what the daemon is. Returns 0 or an
 * error with a text.
 */
int remote_open(const char *where, struct remote **out);
void remote_close(struct remote *r); /* accepts NULL */

/* A connection for one request after the other, by one thread at a time. */
int remote_take(struct remote *r, struct remote_conn **out);
void remote_give(struct remote_conn *c); /* accepts NULL */

/* Send the frame in c->out. */
int remote_send(struct remote_conn *c);
/* The next frame, into c->payload. An ERROR frame becomes its error. */
int remote_receive(struct remote_conn *c, uint64_t deadline, enum wire_type *type);
/* Send and receive; the answer must be of this type. */
int remote_ask(struct remote_conn *c, enum wire_type answer);

/* Its tables, for reading. The remote must outlive the database. */
int remote_tables(struct remote *r, struct fth_table_db **out);

/* Why and where a task set ended at the daemon. */
struct remote_end {
	bool suspended; /* the host can go on: the error is not one of the query */
	uint32_t task;	/* that did not finish; TASK_NONE: none was begun */
};

/*
 * Run a task set at the daemon. take gets the rows of its result; it may return a negative errno.
 * stats, by task, are added to. Returns 0 or an error with a text.
 */
int remote_run(struct remote *r, const struct task_set *set, const struct exec_options *options,
	       int (*take)(void *user, const struct fth_vec *columns, unsigned n), void *user,
	       struct exec_stats *stats, struct remote_end *end);

#endif
