/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server around a cache (fathom/kv.h) that speaks memcached's text protocol, classic and meta
 * commands, over TCP and Unix sockets.
 *
 *	struct fth_kv_server_options options = FTH_KV_SERVER_OPTIONS_INIT;
 *	struct fth_kv_server *server;
 *
 *	fth_kv_server_start(kv, &options, &server);
 *	... until the program is asked to stop ...
 *	fth_kv_server_stop(server, fth_deadline_ns(5000000000));
 *
 * Each worker is a thread with an epoll set of its own over its sockets and the flash. Answers come
 * in the order of the commands of a connection; gets of one connection are in flight together.
 */
#ifndef FATHOM_KV_SERVER_H
#define FATHOM_KV_SERVER_H

#include "fathom/kv.h"

FTH_BEGIN_DECLS

struct fth_kv_server;

#define FTH_KV_LISTEN_MAX 16u

/* Start from FTH_KV_SERVER_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_kv_server_options {
	size_t size; /* of this structure */
	/*
	 * Where to listen: "HOST:PORT", "[::1]:PORT", ":PORT" for all addresses, "unix:PATH", or
	 * "fd:N" for a socket that is bound already. NULL: 127.0.0.1:11211.
	 */
	const char *const *listen;
	unsigned listen_count;
	unsigned workers;     /* threads; default: half of the processors, at least 1 */
	unsigned connections; /* at most; default 1024 */
	uint32_t idle_s;      /* seconds without traffic before a connection is closed; 0: never */
	const char *metrics;  /* HOST:PORT for metrics in Prometheus' text format; NULL: none */
	/*
	 * A file with a line "user:password" for each user. A client must then begin each
	 * connection with a set of any key whose value is "user password", as with memcached's
	 * option -Y.
	 */
	const char *auth_file;
	/* PEM files; both or none. -ENOTSUP if the library was built without OpenSSL. */
	const char *tls_certificate;
	const char *tls_key;
};

#define FTH_KV_SERVER_OPTIONS_INIT                                                             \
	{                                                                                      \
		sizeof(struct fth_kv_server_options), NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL \
	}

/*
 * Start to listen. The cache must outlive the server. Returns -EINVAL for invalid options, or the
 * error of a socket, a thread or a file; fth_error_text() says which.
 */
int fth_kv_server_start(struct fth_kv *kv, const struct fth_kv_server_options *options,
			struct fth_kv_server **out);

/*
 * Stop and free the server: no new connections, commands in progress are completed until the
 * deadline, then all connections are closed. Returns when the last operation of the cache has
 * completed, which takes as long as one read of the device may take (fth_kv_options.timeout_ns)
 * after the deadline. Accepts NULL.
 */
void fth_kv_server_stop(struct fth_kv_server *server, uint64_t deadline);

/*
 * Read auth_file, tls_certificate and tls_key of the options again, from the same paths.
 * Connections that exist keep their TLS sessions and need no new password; later ones use the new
 * files. Any thread; blocks while it reads. Returns 0, also without such files, or the error of a
 * file: all of the old ones then stay in use.
 */
int fth_kv_server_reload(struct fth_kv_server *server);

/* The port that the first TCP socket listens on; 0 if there is none. For "127.0.0.1:0". */
unsigned fth_kv_server_port(const struct fth_kv_server *server);

/* The port of options.metrics; 0 if there is none. */
unsigned fth_kv_server_metrics_port(const struct fth_kv_server *server);

struct fth_kv_server_counts {
	uint64_t connections, accepted, refused;
	uint64_t bytes_read, bytes_written;
	uint64_t commands;
};
/* Connections open now; the other fields count since the server was started. Any thread. */
void fth_kv_server_counts(const struct fth_kv_server *server, struct fth_kv_server_counts *out);

FTH_END_DECLS

#endif
