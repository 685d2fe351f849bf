/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the client.
 *
 *	client.c	options, opening and closing, calls, statistics
 *	route.c		servers: addresses, which of them are down
 *	hash_ring.c, md5.c	from a key to a server
 *	kvc_conn.c	a connection: who sends, who receives, who sleeps; kvc_dial.c: how it is opened
 *	flight.c	requests to bytes, answers to requests
 *	reply.c		answers, parsed
 */
#ifndef FTH_KVC_INTERNAL_H
#define FTH_KVC_INTERNAL_H

#include "fathom/kv/client.h"

#include "kv/client/flight.h"
#include "kv/client/hash_ring.h"

#include <pthread.h>
#include <sys/socket.h>

/* ---- servers ---- */

#define KVC_ADDRESSES_MAX 8u
#define KVC_REASON_MAX	  128u

struct kvc_server {
	char *name;    /* as it was given */
	char *host;    /* without port and weight; the path of a Unix socket */
	unsigned port; /* 0 of a Unix socket */
	unsigned weight;
	unsigned addresses;
	struct {
		struct sockaddr_storage address;
		socklen_t length;
	} at[KVC_ADDRESSES_MAX];
	const struct fth_kvc_options *options;

	pthread_mutex_t lock;
	unsigned failures;	     /* in a row; atomic, 0: it is up */
	uint64_t retry_at;	     /* may be tried again then */
	uint64_t probe_until;	     /* somebody tries it */
	char reason[KVC_REASON_MAX]; /* of the latest failure */
};

int kvc_server_init(struct kvc_server *server, const char *name,
		    const struct fth_kvc_options *options);
void kvc_server_release(struct kvc_server *server);
/* Whether a request may be sent to it: it is up, or this request is the one that tries it again. */
bool kvc_server_admits(struct kvc_server *server);
/* reason: NULL for the text of the error */
void kvc_server_failed(struct kvc_server *server, int error, const char *reason);
void kvc_server_answered(struct kvc_server *server);
/* The request that tried it was given up before anything came of it: another may try. */
void kvc_server_untried(struct kvc_server *server);
/* The latest error that made it go down, as a text. */
void kvc_server_reason(struct kvc_server *server, char out[KVC_REASON_MAX]);
/* The name that its certificate must have; NULL: any. */
const char *kvc_server_tls_name(const struct kvc_server *server);

/* ---- connections ---- */

enum kvc_conn_state {
	KVC_CLOSED,
	KVC_CONNECTING,
	KVC_HANDSHAKE, /* of TLS; only the leader uses the session */
	KVC_OPEN,
	KVC_BROKEN, /* shut down; closed when nobody uses the descriptor any more */
};

/*
 * Those who wait sleep in groups of 32 that came one after the other: a group has one futex, and
 * each of its operations a bit of it, so that one system call wakes all whose answers have come.
 */
#define KVC_GROUPS 64u

struct kvc_conn {
	struct kvc_server *server;
	const struct fth_kvc_options *options;
	pthread_mutex_t lock; /* all that follows */
	enum kvc_conn_state state;
	int fd, nudge;
	void *tls;		      /* the client's; NULL: no TLS */
	void *session;		      /* NULL: none */
	pthread_mutex_t session_lock; /* an open session: the sender and the leader use it */
	short awaits;		      /* KVC_HANDSHAKE: events of poll() */
	bool pending;		      /* the session has received more than was read */
	bool leading;		      /* somebody receives, or was asked to */
	bool sending;		      /* somebody sends */
	bool blocked;		      /* the socket takes no more for now */
	bool polling; /* the leader waits, without looking whether the socket takes more */
	bool heard;   /* the server has answered on this connection */
	unsigned address, tried;
	uint64_t heard_ns; /* when something came; when the oldest request was sent, if later */
	struct fth_kvc_op *first, *last; /* gathered, not sent */
	size_t gathered;		 /* their bytes, about */
	unsigned waiting;		 /* how many they are */
	struct fth_kvc_op *timer;	 /* the one that wakes to send them */
	struct fth_kvc_op *sleepers;	 /* the newest first */
	struct kvc_bytes in;		 /* the leader's */
	struct kvc_bytes out;		 /* the sender's */
	struct kvc_flight flight;
	struct fth_kvc_stats stats;
	uint32_t sequence;	    /* of the next operation */
	uint32_t words[KVC_GROUPS]; /* futexes; atomic */
	uint32_t wakes[KVC_GROUPS]; /* bits to wake when the lock is released */
	uint64_t groups;	    /* those that have such bits */
};

