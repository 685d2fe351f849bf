/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client against our server in this process: verbs, many threads with a model, many servers.
 *
 *	kv_client_test SERVER		the verbs and threads against a memcached that runs
 *	kv_client_test --proxy SERVER	the same against a twemproxy, which does not know gat and
 *					which sends requests of one connection over several
 */
#include "fathom/kv/client.h"

#include "fathom/base/rng.h"
#include "fathom/kv/server.h"

#include "fth_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVERS 3u
#define LONG_NS UINT64_C(60000000000)

static uint64_t soon(void)
{
	return fth_deadline_ns(LONG_NS);
}

struct node {
	struct fth_kv *kv;
	struct fth_kv_server *server;
	char name[64];
};

static void node_start(struct node *node, const char *where)
{
	struct fth_kv_server_options options = FTH_KV_SERVER_OPTIONS_INIT;
	struct fth_kv_options kv = FTH_KV_OPTIONS_INIT;

	kv.memory = 32u << 20;
	kv.items = 100000;
	options.listen = &where;
	options.listen_count = 1;
	options.workers = 1;
	assert_ok(fth_kv_open(&kv, &node->kv));
	assert_ok(fth_kv_server_start(node->kv, &options, &node->server));
	if (strncmp(where, "unix:", 5) == 0)
		snprintf(node->name, sizeof(node->name), "%s", where);
	else
		snprintf(node->name, sizeof(node->name), "127.0.0.1:%u",
			 fth_kv_server_port(node->server));
}

static void node_stop(struct node *node)
{
	fth_kv_server_stop(node->server, fth_deadline_ns(0));
	assert_ok(fth_kv_close(node->kv));
}

static struct node nodes[SERVERS];
static const char *names[SERVERS];
static unsigned name_count = SERVERS;
static bool has_touch = true;

static int start_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SERVERS; i++) {
		node_start(&nodes[i], "127.0.0.1:0");
		names[i] = nodes[i].name;
	}
	return 0;
}

static int stop_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SERVERS; i++)
		node_stop(&nodes[i]);
	return 0;
}

/* ---- verbs ---- */

static int run(struct fth_kvc *client, struct fth_kvc_op op)
{
	int rc = fth_kvc_do(client, &op, soon());

	fth_kvc_release(&op);
	return rc;
}

