/* SPDX-License-Identifier: BSD-2-Clause */
#include "redis_load.h"

#include "kv_load_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define THETA	   0.99
#define PIPELINE   64u
#define BUFFER	   (256u << 10)
#define TIMEOUT_MS 60000
#define KEY_MAX	   32
#define CLIENTS	   64u

struct redis_data {
	uint32_t *written; /* of each key: the version whose write has ended; 0: none */
	uint64_t room;
	uint64_t inserted; /* keys below were inserted; atomic */
};

struct redis_data *redis_data_new(const struct redis_plan *plan)
{
	struct redis_data *data = calloc(1, sizeof(*data));

	if (!data)
		return NULL;
	data->room = plan->records + plan->ops * 2;
	data->written = calloc(data->room, sizeof(*data->written));
	if (data->written)
		return data;
	free(data);
	return NULL;
}

void redis_data_free(struct redis_data *data)
{
	if (data)
		free(data->written);
	free(data);
}

/* ---- a connection ---- */

struct link {
	int fd;
	char *in, *out; /* BUFFER bytes each */
	size_t have, at, used;
};

static int link_open(struct link *link, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	*link = (struct link){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	link->in = malloc(BUFFER);
	link->out = malloc(BUFFER);
	if (link->fd < 0 || !link->in || !link->out)
		return -ENOMEM;
	return connect(link->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static void link_close(struct link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	free(link->in);
	free(link->out);
}

static int link_send(struct link *link)
{
	for (size_t at = 0; at < link->used;) {
		ssize_t n = send(link->fd, link->out + at, link->used - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return fth_fail(errno, "redis-server: %s", strerror(errno));
		at += n > 0 ? (size_t)n : 0;
	}
	link->used = 0;
	return 0;
}

static int link_more(struct link *link)
{
	struct pollfd one = {.fd = link->fd, .events = POLLIN};
	ssize_t n;

	if (link->at > 0) {
		memmove(link->in, link->in + link->at, link->have - link->at);
		link->have -= link->at;
		link->at = 0;
	}
	if (poll(&one, 1, TIMEOUT_MS) == 0)
		return fth_fail(ETIMEDOUT, "timed out waiting for redis-server");
	n = recv(link->fd, link->in + link->have, BUFFER - link->have, 0);
	if (n <= 0)
		return fth_fail(n < 0 ? errno : EPIPE, "redis-server: %s",
				n < 0 ? strerror(errno) : "it closed the connection");
	link->have += (size_t)n;
	return 0;
}

/* A line without its end. */
static int link_line(struct link *link, char **line)
{
	for (;;) {
		char *from = link->in + link->at, *end = memchr(from, '\n', link->have - link->at);
		int rc;

		if (end) {
			end[-1] = '\0';
			*line = from;
			link->at = (size_t)(end + 1 - link->in);
			return 0;
		}
		rc = link_more(link);
		if (rc < 0)
			return rc;
	}
}

static int link_bytes(struct link *link, size_t n, const char **bytes)
{
	while (link->have - link->at < n + 2) {
		int rc = link_more(link);

		if (rc < 0)
			return rc;
	}
	*bytes = link->in + link->at;
	link->at += n + 2;
	return 0;
}

/* ---- records ---- */

static void key_of(uint64_t record, char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "user%016" PRIx64, fth_mix64(record));
}

static void fill_value(char *at, uint32_t length, uint64_t record, uint32_t version)
{
	struct fth_rng rng = {record * 1000003 + version};
	uint32_t i = 16;

	memcpy(at, &record, 8);
	memset(at + 8, 0, 8);
	memcpy(at + 8, &version, 4);
	for (; i + 8 <= length; i += 8) {
		uint64_t word = fth_rng_next(&rng);

		memcpy(at + i, &word, 8);
	}
	memset(at + i, 'x', length - i);
}

static int check_value(const char *at, uint32_t length, uint64_t record, uint32_t least)
{
	char wanted[65536];
	uint64_t found;
	uint32_t version;

	memcpy(&found, at, 8);
	memcpy(&version, at + 8, 4);
	fill_value(wanted, length, record, version);
	if (found != record || version < least || memcmp(at, wanted, length) != 0)
		return fth_fail(EIO,
				"record %" PRIu64 " has a wrong value (of record %" PRIu64
				", version %u, at least %u)",
				record, found, version, least);
	return 0;
}

static void put_set(struct link *link, uint32_t value, uint64_t record, uint32_t version)
{
	char key[KEY_MAX];

	key_of(record, key);
	link->used +=
		(size_t)sprintf(link->out + link->used, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%u\r\n",
				strlen(key), key, value);
	fill_value(link->out + link->used, value, record, version);
	memcpy(link->out + link->used + value, "\r\n", 2);
	link->used += value + 2;
}

static int expect_ok(struct link *link)
{
	char *line;
	int rc = link_line(link, &line);

	if (rc == 0 && strcmp(line, "+OK") != 0)
		return fth_fail(EPROTO, "redis-server replied %s", line);
	return rc;
}

static int get(struct link *link, const struct redis_plan *plan, struct redis_data *data,
	       uint64_t record)
{
	uint32_t least = __atomic_load_n(&data->written[record], __ATOMIC_ACQUIRE);
	char key[KEY_MAX], *line;
	const char *bytes;
	int rc;

	key_of(record, key);
	link->used =
		(size_t)sprintf(link->out, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);
	rc = link_send(link);
	if (rc == 0)
		rc = link_line(link, &line);
	if (rc < 0)
		return rc;
	if (line[0] != '$' || strtoul(line + 1, NULL, 10) != plan->value)
		return fth_fail(EIO, "record %" PRIu64 ": redis-server replied %s", record, line);
	rc = link_bytes(link, plan->value, &bytes);
	return rc < 0 ? rc : check_value(bytes, plan->value, record, least);
}

/* One thread alone writes a record. */
static int set(struct link *link, const struct redis_plan *plan, struct redis_data *data,
	       uint64_t record)
{
	uint32_t version = data->written[record] + 1;
	int rc;

	put_set(link, plan->value, record, version);
	rc = link_send(link);
	if (rc == 0)
		rc = expect_ok(link);
	if (rc == 0)
		__atomic_store_n(&data->written[record], version, __ATOMIC_RELEASE);
	return rc;
}

int redis_fill(const struct redis_plan *plan, struct redis_data *data)
{
	struct link link;
	int rc = link_open(&link, plan->socket);

	for (uint64_t record = 0; record < plan->records && rc == 0;) {
		uint64_t n = plan->records - record < PIPELINE ? plan->records - record : PIPELINE;

		for (uint64_t i = 0; i < n; i++)
			put_set(&link, plan->value, record + i, 1);
		rc = link_send(&link);
		for (uint64_t i = 0; i < n && rc == 0; i++) {
			rc = expect_ok(&link);
			data->written[record + i] = 1;
		}
		record += n;
		if (plan->stopped && plan->stopped())
			rc = -EINTR;
	}
	data->inserted = plan->records;
	link_close(&link);
	return rc;
}

/* ---- clients ---- */

struct client {
	const struct redis_plan *plan;
	struct redis_data *data;
	const struct kv_zipf *zipf;
	enum redis_workload workload;
	unsigned number;
	uint64_t ops;
	pthread_t thread;
	struct fth_latency latency;
	int rc;
	char error[FTH_ERROR_TEXT_MAX];
};

/* How popular the n-th most popular is follows Zipf's law (Gray et al., SIGMOD 1994). */
static uint64_t rank_of(const struct kv_zipf *zipf, struct fth_rng *rng)
{
	double u = fth_rng_unit(rng), uz = u * zipf->zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, zipf->theta))
		return 1;
	rank = (uint64_t)((double)zipf->items * pow(zipf->eta * u - zipf->eta + 1, zipf->alpha));
	return rank < zipf->items ? rank : zipf->items - 1;
}

static int one_op(struct client *c, struct link *link, struct fth_rng *rng)
{
	bool writes = fth_rng_below(rng, 100) < 5;
	uint64_t rank = rank_of(c->zipf, rng), record;

	if (c->workload == REDIS_B) {
		record = fth_mix64(rank) % c->plan->records;
		if (!writes)
			return get(link, c->plan, c->data, record);
		record = record - record % c->plan->clients + c->number;
		return set(link, c->plan, c->data, record < c->plan->records ? record : c->number);
	}
	if (writes) {
		record = __atomic_fetch_add(&c->data->inserted, 1, __ATOMIC_RELAXED);
		return set(link, c->plan, c->data, record);
	}
	/* the latest whose write has ended */
	record = __atomic_load_n(&c->data->inserted, __ATOMIC_RELAXED) - 1 - rank;
	while (!__atomic_load_n(&c->data->written[record], __ATOMIC_ACQUIRE))
		record--;
	return get(link, c->plan, c->data, record);
}

static void *client_main(void *argument)
{
	struct client *c = argument;
	struct fth_rng rng = {c->plan->seed * 1000 + c->number * 17 + (unsigned)c->workload};
	struct link link;

	c->rc = link_open(&link, c->plan->socket);
	for (uint64_t i = 0; i < c->ops && c->rc == 0; i++) {
		uint64_t start = fth_now_ns();

		c->rc = one_op(c, &link, &rng);
		fth_latency_add(&c->latency, fth_now_ns() - start);
		if (c->plan->stopped && c->plan->stopped())
			c->rc = -EINTR;
	}
	if (c->rc < 0)
		snprintf(c->error, sizeof(c->error), "%s", fth_error_text(c->rc));
	link_close(&link);
	return NULL;
}

static int run_clients(struct client *clients, unsigned n, struct fth_latency *all)
{
	unsigned started = 0;
	int rc = 0;

	while (started < n && rc == 0) {
		rc = -pthread_create(&clients[started].thread, NULL, client_main,
				     &clients[started]);
		started += rc == 0;
	}
	for (unsigned i = 0; i < started; i++) {
		pthread_join(clients[i].thread, NULL);
		fth_latency_merge(all, &clients[i].latency);
		if (rc == 0 && clients[i].rc < 0)
			rc = fth_fail(-clients[i].rc, "%s", clients[i].error);
	}
	return rc;
}

int redis_run(const struct redis_plan *plan, struct redis_data *data, enum redis_workload workload,
	      struct redis_result *result)
{
	static struct client clients[CLIENTS];
	static struct fth_latency all;
	struct kv_zipf zipf;
	uint64_t start = fth_now_ns();
	int rc;

	memset(clients, 0, sizeof(clients));
	memset(&all, 0, sizeof(all));
	kv_zipf_init(&zipf, plan->records, THETA);
	for (unsigned i = 0; i < plan->clients; i++)
		clients[i] = (struct client){.plan = plan,
					     .data = data,
					     .zipf = &zipf,
					     .workload = workload,
					     .number = i,
					     .ops = plan->ops / plan->clients};
	rc = run_clients(clients, plan->clients, &all);
	*result = (struct redis_result){
		.ops_per_s = (double)all.count * 1e9 / (double)(fth_now_ns() - start),
		.p50_ns = fth_latency_quantile(&all, 0.5),
		.p99_ns = fth_latency_quantile(&all, 0.99),
		.p999_ns = fth_latency_quantile(&all, 0.999),
	};
	return rc;
}
