/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures in Prometheus' text format, over HTTP: GET /metrics and nothing else.
 *
 * One thread with a few connections, each of which has a second or two for a short request and one
 * answer. It shares nothing with the workers but their counters, so whoever keeps this port busy
 * delays other readers of figures and nothing else.
 */
#include "kv/server/server.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS	    8u
#define REQUEST_MAX 4096u
#define CLIENT_NS   2000000000u
#define NAP_MS	    250

struct client {
	int fd; /* -1: free */
	uint64_t deadline;
	size_t have;
	char request[REQUEST_MAX];
	struct bytes out;
	bool answered;
};

struct metrics {
	struct fth_kv_server *server;
	pthread_t thread;
	bool runs;
	int listen, wake;
	unsigned port;
	struct client clients[CLIENTS];
};

/* ---- the text ---- */

static void put(struct bytes *out, const char *name, const char *type, uint64_t value)
{
	bytes_printf(out, "# TYPE fathom_kv_%s %s\nfathom_kv_%s %" PRIu64 "\n", name, type, name,
		     value);
}

static void put_kinds(struct bytes *out, const char *name, const uint64_t *values)
{
	bytes_printf(out, "# TYPE fathom_kv_%s counter\n", name);
	for (unsigned kind = 0; kind < KIND_OTHER; kind++)
		bytes_printf(out, "fathom_kv_%s{command=\"%s\"} %" PRIu64 "\n", name,
			     kvs_kind_names[kind], values[kind]);
}

static void put_histogram(struct bytes *out, const struct kvs_counts *sum)
{
	bytes_printf(out, "# TYPE fathom_kv_latency_seconds histogram\n");
	for (unsigned kind = 0; kind < KIND_OTHER; kind++) {
		uint64_t seen = 0;

		/* From 1 us on; what is quicker is in the first. */
		for (unsigned i = 0; i < LATENCY_BUCKETS - 1; i++) {
			seen += sum->latency[kind][i];
			if (i >= 10)
				bytes_printf(out,
					     "fathom_kv_latency_seconds_bucket{command=\"%s\",le="
					     "\"%.9g\"} %" PRIu64 "\n",
					     kvs_kind_names[kind], (double)(UINT64_C(1) << i) / 1e9,
					     seen);
		}
		seen += sum->latency[kind][LATENCY_BUCKETS - 1];
		bytes_printf(out,
			     "fathom_kv_latency_seconds_bucket{command=\"%s\",le=\"+Inf\"} %" PRIu64
			     "\n",
			     kvs_kind_names[kind], seen);
		bytes_printf(out, "fathom_kv_latency_seconds_sum{command=\"%s\"} %.9f\n",
			     kvs_kind_names[kind], (double)sum->latency_ns[kind] / 1e9);
		bytes_printf(out, "fathom_kv_latency_seconds_count{command=\"%s\"} %" PRIu64 "\n",
			     kvs_kind_names[kind], seen);
	}
}

static void put_usage(struct bytes *out, struct fth_kv *kv)
{
	struct fth_kv_recovery recovery;
	struct fth_kv_usage usage;

	fth_kv_recovery(kv, &recovery);
	put(out, "recovery_damaged_chunks", "gauge", recovery.damaged_chunks);
	put(out, "recovery_bad_items", "gauge", recovery.bad_items);
	put(out, "recovery_unreadable", "gauge", recovery.unreadable);
	fth_kv_usage(kv, &usage);
	put(out, "items", "gauge", usage.items);
	put(out, "memory_items", "gauge", usage.memory_items);
	put(out, "memory_bytes", "gauge", usage.memory_bytes);
	put(out, "index_bytes", "gauge", usage.index_bytes);
	put(out, "index_capacity_items", "gauge", usage.index_items);
	put(out, "flash_bytes", "gauge", usage.flash_bytes);
	put(out, "flash_used_bytes", "gauge", usage.flash_used);
	put(out, "flash_reads_in_flight", "gauge", usage.flash_reading);
	put(out, "log_failed", "gauge", usage.log_failed);
}

static void put_all(const struct fth_kv_server *server, struct bytes *out)
{
	struct fth_kv_server_counts counts;
	struct kvs_counts sum;

	stats_sum(server, &sum);
	fth_kv_server_counts(server, &counts);
	put(out, "uptime_seconds", "gauge", (fth_now_ns() - server->started_ns) / 1000000000u);
	put(out, "resident_bytes", "gauge", stats_resident());
	put(out, "connections", "gauge", counts.connections);
	put(out, "connections_max", "gauge", server->connections_max);
	put(out, "connections_accepted_total", "counter", counts.accepted);
	put(out, "connections_refused_total", "counter", counts.refused);
	put(out, "connections_closed_idle_total", "counter", sum.closed_idle);
	put(out, "connections_closed_slow_total", "counter", sum.closed_slow);
	put(out, "authentication_failures_total", "counter", sum.closed_auth);
	put(out, "event_rounds_total", "counter", sum.rounds);
	put(out, "received_bytes_total", "counter", counts.bytes_read);
	put(out, "sent_bytes_total", "counter", counts.bytes_written);
	put(out, "commands_total", "counter", counts.commands);
	put_kinds(out, "hits_total", sum.hits);
	put_kinds(out, "misses_total", sum.misses);
	put_usage(out, server->kv);
	for (unsigned i = 0; i < FTH_KV_STAT_COUNT; i++) {
		char name[64];

		snprintf(name, sizeof(name), "engine_%s_total", fth_kv_stat_name(i));
		put(out, name, "counter", fth_kv_stat(server->kv, i));
	}
	put_histogram(out, &sum);
}

