/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storage daemon: runs parts of queries (Table Tasks, fathom/query/task.h) next to the tables of
 * a database, inside a memory budget of its own, and sends only results to its clients. Clients
 * open it with fth_query_options.storage.
 *
 *	struct fth_storage_options options = FTH_STORAGE_OPTIONS_INIT;
 *	const char *where[] = {"unix:/run/fathom-sql"};
 *	struct fth_storage *storage;
 *
 *	options.listen = where;
 *	options.listen_count = 1;
 *	if (fth_storage_open("/data/db", &options, &storage) == 0)
 *		fth_storage_run(storage);
 *	fth_storage_close(storage);
 *
 * Every client that connects can read all tables of the database; none can change them. Clients are
 * not authenticated, and nothing is encrypted: the daemon listens on Unix sockets and loopback
 * addresses only, unless insecure_listen is set.
 */
#ifndef FATHOM_QUERY_STORAGE_H
#define FATHOM_QUERY_STORAGE_H

#include "fathom/query.h"

FTH_BEGIN_DECLS

struct fth_storage;

#define FTH_STORAGE_PORT	11212
#define FTH_STORAGE_CONNECTIONS 64u
#define FTH_STORAGE_TIMEOUT_MS	30000u

/* Start from FTH_STORAGE_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_storage_options {
	size_t size;	      /* of this struct */
	uint64_t budget;      /* bytes for all task sets together; default FTH_QUERY_BUDGET */
	unsigned threads;     /* of each task set; default the number of processors */
	unsigned connections; /* at most; default FTH_STORAGE_CONNECTIONS */
	unsigned
		timeout_ms; /* for a client that is in the middle of a frame, or takes no results */
	unsigned listen_count; /* 0: 127.0.0.1 and FTH_STORAGE_PORT */
	const char *const
		*listen; /* HOST:PORT, unix:PATH or fd:N, a socket that is bound already */
	/* Called from any thread for each event, with its name and a description. May be NULL. */
	void (*log)(void *user, const char *event, const char *text);
	void *user;
	/*
	 * Directory for temporary files. Default: that of the database if it can be written, else
	 * $TMPDIR or /tmp.
	 */
	const char *scratch;
	uint64_t scratch_limit; /* bytes of temporary files of a task set; default all free space */
	/*
	 * Also listen on addresses that other machines can reach: everybody there can read all
	 * tables.
	 */
	bool insecure_listen;
};

#define FTH_STORAGE_OPTIONS_INIT                                                              \
	{                                                                                     \
		sizeof(struct fth_storage_options), 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, \
			false                                                                 \
	}

/*
 * Open the database (see fth_query_open()) for reading and listen. Blocks. Returns 0, or a negative
 * errno with a text; *out is NULL then. -EACCES: other machines can reach an address, and
 * insecure_listen is not set.
 */
int fth_storage_open(const char *where, const struct fth_storage_options *options,
		     struct fth_storage **out);

/* The port of the first TCP socket, or 0. */
unsigned fth_storage_port(const struct fth_storage *storage);

/*
 * Serve until fth_storage_stop(). Then task sets that run are canceled and all connections closed.
 * Returns 0 or a negative errno. Call it once.
 */
int fth_storage_run(struct fth_storage *storage);

/* End fth_storage_run() soon. Any thread and signal handlers may call it. Does not block. */
void fth_storage_stop(struct fth_storage *storage);

/* Free the daemon, after fth_storage_run() has returned or if it was not called. Accepts NULL. */
void fth_storage_close(struct fth_storage *storage);

struct fth_storage_stats {
	unsigned connections; /* now */
	uint64_t accepted, refused;
	uint64_t sets, suspended,
		canceled; /* task sets that were run; of them those that did not fit or were ended */
	uint64_t sent, received; /* bytes, of connections that are closed */
	uint64_t bad_frames;
	uint64_t memory, memory_peak; /* of the budget */
	uint64_t spilled;	      /* bytes that task sets wrote to temporary files */
};
/* Counts since the daemon was opened. Any thread. */
void fth_storage_stats(struct fth_storage *storage, struct fth_storage_stats *out);

FTH_END_DECLS
#endif
