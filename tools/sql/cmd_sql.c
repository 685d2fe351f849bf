/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom sql: SQL over the tables of a database. Siblings: cmd_sql_shell.c talks with a terminal,
 * by sql_line.c; sql_print.c prints results; sql_tasks.c shows and runs Table Tasks;
 * sql_temporary.c has the database of a session that names none.
 */
#include "cmd_sql.h"

#include "commands.h"
#include "sql_temporary.h"
#include "table_source.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- stopping ---- */

/* The query that signals cancel. Set before the handlers are, and never again. */
static struct fth_query *canceled_query;
static volatile sig_atomic_t interrupted, must_end;

static void on_signal(int signal)
{
	interrupted = 1;
	if (signal != SIGINT)
		must_end = 1;
	fth_query_cancel(canceled_query);
}

bool fth_sql_must_end(void)
{
	return must_end != 0;
}

static void catch_signals(struct fth_query *query)
{
	struct sigaction action = {.sa_handler = on_signal};

	canceled_query = query;
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	action.sa_flags = SA_RESETHAND;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* ---- one statement ---- */

/*
 * The line of the statement in which an error is, and a caret below its place; columns count
 * characters.
 */
static void point_at(const char *statement, unsigned line, unsigned column)
{
	const char *at = statement;
	size_t length;

	while (line > 1 && (at = strchr(at, '\n')) != NULL) {
		at++;
		line--;
	}
	if (!at)
		return;
	length = strcspn(at, "\r\n");
	fprintf(stderr, "  %.*s\n  ", (int)length, at);
	for (const char *c = at; column > 1 && c < at + length; c++) {
		if (((unsigned char)*c & 0xc0) == 0x80)
			continue;
		putc(*c == '\t' ? '\t' : ' ', stderr);
		column--;
	}
	fputs("^\n", stderr);
}

static void say_error(const struct fth_sql *sql, const char *statement,
		      const struct fth_sql_place *place, int rc)
{
	const struct fth_query_report *report = fth_query_report(sql->query);
	const char *text = fth_error_text(rc), *colon;
	unsigned before = report->line == 1 ? place->column - 1 : 0; /* in the same line */

	fflush(stdout);
	/* The text has the place in the statement; here is the one in the script. */
	colon = report->line > 0 && strncmp(text, "line ", 5) == 0 ? strchr(text, ':') : NULL;
	if (!place->where)
		fth_cli_error("%s", !colon ? text : colon + 2);
	else if (!colon)
		fth_cli_error("%s:%u: %s", place->where, place->line, text);
	else
		fth_cli_error("%s:%u:%u:%s", place->where, place->line + report->line - 1,
			      before + report->column, colon + 1);
	if (colon)
		point_at(statement, report->line, report->column);
}

static void say_done(const struct fth_sql *sql)
{
	static const char *const names[] = {
		[FTH_QUERY_INSERT] = "INSERT",
		[FTH_QUERY_COPY] = "COPY",
		[FTH_QUERY_CREATE_TABLE] = "CREATE TABLE",
		[FTH_QUERY_DROP_TABLE] = "DROP TABLE",
		[FTH_QUERY_CREATE_VIEW] = "CREATE VIEW",
		[FTH_QUERY_DROP_VIEW] = "DROP VIEW",
	};
	const struct fth_query_report *report = fth_query_report(sql->query);

	if (report->kind == FTH_QUERY_INSERT || report->kind == FTH_QUERY_COPY)
		printf("%s %llu\n", names[report->kind], (unsigned long long)report->rows);
	else if (report->kind > FTH_QUERY_EXPLAIN)
		puts(names[report->kind]);
}

static void say_time(const struct fth_sql *sql)
{
	const struct fth_query_report *report = fth_query_report(sql->query);
	char read[FTH_CLI_BYTES_MAX], memory[FTH_CLI_BYTES_MAX];

	/* Where standard output is for machines, figures are for people. */
	FILE *out = sql->quiet ? stderr : stdout;

	fprintf(out, "time: %.3f s, read %s, memory %s", (double)report->wall_ns / 1e9,
		fth_cli_bytes(read, report->bytes), fth_cli_bytes(memory, report->memory));
	if (report->wire_received > 0)
		fprintf(out, ", wire %llu bytes sent, %llu received",
			(unsigned long long)report->wire_sent,
			(unsigned long long)report->wire_received);
	putc('\n', out);
}

int fth_sql_statement(struct fth_sql *sql, const char *text, const struct fth_sql_place *place)
{
	int rc = sql->show_tasks ? fth_sql_show_tasks(sql, text)
				 : fth_query_run(sql->query, text, fth_sql_print, &sql->printer);

	if (rc < 0) {
		/* The text is this thread's latest: nothing may fail in between. */
		say_error(sql, text, place, rc);
		fth_sql_print_end(&sql->printer, rc);
		return rc;
	}
	fth_sql_print_end(&sql->printer, 0);
	if (!sql->quiet && !sql->show_tasks)
		say_done(sql);
	if (sql->timing)
		say_time(sql);
	return 0;
}

/* ---- scripts ---- */

/* Line and column, in characters, of an offset. */
static struct fth_sql_place place_of(const char *where, const char *script, size_t offset)
{
	struct fth_sql_place place = {where, 1, 1};

	for (size_t i = 0; i < offset; i++) {
		if (script[i] == '\n') {
			place.line++;
			place.column = 1;
		} else if (((unsigned char)script[i] & 0xc0) != 0x80) {
			place.column++;
		}
	}
	return place;
}

static int run_script(struct fth_sql *sql, const char *script, const char *where)
{
	size_t at = 0, next, begin, length;
	int status = FTH_EXIT_OK;

	while (!interrupted && (next = fth_query_split(script, at, &begin, &length)) != 0) {
		struct fth_sql_place place = place_of(where, script, begin);
		char *text = strndup(script + begin, length);
		int rc = !text ? -ENOMEM : fth_sql_statement(sql, text, &place);

		free(text);
		if (rc < 0)
			status = FTH_EXIT_FAILED;
		if (rc < 0 && (!sql->keep_going || ferror(stdout)))
			break;
		at = next;
	}
	return interrupted ? FTH_EXIT_INTERRUPTED : status;
}

static char *read_all(FILE *file, size_t *length)
{
	size_t room = 65536;
	char *text = malloc(room);

	*length = 0;
	while (text) {
		char *more;

		*length += fread(text + *length, 1, room - *length - 1, file);
		text[*length] = '\0';
		if (*length + 1 < room)
			return text;
		room *= 2;
		more = realloc(text, room);
		if (!more)
			free(text);
		text = more;
	}
	return NULL;
}

/* The whole file, or standard input for NULL; NULL after a message. */
static char *read_file(const char *path)
{
	FILE *file = !path ? stdin : fopen(path, "r");
	const char *name = !path ? "standard input" : path;
	size_t length;
	char *text = NULL;

	if (!file) {
		fth_cli_error("%s: %s", path, strerror(errno));
		return NULL;
	}
	errno = ENOMEM;
	text = read_all(file, &length);
	if (!text || ferror(file)) {
		fth_cli_error("cannot read %s: %s", name, strerror(errno));
		free(text);
		text = NULL;
	} else if (strlen(text) < length) {
		/* What follows the byte would be dropped in silence. */
		fth_cli_error("%s: byte %zu is zero; a script is text", name, strlen(text));
		free(text);
		text = NULL;
	}
	if (path)
		fclose(file);
	return text;
}

static int run_file(struct fth_sql *sql, const char *path)
{
	char *script = read_file(path);
	int status = FTH_EXIT_FAILED;

	if (script)
		status = run_script(sql, script, !path ? "stdin" : path);
	free(script);
	return status;
}

static int run_tasks(struct fth_sql *sql, const char *path)
{
	char *text = read_file(strcmp(path, "-") == 0 ? NULL : path);
	int rc = !text ? -EIO : fth_sql_run_tasks(sql, path, text);

	free(text);
	if (rc == 0 && sql->timing)
		say_time(sql);
	return interrupted ? FTH_EXIT_INTERRUPTED : rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

/* ---- the command ---- */

struct sql_settings {
	const char *command, *null;
	uint64_t budget, threads, scratch_limit;
	const char *tasks, *storage, *scratch;
	bool csv, no_header, create, readonly, timing, keep_going, show_tasks, plain;
};

static int run_all(struct fth_sql *sql, const struct sql_settings *settings, const char *path)
{
	int status = FTH_EXIT_OK;

	if (settings->tasks)
		return run_tasks(sql, settings->tasks);
	if (settings->command)
		status = run_script(sql, settings->command, "command");
	if (status == FTH_EXIT_OK && path)
		return run_file(sql, strcmp(path, "-") == 0 ? NULL : path);
	if (settings->command || path)
		return status;
	return isatty(STDIN_FILENO) ? fth_sql_shell(sql) : run_file(sql, NULL);
}

static int run_in(const char *where, const struct sql_settings *settings, const char *path)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	struct fth_sql sql = {.timing = settings->timing, .keep_going = settings->keep_going};
	int rc, status;

	options.budget = settings->budget;
	options.threads = (unsigned)settings->threads;
	options.create = settings->create;
	options.readonly = settings->readonly;
	options.storage = settings->storage;
	options.plain = settings->plain;
	options.scratch = settings->scratch;
	options.scratch_limit = settings->scratch_limit;
	sql.printer.form = fth_cli_json()  ? FTH_SQL_JSON
			   : settings->csv ? FTH_SQL_CSV
					   : FTH_SQL_TABLE;
	sql.printer.header = !settings->no_header;
	sql.printer.null = settings->null;
	sql.show_tasks = settings->show_tasks;
	sql.quiet = sql.printer.form != FTH_SQL_TABLE;
	rc = fth_query_open(where, &options, &sql.db);
	if (rc == 0)
		rc = fth_query_new(sql.db, &sql.query);
	if (rc < 0) {
		fth_cli_error("%s: %s%s", where ? where : settings->storage, fth_error_text(rc),
			      rc == -ENOENT && where ? "; --create creates it" : "");
		fth_query_close(sql.db);
		return FTH_EXIT_FAILED;
	}
	catch_signals(sql.query);
	status = run_all(&sql, settings, path);
	fth_query_free(sql.query);
	fth_query_close(sql.db);
	return status;
}

/* ---- without a database: an empty one, which is removed at the end ---- */

static int run_in_temporary(struct sql_settings *settings)
{
	struct fth_sql_temporary temporary;
	int status;

	if (fth_sql_temporary_open(&temporary) < 0)
		return FTH_EXIT_FAILED;
	settings->create = true;
	status = run_in(temporary.folder, settings, NULL);
	fth_sql_temporary_close(&temporary);
	return status;
}

/* -c is the one short option. */
static void lengthen(int argc, char **argv)
{
	static char command[] = "--command";

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "-c") == 0) {
			argv[i] = command;
			i++;
		}
}