/* tls: what sessions share; NULL: no TLS. */
int kvc_conn_init(struct kvc_conn *conn, struct kvc_server *server,
		  const struct fth_kvc_options *options, void *tls);
void kvc_conn_release(struct kvc_conn *conn);
/* Gather an operation; `push`: and send what is gathered if it is time. */
void kvc_conn_add(struct kvc_conn *conn, struct fth_kvc_op *op, bool push);
/* Send what is gathered, unless a leader will. */
void kvc_conn_push(struct kvc_conn *conn);
void kvc_conn_wait(struct kvc_conn *conn, struct fth_kvc_op *op, uint64_t deadline);
void kvc_conn_stats(struct kvc_conn *conn, struct fth_kvc_stats *sum);

/* ---- kvc_dial.c; the lock is held ---- */

/* Connect to the first address that takes it; a server without one is down. */
void kvc_conn_dial(struct kvc_conn *conn);
/* The socket of a connection that is being made has become writable. */
void kvc_conn_connected(struct kvc_conn *conn);
/* A step of TLS's handshake. Without the lock meanwhile: only the leader changes the connection. */
void kvc_conn_handshake(struct kvc_conn *conn);
/* The attempt with this address has failed: another, or none is left. */
void kvc_conn_next_address(struct kvc_conn *conn, int error, const char *reason);
void kvc_conn_close(struct kvc_conn *conn);

/* ---- kvc_conn.c, for kvc_dial.c ---- */

/* Break an open connection. Gets are sent again once, all else in flight ends with the error. */
void kvc_conn_fail(struct kvc_conn *conn, int error);
void kvc_conn_fail_gathered(struct kvc_conn *conn, int result);
/* Wakes those whose operations have completed, too. */
void kvc_conn_unlock(struct kvc_conn *conn);

/* The client's part of an operation. */
enum kvc_call_state { KVC_RUNNING, KVC_SLEEPING, KVC_LEADS, KVC_DONE };
enum kvc_call_place { KVC_NOWHERE, KVC_GATHERED, KVC_FLYING };

struct __attribute__((may_alias)) kvc_call {
	struct kvc_conn *conn;		    /* NULL: it was complete at once */
	struct fth_kvc_op *next, *previous; /* in the gathered ones */
	struct fth_kvc_op *newer, *older;   /* in the sleepers */
	uint64_t since;			    /* when it was gathered */
	uint32_t state;			    /* enum kvc_call_state; atomic */
	uint32_t sequence;		    /* gives its group and its bit */
	uint32_t slot;			    /* in the flight */
	uint8_t place;
	bool retried;
	bool asleep;	 /* in the list of sleepers */
	uint16_t routes; /* servers that it was sent to */
};
_Static_assert(sizeof(struct kvc_call) <= sizeof(((struct fth_kvc_op *)0)->private_),
	       "the client's part of an operation has room");

static inline struct kvc_call *kvc_call(struct fth_kvc_op *op)
{
	return (struct kvc_call *)op->private_;
}

/* ---- the client ---- */

struct fth_kvc {
	struct fth_kvc_options options;
	char *auth, *tls_name;
	void *tls;
	struct kvc_ring ring;
	unsigned count;
	struct kvc_server *servers;
	struct kvc_conn *conns; /* options.connections of each server */
	uint64_t refused;	/* atomic */
};

#endif
