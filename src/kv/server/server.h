/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the server.
 *
 *	serve.c		options, threads, start and stop
 *	loop.c		a worker: sockets and flash in one epoll set
 *	conn.c		a connection: the state machine of its input, its answers, its socket
 *	input.c		bytes to requests, a function for each state
 *	proto.c		lines to commands
 *	command.c	requests to operations of the cache
 *	task.c		tasks, and the memory that they hold
 *	answer.c	results of operations to answers
 *	bytes.c		buffers
 *	stats.c		`stats`
 *	cachedump.c	`stats cachedump`: keys in memory
 *	metrics.c	the same figures for Prometheus, over HTTP
 *	access.c	certificate and passwords, and reading them again
 *	auth.c		users and passwords
 */
#ifndef FTH_KV_SERVER_INTERNAL_H
#define FTH_KV_SERVER_INTERNAL_H

#include "base/net/listen.h"
#include "fathom/base/version.h"
#include "fathom/kv/server.h"

#include "kv/server/proto.h"
#include "base/net/tls.h"

#include <pthread.h>
#include <string.h>
#include <sys/types.h>

/*
 * Clients read the first number as the version of memcached, and libmemcached accepts none below 1:
 * it is the version whose protocol is served (proto.h). Distributions put a name behind it, too.
 */
#define KVS_VERSION "1.6.18 fathom-" FTH_VERSION_STRING

/* Of one connection. */
#define LINE_MAX_BYTES 2048u	    /* bytes of a command line; the keys of a get do not count */
#define TASKS_MAX      128u	    /* tasks in its list */
#define OUT_MAX	       (256u << 10) /* bytes of answers above which it takes no requests */
#define HOLD_MAX       (64u << 10)  /* bytes of a get's answers that wait for its other keys */
#define HELD_MAX       (1u << 20)   /* bytes of values above which it takes no requests */
#define DEFER_MAX      (16u << 10)  /* bytes of answers that it sends at the end of a round only */

/* Of one worker. */
#define DEFER_ALL      (256u << 10) /* the sum of what its connections defer */
#define SPARES	       256u	    /* empty buffers that it keeps, */
#define SPARE_BYTES    (1u << 20)   /* and the bytes of all of them */
#define ESTIMATE_BYTES (64u << 10)  /* value_estimate before the first value */
#define WORKER_HELD    (64u << 20)  /* bytes held above which each connection has one task */
#define WORKER_MAX \
	(128u << 20) /* bytes held above which no value is read or received; it is
				       16 of the longest values if these are more */

/* When connections are closed. */
#define STALL_NS 10000000000u /* above WORKER_HELD: the peer has read no answer for so long */
#define SLOW_NS	 1000000000u  /* others wait for memory: it has held some for so long */
#define STUCK_NS 100000000u   /* others wait for memory: no progress, and it never read answers */

#define KVS_BAD_FORMAT "CLIENT_ERROR bad command line format"
#define KVS_NO_MEMORY  "SERVER_ERROR out of memory storing object"

#define LATENCY_BUCKETS 36u /* bucket i: below 2^i ns */
enum kvs_kind { KIND_GET, KIND_SET, KIND_DELETE, KIND_COUNT, KIND_TOUCH, KIND_OTHER, KIND_NUMBER };

/* Bytes that grow and are consumed from the front. */
struct bytes {
	char *data;
	size_t from, to, room;
	bool failed; /* memory was short: what is in it is not whole */
};

