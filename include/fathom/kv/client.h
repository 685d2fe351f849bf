/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of `fathom kv serve`, of memcached and of proxies in front of them (classic text
 * protocol, TCP and Unix sockets).
 *
 *	const char *servers[] = {"10.0.0.1:11211", "10.0.0.2:11211"};
 *	struct fth_kvc *client;
 *	char value[100];
 *
 *	fth_kvc_open(servers, 2, NULL, &client);
 *	fth_kvc_set(client, "name", 4, "Ada", 3, 0, fth_deadline_ns(1000000000));
 *	rc = fth_kvc_get(client, "name", 4, value, sizeof(value), fth_deadline_ns(1000000000));
 *	if (rc >= 0)
 *		fwrite(value, 1, (size_t)rc, stdout);
 *	fth_kvc_close(client);
 *
 * Many threads share one client. Requests of all threads to one server travel over a few
 * connections and are batched automatically: a request that finds its connection idle is sent at
 * once; requests that arrive while answers are outstanding are gathered and sent together, when the
 * answers have arrived, when a segment is full, or when the flush timer expires. Gets that are sent
 * together become one get with many keys. The client has no threads of its own: the calling threads
 * send, and one of those that wait receives the answers for all.
 *
 * A key is 1 to 250 bytes without spaces and control characters. It belongs to one server, which is
 * the one that libmemcached chooses for it with the same list of servers and the same distribution.
 *
 * Every wait ends at its deadline (fth_now_ns()'s clock; FTH_NEVER: none). A server that does not
 * accept connections, closes them or stops answering is down: its keys fail at once with
 * -EHOSTDOWN, or as options.down says, and other keys are not affected. It is tried again after a
 * pause that doubles with each failure.
 *
 * With options.tls the client speaks TLS 1.2 or later, if the build has OpenSSL. A server whose
 * certificate does not verify, has expired or names another host is down.
 */
#ifndef FATHOM_KV_CLIENT_H
#define FATHOM_KV_CLIENT_H

#include "fathom/hd/wait.h"
#include "fathom/kv.h"

FTH_BEGIN_DECLS

struct fth_kvc;

#define FTH_KVC_SERVERS_MAX	1024u
#define FTH_KVC_CONNECTIONS_MAX 64u
#define FTH_KVC_PORT		11211u

/* Which server a key belongs to; as in libmemcached. */
enum fth_kvc_distribution {
	/*
	 * MEMCACHED_BEHAVIOR_KETAMA: consistent hashing with one_at_a_time, 100 points per server
	 */
	FTH_KVC_KETAMA,
	/* MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED: with MD5 and weights, 160 points per server on average;
	   with equal weights also that of libketama and twemproxy */
	FTH_KVC_KETAMA_WEIGHTED,
	FTH_KVC_MODULA, /* libmemcached's default: one_at_a_time modulo the number of servers */
};

/* What happens to the keys of a server that is down. */
enum fth_kvc_down {
	FTH_KVC_DOWN_FAILS,    /* -EHOSTDOWN */
	FTH_KVC_DOWN_MISSES,   /* gets: -ENOENT; changes: -EHOSTDOWN */
	FTH_KVC_DOWN_REHASHES, /* they go to the next server that is up, which may later hold old
				  values when the server is back and down again */
};

/* Start from FTH_KVC_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_kvc_options {
	size_t size; /* of this structure */
	enum fth_kvc_distribution distribution;
	enum fth_kvc_down down;
	unsigned
		connections; /* for each server; default 2. A request takes the one of the processor
				  that its thread runs on, unless the thread has used
				  fth_kvc_start() or a call timed out: then always the same */
	uint32_t segment;    /* bytes of requests that are sent together; default 16 KiB */
	uint32_t flush_us;   /* flush timer: a request waits at most so long to be sent; default
				  1000 */
	uint32_t timeout_ms; /* a server that accepts no connection, or owes answers and sends
				  nothing, for so long is down; default 1000 */
	uint32_t retry_ms; /* first pause before a server that is down is tried again; default 50 */
	uint32_t retry_max_ms; /* longest pause; default 5000 */
	uint32_t value_max;    /* bytes of a value that a server may send; default 16 MiB */
	const char *auth;      /* "user password", for servers that ask for it; NULL: none */
	bool tls;	       /* speak TLS */
	const char
		*tls_ca; /* PEM file of certificates that verify those of the servers; implies tls.
				  NULL: those of the system */
	const char *tls_name; /* name or address that the servers' certificates must have; NULL: the
				  host of each server, any of a Unix socket */
};

#define FTH_KVC_OPTIONS_INIT                                                                       \
	{                                                                                          \
		sizeof(struct fth_kvc_options), FTH_KVC_KETAMA, FTH_KVC_DOWN_FAILS, 0, 0, 0, 0, 0, \
			0, 0, NULL, false, NULL, NULL                                              \
	}

/*
 * Open a client. Each server is "HOST", "HOST:PORT", "[::1]:PORT" or "unix:PATH", optionally
 * followed by "/?WEIGHT" (1 to 65535). Host names are resolved now, which may block; connections
 * are made when they are needed, so that a server may be down. NULL options are the defaults.
 * Returns -EINVAL for invalid options or servers, -EADDRNOTAVAIL for a host without address,
 * -ENOTSUP for TLS in a build without it, -ENOMEM; fth_error_text() explains.
 */
int fth_kvc_open(const char *const *servers, unsigned count, const struct fth_kvc_options *options,
		 struct fth_kvc **out);

/* Close a client. No call may be in progress, no operation in flight. Accepts NULL. */
void fth_kvc_close(struct fth_kvc *client);

