/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/session.h"
#include "base/net/tls.h"
#include "query/spill/scratch.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES (2u << 20) /* the front end wants 1 MiB */
#define WATCH_MS    100	       /* between two looks at the clients of running statements */

void pg_log(struct fth_pg *s, const char *event, const char *format, ...)
{
	char text[FTH_ERROR_TEXT_MAX + 128];
	va_list args;

	if (!s->log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	s->log(s->user, event, text);
}

/* ---- opening ---- */

static int check_options(const struct fth_pg_options *o)
{
	if (o->size != sizeof(*o))
		return fth_fail(EINVAL, "pg: opts.size is %zu, expected %zu", o->size, sizeof(*o));
	if (o->listen_count > 0 && !o->listen)
		return fth_fail(EINVAL, "pg: listen_count is %u, but listen is NULL",
				o->listen_count);
	if (!o->tls_certificate != !o->tls_key)
		return fth_fail(EINVAL, "pg: a certificate and a key for TLS go together");
	return 0;
}

static int listen_all(struct fth_pg *s, const struct fth_pg_options *o)
{
	char local[32];
	int rc = 0;

	if (!o->insecure_listen && !o->passwords)
		s->listen.local_only =
			", and clients need no password: use a loopback address or a Unix socket, "
			"give a "
			"password file (--auth), or allow it with insecure_listen "
			"(--insecure-listen)";
	snprintf(local, sizeof(local), "127.0.0.1:%d", FTH_PG_PORT);
	if (o->listen_count == 0)
		return fth_listen_open(&s->listen, local);
	for (unsigned i = 0; i < o->listen_count && rc == 0; i++)
		rc = fth_listen_open(&s->listen, o->listen[i]);
	return rc;
}

static int open_database(struct fth_pg *s, const char *where, const struct fth_pg_options *o)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	int rc;

	options.budget = o->budget;
	options.threads = o->threads;
	options.create = o->create;
	options.readonly = o->readonly;
	options.scratch = o->scratch;
	options.scratch_limit = o->scratch_limit;
	rc = fth_query_open(where, &options, &s->db);
	return rc < 0 ? rc : scratch_choose(o->scratch, where, &s->scratch);
}