/* One command, or one key of a get, on its way from the line to the answer. */
struct task {
	struct fth_kv_op op; /* first: what the cache hands back is a task */
	struct task *next;
	struct conn *conn;
	bool complete; /* its answer can be written when those before it are */
	bool simple;   /* no operation: `text` is the answer */
	bool mutates;
	bool flying;   /* the cache has it */
	bool last_key; /* END follows */
	bool touched;  /* ma T: the counter is changed, its time to live remains to be */
	bool won;      /* mg: it has taken the item's token */
	bool was_read; /* mg: of the item, as `age`, before the token was taken */
	uint8_t tries; /* ma N, mg: how often it went round */
	uint8_t number_length;
	char number[24]; /* ma: the counter, while more is to be done */
	const char *text;
	struct bytes long_text; /* an answer that was made for it */
	struct kvp_line line;
	char *value; /* owned: what is stored. NULL: not needed, or nothing of it has come */
	size_t value_have;
	uint64_t started_ns;
	uint32_t held;	   /* bytes of its value, as counted in conn and worker */
	uint32_t came;	   /* bytes of `value`, as counted in worker */
	uint32_t expected; /* the same while it is in the cache, by conn->value_estimate */
	uint32_t age;
	uint8_t key[FTH_KV_KEY_MAX];
};

/* States of a connection's input: conn.c has the diagram. */
enum conn_state {
	CONN_FIRST,   /* nothing has come yet */
	CONN_LINE,    /* a command line comes */
	CONN_KEYS,    /* keys of `get` come */
	CONN_VALUE,   /* the value of `storing` comes */
	CONN_SKIP,    /* `skip` bytes of a value that is not stored come */
	CONN_DISCARD, /* the rest of a line comes, and is ignored */
	CONN_CLOSING, /* no more is taken: answer the tasks, then close */
	CONN_CLOSED,  /* freed when its last task is back */
};

struct conn {
	struct kvs_worker *worker;
	struct conn *next, **link; /* all of the worker's */
	struct conn *next_retry;
	struct conn *next_sending;
	int fd;
	enum conn_state state;
	bool eof;     /* the peer sends no more */
	bool blocked; /* not read from: too much is under way */
	bool wants_write;
	bool mid_get;	/* the last answer was one of a get, but not its last */
	bool advancing; /* loop.c: it has operations that are complete */
	bool retrying;	/* in the worker's list: conn_retry_later() */
	bool sending;	/* in the worker's list: conn_flush() */
	bool trusted;	/* it has given a password, or needs none */
	bool sent;	/* it was sent an answer */
	bool reads;	/* a request came when it had taken all that was sent */
	void *tls;
	struct bytes in, out;
	size_t out_counted;  /* bytes of out in the worker's `held` */
	struct kvp_line get; /* CONN_KEYS: without its keys */
	struct task *storing;
	struct task *waiting; /* the last one: not started yet, see conn.c */
	uint64_t skip;
	struct task *first, **last; /* in the order of their commands */
	unsigned tasks;		    /* in that list */
	unsigned flying;	    /* in the cache */
	unsigned mutating;	    /* of these, changes */
	uint64_t held;		    /* bytes of values of complete tasks */
	uint64_t value_estimate;    /* bytes of the next value, from those before */
	uint64_t active_ns;	    /* when something last came or went, or could come again */
	uint64_t holds_ns;	    /* since then it has an answer to take, or a value to send */
};

/* Written by the worker's thread only, read by all. */
struct kvs_counts {
	uint64_t commands[KVP_COMMANDS];
	uint64_t bytes_read, bytes_written;
	uint64_t rounds; /* of the loop */
	uint64_t accepted, closed_idle, closed_slow, closed_auth;
	uint64_t
		flash_gets; /* hits of gets that needed a read; before hits: never more than these */
	uint64_t hits[KIND_NUMBER], misses[KIND_NUMBER];
	uint64_t cas_hits, cas_badval, cas_misses;
	uint64_t latency[KIND_NUMBER][LATENCY_BUCKETS];
	uint64_t latency_ns[KIND_NUMBER];
};