/* ---- blocking calls; from any thread ---- */

/*
 * Get a value into buffer. Returns its length, -ENOENT (no such item), -EMSGSIZE (longer than
 * room), or an error of fth_kvc_wait(). If the deadline has passed, the request is still sent, and
 * an answer that has arrived already is returned.
 */
int fth_kvc_get(struct fth_kvc *client, const void *key, uint32_t key_length, void *buffer,
		uint32_t room, uint64_t deadline);

/*
 * Store a value. expires: 0 for never, seconds from now up to 30 days, or else seconds since 1970.
 * Returns 0, -EMSGSIZE (too large for the server), -ENOMEM (the server has no memory for it), or an
 * error of fth_kvc_wait().
 */
int fth_kvc_set(struct fth_kvc *client, const void *key, uint32_t key_length, const void *value,
		uint32_t value_length, uint32_t expires, uint64_t deadline);

/* Delete an item. Returns 0, -ENOENT (no such item), or an error of fth_kvc_wait(). */
int fth_kvc_delete(struct fth_kvc *client, const void *key, uint32_t key_length, uint64_t deadline);

/* ---- operations ---- */

/*
 * One operation, of any verb but FTH_KV_FLUSH_ALL. Zero-initialise, then set what the verb needs.
 * The caller owns it, its key, value and buffer, and leaves them alone from start to the end of
 * wait.
 */
struct fth_kvc_op {
	enum fth_kv_verb verb;
	bool want_cas; /* GET: item_cas is needed */
	const void *key;
	uint32_t key_length;
	const void *value; /* to store, append or prepend */
	uint32_t value_length;
	uint32_t flags;	  /* to store */
	uint32_t expires; /* as in fth_kvc_set() */
	uint64_t cas;	  /* SET: if not 0, store only if the item has this number; else -EBUSY */
	uint64_t delta;	  /* of INCREMENT and DECREMENT */
	void *buffer;	  /* GET and TOUCH: where the value goes; NULL: into memory of its own */
	uint32_t room;	  /* bytes of buffer */
	void *user;	  /* for the caller; not interpreted */

	/* Set when it is complete. */
	int result; /* what fth_kvc_wait() returned */
	/*
	 * After a successful GET or TOUCH the value: in buffer, or in memory that fth_kvc_release()
	 * frees. With -EMSGSIZE, length is the length of the value that buffer has no room for.
	 */
	uint8_t *data;
	uint32_t length;
	uint32_t item_flags;
	uint64_t item_cas;
	uint64_t number; /* of INCREMENT and DECREMENT: the new value */

	uint64_t private_[12]; /* used by the client */
};

/*
 * Start an operation without waiting. Each started operation needs an fth_kvc_wait() by any thread,
 * which also reports what went wrong here. Operations that one thread starts for one key take
 * effect in that order; behind a proxy only if that keeps the order of a connection's requests, as
 * twemproxy does with server_connections: 1. Any thread. Does not block.
 */
void fth_kvc_start(struct fth_kvc *client, struct fth_kvc_op *op);

/*
 * Wait for an operation. When it returns, the operation is over and belongs to the caller again.
 * Returns op->result: 0, an error of the verb (enum fth_kv_verb; -ENOENT, -EEXIST, -EBUSY, -EDOM,
 * -EMSGSIZE), or
 *
 *	-EINVAL		invalid key or verb
 *	-EHOSTDOWN	the server is down; nothing was sent
 *	-ETIMEDOUT	no reply by the deadline, or within options.timeout_ms. A change may have
 *			taken effect, or may take effect later
 *	-ECONNRESET	the connection broke before the reply. A change may have taken effect. Gets
 *			are tried once more before they fail
 *	-EPROTO		the server sent an invalid reply
 *	-EACCES		the server did not accept options.auth
 *	-EREMOTEIO	the server replied with another error
 *	-ENOMEM		no memory
 */
int fth_kvc_wait(struct fth_kvc *client, struct fth_kvc_op *op, uint64_t deadline);

/* Start an operation and wait for it. */
int fth_kvc_do(struct fth_kvc *client, struct fth_kvc_op *op, uint64_t deadline);

/*
 * Start operations, those of all servers in flight together, and wait for all of them: a multi-get,
 * for example. Each has its own result. Returns how many have the result 0.
 */
unsigned fth_kvc_do_many(struct fth_kvc *client, struct fth_kvc_op *ops, unsigned count,
			 uint64_t deadline);

/* Free the value of a complete operation, unless it is in a buffer of the caller. */
void fth_kvc_release(struct fth_kvc_op *op);

/* ---- servers and statistics ---- */

/* The server that a key belongs to: an index into the list given to fth_kvc_open(). */
unsigned fth_kvc_server_of(const struct fth_kvc *client, const void *key, uint32_t key_length);

struct fth_kvc_stats {
	uint64_t requests; /* operations that were sent */
	uint64_t segments; /* calls of send(); requests / segments is the size of a batch */
	uint64_t gets;	   /* get commands sent, each with one or more keys */
	uint64_t hits, misses;
	uint64_t timeouts; /* operations that ended at their deadline */
	uint64_t late;	   /* answers to those that were discarded */
	uint64_t refused;  /* operations that failed at once since the server was down */
	uint64_t connects; /* connections made */
	uint64_t breaks;   /* connections that broke, or could not be made */
	uint64_t retries;  /* gets that were sent again on another connection */
	uint64_t bytes_sent, bytes_received;
};
/* Counts since the client was opened. Any thread. */
void fth_kvc_stats(const struct fth_kvc *client, struct fth_kvc_stats *out);

FTH_END_DECLS

#endif
