/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/remote/storaged.h"
#include "base/options.h"
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
#include <sys/socket.h>
#include <unistd.h>

void storage_log(struct fth_storage *s, const char *event, const char *format, ...)
{
	char text[FTH_ERROR_TEXT_MAX + 64];
	va_list args;

	if (!s->log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	s->log(s->user, event, text);
}

/* ---- opening ---- */

static int check_options(const struct fth_storage_options *o)
{
	int rc = fth_options_check("storage", o->size, sizeof(*o));

	if (rc < 0)
		return rc;
	if (o->budget != 0 && o->budget < FTH_QUERY_BUDGET_MIN)
		return fth_fail(EINVAL, "storage: opts.budget is %llu bytes, the minimum is %llu",
				(unsigned long long)o->budget,
				(unsigned long long)FTH_QUERY_BUDGET_MIN);
	if (o->listen_count > 0 && !o->listen)
		return fth_fail(EINVAL, "storage: listen_count is %u, but listen is NULL",
				o->listen_count);
	return 0;
}

static int listen_all(struct fth_storage *s, const struct fth_storage_options *o)
{
	char local[32];
	int rc = 0;

	if (!o->insecure_listen)
		s->listen.local_only =
			", and clients are not authenticated: use a loopback address or a Unix "
			"socket, or allow it with insecure_listen (--insecure-listen)";
	snprintf(local, sizeof(local), "127.0.0.1:%d", FTH_STORAGE_PORT);
	if (o->listen_count == 0)
		return fth_listen_open(&s->listen, local);
	for (unsigned i = 0; i < o->listen_count && rc == 0; i++)
		rc = fth_listen_open(&s->listen, o->listen[i]);
	return rc;
}

int fth_storage_open(const char *where, const struct fth_storage_options *options,
		     struct fth_storage **out)
{
	static const struct fth_storage_options defaults = FTH_STORAGE_OPTIONS_INIT;
	const struct fth_storage_options *o = options ? options : &defaults;
	struct fth_storage *s;
	int rc = check_options(o);

	*out = NULL;
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->budget = o->budget != 0 ? o->budget : FTH_QUERY_BUDGET;
	s->threads = o->threads;
	s->connections_max = o->connections != 0 ? o->connections : FTH_STORAGE_CONNECTIONS;
	s->timeout_ns =
		(uint64_t)(o->timeout_ms != 0 ? o->timeout_ms : FTH_STORAGE_TIMEOUT_MS) * 1000000;
	s->scratch_limit = o->scratch_limit;
	s->log = o->log;
	s->user = o->user;
	s->mem = fth_qmem_new(s->budget);
	s->wake = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = !s->mem ? -ENOMEM : s->wake < 0 ? -errno : 0;
	if (rc == 0)
		rc = fth_table_db_open(where, FTH_TABLE_DB_READONLY, &s->db);
	if (rc == 0)
		rc = scratch_choose(o->scratch, where, &s->scratch);
	if (rc == 0)
		rc = listen_all(s, o);
	if (rc < 0) {
		fth_storage_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void fth_storage_close(struct fth_storage *s)
{
	if (!s)
		return;
	fth_listen_close(&s->listen);
	if (s->wake >= 0)
		close(s->wake);
	fth_table_db_close(s->db);
	fth_qmem_close(s->mem);
	free(s->scratch);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

unsigned fth_storage_port(const struct fth_storage *s)
{
	return s->listen.port;
}

static void wake_up(struct fth_storage *s)
{
	uint64_t one = 1;
	ssize_t n = write(s->wake, &one, sizeof(one));

	(void)n; /* a counter that is full wakes as well */
}

void fth_storage_stop(struct fth_storage *s)
{
	atomic_store_explicit(&s->stopping, true, memory_order_relaxed);
	wake_up(s);
}

void fth_storage_stats(struct fth_storage *s, struct fth_storage_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	out->connections = s->session_count;
	pthread_mutex_unlock(&s->lock);
	out->memory = fth_qmem_used(s->mem);
	out->memory_peak = fth_qmem_peak(s->mem);
}

/* ---- sessions ---- */

static void *run_session(void *user)
{
	struct session *s = user;
	struct fth_storage *storage = s->storage;

	session_serve(s);
	pthread_mutex_lock(&storage->lock);
	storage->stats.sent += s->socket.sent;
	storage->stats.received += s->socket.received;
	s->ended = true;
	pthread_mutex_unlock(&storage->lock);
	wake_up(storage);
	return NULL;
}

/* Join sessions that have ended. */
static void bury(struct fth_storage *s)
{
	struct session *ended = NULL, **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->sessions; *at;) {
		struct session *x = *at;

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
		struct session *next = ended->next;

		pthread_join(ended->thread, NULL);
		close(ended->socket.fd);
		free(ended);
		ended = next;
	}
}

static int begin_session(struct fth_storage *s, int fd)
{
	struct session *x = calloc(1, sizeof(*x));
	int one = 1;

	if (!x)
		return -ENOMEM;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	x->storage = s;
	x->socket.fd = fd;
	pthread_mutex_lock(&s->lock);
	if (pthread_create(&x->thread, NULL, run_session, x) != 0) {
		pthread_mutex_unlock(&s->lock);
		free(x);
		return -EAGAIN;
	}
	x->next = s->sessions;
	s->sessions = x;
	s->session_count++;
	s->stats.accepted++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static void accept_one(struct fth_storage *s, int listening)
{
	int fd = fth_fd_high(accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	int rc;

	if (fd < 0)
		return;
	rc = s->session_count >= s->connections_max ? -EBUSY : begin_session(s, fd);
	if (rc == 0)
		return;
	close(fd);
	pthread_mutex_lock(&s->lock);
	s->stats.refused++;
	pthread_mutex_unlock(&s->lock);
	storage_log(s, "refused", "a connection: %s",
		    rc == -EBUSY ? "there are as many as may be" : "out of memory");
}

/* End all: task sets are canceled, reads and writes of sockets fail. */
static void end_sessions(struct fth_storage *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct session *x = s->sessions; x; x = x->next) {
		atomic_store_explicit(&x->cancel, true, memory_order_relaxed);
		shutdown(x->socket.fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&s->lock);
}

static void clear_wake(struct fth_storage *s)
{
	uint64_t count;
	ssize_t n = read(s->wake, &count, sizeof(count));

	(void)n;
}

int fth_storage_run(struct fth_storage *s)
{
	struct pollfd polls[FTH_LISTEN_MAX + 1];

	while (!atomic_load_explicit(&s->stopping, memory_order_relaxed)) {
		polls[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
		for (unsigned i = 0; i < s->listen.count; i++)
			polls[i + 1] = (struct pollfd){.fd = s->listen.fd[i], .events = POLLIN};
		if (poll(polls, s->listen.count + 1, -1) < 0 && errno != EINTR)
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
