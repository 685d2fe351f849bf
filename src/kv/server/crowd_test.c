/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server with many clients of which half behave badly, flash that fails or is slow, and clients
 * that do not read.
 */
#include "server_fixture.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

/* ThreadSanitizer has several bytes for each byte that is touched. */
#ifdef __SANITIZE_THREAD__
#define SHADOW 6u
#else
#define SHADOW 1u
#endif

/* ---- 200 connections, half of them bad ---- */

#define GOOD	100u
#define BAD	100u
#define THREADS 4u
#define ROUNDS	20u

struct crowd {
	const struct fixture *f;
	unsigned first;
	bool *over;
};

static void *behave(void *context)
{
	const struct crowd *crowd = context;
	int fds[GOOD / THREADS];
	char text[4200], want[4200];

	for (unsigned i = 0; i < GOOD / THREADS; i++)
		fds[i] = dial(crowd->f);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < GOOD / THREADS; i++) {
			unsigned who = crowd->first + i, n = 100 + (who * 37 + round * 211) % 3900;
			int at = sprintf(text, "set c%u-%u %u 0 %u\r\n", who, round % 8, who, n);

			/* The value tells whose it is: an answer for another one is seen. */
			memset(text + at, 'A' + (int)(who % 26), n);
			memcpy(text + at + n, "\r\n", 3);
			ask(fds[i], text, "STORED\r\n");
			snprintf(text, sizeof(text), "get c%u-%u\r\n", who, round % 8);
			at = snprintf(want, sizeof(want), "VALUE c%u-%u %u %u\r\n", who, round % 8,
				      who, n);
			memset(want + at, 'A' + (int)(who % 26), n);
			strcpy(want + at + n, "\r\nEND\r\n");
			ask(fds[i], text, want);
			/* An older one may be on flash, or gone; if it is there it is its own. */
			snprintf(text, sizeof(text), "mg c%u-%u f\r\n", who, (round + 1) % 8);
			put(fds[i], text, strlen(text));
			take(fds[i], want, 4);
			want[4] = '\0';
			if (strcmp(want, "EN\r\n") != 0) {
				char flags[32];

				assert_string_equal(want, "HD f");
				snprintf(flags, sizeof(flags), "%u\r\n", who);
				expect_text(fds[i], flags);
			}
		}
	for (unsigned i = 0; i < GOOD / THREADS; i++)
		close(fds[i]);
	return NULL;
}

/* One bad connection of each kind in turn; half are closed hard with reads in flight. */
static void misbehave(const struct fixture *f, unsigned i, int *fd)
{
	static const char *const says[] = {"set a 0 0 1000000\r\nonly this",
					   "get ",
					   "\x80",
					   "set a 0 0 99999999999\r\n",
					   "xxxxxxxxxxxxxxxxxxxx",
					   "mg a v\r\nmg b v\r\nms c 5\r\n12345678\r\n"};
	struct linger hard = {.l_onoff = 1};

	*fd = dial(f);
	put(*fd, says[i % 6], strlen(says[i % 6]));
	if (i % 2) {
		char text[2048] = "\r\nget", *end = text + 5;

		for (unsigned k = 0; k < 60; k++)
			end += sprintf(end, " c%u-%u", (i + k) % GOOD, k % 8);
		strcpy(end, "\r\n");
		put(*fd, text, strlen(text));
	}
	if (i % 4 == 1) {
		(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		close(*fd);
		*fd = -1;
	}
}

static void run_crowd(const char *flash)
{
	struct crowd crowds[THREADS];
	pthread_t threads[THREADS];
	struct fixture f;
	int bad[BAD], fd;

	start(&f, flash, NULL);
	for (unsigned i = 0; i < BAD; i++)
		misbehave(&f, i, &bad[i]);
	for (unsigned i = 0; i < THREADS; i++) {
		crowds[i] = (struct crowd){.f = &f, .first = i * (GOOD / THREADS)};
		assert_int_equal(pthread_create(&threads[i], NULL, behave, &crowds[i]), 0);
	}
	/* More that come and go while the others work. */
	for (unsigned i = 0; i < BAD; i++) {
		int more;

		misbehave(&f, i, &more);
		if (more >= 0)
			close(more);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < BAD; i++)
		if (bad[i] >= 0)
			close(bad[i]);
	fd = dial(&f);
	ask(fd, "mn\r\n", "MN\r\n");
	close(fd);
	stop(&f);
}

static void test_crowd(void **state)
{
	(void)state;
	run_crowd("mem:64M");
}

static void test_crowd_slow_flash(void **state)
{
	(void)state;
	run_crowd("delay(mem:64M)?read_us=2000&write_us=5000");
}

/* ---- flash that fails ---- */

static void fill_cache(int fd, unsigned items)
{
	char text[5000];

	for (unsigned i = 0; i < items; i++) {
		int at = sprintf(text, "set f%u 0 0 4000 noreply\r\n", i);

		memset(text + at, 'f', 4000);
		memcpy(text + at + 4000, "\r\n", 2);
		put(fd, text, (size_t)at + 4002);
	}
	ask(fd, "mn\r\n", "MN\r\n");
}

/*
 * get_extstore counts gets, as memcached's does: other commands that find items on flash do not
 * count.
 */
static void test_gets_from_flash(void **state)
{
	struct fixture f;
	char text[64];
	int fd;

	(void)state;
	start(&f, "mem:64M", NULL);
	fd = dial(&f);
	fill_cache(fd, 6000); /* 24 MB through 8 MiB of memory */
	for (unsigned i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "touch f%u 0\r\n", i);
		ask(fd, text, "TOUCHED\r\n");
	}
	assert_true(stat_of(fd, "kv_hits_flash") > 0);
	assert_int_equal(stat_of(fd, "get_extstore"), 0);
	ask(fd, "mg f5999\r\nmg f500\r\nmg none\r\n", "HD\r\nHD\r\nEN\r\n");
	assert_int_equal(stat_of(fd, "get_hits"), 2);
	assert_int_equal(stat_of(fd, "get_extstore"), 1);
	close(fd);
	stop(&f);
}