#define DO(v, k, ...)                    \
	run(client, (struct fth_kvc_op){ \
			    .verb = FTH_KV_##v, .key = (k), .key_length = strlen(k), __VA_ARGS__})

static void expect_item(struct fth_kvc *client, const char *key, const char *value)
{
	char got[100];
	int n = fth_kvc_get(client, key, (uint32_t)strlen(key), got, sizeof(got), soon());

	if (!value) {
		assert_int_equal(n, -ENOENT);
		return;
	}
	assert_ok(n);
	assert_int_equal(n, strlen(value));
	assert_memory_equal(got, value, (size_t)n);
}

static void store_verbs(struct fth_kvc *client)
{
	expect_item(client, "a", NULL);
	assert_int_equal(DO(REPLACE, "a", .value = "x", .value_length = 1), -ENOENT);
	assert_int_equal(DO(APPEND, "a", .value = "x", .value_length = 1), -ENOENT);
	assert_int_equal(DO(SET, "a", .value = "one", .value_length = 3), 0);
	assert_int_equal(DO(ADD, "a", .value = "x", .value_length = 1), -EEXIST);
	assert_int_equal(DO(APPEND, "a", .value = "two", .value_length = 3), 0);
	assert_int_equal(DO(PREPEND, "a", .value = "\r\n", .value_length = 2), 0);
	expect_item(client, "a", "\r\nonetwo");
	assert_int_equal(DO(REPLACE, "a"), 0);
	expect_item(client, "a", "");
	assert_int_equal(DO(INCREMENT, "a", .delta = 1), -EDOM);
	assert_int_equal(DO(DELETE, "a"), 0);
	assert_int_equal(DO(DELETE, "a"), -ENOENT);
	assert_int_equal(DO(INCREMENT, "a", .delta = 1), -ENOENT);
	assert_int_equal(DO(ADD, "a", .value = "7", .value_length = 1), 0);
	assert_int_equal(fth_kvc_delete(client, "a", 1, soon()), 0);
}

static void count_and_cas(struct fth_kvc *client)
{
	struct fth_kvc_op op = {.verb = FTH_KV_INCREMENT, .key = "n", .key_length = 1, .delta = 5};
	struct fth_kvc_op get = {.verb = FTH_KV_GET, .key = "n", .key_length = 1, .want_cas = true};

	assert_ok(fth_kvc_set(client, "n", 1, "10", 2, 0, soon()));
	assert_ok(fth_kvc_do(client, &op, soon()));
	assert_int_equal(op.number, 15);
	op.verb = FTH_KV_DECREMENT;
	op.delta = 100;
	assert_ok(fth_kvc_do(client, &op, soon()));
	assert_int_equal(op.number, 0);
	assert_ok(fth_kvc_do(client, &get, soon()));
	assert_true(get.item_cas != 0);
	fth_kvc_release(&get);
	assert_null(get.data);
	assert_int_equal(DO(SET, "n", .cas = get.item_cas + 1), -EBUSY);
	assert_int_equal(DO(SET, "n", .cas = get.item_cas, .flags = 77), 0);
	assert_int_equal(DO(SET, "nobody", .cas = 5), -ENOENT);
	get.verb = has_touch ? FTH_KV_TOUCH : FTH_KV_GET;
	get.expires = 1000;
	assert_ok(fth_kvc_do(client, &get, soon()));
	assert_int_equal(get.item_flags, 77);
	fth_kvc_release(&get);
	/* An expiry in 1973. */
	assert_ok(fth_kvc_set(client, "gone", 4, "x", 1, 100000000, soon()));
	expect_item(client, "gone", NULL);
}

static void limits(struct fth_kvc *client)
{
	char key[FTH_KV_KEY_MAX + 1], small[4], *large = malloc(2u << 20);
	struct fth_kvc_op get = {.verb = FTH_KV_GET, .key = "big", .key_length = 3};

	memset(key, 'k', sizeof(key));
	memset(large, 'v', 2u << 20);
	assert_ok(fth_kvc_set(client, key, FTH_KV_KEY_MAX, "x", 1, 0, soon()));
	assert_int_equal(fth_kvc_get(client, key, FTH_KV_KEY_MAX, small, 4, soon()), 1);
	assert_int_equal(fth_kvc_get(client, key, FTH_KV_KEY_MAX + 1, small, 4, soon()), -EINVAL);
	assert_int_equal(fth_kvc_get(client, "a b", 3, small, 4, soon()), -EINVAL);
	assert_int_equal(fth_kvc_get(client, "a\n", 2, small, 4, soon()), -EINVAL);
	assert_int_equal(fth_kvc_get(client, "", 0, small, 4, soon()), -EINVAL);
	assert_int_equal(DO(FLUSH_ALL, "a"), -EINVAL);
	assert_int_equal(fth_kvc_set(client, "big", 3, large, 2u << 20, 0, soon()), -EMSGSIZE);
	assert_ok(fth_kvc_set(client, "big", 3, large, 1000000, 0, soon()));
	assert_int_equal(fth_kvc_get(client, "big", 3, small, sizeof(small), soon()), -EMSGSIZE);
	assert_ok(fth_kvc_do(client, &get, soon()));
	assert_int_equal(get.length, 1000000);
	assert_memory_equal(get.data, large, get.length);
	fth_kvc_release(&get);
	free(large);
}

static void verbs(void **state)
{
	struct fth_kvc_stats stats;
	struct fth_kvc *client;

	(void)state;
	assert_ok(fth_kvc_open(names, name_count, NULL, &client));
	store_verbs(client);
	count_and_cas(client);
	limits(client);
	fth_kvc_stats(client, &stats);
	assert_true(stats.requests > 30 && stats.hits > 5 && stats.misses >= 2);
	assert_int_equal(stats.timeouts + stats.breaks + stats.late, 0);
	fth_kvc_close(client);
}

static void unix_socket(void **state)
{
	char path[64];
	const char *name = path;
	struct fth_kvc *client;
	struct node node;

	(void)state;
	snprintf(path, sizeof(path), "unix:/tmp/fth-kvc-test-%d", (int)getpid());
	node_start(&node, path);
	assert_ok(fth_kvc_open(&name, 1, NULL, &client));
	assert_ok(fth_kvc_set(client, "a", 1, "b", 1, 0, soon()));
	expect_item(client, "a", "b");
	fth_kvc_close(client);
	node_stop(&node);
}

/* ---- multi-get ---- */

#define KEYS 1000u

static void many_keys(void **state)
{
	struct fth_kvc_op *ops = calloc(KEYS, sizeof(*ops));
	char(*keys)[16] = calloc(KEYS, sizeof(*keys));
	unsigned of_server[SERVERS] = {0};
	struct fth_kvc_stats stats;
	struct fth_kvc *client;

	(void)state;
	assert_ok(fth_kvc_open(names, name_count, NULL, &client));
	for (unsigned i = 0; i < KEYS; i++) {
		int n = snprintf(keys[i], sizeof(keys[i]), "key-%u", i);

		of_server[fth_kvc_server_of(client, keys[i], (uint32_t)n)]++;
		ops[i] = (struct fth_kvc_op){.verb = FTH_KV_SET,
					     .key = keys[i],
					     .key_length = (uint32_t)n,
					     .value = keys[i],
					     .value_length = (uint32_t)n};
	}
	for (unsigned i = 0; i < name_count; i++)
		assert_true(of_server[i] > KEYS / 10);
	/* Every third key is not there; the last one twice. */
	for (unsigned i = 0; i < KEYS; i += 3)
		ops[i].verb = FTH_KV_DELETE;
	assert_int_equal(fth_kvc_do_many(client, ops, KEYS, soon()), KEYS - (KEYS + 2) / 3);
	for (unsigned i = 0; i < KEYS; i++)
		ops[i].verb = FTH_KV_GET;
	ops[0].key = ops[KEYS - 2].key;
	ops[0].key_length = ops[KEYS - 2].key_length;
	assert_int_equal(fth_kvc_do_many(client, ops, KEYS, soon()), KEYS - (KEYS + 2) / 3 + 1);
	for (unsigned i = 1; i < KEYS; i++) {
		assert_int_equal(ops[i].result, i % 3 ? 0 : -ENOENT);
		if (i % 3)
			assert_memory_equal(ops[i].data, keys[i], ops[i].key_length);
		fth_kvc_release(&ops[i]);
	}
	assert_memory_equal(ops[0].data, keys[KEYS - 2], ops[0].length);
	fth_kvc_release(&ops[0]);
	fth_kvc_stats(client, &stats);
	assert_true(stats.gets <= KEYS / 50); /* gets have many keys */
	fth_kvc_close(client);
	free(keys);
	free(ops);
}

/* Operations of one thread on one key take effect in their order, however many are in flight. */
static void order(void **state)
{
	enum { N = 500 };
	struct fth_kvc_op ops[2 * N];
	char values[N][8];
	struct fth_kvc *client;

	(void)state;
	assert_ok(fth_kvc_open(names, 1, NULL, &client));
	memset(ops, 0, sizeof(ops));
	for (unsigned i = 0; i < N; i++) {
		struct fth_kvc_op *set = &ops[2 * i], *get = set + 1;

		snprintf(values[i], sizeof(values[i]), "%u", i);
		*set = (struct fth_kvc_op){.verb = FTH_KV_SET,
					   .key = "k",
					   .key_length = 1,
					   .value = values[i],
					   .value_length = (uint32_t)strlen(values[i])};
		*get = (struct fth_kvc_op){.verb = FTH_KV_GET, .key = "k", .key_length = 1};
		fth_kvc_start(client, set);
		fth_kvc_start(client, get);
	}
	for (unsigned i = 0; i < 2 * N; i++)
		assert_ok(fth_kvc_wait(client, &ops[i], soon()));
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(ops[2 * i + 1].length, strlen(values[i]));
		assert_memory_equal(ops[2 * i + 1].data, values[i], strlen(values[i]));
		fth_kvc_release(&ops[2 * i + 1]);
	}
	fth_kvc_close(client);
}

/* ---- many threads ---- */

#define THREADS	  16u
#define OWN_KEYS  40u
#define VALUE_MAX 3000u

struct worker {
	struct fth_kvc *client;
	unsigned number, steps;
	uint32_t versions[OWN_KEYS]; /* 0: not there */
	uint32_t lengths[OWN_KEYS];
	uint64_t wrong;
};

static void fill(uint8_t *value, uint32_t length, unsigned thread, unsigned key, uint32_t version)
{
	struct fth_rng rng = {((uint64_t)thread << 40) + ((uint64_t)key << 32) + version};

	for (uint32_t i = 0; i < length; i++)
		value[i] = (uint8_t)(i % 16 ? i : fth_rng_next(&rng));
}

static void check_one(struct worker *w, const struct fth_kvc_op *op, unsigned key)
{
	uint8_t expected[VALUE_MAX];

	if (w->versions[key] == 0) {
		w->wrong += op->result != -ENOENT;
		return;
	}
	fill(expected, w->lengths[key], w->number, key, w->versions[key]);
	w->wrong += op->result != 0 || op->length != w->lengths[key] ||
		    memcmp(op->data, expected, op->length) != 0;
}

static uint32_t name_key(const struct worker *w, unsigned key, char name[32])
{
	return (uint32_t)snprintf(name, 32, "w%u-%u", w->number, key);
}

static void get_some(struct worker *w, struct fth_rng *rng)
{
	unsigned n = 1 + (unsigned)fth_rng_below(rng, 20), keys[20];
	struct fth_kvc_op ops[20] = {0};
	char names_[20][32];

	for (unsigned i = 0; i < n; i++) {
		keys[i] = (unsigned)fth_rng_below(rng, OWN_KEYS);
		ops[i].verb = FTH_KV_GET;
		ops[i].key = names_[i];
		ops[i].key_length = name_key(w, keys[i], names_[i]);
	}
	(void)fth_kvc_do_many(w->client, ops, n, soon());
	for (unsigned i = 0; i < n; i++) {
		check_one(w, &ops[i], keys[i]);
		fth_kvc_release(&ops[i]);
	}
}

static void change_one(struct worker *w, struct fth_rng *rng, unsigned step)
{
	unsigned key = (unsigned)fth_rng_below(rng, OWN_KEYS);
	uint8_t value[VALUE_MAX];
	char name[32];
	uint32_t n = name_key(w, key, name);

	if (fth_rng_below(rng, 4) == 0) {
		int rc = fth_kvc_delete(w->client, name, n, soon());

		w->wrong += rc != (w->versions[key] ? 0 : -ENOENT);
		w->versions[key] = 0;
		return;
	}
	w->versions[key] = step + 1;
	w->lengths[key] = (uint32_t)fth_rng_below(rng, VALUE_MAX);
	fill(value, w->lengths[key], w->number, key, w->versions[key]);
	w->wrong += fth_kvc_set(w->client, name, n, value, w->lengths[key], 0, soon()) != 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct fth_rng rng = {w->number + 1};
	char name[32];

	for (unsigned i = 0; i < OWN_KEYS; i++)
		(void)fth_kvc_delete(w->client, name, name_key(w, i, name), soon());
	for (unsigned step = 0; step < w->steps && !w->wrong; step++) {
		if (fth_rng_below(&rng, 2))
			get_some(w, &rng);
		else
			change_one(w, &rng, step);
	}
	return NULL;
}

static void run_threads(const struct fth_kvc_options *options)
{
	struct worker workers[THREADS] = {0};
	pthread_t threads[THREADS];
	struct fth_kvc_stats stats;
	struct fth_kvc *client;

	assert_ok(fth_kvc_open(names, name_count, options, &client));
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.client = client, .number = i, .steps = 300};
		if (getenv("FTH_LONG_TESTS"))
			workers[i].steps = 20000;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].wrong, 0);
	}
	fth_kvc_stats(client, &stats);
	assert_true(stats.segments < stats.requests);
	assert_int_equal(stats.breaks + stats.timeouts, 0);
	fth_kvc_close(client);
}