static int run(int argc, char **argv)
{
	static char empty[] = "";
	struct sql_settings s = {.null = empty, .budget = FTH_QUERY_BUDGET};
	const struct fth_cli_option options[] = {
		{"command", FTH_CLI_STRING, &s.command, 0, 0, "statements to run; also -c"},
		{"csv", FTH_CLI_FLAG, &s.csv, 0, 0, "print rows as CSV, with a header line"},
		{"no-header", FTH_CLI_FLAG, &s.no_header, 0, 0,
		 "print CSV without the header line"},
		{"null", FTH_CLI_STRING, &s.null, 0, 0, "text that stands for NULL"},
		{"memory", FTH_CLI_SIZE, &s.budget, FTH_QUERY_BUDGET_MIN, (uint64_t)1 << 44,
		 "bytes that queries may use"},
		{"threads", FTH_CLI_U64, &s.threads, 0, 256, "threads; 0: one for each processor"},
		{"tasks", FTH_CLI_STRING, &s.tasks, 0, 0,
		 "run the Table Tasks of this file instead of SQL; -: standard input"},
		{"show-tasks", FTH_CLI_FLAG, &s.show_tasks, 0, 0,
		 "print the tasks of each SELECT, or those of --tasks, instead of running them"},
		{"storage", FTH_CLI_STRING, &s.storage, 0, 0,
		 "the storage daemon that has the tables, unix:PATH or HOST:PORT; without DB"},
		{"plain", FTH_CLI_FLAG, &s.plain, 0, 0,
		 "with --storage: run all tasks here, and read columns over the wire"},
		{"scratch", FTH_CLI_STRING, &s.scratch, 0, 0,
		 "directory for temporary files; default: the database's, else $TMPDIR or /tmp"},
		{"scratch-limit", FTH_CLI_SIZE, &s.scratch_limit, 0, (uint64_t)1 << 50,
		 "bytes of temporary files; 0: as many as are free there"},
		{"create", FTH_CLI_FLAG, &s.create, 0, 0, "make the directory if it is not there"},
		{"readonly", FTH_CLI_FLAG, &s.readonly, 0, 0, "open for reading only"},
		{"timing", FTH_CLI_FLAG, &s.timing, 0, 0,
		 "print time, bytes read and memory of each statement"},
		{"keep-going", FTH_CLI_FLAG, &s.keep_going, 0, 0,
		 "run the rest of a script after an error"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "sql [OPTIONS] [DB [FILE]]\n"
			    "       fathom sql COMMAND [ARGUMENTS]",
		.text = "Run SQL over the tables of a database: the statements of -c, of FILE, or "
			"of\n"
			"standard input (FILE - too); on a terminal, a shell. Statements end with "
			"a\n"
			"semicolon. --json prints one object for each row.\n" FTH_TABLE_DB_SYNTAX
			"One with the name of a command below is written ./NAME.\n"
			"Without DB, an empty temporary database is used; with --storage, that of "
			"the\n"
			"daemon.\n",
		.options = options,
		.max_args = 2,
		.commands = fth_sql_commands,
	};
	char **args;
	int status;

	lengthen(argc, argv);
	status = fth_cli_parse(&usage, argc, argv, &args);
	if (status != FTH_CLI_GO_ON)
		return status;
	/*
	 * Other arenas reserve 64 MiB of addresses for each thread, which a limit (ulimit -v) may
	 * not have.
	 */
	mallopt(M_ARENA_MAX, 1);
	if (s.csv && fth_cli_json()) {
		fth_cli_error("--csv and --json are mutually exclusive");
		return FTH_EXIT_USAGE;
	}
	if (s.storage)
		return run_in(NULL, &s, args[0]);
	return !args[0] ? run_in_temporary(&s) : run_in(args[0], &s, args[1]);
}

const struct fth_command fth_cmd_sql = {
	.name = "sql", .summary = "SQL over tables, inside a memory budget", .run = run};
