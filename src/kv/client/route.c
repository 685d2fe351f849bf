/* SPDX-License-Identifier: BSD-2-Clause */
/* Servers: their names and addresses, and whether they are down. */
#include "kv/client/client.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

/* ---- names ---- */

/* Cut "/?WEIGHT" off. */
static int take_weight(struct kvc_server *server, char *text)
{
	char *mark = strstr(text, "/?"), *end;
	unsigned long weight;

	server->weight = 1;
	if (!mark)
		return 0;
	weight = strtoul(mark + 2, &end, 10);
	if (mark[2] < '0' || mark[2] > '9' || *end || weight < 1 || weight > 65535)
		return fth_fail(EINVAL, "kv client: %s: the weight is not a number from 1 to 65535",
				server->name);
	server->weight = (unsigned)weight;
	*mark = '\0';
	return 0;
}

static int take_port(struct kvc_server *server, char *colon)
{
	unsigned long port;
	char *end;

	port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port < 1 || port > 65535)
		return fth_fail(EINVAL, "kv client: %s: the port is not a number from 1 to 65535",
				server->name);
	server->port = (unsigned)port;
	*colon = '\0';
	return 0;
}

/* HOST, HOST:PORT, [ADDRESS], [ADDRESS]:PORT */
static int take_host(struct kvc_server *server, char *text)
{
	char *colon = strrchr(text, ':'), *bracket = NULL;

	server->port = FTH_KVC_PORT;
	if (*text == '[') {
		bracket = strchr(text, ']');
		if (!bracket || (bracket[1] && bracket[1] != ':'))
			return fth_fail(EINVAL, "kv client: %s: expected [ADDRESS]:PORT",
					server->name);
		colon = bracket[1] ? bracket + 1 : NULL;
	}
	if (colon && take_port(server, colon) < 0)
		return -EINVAL;
	if (bracket) {
		*bracket = '\0';
		text++;
	}
	if (!*text)
		return fth_fail(EINVAL, "kv client: \"%s\": the host is missing", server->name);
	server->host = strdup(text);
	return server->host ? 0 : -ENOMEM;
}

/* ---- addresses ---- */

static int take_path(struct kvc_server *server, const char *path)
{
	struct sockaddr_un *address = (struct sockaddr_un *)&server->at[0].address;

	if (!*path || strlen(path) >= sizeof(address->sun_path))
		return fth_fail(EINVAL, "kv client: %s: the socket path must have 1 to %zu bytes",
				server->name, sizeof(address->sun_path) - 1);
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, path, strlen(path));
	server->at[0].length = sizeof(*address);
	server->addresses = 1;
	server->port = 0;
	server->host = strdup(path);
	return server->host ? 0 : -ENOMEM;
}

static int look_up(struct kvc_server *server)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found;
	char port[16];
	int rc;

	snprintf(port, sizeof(port), "%u", server->port);
	rc = getaddrinfo(server->host, port, &hints, &found);
	if (rc != 0)
		return fth_fail(EADDRNOTAVAIL, "kv client: %s: %s", server->name, gai_strerror(rc));
	for (struct addrinfo *a = found; a && server->addresses < KVC_ADDRESSES_MAX;
	     a = a->ai_next) {
		memcpy(&server->at[server->addresses].address, a->ai_addr, a->ai_addrlen);
		server->at[server->addresses++].length = a->ai_addrlen;
	}
	freeaddrinfo(found);
	return 0;
}

int kvc_server_init(struct kvc_server *server, const char *name,
		    const struct fth_kvc_options *options)
{
	char *text;
	int rc;

	pthread_mutex_init(&server->lock, NULL);
	server->options = options;
	server->name = strdup(name);
	text = strdup(name);
	if (!server->name || !text) {
		free(text);
		return -ENOMEM;
	}
	rc = take_weight(server, text);
	if (rc == 0)
		rc = strncmp(text, "unix:", 5) == 0 ? take_path(server, text + 5)
						    : take_host(server, text);
	if (rc == 0 && server->port)
		rc = look_up(server);
	free(text);
	return rc;
}

void kvc_server_release(struct kvc_server *server)
{
	pthread_mutex_destroy(&server->lock);
	free(server->name);
	free(server->host);
}

/* ---- up and down ---- */

bool kvc_server_admits(struct kvc_server *server)
{
	uint64_t now;
	bool admits;

	if (__atomic_load_n(&server->failures, __ATOMIC_RELAXED) == 0)
		return true;
	now = fth_now_ns();
	pthread_mutex_lock(&server->lock);
	admits = server->failures == 0 || (now >= server->retry_at && now >= server->probe_until);
	if (admits)
		server->probe_until = now + (uint64_t)server->options->timeout_ms * 1000000;
	pthread_mutex_unlock(&server->lock);
	return admits;
}

/*
 * The pause doubles with each failure, and varies by a quarter so that clients do not come in step.
 */
static uint64_t pause_ns(const struct kvc_server *server, uint64_t now)
{
	uint64_t ms = server->options->retry_ms, max = server->options->retry_max_ms;

	for (unsigned i = 1; i < server->failures && ms < max; i++)
		ms *= 2;
	ms = ms < max ? ms : max;
	return ms * 750000 + fth_mix64(now) % (ms * 250000 + 1);
}

void kvc_server_failed(struct kvc_server *server, int error, const char *reason)
{
	uint64_t now = fth_now_ns();

	pthread_mutex_lock(&server->lock);
	snprintf(server->reason, sizeof(server->reason), "%s", reason ? reason : strerror(error));
	server->probe_until = 0;
	/* Connections that fail together are one failure. */
	if (server->failures == 0 || now >= server->retry_at) {
		__atomic_store_n(&server->failures, server->failures + 1, __ATOMIC_RELAXED);
		server->retry_at = now + pause_ns(server, now);
	}
	pthread_mutex_unlock(&server->lock);
}

void kvc_server_answered(struct kvc_server *server)
{
	if (__atomic_load_n(&server->failures, __ATOMIC_RELAXED) == 0)
		return;
	pthread_mutex_lock(&server->lock);
	__atomic_store_n(&server->failures, 0, __ATOMIC_RELAXED);
	server->probe_until = 0;
	pthread_mutex_unlock(&server->lock);
}

void kvc_server_untried(struct kvc_server *server)
{
	if (__atomic_load_n(&server->failures, __ATOMIC_RELAXED) == 0)
		return;
	pthread_mutex_lock(&server->lock);
	server->probe_until = 0;
	pthread_mutex_unlock(&server->lock);
}

void kvc_server_reason(struct kvc_server *server, char out[KVC_REASON_MAX])
{
	pthread_mutex_lock(&server->lock);
	memcpy(out, server->reason, KVC_REASON_MAX);
	pthread_mutex_unlock(&server->lock);
}

const char *kvc_server_tls_name(const struct kvc_server *server)
{
	if (server->options->tls_name)
		return server->options->tls_name;
	return server->port ? server->host : NULL;
}
