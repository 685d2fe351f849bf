/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server for SQL that speaks PostgreSQL's protocol 3, so that psql and the drivers of PostgreSQL
 * can use the tables of a database.
 *
 *	struct fth_pg_options options = FTH_PG_OPTIONS_INIT;
 *	const char *where[] = {"127.0.0.1:5433"};
 *	struct fth_pg *server;
 *
 *	options.listen = where;
 *	options.listen_count = 1;
 *	if (fth_pg_open("/data/db", &options, &server) == 0)
 *		fth_pg_run(server);
 *	fth_pg_close(server);
 *
 * Without a password file every client that connects may do everything: the server then listens on
 * Unix sockets and loopback addresses only, unless insecure_listen is set. All statements share
 * the memory budget of the database (fathom/query.h).
 */
#ifndef FATHOM_PG_H
#define FATHOM_PG_H

#include "fathom/query.h"

FTH_BEGIN_DECLS

struct fth_pg;

#define FTH_PG_PORT	   5433
#define FTH_PG_CONNECTIONS 100u
#define FTH_PG_TIMEOUT_MS  30000u

/* Start from FTH_PG_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_pg_options {
	size_t size;	       /* of this struct */
	uint64_t budget;       /* bytes for all statements together; default FTH_QUERY_BUDGET */
	unsigned threads;      /* of each statement; default the number of processors */
	unsigned connections;  /* at most; default FTH_PG_CONNECTIONS */
	unsigned timeout_ms;   /* for a client that stalls in a message, or takes no results */
	bool create;	       /* make the directory of the database if it does not exist */
	bool readonly;	       /* refuse statements that change the database */
	unsigned listen_count; /* 0: 127.0.0.1 and FTH_PG_PORT */
	const char *const
		*listen; /* HOST:PORT, unix:PATH or fd:N, a socket that is bound already */
	/*
	 * A file of lines user:password or user:SCRAM-SHA-256$..., as PostgreSQL keeps it. Clients
	 * then prove that they know the password of their user, by SCRAM-SHA-256.
	 */
	const char *passwords;
	const char *tls_certificate, *tls_key; /* PEM files; clients that ask for TLS get it */
	/*
	 * Also listen, without a password file, on addresses that other machines can reach:
	 * everybody there can read and change all tables.
	 */
	bool insecure_listen;
	/* Called from any thread for each event, with its name and a description. May be NULL. */
	void (*log)(void *user, const char *event, const char *text);
	void *user;
	/*
	 * Directory for temporary files, those of queries and results that clients have not
	 * fetched. Default: that of the database if it can be written, else $TMPDIR or /tmp.
	 */
	const char *scratch;
	uint64_t
		scratch_limit; /* bytes of temporary files of a statement; default all free space */
};

#define FTH_PG_OPTIONS_INIT                                                                   \
	{                                                                                     \
		sizeof(struct fth_pg_options), 0, 0, 0, 0, false, false, 0, NULL, NULL, NULL, \
			NULL, false, NULL, NULL, NULL, 0                                      \
	}

/*
 * Open the database (see fth_query_open()) and listen. Blocks. Returns 0, or a negative errno with
 * a text; *out is NULL then. -EACCES: other machines can reach an address, and there is neither a
 * password file nor insecure_listen.
 */
int fth_pg_open(const char *where, const struct fth_pg_options *options, struct fth_pg **out);

/* The port of the first TCP socket, or 0. */
unsigned fth_pg_port(const struct fth_pg *server);

/*
 * Serve until fth_pg_stop(). Then statements that run are canceled and all connections closed.
 * Returns 0 or a negative errno. Call it once.
 */
int fth_pg_run(struct fth_pg *server);

/* End fth_pg_run() soon. Any thread and signal handlers may call it. Does not block. */
void fth_pg_stop(struct fth_pg *server);

/* Free the server, after fth_pg_run() has returned or if it was not called. Accepts NULL. */
void fth_pg_close(struct fth_pg *server);

struct fth_pg_stats {
	unsigned connections; /* now */
	uint64_t accepted, refused;
	uint64_t statements, errors, canceled;
	uint64_t sent, received; /* bytes, of connections that are closed */
};
/* Counts since the server was opened. Any thread. */
void fth_pg_stats(struct fth_pg *server, struct fth_pg_stats *out);

FTH_END_DECLS
#endif
