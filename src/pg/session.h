/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server and its sessions.
 *
 *	server.c	listening, threads, the watch over running statements
 *	startup.c	the first messages: TLS, cancel requests, passwords, settings
 *	session.c	the loop over messages: simple and extended queries
 *	prepared.c	prepared statements: their kind, parameters, columns
 *	portal.c	running them: rows to the client, to a spool or as COPY
 *	rows.c		batches of the engine as messages
 *	spool.c		rows that the client has not fetched
 *	utility.c	BEGIN, SET, DECLARE and the like
 *	settings.c	the settings
 *	tree.c		parse trees of statements that are not for the engine
 *	copy_out.c	COPY TO STDOUT
 *	copy_in.c	COPY FROM STDIN; copy_rows.c: its formats
 *	report.c	errors and notices
 *
 * Invariants:
 * 1. A session belongs to its thread. Threads of the engine call back with rows while that thread
 *    waits in the statement. Other threads touch only `watch`, under the server's lock, and cancel
 *    the query.
 * 2. While a statement runs, watch.running is true; only then is the query canceled from outside,
 *    so a cancellation never meets the next statement.
 * 3. Rows are sent, or kept in a spool: when a statement has ended, none of its memory in the
 *    budget of the database is left.
 */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include "pg/scram.h"
#include "pg/types.h"
#include "pg/wire.h"

#include "base/net/listen.h"

#include "fathom/pg.h"

#include <pthread.h>
#include <stdatomic.h>

#define PG_VERSION     "15.0"
#define PG_VERSION_NUM "150000"

struct pg_session;
struct pg_rows;

/* What the server's thread knows of a session; under the server's lock. */
struct pg_watch {
	bool running;	   /* a statement */
	uint64_t deadline; /* of the statement; UINT64_MAX: none */
	bool timed_out, canceled, gone;
};

struct fth_pg {
	struct fth_query_db *db;
	bool readonly;
	char *scratch; /* for spools; NULL: $TMPDIR or /tmp */
	uint64_t scratch_limit;
	unsigned connections_max;
	uint64_t timeout_ns;
	struct fth_listen listen;
	struct pg_passwords passwords;
	bool has_passwords;
	void *tls;
	int wake;
	atomic_bool stopping;
	void (*log)(void *user, const char *event, const char *text);
	void *user;
	pthread_mutex_t lock;
	struct pg_session *sessions; /* and their `watch`: under lock */
	unsigned session_count;
	uint32_t last_pid;
	struct fth_pg_stats stats;
};

/* ---- prepared statements and portals ---- */

enum pg_kind {
	PG_EMPTY,   /* no statement */
	PG_ENGINE,  /* for the engine */
	PG_CATALOG, /* about the catalogs, or about the session */
	PG_UTILITY,
};

struct pg_prepared {
	struct pg_prepared *next;
	char *name;
	char *text;
	enum pg_kind kind;
	unsigned param_count;
	uint32_t *params; /* type numbers */
	bool has_rows;
	unsigned column_count;
	struct pg_column *columns;
	unsigned users; /* portals; and 1 while it has its name */
};

struct pg_value {
	char *text; /* NULL: null */
};

struct pg_spool;

struct pg_portal {
	struct pg_portal *next;
	char *name;
	struct pg_prepared *prepared;
	struct pg_value *values; /* of the parameters */
	unsigned format_count;
	int16_t *formats;
	bool cursor; /* made by DECLARE */
	bool hold;   /* outlives its transaction, if that is committed: */
	bool kept;
	bool done;		/* all rows were fetched */
	struct pg_spool *spool; /* its rows; NULL: it has not run */
};

struct pg_setting {
	struct pg_setting *next;
	char *name, *value;
};

struct pg_savepoint {
	struct pg_savepoint *next; /* the one before it */
	char *name;
	uint64_t appended;
};

struct pg_session {
	struct pg_session *next;
	struct fth_pg *server;
	pthread_t thread;
	bool ended; /* under the server's lock */
	struct pg_watch watch;
	struct pg_wire wire;
	uint32_t pid, secret;
	char user[64], database[64];
	struct fth_query *query;
	bool logged_in; /* errors before and after end the connection */
	char status;	/* of the transaction: I none, T in one, E in one that failed */
	bool skip;	/* messages until Sync, after an error */
	bool changed;	/* the transaction made a table or removed one */
	bool implicit;	/* INSERTs that Sync commits */
	struct pg_savepoint *savepoints;
	uint64_t appended; /* rows of the transaction */
	struct pg_prepared *prepared;
	struct pg_portal *portals;
	struct pg_setting *settings;
};

/* ---- server.c ---- */