/* ---- HTTP ---- */

static void put_response(struct client *client, const char *status, const struct bytes *body)
{
	size_t length = body ? bytes_count(body) : 0;

	bytes_printf(&client->out,
		     "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
		     "Content-Length: %zu\r\nConnection: close\r\n\r\n",
		     status, length);
	if (length)
		bytes_put(&client->out, body->data, length);
}

static bool begins(const struct client *client, const char *text)
{
	size_t length = strlen(text);

	return client->have >= length && memcmp(client->request, text, length) == 0;
}

static void respond(const struct metrics *m, struct client *client)
{
	struct bytes body = {0};

	client->answered = true;
	if (begins(client, "GET /metrics ") || begins(client, "GET /metrics?")) {
		put_all(m->server, &body);
		put_response(client, body.failed ? "503 Service Unavailable" : "200 OK",
			     body.failed ? NULL : &body);
	} else if (begins(client, "GET ")) {
		put_response(client, "404 Not Found", NULL);
	} else {
		put_response(client, "405 Method Not Allowed", NULL);
	}
	bytes_release(&body);
}

static void drop(struct client *client)
{
	bytes_release(&client->out);
	close(client->fd);
	client->fd = -1;
}

static bool has_end(const struct client *client)
{
	return memmem(client->request, client->have, "\r\n\r\n", 4) ||
	       memmem(client->request, client->have, "\n\n", 2);
}

static void take_request(const struct metrics *m, struct client *client)
{
	ssize_t n = recv(client->fd, client->request + client->have,
			 sizeof(client->request) - client->have, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(client);
		return;
	}
	client->have += (size_t)n;
	if (has_end(client)) {
		respond(m, client);
	} else if (client->have == sizeof(client->request)) {
		client->answered = true;
		put_response(client, "431 Request Header Fields Too Large", NULL);
	}
}

static void send_response(struct client *client)
{
	ssize_t n = send(client->fd, client->out.data + client->out.from, bytes_count(&client->out),
			 MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		client->out.from += (size_t)n;
	if (n <= 0 || bytes_count(&client->out) == 0) {
		(void)shutdown(client->fd, SHUT_WR);
		drop(client);
	}
}

/* False: there are no descriptors left, and the client stays in the queue. */
static bool take_client(struct metrics *m)
{
	int fd = fth_fd_high(accept4(m->listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd < 0)
		return fd == -EAGAIN || fd == -ECONNABORTED || fd == -EINTR;
	for (unsigned i = 0; i < CLIENTS; i++)
		if (m->clients[i].fd < 0) {
			memset(&m->clients[i], 0, sizeof(m->clients[i]));
			m->clients[i].fd = fd;
			m->clients[i].deadline = fth_deadline_ns(CLIENT_NS);
			return true;
		}
	close(fd);
	return true;
}

/* One round: wait, then go on with each client. */
static void metrics_round(struct metrics *m, bool *deaf)
{
	struct pollfd polls[CLIENTS + 2];
	uint64_t now;

	polls[CLIENTS] = (struct pollfd){.fd = m->wake, .events = POLLIN};
	polls[CLIENTS + 1] = (struct pollfd){.fd = *deaf ? -1 : m->listen, .events = POLLIN};
	*deaf = false;
	for (unsigned i = 0; i < CLIENTS; i++)
		polls[i] = (struct pollfd){.fd = m->clients[i].fd,
					   .events = m->clients[i].answered ? POLLOUT : POLLIN};
	if (poll(polls, CLIENTS + 2, NAP_MS) < 0)
		return;
	now = fth_now_ns();
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct client *client = &m->clients[i];

		if (client->fd < 0)
			continue;
		if (polls[i].revents && !client->answered)
			take_request(m, client);
		else if (polls[i].revents)
			send_response(client);
		if (client->fd >= 0 && now >= client->deadline)
			drop(client);
	}
	if (polls[CLIENTS + 1].revents)
		*deaf = !take_client(m); /* for one nap */
}

static void *metrics_main(void *context)
{
	struct metrics *m = context;
	bool deaf = false;

	while (!__atomic_load_n(&m->server->stopping, __ATOMIC_ACQUIRE))
		metrics_round(m, &deaf);
	return NULL;
}

int metrics_start(struct fth_kv_server *server, const char *where)
{
	struct metrics *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	m->server = server;
	m->listen = m->wake = -1;
	for (unsigned i = 0; i < CLIENTS; i++)
		m->clients[i].fd = -1;
	server->metrics = m;
	rc = fth_listen_one(where, &m->listen, &m->port);
	if (rc < 0) {
		m->listen = -1;
		return rc;
	}
	m->wake = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (m->wake < 0)
		return m->wake;
	rc = -loop_thread(&m->thread, metrics_main, m);
	m->runs = rc == 0;
	return rc;
}

void metrics_stop(struct metrics *m)
{
	static const uint64_t one = 1;

	if (!m)
		return;
	if (m->runs) {
		(void)!write(m->wake, &one, sizeof(one));
		pthread_join(m->thread, NULL);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		if (m->clients[i].fd >= 0)
			drop(&m->clients[i]);
	if (m->listen >= 0)
		close(m->listen);
	if (m->wake >= 0)
		close(m->wake);
	free(m);
}

unsigned metrics_port(const struct metrics *m)
{
	return m->port;
}
