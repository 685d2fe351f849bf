/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the server.
 *
 *	proto.c		lines to commands
 *	conn.c		a connection: bytes in, tasks, bytes out
 *	command.c	from a command to an operation, from its result to an answer
 *	loop.c		a worker: sockets and flash in one epoll set
 *	listen.c	sockets to listen on
 *	serve.c		options, threads, start and stop
 *	stats.c		`stats` and the figures for Prometheus
 */
#ifndef FTH_KV_SERVER_INTERNAL_H
#define FTH_KV_SERVER_INTERNAL_H

#include "fathom/kv/server.h"

#include "kv/server/proto.h"

#include <pthread.h>
#include <sys/types.h>

#define LINE_MAX_BYTES 65536u	    /* of a command line */
#define TASKS_MAX      128u	    /* commands of one connection under way */
#define OUT_MAX	       (256u << 10) /* bytes to send above which no more commands are taken */

/* Bytes that grow and are consumed from the front. */
struct bytes {
	char *data;
	size_t from, to, room;
};

/* What one command, or one key of a get, is on its way from the line to the answer. */
struct task {
	struct fth_kv_op op; /* first: what the cache hands back is a task */
	struct task *next;
	struct conn *conn;
	bool complete; /* its answer can be written when those before it are */
	bool simple;   /* no operation: `text` is the answer */
	bool mutates;
	bool last_key; /* END follows */
	const char *text;
	struct bytes long_text; /* an answer that was made for it */
	struct kvp_line line;	/* texts in it point into `words` */
	char *value;		/* owned: what is stored */
	size_t value_have;
	uint8_t key[FTH_KV_KEY_MAX];
	char words[512]; /* the flags of a meta command */
	uint8_t status;	 /* for the answer of a meta command */
};

enum conn_state {
	CONN_LINE,
	CONN_VALUE,   /* the value of `storing` is coming */
	CONN_SKIP,    /* `skip` bytes of a value that nobody wants */
	CONN_CLOSING, /* answer what is under way, then close */
};

struct conn {
	struct kvs_worker *worker;
	struct conn *next, **link; /* all of the worker's */
	int fd;
	enum conn_state state;
	bool dead;    /* closed; freed when its last task is back */
	bool blocked; /* not read from: too much is under way */
	bool wants_write;
	bool advancing; /* loop.c: it has operations that are complete */
	struct bytes in, out;
	struct task *storing;
	uint64_t skip;
	struct task *first, **last; /* in the order of their commands */
	unsigned tasks;		    /* in that list */
	unsigned flying;	    /* in the cache */
	unsigned mutating;	    /* of these, changes: no command starts before they are done */
	uint64_t active_ns;	    /* when something last came or went */
};

struct kvs_worker {
	struct fth_kv_server *server;
	unsigned number;
	pthread_t thread;
	bool runs;
	struct fth_kv_worker *kv;
	int epoll, wake;
	struct conn *conns;
	unsigned conn_count; /* atomic */
	struct task *pool;
	unsigned pooled;
	struct conn *reaped;		       /* connections with answers to send */
	uint64_t commands[KVP_META_DEBUG + 1]; /* atomic */
	uint64_t bytes_read, bytes_written;    /* atomic */
	uint64_t accepted;		       /* atomic */
};

struct fth_kv_server {
	struct fth_kv *kv;
	uint64_t value_max;
	unsigned workers_count;
	struct kvs_worker *workers;
	int listen[FTH_KV_LISTEN_MAX];
	unsigned listen_count;
	char *unlink[FTH_KV_LISTEN_MAX]; /* paths of Unix sockets that we made */
	unsigned port;
	unsigned connections_max;
	uint64_t idle_ns; /* 0: never */
	uint64_t started_ns;
	uint32_t started;
	uint64_t refused;  /* atomic */
	uint32_t stopping; /* atomic: no new connections, close those that are idle */
	uint64_t stop_by;  /* atomic: then close all */
	struct fth_kv_server_options options;
};

/* ---- bytes ---- */

/* Room for n more; NULL when memory is short. */
char *bytes_room(struct bytes *b, size_t n);
void bytes_put(struct bytes *b, const void *data, size_t n);
void bytes_printf(struct bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_release(struct bytes *b);
static inline size_t bytes_count(const struct bytes *b)
{
	return b->to - b->from;
}

/* ---- conn.c ---- */

int conn_open(struct kvs_worker *worker, int fd);
/* The socket has something to say. */
void conn_event(struct conn *conn, unsigned events);
/* An operation is back from the cache. */
void conn_op_done(struct task *task);
/* Send answers and go on with what was held back. May free the connection. */
void conn_advance(struct conn *conn);
void conn_close(struct conn *conn);

struct task *task_new(struct conn *conn);
void task_free(struct task *task);

/* ---- command.c ---- */

/* Start the command of a line. The value of a store has not come yet. */
void command_start(struct conn *conn, const char *line, size_t length);
/* The value has come, with its end of line: `good` says whether that was right. */
void command_value(struct conn *conn, struct task *task, bool good);
/* Write the answer. */
void command_answer(struct task *task, struct bytes *out);

/* ---- loop.c ---- */

int loop_start(struct kvs_worker *worker);
/* After server->stopping was set: wait for its end. */
void loop_stop(struct kvs_worker *worker);
void loop_watch(struct conn *conn, bool add);

/* ---- listen.c ---- */

int listen_open(struct fth_kv_server *server, const char *where);
void listen_close(struct fth_kv_server *server);

/* ---- stats.c ---- */

void stats_answer(struct fth_kv_server *server, struct kvp_text what, struct bytes *out);

#endif