struct kvs_worker {
	struct fth_kv_server *server;
	unsigned number;
	pthread_t thread;
	bool runs;
	bool submitted;	    /* an operation, after the last fth_kv_reap() */
	bool not_accepting; /* until the next tick: no descriptors were left */
	bool memory_short;  /* a connection waits for memory that others hold */
	struct fth_kv_worker *kv;
	int epoll, wake;
	struct conn *conns;
	struct conn *retry, **retry_end;     /* they wait for memory or for the cache */
	struct conn *sending, **sending_end; /* answers are sent at the end of the round */
	size_t deferred;		     /* bytes of them */
	unsigned dying;			     /* closed connections with operations in the cache */
	unsigned conn_count;		     /* atomic */
	struct task *pool;
	unsigned pooled;
	struct bytes spare[SPARES]; /* for connections that are dealt with */
	unsigned spares;
	size_t spare_bytes;
	uint64_t held;		  /* bytes of values and answers of all connections, and of
					     values that come in */
	uint64_t expected;	  /* bytes of values that the cache has not returned yet */
	uint64_t value_estimate;  /* the first one of new connections */
	uint64_t now;		  /* ns, of this round */
	struct kvs_counts counts; /* atomic */
};

struct fth_kv_server {
	struct fth_kv *kv;
	uint64_t value_max;
	uint64_t held_max; /* of a worker */
	unsigned workers_count;
	struct kvs_worker *workers;
	struct fth_listen listen;
	unsigned connections_max;
	unsigned connections; /* atomic */
	uint64_t idle_ns;     /* 0: never */
	uint64_t started_ns;
	uint64_t refused;  /* atomic */
	uint32_t stopping; /* atomic: no new connections, close those that are idle */
	uint64_t stop_by;  /* atomic: then close all */
	struct access *access;
	struct metrics *metrics;

	pthread_mutex_t reset_lock; /* what follows: figures when they were last reset */
	struct kvs_counts base;
	uint64_t base_refused;
	uint64_t base_kv[FTH_KV_STAT_COUNT];
};

/* Add to a counter of this thread: no other writes it, so that a plain store does. */
static inline void kvs_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* ---- bytes.c ---- */

