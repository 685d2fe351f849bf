/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver kvclient: `fathom bench kvclient` on one server, which runs. Many threads get
 * random keys. Ours: they share one client, which batches their requests over a few connections.
 * The peer: each has a connection of its own and one request in flight. Prints the gets in a second
 * of each round as a line of JSON.
 */
#include "common/rounds.h"

#include "app_options.h"
#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/kv/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define THREADS_MAX  1024u
#define VALUE_MAX    65536u
#define LOAD_AT_ONCE 500u
#define WAIT_NS	     UINT64_C(30000000000)

struct options {
	uint64_t port, threads, keys, value, ms, rounds;
	uint64_t connections, segment, flush_us;
};

struct run {
	const struct options *options;
	struct fth_kvc *client; /* NULL: connections of their own */
	unsigned port;
	uint32_t stop; /* atomic */
};

struct worker {
	struct run *run;
	pthread_t thread;
	uint64_t seed;
	uint64_t gets;
	int result;
};

/* ---- items ---- */

static uint32_t key_of(uint64_t number, char key[32])
{
	return (uint32_t)snprintf(key, 32, "key:%010llu", (unsigned long long)number);
}

static void fill(uint8_t *value, uint64_t bytes, uint64_t number)
{
	uint64_t first = fth_mix64(number);

	for (uint64_t i = 0; i < bytes; i += 8) {
		uint64_t word = first + i;

		memcpy(value + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

static int check(const uint8_t *value, uint64_t bytes, uint64_t number)
{
	uint64_t first = fth_mix64(number), differ = 0;

	for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word;

		memcpy(&word, value + i, 8);
		differ |= word ^ (first + i);
	}
	return differ ? fth_fail(EBADMSG, "key %llu has a wrong value", (unsigned long long)number)
		      : 0;
}

/* ---- ours ---- */

static int get_shared(struct worker *w, uint64_t number, uint8_t *value)
{
	const struct options *o = w->run->options;
	char key[32];
	uint32_t length = key_of(number, key);
	int n = fth_kvc_get(w->run->client, key, length, value, (uint32_t)o->value,
			    fth_deadline_ns(WAIT_NS));

	if (n < 0)
		return n;
	return (uint64_t)n == o->value
		       ? check(value, o->value, number)
		       : fth_fail(EBADMSG, "a value has a wrong length of %d bytes", n);
}

/* ---- the peer: one request at a time ---- */

static int dial(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval wait = {.tv_sec = (time_t)(WAIT_NS / 1000000000u)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

/* The answer is known to the byte but for its value: "VALUE key 0 bytes", value, "END". */
static int get_alone(struct worker *w, int fd, uint64_t number, char *buf)
{
	uint64_t bytes = w->run->options->value;
	char key[32], header[80], request[64];
	size_t head, total, have = 0;
	int n;

	(void)key_of(number, key);
	n = snprintf(request, sizeof(request), "get %s\r\n", key);
	head = (size_t)snprintf(header, sizeof(header), "VALUE %s 0 %llu\r\n", key,
				(unsigned long long)bytes);
	total = head + bytes + 7;
	if (send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
		return fth_fail(EIO, "cannot send a request");
	while (have < total) {
		ssize_t got = recv(fd, buf + have, total - have, 0);

		if (got <= 0)
			return fth_fail(EIO, "no reply");
		have += (size_t)got;
		if (have >= 5 && memcmp(buf, "END\r\n", 5) == 0)
			return fth_fail(EBADMSG, "key %llu is missing", (unsigned long long)number);
	}
	if (memcmp(buf, header, head) != 0 || memcmp(buf + head + bytes, "\r\nEND\r\n", 7) != 0)
		return fth_fail(EBADMSG, "the reply is not for key %llu",
				(unsigned long long)number);
	return check((uint8_t *)buf + head, bytes, number);
}

/* ---- threads ---- */

static void *work(void *arg)
{
	struct worker *w = arg;
	const struct options *o = w->run->options;
	char *buf = malloc(o->value + 128);
	int fd = w->run->client ? -1 : dial(w->run->port);
	struct fth_rng rng = {w->seed};

	w->result = !buf ? -ENOMEM : w->run->client || fd >= 0 ? 0 : fd;
	while (w->result == 0 && !__atomic_load_n(&w->run->stop, __ATOMIC_RELAXED)) {
		uint64_t number = fth_rng_below(&rng, o->keys);

		w->result = w->run->client ? get_shared(w, number, (uint8_t *)buf)
					   : get_alone(w, fd, number, buf);
		w->gets++;
	}
	if (w->result < 0)
		fth_cli_error("%s", fth_error_text(w->result));
	if (fd >= 0)
		close(fd);
	free(buf);
	return NULL;
}

/* Gets per second of all threads. */
static int run_threads(struct run *run, double *rate)
{
	const struct options *o = run->options;
	struct worker *workers = calloc(o->threads, sizeof(*workers));
	struct timespec pause = {.tv_nsec = 10000000};
	uint64_t started = fth_now_ns(), until = fth_deadline_ns(o->ms * 1000000), gets = 0;
	unsigned n;
	int rc = workers ? 0 : -ENOMEM;

	for (n = 0; rc == 0 && n < o->threads; n++) {
		workers[n] = (struct worker){.run = run, .seed = started + n};
		rc = -pthread_create(&workers[n].thread, NULL, work, &workers[n]);
		if (rc < 0)
			break;
	}
	while (rc == 0 && fth_now_ns() < until && !fth_cli_stopped())
		nanosleep(&pause, NULL);
	__atomic_store_n(&run->stop, 1, __ATOMIC_RELAXED);
	while (n--) {
		pthread_join(workers[n].thread, NULL);
		gets += workers[n].gets;
		rc = rc < 0 ? rc : workers[n].result;
	}
	*rate = (double)gets / ((double)(fth_now_ns() - started) / 1e9);
	free(workers);
	return rc < 0 ? rc : fth_cli_stopped() ? -EINTR : 0;
}

/* ---- a server ---- */

static int open_client(const struct options *o, unsigned port, struct fth_kvc **out)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	char name[32];
	const char *server = name;

	snprintf(name, sizeof(name), "127.0.0.1:%u", port);
	options.connections = (unsigned)o->connections;
	options.segment = (uint32_t)o->segment;
	options.flush_us = (uint32_t)o->flush_us;
	options.timeout_ms = (uint32_t)(WAIT_NS / 1000000);
	return fth_kvc_open(&server, 1, &options, out);
}

static int load_items(struct fth_kvc *client, const struct options *o)
{
	struct fth_kvc_op *ops = calloc(LOAD_AT_ONCE, sizeof(*ops));
	uint8_t *values = malloc(LOAD_AT_ONCE * o->value);
	char(*keys)[32] = calloc(LOAD_AT_ONCE, sizeof(*keys));
	int rc = ops && values && keys ? 0 : -ENOMEM;

	for (uint64_t at = 0; rc == 0 && at < o->keys; at += LOAD_AT_ONCE) {
		unsigned n = (unsigned)(o->keys - at < LOAD_AT_ONCE ? o->keys - at : LOAD_AT_ONCE);

		for (unsigned i = 0; i < n; i++) {
			fill(values + i * o->value, o->value, at + i);
			ops[i] = (struct fth_kvc_op){.verb = FTH_KV_SET,
						     .key = keys[i],
						     .key_length = key_of(at + i, keys[i]),
						     .value = values + i * o->value,
						     .value_length = (uint32_t)o->value};
		}
		if (fth_kvc_do_many(client, ops, n, fth_deadline_ns(WAIT_NS)) != n)
			rc = fth_fail(EIO, "the server did not store all items");
	}
	free(ops);
	free(values);
	free(keys);
	return rc;
}

struct outcome {
	struct fth_rounds rounds;
	double batch; /* requests per call of send() */
};

static int measure_server(const struct options *o, unsigned port, struct outcome *out)
{
	struct fth_kvc_stats before, after;
	struct fth_kvc *client;
	int rc = open_client(o, port, &client);

	if (rc < 0)
		return rc;
	rc = load_items(client, o);
	fth_kvc_stats(client, &before);
	for (uint64_t round = 0; rc == 0 && round < o->rounds; round++) {
		struct run shared = {.options = o, .client = client};
		struct run alone = {.options = o, .port = port};
		double ours, peer;

		rc = run_threads(&shared, &ours);
		if (rc == 0)
			rc = run_threads(&alone, &peer);
		if (rc == 0)
			fth_rounds_add(&out->rounds, ours, peer);
	}
	fth_kvc_stats(client, &after);
	out->batch = (double)(after.requests - before.requests) /
		     (double)(after.segments - before.segments);
	fth_kvc_close(client);
	return rc;
}

/* ---- the command ---- */

static void print_outcome(const struct outcome *outcome)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_rounds_members(&j, &outcome->rounds);
	fth_json_double(&j, "batch", outcome->batch);
	fth_json_finish(&j);
}

static int run(int argc, char **argv)
{
	struct options o = {.threads = 1, .keys = 1, .value = 1024, .ms = 1000, .rounds = 1};
	struct outcome outcome = {0};
	const struct fth_cli_option table[] = {
		{"port", FTH_CLI_U64, &o.port, 1, 65535, "of the server, on 127.0.0.1"},
		{"threads", FTH_CLI_U64, &o.threads, 1, THREADS_MAX, "that get"},
		{"keys", FTH_CLI_U64, &o.keys, 1, 10000000, "items"},
		{"value", FTH_CLI_U64, &o.value, 1, VALUE_MAX, "bytes of a value"},
		{"ms", FTH_CLI_U64, &o.ms, 1, 60000, "per measurement"},
		{"connections", FTH_CLI_U64, &o.connections, 0, FTH_KVC_CONNECTIONS_MAX,
		 "of ours; 0: default"},
		{"segment", FTH_CLI_U64, &o.segment, 0, 16u << 20, "of ours; 0: default"},
		{"flush-us", FTH_CLI_U64, &o.flush_us, 0, 1000000, "of ours; 0: default"},
		{"rounds", FTH_CLI_U64, &o.rounds, 1, FTH_ROUNDS_MAX, "runs of each side"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver kvclient [options]",
		.text = "Gets of many threads from a server, batched and one at a time.",
		.options = table,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = measure_server(&o, (unsigned)o.port, &outcome);
	if (rc == 0)
		print_outcome(&outcome);
	return fth_app_exit("kvclient", rc);
}

const struct fth_command fth_driver_kvclient = {
	.name = "kvclient",
	.summary = "a server's part of the benchmark kvclient",
	.run = run,
};
