/* SPDX-License-Identifier: BSD-2-Clause */
/* The load generator against a server of ours: its figures add up, and it finds what is wrong. */
#include "fth_test.h"
#include "kv_load_internal.h"

#include "fathom/hd/wait.h"
#include "fathom/kv/server.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ITEMS 2000
#define VALUE 300

struct rig {
	struct fth_kv *kv;
	struct fth_kv_server *server;
	char address[64];
	struct fth_kv_data data;
};

static void rig_open(struct rig *rig)
{
	struct fth_kv_options options = FTH_KV_OPTIONS_INIT;
	struct fth_kv_server_options server = FTH_KV_SERVER_OPTIONS_INIT;
	const char *listen[] = {"127.0.0.1:0"};

	server.listen = listen;
	server.listen_count = 1;
	assert_int_equal(fth_kv_open(&options, &rig->kv), 0);
	assert_int_equal(fth_kv_server_start(rig->kv, &server, &rig->server), 0);
	snprintf(rig->address, sizeof(rig->address), "127.0.0.1:%u",
		 fth_kv_server_port(rig->server));
	assert_int_equal(fth_kv_data_init(&rig->data, ITEMS, VALUE), 0);
}

static void rig_close(struct rig *rig)
{
	fth_kv_data_release(&rig->data);
	fth_kv_server_stop(rig->server, fth_deadline_ns(1000000000u));
	assert_int_equal(fth_kv_close(rig->kv), 0);
}

static struct fth_kv_load new_load(struct rig *rig, enum fth_kv_load_mode mode)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;

	load.server = rig->address;
	load.data = &rig->data;
	load.mode = mode;
	load.connections = 6;
	load.threads = 2;
	load.seconds = 60;
	load.timeout_ns = 60000000000u;
	return load;
}

static void fill(struct rig *rig)
{
	struct fth_kv_load load = new_load(rig, FTH_KV_LOAD_FILL);
	struct fth_kv_load_result r;

	load.batch = 7;
	assert_int_equal(fth_kv_load_run(&load, &r), 0);
	assert_int_equal(r.stored, ITEMS);
	assert_int_equal(r.latency.count, r.requests);
}

static void sweep(struct rig *rig, struct fth_kv_load_result *r)
{
	struct fth_kv_load load = new_load(rig, FTH_KV_LOAD_SWEEP);

	load.batch = 7;
	assert_int_equal(fth_kv_load_run(&load, r), 0);
	assert_int_equal(r->gets, ITEMS);
}

static void test_mix(void **state)
{
	struct rig rig;
	struct fth_kv_load load;
	struct fth_kv_load_result r;

	(void)state;
	rig_open(&rig);
	sweep(&rig, &r);
	assert_int_equal(r.hits, 0);
	fill(&rig);
	load = new_load(&rig, FTH_KV_LOAD_MIX);
	load.set_share = 0.5;
	load.zipf = 0.99; /* many sets and gets of one key at the same time */
	load.keys = 20000;
	load.batch = 3;
	assert_int_equal(fth_kv_load_run(&load, &r), 0);
	assert_true(r.gets + r.sets >= load.keys);
	assert_true(r.sets > 0 && r.gets > 0);
	assert_int_equal(r.hits, r.gets);
	assert_int_equal(r.stored, r.sets);
	assert_int_equal(r.wrong + r.stale + r.timeouts + r.broken, 0);
	sweep(&rig, &r);
	assert_int_equal(r.hits, ITEMS);
	assert_int_equal(r.wrong + r.stale, 0);
	rig_close(&rig);
}

/* Store any value under a key, behind the generator's back. */
static void store(struct rig *rig, uint64_t index, const char *value)
{
	char line[64], key[FTH_KV_LOAD_KEY + 1] = "", answer[64];
	struct fth_kv_wire wire;
	int n, fd;

	assert_ok(fth_kv_wire_open(&wire, rig->address, NULL, NULL, 10000000000u));
	fd = wire.fd;
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	kv_data_key(index, key);
	n = snprintf(line, sizeof(line), "set %s 0 0 %u\r\n", key, VALUE);
	assert_int_equal(send(fd, line, (size_t)n, 0), n);
	assert_int_equal(send(fd, value, VALUE, 0), VALUE);
	assert_int_equal(send(fd, "\r\n", 2, 0), 2);
	assert_true(recv(fd, answer, sizeof(answer), 0) >= 8);
	assert_memory_equal(answer, "STORED\r\n", 8);
	fth_kv_wire_close(&wire);
}