static void check_failing(const char *flash)
{
	struct fixture f;
	unsigned hits = 0;
	int fd;

	start(&f, flash, NULL);
	fd = dial(&f);
	fill_cache(fd, 6000); /* 24 MB through 8 MiB of memory */
	for (unsigned i = 0; i < 300; i++) {
		char text[64], got[8];

		snprintf(text, sizeof(text), "mg f%u\r\n", i);
		put(fd, text, strlen(text));
		take(fd, got, 4);
		assert_true(memcmp(got, "HD\r\n", 4) == 0 || memcmp(got, "EN\r\n", 4) == 0);
		hits += got[0] == 'H';
	}
	assert_true(hits < 300);
	ask(fd, "set new 0 0 1\r\nx\r\nget new\r\n", "STORED\r\nVALUE new 0 1\r\nx\r\nEND\r\n");
	assert_true(stat_of(fd, "kv_read_errors") + stat_of(fd, "kv_write_errors") > 0);
	close(fd);
	fth_kv_server_stop(f.server, fth_deadline_ns(2000000000u));
	(void)fth_kv_close(f.kv);
}

static void test_failing_reads(void **state)
{
	(void)state;
	check_failing("fault(mem:64M)?kind=read&nth=8&every=2");
}

static void test_failing_writes(void **state)
{
	(void)state;
	check_failing("fault(mem:64M)?kind=write&nth=8&every=1");
}

/* Reads take longer than the server has: it stops all the same. */
static void test_stop_with_slow_flash(void **state)
{
	struct fixture f;
	char text[2048], *end = text;
	int fds[20];

	(void)state;
	start(&f, "delay(mem:64M)?read_us=400000", NULL);
	fds[0] = dial(&f);
	fill_cache(fds[0], 4000);
	for (unsigned i = 1; i < 20; i++) {
		fds[i] = dial(&f);
		end = text + sprintf(text, "get");
		for (unsigned k = 0; k < 100; k++)
			end += sprintf(end, " f%u", i * 100 + k);
		strcpy(end, "\r\n");
		put(fds[i], text, strlen(text));
	}
	usleep(20000);
	fth_kv_server_stop(f.server, fth_deadline_ns(10000000u));
	assert_ok(fth_kv_close(f.kv));
	for (unsigned i = 0; i < 20; i++)
		close(fds[i]);
}

/* ---- memory ---- */

static uint64_t rss(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages, resident = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
	fclose(file);
	return (uint64_t)resident * 4096;
}

/* 100 connections ask for 100 MB each, of values on flash, and read nothing. */
static void test_slow_readers(void **state)
{
	enum { N = 100 };
	char *value = calloc(1, 1000002), line[64];
	struct fixture f;
	uint64_t before;
	int fds[N], fd;

	(void)state;
	start(&f, "mem:256M", NULL);
	fd = dial(&f);
	memset(value, 'v', 1000000);
	memcpy(value + 1000000, "\r\n", 2);
	for (unsigned i = 0; i < 60; i++) {
		snprintf(line, sizeof(line), "set b%u 0 0 1000000\r\n", i);
		put(fd, line, strlen(line));
		put(fd, value, 1000002);
		expect_text(fd, "STORED\r\n");
	}
	before = rss();
	for (unsigned i = 0; i < N; i++) {
		int small = 4096;

		fds[i] = dial(&f);
		(void)setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
		for (unsigned k = 0; k < 100; k++) {
			snprintf(line, sizeof(line), "get b%u\r\n", (i + k) % 60);
			put(fds[i], line, strlen(line));
		}
	}
	usleep(500000);
	ask(fd, "mn\r\n", "MN\r\n"); /* others are served */
	/* One answer and one value more each, and what AddressSanitizer keeps. */
	if (rss() > before + ((uint64_t)600 << 20) * SHADOW)
		fail_msg("%llu MB more", (unsigned long long)((rss() - before) >> 20));
	for (unsigned i = 0; i < N; i++)
		close(fds[i]);
	ask(fd, "mn\r\n", "MN\r\n");
	close(fd);
	free(value);
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crowd),		cmocka_unit_test(test_crowd_slow_flash),
		cmocka_unit_test(test_gets_from_flash), cmocka_unit_test(test_failing_reads),
		cmocka_unit_test(test_failing_writes),	cmocka_unit_test(test_stop_with_slow_flash),
		cmocka_unit_test(test_slow_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