static void threads_share_connections(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;

	(void)state;
	options.timeout_ms = 60000; /* the machine may be slow */
	run_threads(&options);
	options.connections = 3;
	options.segment = 100;
	options.flush_us = 1;
	options.distribution = FTH_KVC_KETAMA_WEIGHTED;
	run_threads(&options);
	options.flush_us = 1000000;
	options.distribution = FTH_KVC_MODULA;
	run_threads(&options);
}

/* ---- a server that goes and comes back ---- */

struct visitor {
	struct fth_kvc *client;
	pthread_t thread;
	unsigned number;
	uint32_t *stop;
	uint64_t good, wrong, failed;
};

/* Set and get keys that others use as well; a value names its key. */
static void visit_one(struct visitor *v, struct fth_rng *rng)
{
	char key[32], value[64], got[64];
	int n = snprintf(key, sizeof(key), "shared-%u", (unsigned)fth_rng_below(rng, 50));
	int length = snprintf(value, sizeof(value), "%s by %u", key, v->number), rc;

	/* Some deadlines are too short. */
	if (fth_rng_below(rng, 3) == 0)
		rc = fth_kvc_set(v->client, key, (uint32_t)n, value, (uint32_t)length, 0,
				 fth_rng_below(rng, 8) ? soon() : fth_deadline_ns(100000));
	else
		rc = fth_kvc_get(v->client, key, (uint32_t)n, got, sizeof(got),
				 fth_rng_below(rng, 8) ? soon() : fth_deadline_ns(100000));
	if (rc > 0 && (rc < n || memcmp(got, key, (size_t)n) != 0 || got[n] != ' '))
		v->wrong++;
	v->good += rc >= 0;
	if (rc == -EHOSTDOWN || rc == -ECONNRESET || rc == -ETIMEDOUT)
		v->failed++;
	else if (rc < 0 && rc != -ENOENT)
		v->wrong++;
}

