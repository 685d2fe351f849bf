/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the storage daemon: storaged.c accepts connections and keeps the books, session.c serves
 * one of them, session_run.c runs its task sets.
 *
 * A session is a thread. While it runs a task set, that has a thread of its own which sends rows,
 * and the session's thread watches the socket. They send one at a time: the session's thread sends
 * nothing until the other one is done.
 */
#ifndef FTH_QUERY_STORAGED_H
#define FTH_QUERY_STORAGED_H

#include "base/net/listen.h"
#include "fathom/query/storage.h"
#include "query/mem/qmem.h"
#include "query/remote/wire.h"
#include "table/place/db.h"

#include <pthread.h>
#include <stdatomic.h>

#define SESSION_FILES 64u

struct fth_storage {
	struct fth_table_db *db;
	struct fth_qmem *mem; /* the budget */
	uint64_t budget, timeout_ns;
	unsigned threads, connections_max;
	char *scratch; /* directory; or NULL */
	uint64_t scratch_limit;
	struct fth_listen listen;
	int wake; /* eventfd: stop, or a session ended */
	atomic_bool stopping;
	void (*log)(void *user, const char *event, const char *text);
	void *user;
	pthread_mutex_t lock;
	struct session *sessions; /* under lock */
	unsigned session_count;
	struct fth_storage_stats stats; /* under lock */
};

struct session {
	struct fth_storage *storage;
	struct session *next;
	pthread_t thread;
	bool ended; /* under the storage's lock: to be joined */
	struct fth_qmem *mem;
	struct wire_socket socket;
	struct wire_out out;
	unsigned char *in; /* payload of the request */
	size_t in_room;
	struct wire_in request;
	struct fth_dev *files[SESSION_FILES];
	unsigned file_count;
	atomic_bool cancel; /* the task set that runs is to end */
};

void storage_log(struct fth_storage *s, const char *event, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
uint64_t session_deadline(const struct session *s);
/*
 * After -ENOMEM: wait a moment for memory of task sets that run, so that a host that takes over is
 * served. False if the deadline has passed or the daemon stops.
 */
bool session_wait(const struct session *s, uint64_t deadline);
/* The next frame, into s->request. Returns 0 or an error that ends the session. */
int session_receive(struct session *s, uint64_t first_byte, enum wire_type *type);
/* Serve until the connection ends. */
void session_serve(struct session *s);
/* The request is RUN. Returns 0 or an error that ends the session. */
int session_run(struct session *s);

#endif