static void test_wrong(void **state)
{
	struct rig rig;
	struct fth_kv_load_result r;
	char value[VALUE];

	(void)state;
	rig_open(&rig);
	fill(&rig);
	kv_data_value(&rig.data, 5, 1, value);
	store(&rig, 6, value); /* another key's */
	value[VALUE - 1] ^= 1;
	store(&rig, 5, value); /* one bit */
	fill(&rig);	       /* right again, and version 2 now */
	sweep(&rig, &r);
	assert_int_equal(r.wrong + r.stale, 0);
	kv_data_value(&rig.data, 7, 1, value);
	store(&rig, 7, value);
	sweep(&rig, &r);
	assert_int_equal(r.stale, 1);
	assert_int_equal(r.wrong, 0);
	kv_data_value(&rig.data, 7, 3, value); /* a version that nobody has sent */
	store(&rig, 7, value);
	kv_data_value(&rig.data, 5, 2, value);
	value[20] ^= 0x10;
	store(&rig, 5, value);
	kv_data_value(&rig.data, 5, 2, value);
	store(&rig, 6, value);
	sweep(&rig, &r);
	assert_int_equal(r.wrong, 3);
	assert_int_equal(r.stale, 0);
	rig_close(&rig);
}

/* Values of an earlier program are right where this one knows no better. */
static void test_another_run(void **state)
{
	struct rig rig;
	struct fth_kv_load_result r;

	(void)state;
	rig_open(&rig);
	fill(&rig);
	fth_kv_data_release(&rig.data);
	assert_int_equal(fth_kv_data_init(&rig.data, ITEMS, VALUE), 0);
	sweep(&rig, &r);
	assert_int_equal(r.hits, ITEMS);
	assert_int_equal(r.wrong + r.stale, 0);
	rig_close(&rig);
}

static void test_no_server(void **state)
{
	struct rig rig;
	struct fth_kv_load load;
	struct fth_kv_load_result r;

	(void)state;
	rig_open(&rig);
	load = new_load(&rig, FTH_KV_LOAD_SWEEP);
	load.server = "unix:/nowhere/at/all";
	assert_true(fth_kv_load_run(&load, &r) < 0);
	load.server = rig.address;
	load.threads = load.connections + 1;
	assert_true(fth_kv_load_run(&load, &r) < 0);
	rig_close(&rig);
}

static void test_zipf(void **state)
{
	struct kv_zipf zipf;
	struct fth_rng rng = {7};
	unsigned count[100] = {0}, most = 0;

	(void)state;
	kv_zipf_init(&zipf, 100, 0.99);
	for (unsigned i = 0; i < 100000; i++)
		count[kv_zipf_pick(&zipf, &rng)]++;
	for (unsigned i = 0; i < 100; i++)
		most = count[i] > most ? count[i] : most;
	/*
	 * The first of 100 has 1 / zeta(100, 0.99) = 19 %; keys may share a place after scrambling.
	 */
	assert_in_range(most, 17000, 35000);
}

static void test_latency(void **state)
{
	struct fth_latency latency = {0};

	(void)state;
	assert_int_equal(fth_latency_quantile(&latency, 0.5), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		fth_latency_add(&latency, i * 1000);
	assert_in_range(fth_latency_quantile(&latency, 0.5), 490000, 510000);
	assert_in_range(fth_latency_quantile(&latency, 0.99), 970000, 1010000);
	fth_latency_add(&latency, UINT64_MAX);
	assert_true(fth_latency_quantile(&latency, 1) > UINT64_C(60000000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mix),	    cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_another_run), cmocka_unit_test(test_no_server),
		cmocka_unit_test(test_zipf),	    cmocka_unit_test(test_latency),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
