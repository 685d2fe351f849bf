/* SPDX-License-Identifier: BSD-2-Clause */
/* `stats` and the metrics of a server. */
#include "server_fixture.h"

#include <inttypes.h>

/* ---- figures ---- */

/* Three gets are in buckets whose bounds are powers of two, and took time. */
static void check_histogram(int fd)
{
	uint64_t gets = 0, sum = 0, bound, count;
	char *text, *at;

	put(fd, "stats latency\r\n", 15);
	text = take_until(fd, "END\r\n");
	for (at = text; (at = strstr(at, "STAT get:")); at++)
		if (sscanf(at, "STAT get:%" SCNu64 " %" SCNu64, &bound, &count) == 2) {
			assert_int_equal(bound & (bound - 1), 0);
			gets += count;
		} else {
			assert_int_equal(sscanf(at, "STAT get:sum_ns %" SCNu64, &sum), 1);
		}
	assert_int_equal(gets, 3);
	assert_true(sum > 0);
	free(text);
}

static void test_stats(void **state)
{
	static const char *const lists[] = {"stats items\r\n", "stats slabs\r\n",
					    "stats settings\r\n", "stats conns\r\n",
					    "stats latency\r\n"};
	struct fixture f;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	ask(fd,
	    "set a 0 0 1\r\nx\r\nget a\r\nget b c\r\ndelete b\r\ntouch a 0\r\ncas a 0 0 1 "
	    "7\r\nx\r\n",
	    "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\nNOT_FOUND\r\nTOUCHED\r\nEXISTS\r\n");
	assert_int_equal(stat_of(fd, "cmd_get"), 3);
	assert_int_equal(stat_of(fd, "get_hits"), 1);
	assert_int_equal(stat_of(fd, "get_misses"), 2);
	assert_int_equal(stat_of(fd, "cmd_set"), 2);
	assert_int_equal(stat_of(fd, "delete_misses"), 1);
	assert_int_equal(stat_of(fd, "touch_hits"), 1);
	assert_int_equal(stat_of(fd, "cas_badval"), 1);
	assert_int_equal(stat_of(fd, "curr_items"), 1);
	assert_int_equal(stat_of(fd, "curr_connections"), 1);
	assert_int_equal(stat_of(fd, "flash_reads_in_flight"), 0);
	assert_true(stat_of(fd, "resident_bytes") > 4096);
	assert_true(stat_of(fd, "latency_get_p99_ns") > 0);
	check_histogram(fd);
	ask(fd, "stats reset\r\n", "RESET\r\n");
	assert_int_equal(stat_of(fd, "cmd_get"), 0);
	assert_int_equal(stat_of(fd, "get_hits"), 0);
	assert_int_equal(stat_of(fd, "kv_sets"), 0);
	assert_int_equal(stat_of(fd, "total_connections"), 0);
	assert_int_equal(stat_of(fd, "curr_items"), 1);
	for (unsigned i = 0; i < 5; i++) {
		char *text;

		put(fd, lists[i], strlen(lists[i]));
		text = take_until(fd, "END\r\n");
		assert_int_equal(strncmp(text, "STAT ", 5), 0);
		free(text);
	}
	close(fd);
	stop(&f);
}

static void test_metrics(void **state)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	struct fixture f;
	char *text, big[5000];
	int fd, idle[12];

	(void)state;
	o.metrics = "127.0.0.1:0";
	start(&f, NULL, &o);
	fd = dial(&f);
	ask(fd, "set a 0 0 1\r\nx\r\nget a\r\nget b\r\n",
	    "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\n");
	text = http(fth_kv_server_metrics_port(f.server),
		    "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
	assert_non_null(strstr(text, "\nfathom_kv_hits_total{command=\"get\"} 1\n"));
	assert_non_null(strstr(text, "\nfathom_kv_misses_total{command=\"get\"} 1\n"));
	assert_non_null(strstr(text, "\nfathom_kv_items 1\n"));
	assert_non_null(
		strstr(text, "fathom_kv_latency_seconds_bucket{command=\"set\",le=\"+Inf\"} 1"));
	free(text);
	text = http(fth_kv_server_metrics_port(f.server), "GET /other HTTP/1.1\r\n\r\n");
	assert_int_equal(strncmp(text, "HTTP/1.1 404 ", 13), 0);
	free(text);
	text = http(fth_kv_server_metrics_port(f.server), "POST /metrics HTTP/1.1\r\n\r\n");
	assert_int_equal(strncmp(text, "HTTP/1.1 405 ", 13), 0);
	free(text);
	memset(big, 'x', sizeof(big));
	big[4096] = '\0';
	text = http(fth_kv_server_metrics_port(f.server), big);
	assert_int_equal(strncmp(text, "HTTP/1.1 431 ", 13), 0);
	free(text);
	/* Those who say nothing are closed, or turned away; then it works again. */
	for (unsigned i = 0; i < 12; i++)
		idle[i] = dial_port(fth_kv_server_metrics_port(f.server));
	ask(fd, "mn\r\n", "MN\r\n");
	for (unsigned i = 0; i < 12; i++)
		expect_closed(idle[i]);
	text = http(fth_kv_server_metrics_port(f.server), "GET /metrics HTTP/1.0\r\n\r\n");
	assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
	free(text);
	close(fd);
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
