/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom sql serve: the tables of a database for psql and the drivers of PostgreSQL. */
#include "commands.h"
#include "daemon.h"
#include "table_source.h"

#include "fathom/base/error.h"
#include "fathom/pg.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct server {
	const char *listen, *log;
	enum fth_log_format log_format;
	struct fth_daemon_sockets sockets;
	uint64_t budget, threads, connections, timeout_ms, scratch_limit;
	struct fth_pg_options options;
	struct fth_pg *pg;
	atomic_bool ended;
};

static void log_event(void *user, const char *event, const char *text)
{
	fth_daemon_log(((struct server *)user)->log_format, event, text);
}

/* fth_cli_stopped() is asked now and then: signals do not reach the library. */
static void *watch_signals(void *user)
{
	struct server *s = user;
	struct timespec nap = {.tv_nsec = 50000000};

	while (!fth_cli_stopped() && !atomic_load(&s->ended))
		nanosleep(&nap, NULL);
	fth_pg_stop(s->pg);
	return NULL;
}

static void say_where(const struct server *s, const char *db)
{
	const char *where = s->sockets.count > 0 ? s->sockets.where[0] : "127.0.0.1";

	printf("sql serve: %s at %s", db, where);
	if (strncmp(where, "unix:", 5) != 0)
		printf(", port %u", fth_pg_port(s->pg));
	putchar('\n');
	fflush(stdout);
}

static void log_totals(struct server *s)
{
	struct fth_pg_stats x;
	char text[256];

	fth_pg_stats(s->pg, &x);
	snprintf(text, sizeof(text),
		 "%llu connections, %llu refused, %llu statements, %llu errors, %llu canceled, "
		 "%llu bytes sent, %llu received",
		 (unsigned long long)x.accepted, (unsigned long long)x.refused,
		 (unsigned long long)x.statements, (unsigned long long)x.errors,
		 (unsigned long long)x.canceled, (unsigned long long)x.sent,
		 (unsigned long long)x.received);
	log_event(s, "stopped", text);
}

static int serve(struct server *s, const char *db)
{
	pthread_t watcher;
	int rc;

	s->options.budget = s->budget;
	s->options.threads = (unsigned)s->threads;
	s->options.connections = (unsigned)s->connections;
	s->options.timeout_ms = (unsigned)s->timeout_ms;
	s->options.scratch_limit = s->scratch_limit;
	s->options.listen_count = s->sockets.count;
	s->options.listen = s->sockets.where;
	s->options.log = log_event;
	s->options.user = s;
	rc = fth_pg_open(db, &s->options, &s->pg);
	if (rc < 0)
		return rc;
	if (pthread_create(&watcher, NULL, watch_signals, s) != 0) {
		fth_pg_close(s->pg);
		return -ENOMEM;
	}
	log_event(s, "start", db);
	say_where(s, db);
	rc = fth_pg_run(s->pg);
	atomic_store(&s->ended, true);
	pthread_join(watcher, NULL);
	log_totals(s);
	fth_pg_close(s->pg);
	return rc;
}

static int run(int argc, char **argv)
{
	struct server s = {
		.log = "off", .budget = FTH_QUERY_BUDGET, .options = FTH_PG_OPTIONS_INIT};
	const struct fth_cli_option options[] = {
		{"listen", FTH_CLI_STRING, &s.listen, 0, 0,
		 "HOST:PORT, unix:PATH or fd:N, separated by commas; default the sockets of "
		 "systemd, or 127.0.0.1:5433"},
		{"auth", FTH_CLI_STRING, &s.options.passwords, 0, 0,
		 "file of lines user:password or user:SCRAM-SHA-256$...; clients then log in by "
		 "SCRAM-SHA-256"},
		{"tls-cert", FTH_CLI_STRING, &s.options.tls_certificate, 0, 0,
		 "PEM file of the certificate for clients that ask for TLS"},
		{"tls-key", FTH_CLI_STRING, &s.options.tls_key, 0, 0, "PEM file of its key"},
		{"insecure-listen", FTH_CLI_FLAG, &s.options.insecure_listen, 0, 0,
		 "allow --listen on addresses that other machines can reach, without --auth"},
		{"memory", FTH_CLI_SIZE, &s.budget, FTH_QUERY_BUDGET_MIN, (uint64_t)1 << 44,
		 "bytes that all statements together may use"},
		{"threads", FTH_CLI_U64, &s.threads, 0, 256,
		 "threads of a statement, at most; 0: one for each processor"},
		{"connections", FTH_CLI_U64, &s.connections, 0, 65536,
		 "connections at most; 0: 100"},
		{"timeout-ms", FTH_CLI_U64, &s.timeout_ms, 0, 86400000,
		 "milliseconds after which a client that stalls in a message or takes no results "
		 "is dropped; 0: 30000"},
		{"scratch", FTH_CLI_STRING, &s.options.scratch, 0, 0,
		 "directory for temporary files; default: the database's, else $TMPDIR or /tmp"},
		{"scratch-limit", FTH_CLI_SIZE, &s.scratch_limit, 0, (uint64_t)1 << 50,
		 "bytes of temporary files of a statement; 0: all free space"},
		{"create", FTH_CLI_FLAG, &s.options.create, 0, 0,
		 "make the directory if it is not there"},
		{"readonly", FTH_CLI_FLAG, &s.options.readonly, 0, 0,
		 "refuse statements that change the database"},
		{"log", FTH_CLI_STRING, &s.log, 0, 0,
		 "events on standard error: off, text or json"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "sql serve [OPTIONS] DB",
		.text = "Serve the tables of a database to psql and every other client of "
			"PostgreSQL's protocol:\n"
			"psql 'host=127.0.0.1 port=5433 dbname=fathom'. SIGTERM and SIGINT end it. "
			"Without --auth,\n"
			"every client that connects may do everything, and only this machine can "
			"connect.\n" FTH_TABLE_DB_SYNTAX,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int rc = 0, status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	/* An arena for each connection would keep memory that others could use. */
	mallopt(M_ARENA_MAX, 2);
	if (!fth_daemon_log_format(s.log, &s.log_format) ||
	    !fth_daemon_sockets(s.listen, &s.sockets))
		status = FTH_EXIT_USAGE;
	if (status == FTH_CLI_GO_ON)
		rc = serve(&s, args[0]);
	if (rc < 0)
		fth_cli_error("%s: %s", args[0], fth_error_text(rc));
	fth_daemon_sockets_free(&s.sockets);
	return status != FTH_CLI_GO_ON ? status : rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_sql_serve = {
	.name = "serve", .summary = "serve tables by PostgreSQL's protocol", .run = run};