/* Room for n more; NULL when memory is short. */
char *bytes_room(struct bytes *b, size_t n);
void bytes_put(struct bytes *b, const void *data, size_t n);
void bytes_printf(struct bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_release(struct bytes *b);
/* Lend a buffer of the worker to a connection that has nothing in its own. */
void bytes_lend(struct bytes *to, struct kvs_worker *w);
/* Give it back if it is empty. */
void bytes_return(struct bytes *from, struct kvs_worker *w);
static inline size_t bytes_count(const struct bytes *b)
{
	return b->to - b->from;
}

/* ---- conn.c ---- */

int conn_open(struct kvs_worker *worker, int fd);
/* The socket is ready: events of epoll. */
void conn_event(struct conn *conn, unsigned events);
/* Write the answers of complete tasks and release their items. Does not send, and frees nothing. */
void conn_answer(struct conn *conn);
/* Take requests, answer and send as far as possible. May free the connection. */
void conn_advance(struct conn *conn);
/* Send the answers that conn_advance() has deferred. May free the connection. */
void conn_flush(struct conn *conn);
void conn_close(struct conn *conn);
/* It holds memory, and the socket is not ready for more: the peer is slow, not the worker. */
bool conn_is_stuck(const struct conn *conn);

/* ---- input.c ---- */

/* One for each state. True: go on with the function of the state that it is in now. */
bool input_first(struct conn *conn);
bool input_line(struct conn *conn);
bool input_key(struct conn *conn);
bool input_value(struct conn *conn);
bool input_skip(struct conn *conn);
bool input_discard(struct conn *conn);
/* Where to receive bytes, and how many at most. NULL: no memory. */
char *input_room(struct conn *conn, size_t *room);
/* n bytes were received there. */
void input_came(struct conn *conn, size_t n);

/* ---- command.c ---- */

/* Start the command of a line, which is no get. The value of a store has not come yet. */
void command_start(struct conn *conn, const struct kvp_line *line);
/* A key of the get that conn->get describes. */
void command_get_key(struct conn *conn, struct kvp_text key, bool last);
/* An answer without an operation. */
void command_say(struct conn *conn, const char *text);
/*
 * The value has come, with its end of line: `good` says whether that was right. `value` is needed
 * until the task is complete.
 */
void command_value(struct conn *conn, struct task *task, const char *value, bool good);
/* There is no memory for the value: it is skipped. */
void command_no_memory(struct conn *conn, struct task *task);
/* Start the task that waits, if nothing is in its way any more. */
void command_retry(struct conn *conn);
/* The operation of a task has ended: start the next one of its command, or complete the task. */
void command_done(struct task *task);

/* ---- task.c ---- */

/* The last task of its connection. NULL: no memory, and the connection is closing. */
struct task *task_new(struct conn *conn);
/* Free the first task of its connection. */
void task_free(struct task *task);
/* Its operation goes to the cache, and comes back or was not taken. */
void task_enters_cache(struct task *task);
void task_leaves_cache(struct task *task);
/* The last operation of its command is back. */
void task_complete(struct task *task);
/* Count bytes that its answer needs. */
void task_hold(struct task *task, uint64_t bytes);
/*
 * The answer has to wait: give it a copy of the value, so that the item does not stay in the
 * cache's memory for it, which new items need. If memory is short it keeps the item.
 */
void task_detach_value(struct task *task);
/* The bytes that the worker may hold before this connection waits for memory. */
static inline uint64_t conn_held_max(const struct conn *conn)
{
	uint64_t most = conn->worker->server->held_max;

	return conn->reads ? most : most / 4 * 3;
}
/* The connection waits for the cache or for memory: the worker calls conn_advance() soon. */
void conn_retry_later(struct conn *conn);

/* ---- answer.c ---- */

/* Write the answer of a complete task. */
void answer_write(struct task *task, struct bytes *out);

/* ---- loop.c ---- */

/* A thread that takes no signals. Returns an errno, as pthread_create() does. */
int loop_thread(pthread_t *thread, void *(*run)(void *), void *context);
int loop_start(struct kvs_worker *worker);
/* After server->stopping was set: wait for its end. */
void loop_stop(struct kvs_worker *worker);

/* ---- stats.c ---- */

void stats_answer(struct fth_kv_server *server, struct kvp_text what, struct bytes *out);
void stats_sum(const struct fth_kv_server *server, struct kvs_counts *out); /* of all workers */
void stats_latency(struct kvs_worker *worker, const struct task *task);
uint64_t stats_resident(void); /* bytes of memory of the process; 0: not known */
extern const char *const kvs_kind_names[KIND_NUMBER];

/* ---- cachedump.c ---- */

/* The lines of `stats cachedump` but the last, which is returned: END, or what is wrong. */
const char *cachedump(struct fth_kv *kv, struct kvp_text arguments, struct bytes *out);

/* ---- metrics.c ---- */

int metrics_start(struct fth_kv_server *server, const char *where);
void metrics_stop(struct metrics *metrics);
unsigned metrics_port(const struct metrics *metrics);

/* ---- access.c ---- */

/* Read the files of the options. After an error, too, *out is to be closed. */
int access_open(const struct fth_kv_server_options *o, struct access **out);
void access_close(struct access *access);
/* Read them again; after an error the old ones stay. Any thread, as what follows. */
int access_reload(struct access *access);
bool access_has_users(const struct access *access);
bool access_has_tls(const struct access *access);
/* "user password" */
bool access_check(struct access *access, const char *text, size_t length);
/* A TLS session; NULL: no memory. */
void *access_attach(struct access *access, int fd);

/* ---- auth.c ---- */

struct auth {
	struct auth_entry *entries;
	unsigned count;
};

int auth_load(struct auth *auth, const char *path);
void auth_release(struct auth *auth);
bool auth_check(const struct auth *auth, const char *text, size_t length);

#endif
