/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * COPY FROM STDIN. The engine's COPY reads CSV from a pipe in a thread of its own; the session's
 * thread reads the messages of the client, turns their rows into CSV (copy_rows.c) and writes the
 * pipe. The engine commits when the pipe ends. A copy that must not succeed is canceled before its
 * pipe is closed.
 */
#include "pg/copy_rows.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_BYTES (2u << 20)

struct loader {
	struct pg_session *session;
	char *statement;
	int pipe[2];
	pthread_t thread;
	atomic_bool ended;
	int rc;
	char text[FTH_ERROR_TEXT_MAX]; /* of the error */
};

static void *run_loader(void *user)
{
	struct loader *l = user;

	l->rc = fth_query_run(l->session->query, l->statement, NULL, NULL);
	if (l->rc < 0)
		snprintf(l->text, sizeof(l->text), "%s", fth_error_text(l->rc));
	/* release: rc and text, for the thread that sees the flag */
	atomic_store_explicit(&l->ended, true, memory_order_release);
	return NULL;
}

static bool loader_ended(struct loader *l)
{
	return atomic_load_explicit(&l->ended, memory_order_acquire);
}

/* The engine's COPY of the pipe; its first line names the columns. */
static char *loader_statement(const char *table, const struct pg_copy_out *how, int fd)
{
	bool csv = how->format == PG_COPY_CSV;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	fputs("copy \"", out);
	for (const char *c = table; *c; c++)
		fprintf(out, *c == '"' ? "\"\"" : "%c", *c);
	fprintf(out, "\" from '/dev/fd/%d' with (format csv, header match", fd);
	if (csv)
		fprintf(out, ", delimiter '%s%c', quote '%s%c'", how->delimiter == '\'' ? "'" : "",
			how->delimiter, how->quote == '\'' ? "'" : "", how->quote);
	fputs(", null '", out);
	for (const char *c = csv ? how->null : ""; *c; c++)
		fprintf(out, *c == '\'' ? "''" : "%c", *c);
	fputs("')", out);
	return fclose(out) == 0 ? text : (free(text), NULL);
}