void pg_log(struct fth_pg *server, const char *event, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Around every call that runs a statement. end returns -ECANCELED's reason: NULL, or a text. */
void pg_watch_begin(struct pg_session *s);
const char *pg_watch_end(struct pg_session *s);
/* Cancel the statement of the session with this key, if it runs one. */
void pg_cancel(struct fth_pg *server, uint32_t pid, uint32_t secret);

/* ---- startup.c ---- */

/* 0: messages follow; 1: the connection is done; or a negative errno. */
int pg_startup(struct pg_session *s);

/* ---- session.c ---- */

void pg_serve(struct pg_session *s);
int pg_ready(struct pg_session *s);
/* Commit INSERTs that are waiting for Sync. 0; or -1 after an error was sent. */
int pg_settle(struct pg_session *s);
/* Run the text of a simple query, or a piece of one. */
int pg_run_simple(struct pg_session *s, const char *text);

/* ---- report.c ---- */

/* Send an error, and let it end the transaction. position: from 1, in characters; 0: none. */
void pg_error(struct pg_session *s, const char *state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void pg_error_at(struct pg_session *s, const char *state, unsigned position, const char *text);
/* The error of a statement of the engine, which returned rc. */
void pg_error_of(struct pg_session *s, const char *statement, int rc);
void pg_notice(struct pg_session *s, const char *severity, const char *state, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));
/* The code for an error of the engine. */
const char *pg_sqlstate(int rc, const char *text);

/* ---- prepared.c ---- */

/*
 * Compile a statement. 0; or -1 after an error was sent. types: numbers of parameter types, 0:
 * unknown.
 */
int pg_prepare(struct pg_session *s, const char *name, const char *text, unsigned count,
	       const uint32_t *types, struct pg_prepared **out);
enum pg_kind pg_kind_of(struct pg_session *s, const char *text);
struct pg_prepared *pg_find_prepared(struct pg_session *s, const char *name);
void pg_drop_prepared(struct pg_session *s, const char *name); /* NULL: all */
void pg_release_prepared(struct pg_prepared *p);
/* Columns of a batch, into an array that pg_free_columns() frees. 0 or -ENOMEM. */
int pg_take_columns(const struct fth_query_batch *batch, struct pg_column **out, unsigned *count);
void pg_free_columns(struct pg_column *columns, unsigned count);
/* The first word of a statement, in upper case and cut to the room; "" for none. */
const char *pg_first_word(const char *text, char *to, size_t room);

/* ---- portal.c ---- */

struct pg_portal *pg_find_portal(struct pg_session *s, const char *name);
struct pg_portal *pg_new_portal(struct pg_session *s, const char *name, struct pg_prepared *p);
void pg_drop_portal(struct pg_session *s, struct pg_portal *portal);
/* Drop those that do not outlive their transaction; all: every one. */
void pg_drop_portals(struct pg_session *s, bool all);
/*
 * Run a portal, or go on with it, for at most `most` rows; 0: all. 0; or -1 after an error was
 * sent. The answer ends with CommandComplete or PortalSuspended.
 */
int pg_execute(struct pg_session *s, struct pg_portal *portal, uint64_t most, bool describe);
/* Run by the engine, with rows to `rows`. 0; or -1 after an error was sent. */
int pg_run_engine(struct pg_session *s, const struct pg_portal *portal, struct pg_rows *rows);
/* Fill the spool of a cursor. 0; or -1 after an error was sent. */
int pg_fill_spool(struct pg_session *s, struct pg_portal *portal);

/* ---- rows.c ---- */

int pg_put_columns(struct pg_wire *w, const struct pg_column *columns, unsigned count,
		   const int16_t *formats, unsigned format_count);
/* Which format a column has. */
bool pg_is_binary(const int16_t *formats, unsigned format_count, unsigned column);

/* Rows on their way. */
struct pg_rows {
	struct pg_session *session;
	struct pg_wire *wire;
	bool describe; /* send the columns first */
	const int16_t *formats;
	unsigned format_count;
	const struct pg_copy_out *copy; /* as COPY TO STDOUT; or NULL */
	uint64_t count;
};
/* A row as DataRow ('D'), or as CopyData ('d') of a binary copy. */
int pg_put_row(struct pg_wire *w, const struct fth_query_batch *b, unsigned row, char type,
	       const int16_t *formats, unsigned format_count);
/* A callback of fth_query_run(); user is struct pg_rows. */
int pg_take_batch(const struct fth_query_batch *batch, void *user);

/* ---- spool.c ---- */

int pg_spool_new(struct fth_pg *server, struct pg_spool **out);
void pg_spool_free(struct pg_spool *spool); /* accepts NULL */
/* Where rows are written; then seal it. */
struct pg_wire *pg_spool_wire(struct pg_spool *spool);
int pg_spool_seal(struct pg_spool *spool);
/*
 * Send at most `most` rows (0: all) to w; w NULL: skip them. Sets *sent, and *more if rows are
 * left. 0 or a negative errno.
 */
int pg_spool_send(struct pg_spool *spool, struct pg_wire *w, uint64_t most, uint64_t *sent,
		  bool *more);
/* Back to the first row. */
void pg_spool_rewind(struct pg_spool *spool);

/* ---- settings.c ---- */

const char *pg_setting(struct pg_session *s, const char *name); /* NULL: unknown */
/* value NULL: the default. 0; or -1 after an error was sent. */
int pg_set(struct pg_session *s, const char *name, const char *value);
void pg_reset_all(struct pg_session *s);
void pg_free_settings(struct pg_session *s);
int pg_put_settings(struct pg_session *s); /* a ParameterStatus for each reported setting */
/* Call visit with every setting. */
void pg_visit_settings(struct pg_session *s,
		       void (*visit)(void *user, const char *name, const char *value), void *user);

/* ---- utility.c ---- */

/* The columns of a statement, NULL if it has none. 0; or -1 after an error was sent. */
int pg_utility_columns(struct pg_session *s, const char *text, struct pg_column **columns,
		       unsigned *count);
/* Run a statement that is not for the engine. 0; or -1 after an error was sent. */
int pg_utility(struct pg_session *s, const char *text, const struct pg_portal *portal,
	       bool describe);

/* The transaction is over: cursors, savepoints and its status. */
void pg_end_transaction(struct pg_session *s);
int pg_complete(struct pg_session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
