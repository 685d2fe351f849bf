/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the server.
 *
 *	proto.c		lines to commands
 *	bytes.c		buffers
 *	conn.c		a connection: bytes in, tasks, bytes out
 *	command.c	from a command to an operation, from its result to an answer
 *	loop.c		a worker: sockets and flash in one epoll set
 *	serve.c		options, threads, start and stop
 *	stats.c		`stats`
 *	cachedump.c	`stats cachedump`: keys in memory
 *	metrics.c	the same figures for Prometheus, over HTTP
 *	access.c	certificate and passwords, and reading them again
 *	auth.c		users and passwords
 *	tls.c		OpenSSL, if the build has it
 */
#ifndef FTH_KV_SERVER_INTERNAL_H
#define FTH_KV_SERVER_INTERNAL_H

#include "base/listen.h"
#include "fathom/base/version.h"
#include "fathom/kv/server.h"

#include "kv/server/proto.h"
#include "kv/server/tls.h"

#include <pthread.h>
#include <string.h>
#include <sys/types.h>

/*
 * Clients read the first number as the version of memcached, and libmemcached accepts none below 1: it is the
 * version whose protocol is served (proto.h). Distributions put a name behind it, too.
 */
#define KVS_VERSION "1.6.18 fathom-" FTH_VERSION_STRING

#define LINE_MAX_BYTES 2048u	    /* of a command line; the keys of a get do not count */
#define TASKS_MAX      128u	    /* commands of one connection under way */
#define OUT_MAX	       (256u << 10) /* bytes to send above which no more commands are taken */
#define HOLD_MAX       (64u << 10)  /* bytes of a get's answers that wait for the rest of them */
#define HELD_MAX       (1u << 20)   /* the same for bytes of values that are not answered yet */
#define PUT_OFF_MAX    (16u << 10)  /* bytes of a connection that are sent at the end of a round */
#define PUT_OFF_ALL    (256u << 10) /* the same of all connections of a worker */
#define SPARES	       256u	    /* empty buffers that a worker keeps */
#define SPARE_BYTES    (1u << 20)   /* of all of them */
#define WORKER_HELD    (64u << 20)  /* of all connections: above, each gets one command at a time */
#define GUESS_BYTES    (64u << 10)  /* a value of which nothing is known yet */
#define STALL_NS       10000000000u /* and those that take nothing for so long are closed */
#define WORKER_MAX     (128u << 20) /* no value is read above this, or 16 of the longest values */
#define HOARD_NS       1000000000u /* while others wait for it, who holds memory so long is closed */
#define STUCK_NS       100000000u  /* the same without any progress, if it never read its answers */

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
	uint32_t expected; /* the same while it is in the cache, by conn->guess */
	uint32_t age;
	uint8_t key[FTH_KV_KEY_MAX];
};

enum conn_state {
	CONN_LINE,
	CONN_KEYS,    /* keys of a get */
	CONN_VALUE,   /* the value of `storing` is coming */
	CONN_SKIP,    /* `skip` bytes of a value that nobody wants */
	CONN_DISCARD, /* up to the end of the line */
	CONN_CLOSING, /* answer what is under way, then close */
};

struct conn {
	struct kvs_worker *worker;
	struct conn *next, **link; /* all of the worker's */
	struct conn *next_starved;
	struct conn *next_sending;
	int fd;
	enum conn_state state;
	bool dead;    /* closed; freed when its last task is back */
	bool eof;     /* the peer sends no more */
	bool blocked; /* not read from: too much is under way */
	bool wants_write;
	bool mid_get;	/* the last answer was one of a get, but not its last */
	bool advancing; /* loop.c: it has operations that are complete */
	bool starved;	/* in the worker's list: conn_starve() */
	bool sending;	/* in the worker's list: conn_flush() */
	bool spoke;	/* its first line has come */
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
	uint64_t guess;		    /* bytes of a value, from those before */
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
	bool submitted; /* an operation, after the last fth_kv_reap() */
	bool deaf;	/* does not listen until the next tick: no descriptors were left */
	bool crowded;	/* a connection waits for memory that others hold */
	struct fth_kv_worker *kv;
	int epoll, wake;
	struct conn *conns;
	struct conn *starved, **starved_end;
	struct conn *sending, **sending_end; /* answers are sent at the end of the round */
	size_t put_off;			     /* bytes of them */
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
	uint64_t guess;		  /* of a value, for new connections */
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
/* The socket has something to say. */
void conn_event(struct conn *conn, unsigned events);
/* An operation goes to the cache; it was not taken, or its command is over for another reason. */
void conn_op_begins(struct task *task);
void conn_op_ends(struct task *task);
/* An operation is back from the cache, or was complete at once. */
void conn_op_done(struct task *task);
/* Write the answers of complete commands and release their items. Does not send, and frees nothing. */
void conn_answer(struct conn *conn);
/* Send answers and go on with what was held back. May free the connection. */
void conn_advance(struct conn *conn);
/* Send the answers that conn_advance() has put off. May free the connection. */
void conn_flush(struct conn *conn);
void conn_close(struct conn *conn);
/* It waits for the cache or for memory: the worker calls conn_advance() soon. */
void conn_starve(struct conn *conn);
/* The bytes that the worker may hold before this connection waits for memory. */
uint64_t conn_held_max(const struct conn *conn);
/* It holds memory, and the socket is not ready for more: the peer is slow, not the worker. */
bool conn_is_stuck(const struct conn *conn);

struct task *task_new(struct conn *conn);
void task_free(struct task *task);

/* ---- command.c ---- */

/* Start the command of a line. The value of a store has not come yet, nor have the keys of a get. */
void command_start(struct conn *conn, const char *line, size_t length);
/* A key of the get that conn->get describes. */
void command_key(struct conn *conn, const char *key, size_t length, bool last);
/* An answer without an operation. */
void command_say(struct conn *conn, const char *text);
/*
 * The value has come, with its end of line: `good` says whether that was right. `value` is needed until
 * the task is complete.
 */
void command_value(struct conn *conn, struct task *task, const char *value, bool good);
/* There is no memory for the value: it is skipped. */
void command_no_memory(struct conn *conn, struct task *task);
/* Start the task that waits, if nothing is in its way any more. */
void command_retry(struct conn *conn);
/* The operation of a task has ended: true if the command needs another one, which is set up. */
bool command_more(struct task *task);
/* Write the answer. */
void command_answer(struct task *task, struct bytes *out);

/* ---- loop.c ---- */

/* A thread that takes no signals. Returns an errno, as pthread_create() does. */
int loop_thread(pthread_t *thread, void *(*run)(void *), void *context);
int loop_start(struct kvs_worker *worker);
/* After server->stopping was set: wait for its end. */
void loop_stop(struct kvs_worker *worker);
void loop_watch(struct conn *conn, bool add);

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
