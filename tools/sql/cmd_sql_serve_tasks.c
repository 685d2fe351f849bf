/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom sql serve-tasks: the tables of a database for hosts that send Table Tasks. */
#include "commands.h"
#include "daemon.h"
#include "table_source.h"

#include "fathom/base/error.h"
#include "fathom/query/storage.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct server {
	const char *listen, *log, *scratch;
	enum fth_log_format log_format;
	struct fth_daemon_sockets sockets;
	uint64_t budget, threads, connections, timeout_ms, scratch_limit;
	struct fth_storage *storage;
	bool insecure;
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
	fth_storage_stop(s->storage);
	return NULL;
}

static void say_where(const struct server *s, const struct fth_storage *storage, const char *db)
{
	const char *where = s->sockets.count > 0 ? s->sockets.where[0] : "127.0.0.1";

	printf("sql serve-tasks: %s at %s", db, where);
	if (strncmp(where, "unix:", 5) != 0)
		printf(", port %u", fth_storage_port(storage));
	putchar('\n');
	fflush(stdout);
}

static void log_totals(struct server *s, struct fth_storage *storage)
{
	struct fth_storage_stats x;
	char text[256];

	fth_storage_stats(storage, &x);
	snprintf(text, sizeof(text),
		 "%llu connections, %llu task sets, %llu suspended, %llu canceled, %llu bytes "
		 "sent, %llu received, "
		 "%llu spilled, %llu bytes of memory at most",
		 (unsigned long long)x.accepted, (unsigned long long)x.sets,
		 (unsigned long long)x.suspended, (unsigned long long)x.canceled,
		 (unsigned long long)x.sent, (unsigned long long)x.received,
		 (unsigned long long)x.spilled, (unsigned long long)x.memory_peak);
	log_event(s, "stopped", text);
}

static int serve(struct server *s, const char *db)
{
	struct fth_storage_options options = FTH_STORAGE_OPTIONS_INIT;
	pthread_t watcher;
	int rc;

	options.budget = s->budget;
	options.threads = (unsigned)s->threads;
	options.connections = (unsigned)s->connections;
	options.timeout_ms = (unsigned)s->timeout_ms;
	options.listen_count = s->sockets.count;
	options.listen = s->sockets.where;
	options.scratch = s->scratch;
	options.scratch_limit = s->scratch_limit;
	options.insecure_listen = s->insecure;
	options.log = log_event;
	options.user = s;
	rc = fth_storage_open(db, &options, &s->storage);
	if (rc < 0)
		return rc;
	if (pthread_create(&watcher, NULL, watch_signals, s) != 0) {
		fth_storage_close(s->storage);
		return -ENOMEM;
	}
	log_event(s, "start", db);
	say_where(s, s->storage, db);
	rc = fth_storage_run(s->storage);
	atomic_store(&s->ended, true);
	pthread_join(watcher, NULL);
	log_totals(s, s->storage);
	fth_storage_close(s->storage);
	return rc;
}

static int run(int argc, char **argv)
{
	struct server s = {.log = "off", .budget = FTH_QUERY_BUDGET};
	const struct fth_cli_option options[] = {
		{"listen", FTH_CLI_STRING, &s.listen, 0, 0,
		 "HOST:PORT, unix:PATH or fd:N, separated by commas; default the sockets of "
		 "systemd, or "
		 "127.0.0.1:11212"},
		{"insecure-listen", FTH_CLI_FLAG, &s.insecure, 0, 0,
		 "allow --listen on addresses that other machines can reach, without "
		 "authentication"},
		{"memory", FTH_CLI_SIZE, &s.budget, FTH_QUERY_BUDGET_MIN, (uint64_t)1 << 44,
		 "bytes that all task sets together may use"},
		{"threads", FTH_CLI_U64, &s.threads, 0, 256,
		 "threads of a task set, at most; 0: one for each processor"},
		{"connections", FTH_CLI_U64, &s.connections, 0, 65536,
		 "connections at most; 0: 64"},
		FTH_CLI_WAS("timeout", "timeout-ms"),
		{"timeout-ms", FTH_CLI_U64, &s.timeout_ms, 0, 86400000,
		 "milliseconds after which a client that stalls in a frame or reads no results is "
		 "dropped; 0: 30000"},
		{"scratch", FTH_CLI_STRING, &s.scratch, 0, 0,
		 "directory for temporary files; default: the database's, else $TMPDIR or /tmp"},
		{"scratch-limit", FTH_CLI_SIZE, &s.scratch_limit, 0, (uint64_t)1 << 50,
		 "bytes of temporary files of a task set; 0: all free space"},
		{"log", FTH_CLI_STRING, &s.log, 0, 0,
		 "events on standard error: off, text or json"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "sql serve-tasks [OPTIONS] DB",
		.text = "Own the tables of a database, run Table Tasks that hosts send (fathom sql "
			"--storage), inside\n"
			"a memory budget, and send back results only. SIGTERM and SIGINT end it. "
			"Every client that\n"
			"connects can read all tables; none can change them. Only this machine can "
			"connect, unless\n"
			"--insecure-listen is given.\n" FTH_TABLE_DB_SYNTAX,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int rc = 0, status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
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

const struct fth_command fth_cmd_sql_serve_tasks = {
	.name = "serve-tasks", .summary = "serve tables to `fathom sql --storage`", .run = run};
