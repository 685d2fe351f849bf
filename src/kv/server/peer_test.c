/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that take replies in parts or not at all. The clock stands still unless the test moves it,
 * and send() takes as much as the test allows, so that nothing here depends on how fast the machine
 * is.
 */
#include "server_fixture.h"

#include <time.h>

static uint64_t clock_ns; /* atomic; 0: the system's */
static size_t send_max;	  /* atomic; 0: no limit */

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
ssize_t __real_send(int fd, const void *data, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t n, int flags);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t now = __atomic_load_n(&clock_ns, __ATOMIC_RELAXED);

	if (clock != CLOCK_MONOTONIC || !now)
		return __real_clock_gettime(clock, ts);
	ts->tv_sec = (time_t)(now / 1000000000u);
	ts->tv_nsec = (long)(now % 1000000000u);
	return 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t n, int flags)
{
	size_t most = __atomic_load_n(&send_max, __ATOMIC_RELAXED);

	return __real_send(fd, data, most && n > most ? most : n, flags);
}

static void set_clock(uint64_t ns)
{
	__atomic_store_n(&clock_ns, ns, __ATOMIC_RELAXED);
}

/* ---- readers beside others that do not read ---- */

/* Each holds a value of 1 MB: more than a worker may hold for all of them. */
#define SLOW	160u
#define LENGTH	1000000u
#define STEP_NS 150000000u /* enough for a peer that never took a reply, less than others have */

struct crowd {
	struct fixture f;
	char *value;
	int slow[SLOW];
};

static void set_value(const struct crowd *c, int fd)
{
	char line[64];

	snprintf(line, sizeof(line), "set big 0 0 %u\r\n", LENGTH);
	put(fd, line, strlen(line));
	put(fd, c->value, LENGTH + 2);
	expect_text(fd, "STORED\r\n");
}

static void get_value(const struct crowd *c, int fd)
{
	char *got = malloc(LENGTH + 2), line[64];

	snprintf(line, sizeof(line), "VALUE big 0 %u\r\n", LENGTH);
	assert_non_null(got);
	ask(fd, "get big\r\n", line);
	take(fd, got, LENGTH + 2);
	assert_memory_equal(got, c->value, LENGTH + 2);
	expect_text(fd, "END\r\n");
	free(got);
}

static uint64_t commands(const struct crowd *c)
{
	struct fth_kv_server_counts counts;

	fth_kv_server_counts(c->f.server, &counts);
	return counts.commands;
}

/*
 * A server with one worker, a client of it that reads, and then, at a time that stands still, many
 * that do not.
 */
static int start_crowd(struct crowd *c)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	const char *where = unix_place(); /* its buffers do not grow */
	uint64_t before;
	int fd;

	o.workers = 1;
	o.listen = &where;
	o.listen_count = 1;
	start(&c->f, NULL, &o);
	c->value = malloc(LENGTH + 2);
	assert_non_null(c->value);
	memset(c->value, 'v', LENGTH);
	memcpy(c->value + LENGTH, "\r\n", 2);
	fd = dial_unix(where);
	set_value(c, fd);
	get_value(c, fd);
	set_clock(fth_now_ns());
	before = commands(c);
	for (unsigned i = 0; i < SLOW; i++) {
		c->slow[i] = dial_unix(where);
		put(c->slow[i], "get big\r\n", 9);
	}
	for (unsigned naps = 0; commands(c) < before + SLOW; naps++) {
		assert_true(naps < WAIT_S * 100);
		usleep(10000);
	}
	return fd;
}

static void stop_crowd(struct crowd *c, int fd)
{
	set_clock(0);
	close(fd);
	for (unsigned i = 0; i < SLOW; i++)
		close(c->slow[i]);
	free(c->value);
	stop(&c->f);
}

/* A part of the memory is not for those that never took a reply: it waits for none of them. */
static void a_client_that_reads_waits_for_nobody(void **state)
{
	struct crowd c;
	int fd = start_crowd(&c);

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		get_value(&c, fd);
	assert_int_equal(stat_of(fd, "slow_kicks"), 0);
	stop_crowd(&c, fd);
}

/* It cannot be told from them until they have had a moment to take something. */
static void a_new_client_waits_a_moment(void **state)
{
	struct crowd c;
	int fd = start_crowd(&c), new = dial_unix(unix_place());

	(void)state;
	set_clock(fth_now_ns() + STEP_NS);
	get_value(&c, new);
	assert_true(stat_of(fd, "slow_kicks") > 0);
	get_value(&c, fd);
	close(new);
	stop_crowd(&c, fd);
}

/* ---- metrics ---- */

static void metrics_are_sent_in_parts(void **state)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	const char *head = "Content-Length: ", *length, *body;
	struct fixture f;
	char *text;

	(void)state;
	o.metrics = "127.0.0.1:0";
	start(&f, NULL, &o);
	set_clock(fth_now_ns()); /* a slow machine is no reason to close the connection */
	__atomic_store_n(&send_max, 100, __ATOMIC_RELAXED);
	text = http(fth_kv_server_metrics_port(f.server), "GET /metrics HTTP/1.1\r\n\r\n");
	__atomic_store_n(&send_max, 0, __ATOMIC_RELAXED);
	assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
	length = strstr(text, head);
	body = strstr(text, "\r\n\r\n");
	assert_true(length && body);
	assert_int_equal(strlen(body + 4), strtoul(length + strlen(head), NULL, 10));
	assert_true(strlen(body + 4) > 1000);
	assert_non_null(strstr(body, "\nfathom_kv_latency_seconds_count{command=\"touch\"} 0\n"));
	free(text);
	set_clock(0);
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_that_reads_waits_for_nobody),
		cmocka_unit_test(a_new_client_waits_a_moment),
		cmocka_unit_test(metrics_are_sent_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
