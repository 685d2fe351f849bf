/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting and stopping a server. server.h lists the siblings. */
#include "kv/server/server.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include "kv/kv_access.h"

#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(FTH_KV_LISTEN_MAX == FTH_LISTEN_MAX, "what the manual says holds");

static int check_options(const struct fth_kv_server_options *o)
{
	int rc = fth_options_check("kv server", o->size, sizeof(*o));

	if (rc < 0)
		return rc;
	if (o->listen_count && !o->listen)
		return fth_fail(EINVAL, "kv server: listen_count is %u, but listen is NULL",
				o->listen_count);
	if (!o->tls_certificate != !o->tls_key)
		return fth_fail(EINVAL, "kv server: TLS requires a certificate and a key");
	if (o->workers > 256)
		return fth_fail(EINVAL, "kv server: workers is %u, the maximum is 256", o->workers);
	return 0;
}

static unsigned default_workers(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return processors > 3 ? (unsigned)processors / 2 : 1;
}

static int init_workers(struct fth_kv_server *server)
{
	server->workers = calloc(server->workers_count, sizeof(*server->workers));
	if (!server->workers)
		return -ENOMEM;
	for (unsigned i = 0; i < server->workers_count; i++) {
		server->workers[i].server = server;
		server->workers[i].number = i;
		server->workers[i].epoll = server->workers[i].wake = -1;
	}
	return 0;
}

static int open_sockets(struct fth_kv_server *server, const struct fth_kv_server_options *o)
{
	int rc = 0;

	if (o->listen_count == 0)
		return fth_listen_open(&server->listen, "127.0.0.1:11211");
	for (unsigned i = 0; i < o->listen_count && rc == 0; i++)
		rc = fth_listen_open(&server->listen, o->listen[i]);
	return rc;
}

static void server_free(struct fth_kv_server *server)
{
	metrics_stop(server->metrics); /* looks at the workers */
	for (unsigned i = 0; server->workers && i < server->workers_count; i++)
		loop_stop(&server->workers[i]);
	fth_listen_close(&server->listen);
	access_close(server->access);
	pthread_mutex_destroy(&server->reset_lock);
	free(server->workers);
	free(server);
}

static int start(struct fth_kv_server *server, const struct fth_kv_server_options *o)
{
	int rc = init_workers(server);

	if (rc == 0)
		rc = access_open(o, &server->access);
	if (rc == 0)
		rc = open_sockets(server, o);
	for (unsigned i = 0; i < server->workers_count && rc == 0; i++)
		rc = loop_start(&server->workers[i]);
	if (rc == 0 && o->metrics)
		rc = metrics_start(server, o->metrics);
	return rc;
}

int fth_kv_server_start(struct fth_kv *kv, const struct fth_kv_server_options *options,
			struct fth_kv_server **out)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	struct fth_kv_server *server;
	int rc;

	*out = NULL;
	if (options)
		o = *options;
	rc = check_options(&o);
	if (rc < 0)
		return rc;
	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	pthread_mutex_init(&server->reset_lock, NULL);
	server->kv = kv;
	server->value_max = kv_options(kv)->value_max;
	server->held_max =
		16 * server->value_max > WORKER_MAX ? 16 * server->value_max : WORKER_MAX;
	server->workers_count = o.workers ? o.workers : default_workers();
	server->connections_max = o.connections ? o.connections : 1024;
	server->idle_ns = (uint64_t)o.idle_s * 1000000000u;
	server->started_ns = fth_now_ns();
	rc = start(server, &o);
	if (rc < 0) {
		__atomic_store_n(&server->stopping, 1, __ATOMIC_RELEASE);
		server_free(server);
		return rc;
	}
	*out = server;
	return 0;
}

void fth_kv_server_stop(struct fth_kv_server *server, uint64_t deadline)
{
	if (!server)
		return;
	__atomic_store_n(&server->stop_by, deadline, __ATOMIC_RELAXED);
	__atomic_store_n(&server->stopping, 1, __ATOMIC_RELEASE);
	server_free(server);
}

int fth_kv_server_reload(struct fth_kv_server *server)
{
	return access_reload(server->access);
}

unsigned fth_kv_server_port(const struct fth_kv_server *server)
{
	return server->listen.port;
}

unsigned fth_kv_server_metrics_port(const struct fth_kv_server *server)
{
	return server->metrics ? metrics_port(server->metrics) : 0;
}

void fth_kv_server_counts(const struct fth_kv_server *server, struct fth_kv_server_counts *out)
{
	struct kvs_counts sum;

	stats_sum(server, &sum);
	*out = (struct fth_kv_server_counts){
		.connections = __atomic_load_n(&server->connections, __ATOMIC_RELAXED),
		.refused = __atomic_load_n(&server->refused, __ATOMIC_RELAXED),
		.accepted = sum.accepted,
		.bytes_read = sum.bytes_read,
		.bytes_written = sum.bytes_written,
	};
	for (unsigned c = 0; c < KVP_COMMANDS; c++)
		out->commands += sum.commands[c];
}