static void *visit(void *arg)
{
	struct visitor *v = arg;
	struct fth_rng rng = {v->number + 100};

	while (!__atomic_load_n(v->stop, __ATOMIC_RELAXED))
		visit_one(v, &rng);
	return NULL;
}

static uint64_t good_of(struct fth_kvc *client)
{
	struct fth_kvc_stats stats;

	fth_kvc_stats(client, &stats);
	return stats.hits + stats.misses;
}

static void server_restarts(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	struct visitor visitors[THREADS] = {0};
	struct fth_kvc *client;
	struct node node;
	const char *name = node.name;
	uint32_t stop = 0;

	(void)state;
	options.timeout_ms = 60000;
	options.retry_ms = 1;
	options.retry_max_ms = 10;
	node_start(&node, "127.0.0.1:0");
	assert_ok(fth_kvc_open(&name, 1, &options, &client));
	for (unsigned i = 0; i < THREADS; i++) {
		visitors[i] = (struct visitor){.client = client, .number = i, .stop = &stop};
		assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
	}
	for (unsigned round = 0; round < 6; round++) {
		uint64_t before = good_of(client), deadline = soon();
		char where[64];

		while (good_of(client) < before + 500 && fth_now_ns() < deadline)
			usleep(1000);
		assert_true(good_of(client) >= before + 500); /* it is back */
		snprintf(where, sizeof(where), "%s", node.name);
		node_stop(&node);
		node_start(&node, where);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(visitors[i].thread, NULL);
		assert_int_equal(visitors[i].wrong, 0);
		assert_true(visitors[i].good > 0);
	}
	fth_kvc_close(client);
	node_stop(&node);
}

/* Against the servers that the caller has started. */
static int run_with_peer(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verbs),
		cmocka_unit_test(many_keys),
		cmocka_unit_test(threads_share_connections),
	};
	const struct CMUnitTest direct[] = {cmocka_unit_test(order)};
	int failed;

	has_touch = strcmp(argv[1], "--proxy") != 0;
	if (argc != (has_touch ? 2 : 3)) {
		fprintf(stderr, "usage: kv_client_test [[--proxy] SERVER]\n");
		return 2;
	}
	names[0] = argv[argc - 1];
	name_count = 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (has_touch)
		failed += cmocka_run_group_tests(direct, NULL, NULL);
	return failed;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verbs),
		cmocka_unit_test(unix_socket),
		cmocka_unit_test(many_keys),
		cmocka_unit_test(order),
		cmocka_unit_test(threads_share_connections),
		cmocka_unit_test(server_restarts),
	};

	return argc > 1 ? run_with_peer(argc, argv)
			: cmocka_run_group_tests(tests, start_all, stop_all);
}
