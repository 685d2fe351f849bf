/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that take replies in parts. The clock stands still unless the test moves it, and send() takes
 * as much as the test allows, so that nothing here depends on how fast the machine is.
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
		cmocka_unit_test(metrics_are_sent_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