int fth_pg_open(const char *where, const struct fth_pg_options *options, struct fth_pg **out)
{
	static const struct fth_pg_options defaults = FTH_PG_OPTIONS_INIT;
	const struct fth_pg_options *o = options ? options : &defaults;
	struct fth_pg *s;
	int rc = check_options(o);

	*out = NULL;
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->connections_max = o->connections != 0 ? o->connections : FTH_PG_CONNECTIONS;
	s->timeout_ns =
		(uint64_t)(o->timeout_ms != 0 ? o->timeout_ms : FTH_PG_TIMEOUT_MS) * 1000000;
	s->readonly = o->readonly;
	s->scratch_limit = o->scratch_limit;
	s->log = o->log;
	s->user = o->user;
	s->wake = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = s->wake < 0 ? -errno : 0;
	if (rc == 0 && o->passwords) {
		rc = pg_passwords_load(&s->passwords, o->passwords);
		s->has_passwords = rc == 0;
	}
	if (rc == 0 && o->tls_certificate)
		rc = tls_open(o->tls_certificate, o->tls_key, &s->tls);
	if (rc == 0)
		rc = open_database(s, where, o);
	if (rc == 0)
		rc = listen_all(s, o);
	if (rc < 0) {
		fth_pg_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void fth_pg_close(struct fth_pg *s)
{
	if (!s)
		return;
	fth_listen_close(&s->listen);
	if (s->wake >= 0)
		close(s->wake);
	fth_query_close(s->db);
	pg_passwords_release(&s->passwords);
	if (s->tls)
		tls_close(s->tls);
	free(s->scratch);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

unsigned fth_pg_port(const struct fth_pg *s)
{
	return s->listen.port;
}

static void wake_up(struct fth_pg *s)
{
	uint64_t one = 1;
	ssize_t n = write(s->wake, &one, sizeof(one));

	(void)n; /* a counter that is full wakes as well */
}

void fth_pg_stop(struct fth_pg *s)
{
	atomic_store_explicit(&s->stopping, true, memory_order_relaxed);
	wake_up(s);
}

void fth_pg_stats(struct fth_pg *s, struct fth_pg_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	out->connections = s->session_count;
	pthread_mutex_unlock(&s->lock);
}

/* ---- running statements ---- */

void pg_watch_begin(struct pg_session *s)
{
	const char *timeout = pg_setting(s, "statement_timeout");
	uint64_t ms = timeout ? strtoull(timeout, NULL, 10) : 0;

	pthread_mutex_lock(&s->server->lock);
	s->watch = (struct pg_watch){
		.running = true, .deadline = ms == 0 ? UINT64_MAX : fth_deadline_ns(ms * 1000000)};
	s->server->stats.statements++;
	pthread_mutex_unlock(&s->server->lock);
	wake_up(s->server);
}

const char *pg_watch_end(struct pg_session *s)
{
	const char *reason = NULL;

	pthread_mutex_lock(&s->server->lock);
	s->watch.running = false;
	if (s->watch.timed_out)
		reason = "canceling statement due to statement timeout";
	else if (s->watch.canceled)
		reason = "canceling statement due to user request";
	else if (s->watch.gone)
		reason = "the client has closed the connection";
	s->server->stats.canceled += reason != NULL;
	pthread_mutex_unlock(&s->server->lock);
	return reason;
}

void pg_cancel(struct fth_pg *server, uint32_t pid, uint32_t secret)
{
	pthread_mutex_lock(&server->lock);
	for (struct pg_session *x = server->sessions; x; x = x->next) {
		if (x->pid != pid || x->secret != secret || !x->watch.running)
			continue;
		x->watch.canceled = true;
		fth_query_cancel(x->query);
	}
	pthread_mutex_unlock(&server->lock);
}

static bool client_is_gone(const struct pg_session *x)
{
	struct pollfd p = {.fd = x->wire.fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/*
 * Cancel statements whose client is gone or whose time is over. A statement may begin between the
 * cancel flag's reset by the engine and here, so cancellations are repeated until the statement
 * has ended. True: there are running ones.
 */
static bool watch_statements(struct fth_pg *s)
{
	uint64_t now = fth_now_ns();
	bool any = false;

	pthread_mutex_lock(&s->lock);
	for (struct pg_session *x = s->sessions; x; x = x->next) {
		if (!x->watch.running || x->ended)
			continue;
		any = true;
		x->watch.timed_out |= now >= x->watch.deadline;
		x->watch.gone |= client_is_gone(x);
		if (x->watch.timed_out || x->watch.gone || x->watch.canceled)
			fth_query_cancel(x->query);
	}
	pthread_mutex_unlock(&s->lock);
	return any;
}

/* ---- sessions ---- */

static void *run_session(void *user)
{
	struct pg_session *s = user;
	struct fth_pg *server = s->server;

	pg_serve(s);
	pthread_mutex_lock(&server->lock);
	server->stats.sent += s->wire.sent;
	server->stats.received += s->wire.received;
	s->ended = true;
	pthread_mutex_unlock(&server->lock);
	wake_up(server);
	return NULL;
}

/* Join sessions that have ended. */
static void bury(struct fth_pg *s)
{
	struct pg_session *ended = NULL, **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->sessions; *at;) {
		struct pg_session *x = *at;

		if (!x->ended) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		x->next = ended;
		ended = x;
		s->session_count--;
	}
	pthread_mutex_unlock(&s->lock);
	while (ended) {
		struct pg_session *next = ended->next;
		int fd = ended->wire.fd;

		pthread_join(ended->thread, NULL);
		pg_wire_release(&ended->wire);
		close(fd);
		fth_query_free(ended->query);
		free(ended);
		ended = next;
	}
}

static int start_thread(struct pg_session *x)
{
	pthread_attr_t attr;
	int rc;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&x->thread, &attr, run_session, x);
	pthread_attr_destroy(&attr);
	return rc == 0 ? 0 : -rc;
}

static int begin_session(struct fth_pg *s, int fd)
{
	struct pg_session *x = calloc(1, sizeof(*x));
	int one = 1, rc;

	if (!x)
		return -ENOMEM;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	x->server = s;
	x->status = 'I';
	pg_wire_init(&x->wire, fd, s->timeout_ns);
	rc = fth_query_new(s->db, &x->query);
	if (rc == 0 && getrandom(&x->secret, sizeof(x->secret), 0) != sizeof(x->secret))
		rc = -EIO;
	pthread_mutex_lock(&s->lock);
	x->pid = ++s->last_pid;
	if (rc == 0)
		rc = start_thread(x);
	if (rc == 0) {
		x->next = s->sessions;
		s->sessions = x;
		s->session_count++;
		s->stats.accepted++;
	}
	pthread_mutex_unlock(&s->lock);
	if (rc < 0) {
		fth_query_free(x->query);
		free(x);
	}
	return rc;
}

/*
 * Refuse a connection beyond the limit with an ErrorResponse. A client that waits for the answer
 * to SSLRequest reads its first byte, E, as an error too.
 */
static void refuse(struct fth_pg *s, int fd, int rc)
{
	static const char fields[] = "SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0";
	struct pg_wire w;

	pg_wire_init(&w, fd, 0);
	pg_put_begin(&w, 'E');
	pg_put_bytes(&w, fields, sizeof(fields)); /* its last zero ends the list of fields */
	pg_put_end(&w);
	if (rc == -EBUSY)
		(void)pg_flush(&w);
	pg_wire_release(&w);
	close(fd);
	pthread_mutex_lock(&s->lock);
	s->stats.refused++;
	pthread_mutex_unlock(&s->lock);
	pg_log(s, "refused", "a connection: %s",
	       rc == -EBUSY ? "there are as many as may be" : "out of memory");
}

static void accept_one(struct fth_pg *s, int listening)
{
	int fd = fth_fd_high(accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	int rc;

	if (fd < 0)
		return;
	rc = s->session_count >= s->connections_max ? -EBUSY : begin_session(s, fd);
	if (rc < 0)
		refuse(s, fd, rc);
}

/* End all: statements are canceled, reads and writes of sockets fail. */
static void end_sessions(struct fth_pg *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct pg_session *x = s->sessions; x; x = x->next) {
		if (x->watch.running)
			fth_query_cancel(x->query);
		shutdown(x->wire.fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&s->lock);
}

static void clear_wake(struct fth_pg *s)
{
	uint64_t count;
	ssize_t n = read(s->wake, &count, sizeof(count));

	(void)n;
}

int fth_pg_run(struct fth_pg *s)
{
	struct pollfd polls[FTH_LISTEN_MAX + 1];

	while (!atomic_load_explicit(&s->stopping, memory_order_relaxed)) {
		int ms = watch_statements(s) ? WATCH_MS : -1;

		polls[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
		for (unsigned i = 0; i < s->listen.count; i++)
			polls[i + 1] = (struct pollfd){.fd = s->listen.fd[i], .events = POLLIN};
		if (poll(polls, s->listen.count + 1, ms) < 0 && errno != EINTR)
			return -errno;
		clear_wake(s);
		bury(s);
		for (unsigned i = 0; i < s->listen.count; i++)
			if (polls[i + 1].revents & POLLIN)
				accept_one(s, s->listen.fd[i]);
	}
	fth_listen_close(&s->listen);
	while (s->session_count > 0) {
		struct pollfd p = {.fd = s->wake, .events = POLLIN};

		end_sessions(s);
		(void)poll(&p, 1, 100);
		clear_wake(s);
		bury(s);
	}
	return 0;
}