static int start_loader(struct loader *l, const char *table, const struct pg_copy_out *how)
{
	pthread_attr_t attr;
	int rc;

	fth_fd_reserve();
	rc = pipe2(l->pipe, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
	fth_fd_release();
	if (rc < 0) {
		l->pipe[0] = l->pipe[1] = -1;
		return rc;
	}
	(void)fcntl(l->pipe[1], F_SETPIPE_SZ, 1 << 20);
	l->statement = loader_statement(table, how, l->pipe[0]);
	if (!l->statement)
		return -ENOMEM;
	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = -pthread_create(&l->thread, &attr, run_loader, l);
	pthread_attr_destroy(&attr);
	return rc;
}

static int feed(void *user, const char *bytes, size_t n)
{
	struct loader *l = user;

	while (n > 0) {
		struct pollfd p = {.fd = l->pipe[1], .events = POLLOUT};
		ssize_t done = write(l->pipe[1], bytes, n < 65536 ? n : 65536);

		if (done > 0) {
			bytes += done;
			n -= (size_t)done;
		} else if (loader_ended(l)) {
			return -EPIPE; /* it has failed: nobody reads any more */
		} else if (done < 0 && errno != EAGAIN && errno != EINTR) {
			return -errno;
		} else {
			(void)poll(&p, 1, 20);
		}
	}
	return 0;
}

/* End the loader. commit: what it was fed is all; else nothing is appended. */
static void end_loader(struct loader *l, bool commit)
{
	struct timespec nap = {.tv_nsec = 2000000};

	/* Its statement may begin after the first cancellation, which it then does not see. */
	while (!commit && !loader_ended(l)) {
		fth_query_cancel(l->session->query);
		nanosleep(&nap, NULL);
	}
	close(l->pipe[1]);
	pthread_join(l->thread, NULL);
	close(l->pipe[0]);
}

/* ---- messages ---- */

/*
 * Rows of the client, until it says that there are no more. 0: all; -EPIPE: the loader has failed.
 */
static int take_rows(struct pg_session *s, struct loader *l, struct pg_copy_rows *rows)
{
	struct pg_message m;
	int rc = 0;

	while (rc == 0) {
		rc = pg_read_message(&s->wire, PG_MESSAGE_MAX, false, &m);
		if (rc < 0)
			return rc;
		if (loader_ended(l))
			return -EPIPE;
		switch (m.type) {
		case 'd':
			rc = pg_copy_rows_add(rows, m.at, (size_t)(m.end - m.at));
			break;
		case 'c':
			return pg_copy_rows_end(rows);
		case 'f':
			snprintf(rows->error, sizeof(rows->error), "COPY from stdin failed: %.200s",
				 pg_get_string(&m));
			return -ECANCELED;
		case 'H':
		case 'S':
			break;
		default:
			return -EPROTO;
		}
	}
	return rc;
}

static int begin_copy(struct pg_session *s, const struct pg_copy_out *how, unsigned columns)
{
	bool binary = how->format == PG_COPY_BINARY;

	pg_put_begin(&s->wire, 'G');
	pg_put_u8(&s->wire, binary);
	pg_put_i16(&s->wire, (int)columns);
	for (unsigned i = 0; i < columns; i++)
		pg_put_i16(&s->wire, binary);
	(void)pg_put_end(&s->wire);
	return pg_flush(&s->wire);
}

/* The loader's error names the pipe and counts its header: "COPY t, line 7: ..." instead. */
static void report_loader(struct pg_session *s, const char *table, const struct loader *l)
{
	const char *text = l->text,
		   *colon = strncmp(text, "/dev/fd/", 8) == 0 ? strchr(text, ':') : NULL;
	const char *state = pg_sqlstate(l->rc, text);
	char *end;
	unsigned long line = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (strcmp(state, "42000") == 0)
		state = "22P04";
	if (line > 1)
		pg_error(s, state, "COPY %s, line %lu%s", table, line - 1, end);
	else
		pg_error(s, state, "COPY %s: %s", table, colon ? colon + 1 : text);
}

/* The result for the client, after the loader has ended. rc: of reading the rows. */
static int finish_copy(struct pg_session *s, const char *table, const struct loader *l,
		       const struct pg_copy_rows *rows, int rc, const char *reason)
{
	if (rc == 0 && l->rc == 0) {
		uint64_t count = fth_query_report(s->query)->rows;

		s->appended += count;
		return pg_complete(s, "COPY %llu", (unsigned long long)count);
	}
	if (rc == 0 || rc == -EPIPE) {
		if (l->rc == -ECANCELED && reason)
			pg_error(s, "57014", "%s", reason);
		else
			report_loader(s, table, l);
	} else if (rc == -ECANCELED || rc == -EINVAL) {
		pg_error(s, rc == -ECANCELED ? "57014" : "22P04", "%s", rows->error);
	} else if (rc == -ENOMEM) {
		pg_error(s, "53200", "out of memory");
	} else {
		s->wire.failed = rc; /* the connection is gone, or out of step */
	}
	return -1;
}

int pg_copy_in(struct pg_session *s, const char *table, const char *columns,
	       const struct pg_copy_out *how)
{
	struct loader l = {.session = s};
	struct pg_copy_rows rows;
	struct pg_prepared *p;
	const char *reason;
	char *select = NULL;
	int rc;

	if (asprintf(&select, "select %s from \"%s\"", *columns ? columns : "*", table) < 0)
		select = NULL;
	if (!select) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	rc = pg_prepare(s, "", select, 0, NULL, &p);
	free(select);
	if (rc < 0)
		return -1;
	pg_copy_rows_init(&rows, how, p->columns, p->column_count, feed, &l);
	rc = start_loader(&l, table, how);
	if (rc == 0) {
		pg_watch_begin(s);
		rc = pg_copy_rows_begin(&rows);
		if (rc == 0)
			rc = begin_copy(s, how, p->column_count);
		if (rc == 0)
			rc = take_rows(s, &l, &rows);
		end_loader(&l, rc == 0);
		reason = pg_watch_end(s);
		rc = finish_copy(s, table, &l, &rows, rc, reason);
	} else {
		if (l.pipe[0] >= 0) {
			close(l.pipe[0]);
			close(l.pipe[1]);
		}
		pg_error(s, pg_sqlstate(rc, ""), "COPY: %s", strerror(-rc));
		rc = -1;
	}
	pg_copy_rows_release(&rows);
	pg_release_prepared(p);
	free(l.statement);
	return rc;
}
