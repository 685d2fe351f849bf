/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_client SERVER...: many threads look up items in a cache of several servers, compute those that
 * are not there, and store them.
 *
 *	cc kv_client.c $(pkg-config --cflags --libs fathom) -o kv_client
 *	fathom kv serve --listen 127.0.0.1:11311 & fathom kv serve --listen 127.0.0.1:11312 &
 *	./kv_client 127.0.0.1:11311 127.0.0.1:11312
 *
 * Shows one client that all threads share: it batches their requests, and chooses the server of a
 * key with ketama. While a server is away, its items are computed each time, and those of the
 * others are not affected.
 */
#include <fathom/base.h>
#include <fathom/hd/wait.h>
#include <fathom/kv/client.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 32u
#define ITEMS	6400u
#define VALUE	100u
#define WAIT_NS UINT64_C(30000000000)

struct counts {
	uint64_t hits, misses, away; /* away: the server is down, or the connection broke */
};

struct worker {
	struct fth_kvc *client;
	pthread_t thread;
	unsigned number;
	struct counts *of_server;
	int result;
};

/* What would be slow in a real program. */
static void compute(unsigned item, char value[VALUE])
{
	memset(value, 'a' + (int)(item % 26), VALUE);
	snprintf(value, VALUE, "item %u", item);
}

/* These results say that the server is of no use now, and nothing about the item. */
static bool is_away(int rc)
{
	return rc == -EHOSTDOWN || rc == -ECONNRESET || rc == -ETIMEDOUT;
}

static int look_up(struct worker *w, unsigned item)
{
	char key[32], value[VALUE], right[VALUE];
	uint32_t length = (uint32_t)snprintf(key, sizeof(key), "item:%u", item);
	struct counts *counts = &w->of_server[fth_kvc_server_of(w->client, key, length)];
	int rc = fth_kvc_get(w->client, key, length, value, VALUE, fth_deadline_ns(WAIT_NS));

	compute(item, right);
	if (rc >= 0) {
		counts->hits++;
		return rc == VALUE && memcmp(value, right, VALUE) == 0 ? 0 : -EBADMSG;
	}
	if (rc == -ENOENT) {
		counts->misses++;
		rc = fth_kvc_set(w->client, key, length, right, VALUE, 0, fth_deadline_ns(WAIT_NS));
		return is_away(rc) ? 0 : rc;
	}
	counts->away += is_away(rc);
	return is_away(rc) ? 0 : rc;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned item = w->number; item < ITEMS && w->result == 0; item += THREADS)
		w->result = look_up(w, item);
	if (w->result < 0)
		fprintf(stderr, "kv_client: %s\n", fth_error_text(w->result));
	return NULL;
}

static int run_threads(struct fth_kvc *client, unsigned servers, struct counts *counts)
{
	struct worker workers[THREADS];
	unsigned n;
	int rc = 0;

	for (n = 0; n < THREADS; n++) {
		workers[n] = (struct worker){
			.client = client, .number = n, .of_server = counts + n * servers};
		rc = -pthread_create(&workers[n].thread, NULL, work, &workers[n]);
		if (rc < 0)
			break;
	}
	while (n--) {
		pthread_join(workers[n].thread, NULL);
		rc = rc < 0 ? rc : workers[n].result;
	}
	return rc;
}

static void print_counts(char **names, unsigned servers, const struct counts *counts)
{
	for (unsigned server = 0; server < servers; server++) {
		struct counts sum = {0};

		for (unsigned n = 0; n < THREADS; n++) {
			sum.hits += counts[n * servers + server].hits;
			sum.misses += counts[n * servers + server].misses;
			sum.away += counts[n * servers + server].away;
		}
		printf("%s hits %" PRIu64 " misses %" PRIu64 " away %" PRIu64 "\n", names[server],
		       sum.hits, sum.misses, sum.away);
	}
}

int main(int argc, char **argv)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	unsigned servers = (unsigned)argc - 1;
	struct counts *counts = calloc((size_t)THREADS * (servers + 1), sizeof(*counts));
	struct fth_kvc *client = NULL;
	int rc;

	if (argc < 2 || !counts) {
		fprintf(stderr, "usage: kv_client SERVER...\n");
		free(counts);
		return 2;
	}
	options.distribution = FTH_KVC_KETAMA_WEIGHTED; /* that of most clients and of twemproxy */
	options.timeout_ms = 10000;
	rc = fth_kvc_open((const char *const *)argv + 1, servers, &options, &client);
	if (rc < 0)
		fprintf(stderr, "kv_client: %s\n", fth_error_text(rc));
	else
		rc = run_threads(client, servers, counts);
	if (rc == 0)
		print_counts(argv + 1, servers, counts);
	fth_kvc_close(client);
	free(counts);
	return rc < 0;
}
