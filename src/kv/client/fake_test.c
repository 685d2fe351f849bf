/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client against a server that follows a script: answers in pieces, late, wrong or never;
 * connections that close in the middle; servers that are not there. No test depends on how long
 * anything takes, except that a deadline which has to pass does.
 */
#include "fathom/kv/client.h"

#include "fth_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONG_NS UINT64_C(60000000000)

static uint64_t soon(void)
{
	return fth_deadline_ns(LONG_NS);
}

/* ---- the fake ---- */

struct fake {
	int listener;
	unsigned port;
	char name[32];
	pthread_t thread;
	/* Plays one connection, numbered from 0; the fake closes it afterwards. */
	void (*play)(struct fake *fake, int fd, unsigned number);
	const char *text;  /* for play() */
	uint32_t accepted; /* atomic */
	uint32_t signal;   /* atomic: set by the test, waited for by play() */
};

/* A line with its end; empty at the end of the connection. */
static const char *hear(int fd, char line[512])
{
	size_t n = 0;

	while (n < 511 && recv(fd, line + n, 1, 0) == 1)
		if (line[n++] == '\n')
			break;
	line[n] = '\0';
	return line;
}

static void say_bytes(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);

		if (sent <= 0)
			return;
		text += sent;
		n -= (size_t)sent;
	}
}

static void say(int fd, const char *text)
{
	say_bytes(fd, text, strlen(text));
}

/* Until the client closes. */
static void read_rest(int fd)
{
	char rest[4096];

	while (recv(fd, rest, sizeof(rest), 0) > 0)
		;
}

static void await_signal(struct fake *fake, uint32_t value)
{
	while (__atomic_load_n(&fake->signal, __ATOMIC_ACQUIRE) < value)
		usleep(1000);
}

static void *fake_run(void *arg)
{
	struct fake *fake = arg;
	int fd;

	while ((fd = accept(fake->listener, NULL, NULL)) >= 0) {
		fake->play(fake, fd, __atomic_fetch_add(&fake->accepted, 1, __ATOMIC_RELAXED));
		close(fd);
	}
	return NULL;
}

static int listen_on(unsigned *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)*port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static void fake_start(struct fake *fake, void (*play)(struct fake *, int, unsigned))
{
	fake->listener = listen_on(&fake->port);
	assert_int_equal(listen(fake->listener, 64), 0);
	snprintf(fake->name, sizeof(fake->name), "127.0.0.1:%u", fake->port);
	fake->play = play;
	assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static void fake_stop(struct fake *fake)
{
	shutdown(fake->listener, SHUT_RDWR);
	pthread_join(fake->thread, NULL);
	close(fake->listener);
}

static struct fth_kvc *open_one(const struct fake *fake, const char *auth)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	const char *name = fake->name;
	struct fth_kvc *client;

	options.connections = 1;
	options.timeout_ms = 60000;
	options.retry_ms = 1;
	options.retry_max_ms = 10;
	options.auth = auth;
	assert_ok(fth_kvc_open(&name, 1, &options, &client));
	return client;
}

/* A get that is repeated while the server is down. */
static int get_when_up(struct fth_kvc *client, const char *key, char *value, uint32_t room)
{
	uint64_t deadline = soon();
	int rc;

	do {
		rc = fth_kvc_get(client, key, (uint32_t)strlen(key), value, room, deadline);
		if (rc == -EHOSTDOWN)
			usleep(1000);
	} while (rc == -EHOSTDOWN && fth_now_ns() < deadline);
	return rc;
}

static void expect_get(struct fth_kvc *client, const char *key, const char *value)
{
	char got[256];
	int n = get_when_up(client, key, got, sizeof(got));

	assert_ok(n);
	assert_int_equal(n, strlen(value));
	assert_memory_equal(got, value, (size_t)n);
}

static struct fth_kvc_stats stats_of(struct fth_kvc *client)
{
	struct fth_kvc_stats stats;

	fth_kvc_stats(client, &stats);
	return stats;
}

/* ---- answers in pieces ---- */

static void play_slowly(struct fake *fake, int fd, unsigned number)
{
	static const char answer[] = "VALUE key 7 12\r\nEND\r\nVALUE a\r\nEND\r\n";
	char line[512];

	(void)fake;
	(void)number;
	if (strcmp(hear(fd, line), "get key\r\n") != 0)
		return;
	for (size_t i = 0; i < sizeof(answer) - 1; i++) {
		say_bytes(fd, answer + i, 1);
		if (i % 5 == 0)
			usleep(1000);
	}
	read_rest(fd);
}

static void answers_in_pieces(void **state)
{
	struct fake fake = {0};
	struct fth_kvc *client;

	(void)state;
	fake_start(&fake, play_slowly);
	client = open_one(&fake, NULL);
	expect_get(client, "key", "END\r\nVALUE a");
	fth_kvc_close(client);
	fake_stop(&fake);
}

/* A proxy answers in the order in which its servers do. */
static void play_reversed(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	(void)fake;
	(void)number;
	if (strcmp(hear(fd, line), "get a b a c\r\n") == 0)
		say(fd, "VALUE c 0 1\r\n3\r\nVALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
	read_rest(fd);
}

static void values_in_any_order(void **state)
{
	static const char *const keys[] = {"a", "b", "a", "c"};
	struct fth_kvc_op ops[4] = {0};
	struct fake fake = {0};
	struct fth_kvc *client;

	(void)state;
	fake_start(&fake, play_reversed);
	client = open_one(&fake, NULL);
	for (unsigned i = 0; i < 4; i++)
		ops[i] = (struct fth_kvc_op){.verb = FTH_KV_GET, .key = keys[i], .key_length = 1};
	assert_int_equal(fth_kvc_do_many(client, ops, 4, soon()), 3);
	assert_int_equal(ops[1].result, -ENOENT);
	assert_int_equal(ops[0].data[0], '1');
	assert_int_equal(ops[2].data[0], '1');
	assert_int_equal(ops[3].data[0], '3');
	for (unsigned i = 0; i < 4; i++)
		fth_kvc_release(&ops[i]);
	fth_kvc_close(client);
	fake_stop(&fake);
}

/* ---- what is no answer ---- */

static void play_text(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	while (*hear(fd, line))
		say(fd, number ? "VALUE a 0 4\r\ngood\r\nEND\r\n" : fake->text);
}

static void garbage(void **state)
{
	static const char *const texts[] = {
		"\r\n",
		"\n",
		"END\n",
		"STORED\r\n",
		"17\r\n",
		"VALUE\r\n",
		"VALUE a\r\n",
		"VALUE a 0\r\n",
		"VALUE a 0 x\r\n",
		"VALUE a 0 -1\r\n",
		"VALUE a 0 99999999999999999999999\r\n",
		"VALUE a 0 4294967295\r\n",
		"VALUE a 4294967296 1\r\nx\r\nEND\r\n",
		"VALUE a 0 1 2 3\r\nx\r\nEND\r\n",
		"VALUE a 0 1\r\nxyzEND\r\n",
		"VALUE b 0 1\r\nx\r\nEND\r\n",
		"VALUE aa 0 1\r\nx\r\nEND\r\n",
		"VALUE  0 1\r\nx\r\nEND\r\n",
		"NOT_FOUND\r\n",
		"HTTP/1.1 400 Bad Request\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct fake fake = {.text = texts[i]};
		struct fth_kvc *client;
		char value[16];

		fake_start(&fake, play_text);
		client = open_one(&fake, NULL);
		if (fth_kvc_get(client, "a", 1, value, sizeof(value), soon()) != -EPROTO)
			fail_msg("taken for an answer: %s", texts[i]);
		/* The connection is gone, and the next one is good. */
		expect_get(client, "a", "good");
		fth_kvc_close(client);
		fake_stop(&fake);
	}
}

static void endless_line(void **state)
{
	char *text = malloc(10001), value[16];
	struct fake fake = {.text = text};
	struct fth_kvc *client;

	(void)state;
	memset(text, 'E', 10000);
	text[10000] = '\0';
	fake_start(&fake, play_text);
	client = open_one(&fake, NULL);
	assert_int_equal(fth_kvc_get(client, "a", 1, value, sizeof(value), soon()), -EPROTO);
	expect_get(client, "a", "good");
	fth_kvc_close(client);
	fake_stop(&fake);
	free(text);
}

static void play_errors(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	(void)fake;
	(void)number;
	(void)hear(fd, line);
	say(fd, "SERVER_ERROR Connection refused\r\n");
	(void)hear(fd, line);
	say(fd, "ERROR\r\n");
	(void)hear(fd, line);
	(void)hear(fd, line);
	say(fd, "SERVER_ERROR out of memory storing object\r\n");
	(void)hear(fd, line);
	(void)hear(fd, line);
	say(fd, "SERVER_ERROR object too large for cache\r\n");
	(void)hear(fd, line);
	say(fd, "VALUE a 0 4\r\ngood\r\nEND\r\n");
	read_rest(fd);
}

/* Errors of the server belong to one request, and the connection goes on. */
static void errors_of_the_server(void **state)
{
	struct fake fake = {0};
	struct fth_kvc *client;
	char value[16];

	(void)state;
	fake_start(&fake, play_errors);
	client = open_one(&fake, NULL);
	assert_int_equal(fth_kvc_get(client, "a", 1, value, 16, soon()), -EREMOTEIO);
	assert_non_null(strstr(fth_error_text(-EREMOTEIO), fake.name));
	assert_int_equal(fth_kvc_delete(client, "a", 1, soon()), -EREMOTEIO);
	assert_int_equal(fth_kvc_set(client, "a", 1, "x", 1, 0, soon()), -ENOMEM);
	assert_int_equal(fth_kvc_set(client, "a", 1, "x", 1, 0, soon()), -EMSGSIZE);
	expect_get(client, "a", "good");
	assert_int_equal(stats_of(client).connects, 1);
	fth_kvc_close(client);
	fake_stop(&fake);
}

/* ---- connections that close ---- */

static void play_closing(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	(void)fake;
	(void)hear(fd, line);
	say(fd, "VALUE a 0 4\r\ngood\r\nEND\r\n");
	(void)hear(fd, line);
	if (number == 0) { /* in the middle of a value */
		say(fd, "VALUE a 0 4\r\nba");
		return;
	}
	if (number == 1) /* after a store was sent */
		return;
	read_rest(fd);
}

static void closed_in_the_middle(void **state)
{
	struct fake fake = {0};
	struct fth_kvc *client;

	(void)state;
	fake_start(&fake, play_closing);
	client = open_one(&fake, NULL);
	expect_get(client, "a", "good");
	/* A get is tried again on the next connection, a change is not. */
	expect_get(client, "a", "good");
	assert_int_equal(stats_of(client).retries, 1);
	assert_int_equal(fth_kvc_set(client, "a", 1, "x", 1, 0, soon()), -ECONNRESET);
	expect_get(client, "a", "good");
	assert_int_equal(stats_of(client).connects, 3);
	fth_kvc_close(client);
	fake_stop(&fake);
}

/* ---- deadlines ---- */

static void play_late(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	(void)number;
	(void)hear(fd, line); /* get b */
	say(fd, "VALUE b 0 4\r\ngood\r\nEND\r\n");
	(void)hear(fd, line); /* get a */
	await_signal(fake, 1);
	say(fd, "VALUE a 0 4\r\nlate\r\nEND\r\n");
	(void)hear(fd, line); /* get b */
	say(fd, "VALUE b 0 4\r\ngood\r\nEND\r\n");
	read_rest(fd);
}

/* The answer to a get that was given up reaches nobody. */
static void late_answers(void **state)
{
	char value[16] = "untouched";
	struct fth_kvc_op op = {.verb = FTH_KV_GET,
				.key = "a",
				.key_length = 1,
				.buffer = value,
				.room = sizeof(value)};
	struct fth_kvc_stats stats;
	struct fake fake = {0};
	struct fth_kvc *client;

	(void)state;
	fake_start(&fake, play_late);
	client = open_one(&fake, NULL);
	expect_get(client, "b", "good");
	fth_kvc_start(client, &op); /* sent at once: nothing else is in flight */
	assert_int_equal(fth_kvc_wait(client, &op, fth_deadline_ns(20000000)), -ETIMEDOUT);
	__atomic_store_n(&fake.signal, 1, __ATOMIC_RELEASE);
	expect_get(client, "b", "good");
	assert_string_equal(value, "untouched");
	stats = stats_of(client);
	assert_int_equal(stats.timeouts, 1);
	assert_int_equal(stats.late, 1);
	assert_int_equal(stats.connects, 1);
	fth_kvc_close(client);
	fake_stop(&fake);
}

static void play_silent(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	if (number < 2)
		read_rest(fd);
	else
		while (*hear(fd, line))
			say(fd, "VALUE a 0 4\r\ngood\r\nEND\r\n");
	(void)fake;
}

/* A server that accepts and never answers is down after timeout_ms, whatever the deadline. */
static void silent_server(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	struct fake fake = {0};
	const char *name = fake.name;
	struct fth_kvc *client;
	char value[16];
	int rc;

	(void)state;
	fake_start(&fake, play_silent);
	options.connections = 1;
	options.timeout_ms = 30;
	options.retry_ms = 60000;
	assert_ok(fth_kvc_open(&name, 1, &options, &client));
	assert_int_equal(fth_kvc_get(client, "a", 1, value, 16, FTH_NEVER), -ETIMEDOUT);
	assert_int_equal(fth_kvc_get(client, "a", 1, value, 16, FTH_NEVER), -EHOSTDOWN);
	assert_int_equal(stats_of(client).refused, 1);
	fth_kvc_close(client);
	/* Tried again after a pause, it fails once more, then answers. */
	options.timeout_ms = 200;
	options.retry_ms = options.retry_max_ms = 1;
	assert_ok(fth_kvc_open(&name, 1, &options, &client));
	do
		rc = fth_kvc_get(client, "a", 1, value, 16, soon());
	while (rc == -ETIMEDOUT || rc == -EHOSTDOWN);
	assert_int_equal(rc, 4);
	fth_kvc_close(client);
	fake_stop(&fake);
}

struct waiter {
	struct fth_kvc *client;
	pthread_t thread;
	uint64_t deadline;
	unsigned number;
	int result;
};

static void *wait_for_nothing(void *arg)
{
	struct waiter *w = arg;
	char key[16], value[16];
	int n = snprintf(key, sizeof(key), "k%u", w->number);

	w->result = fth_kvc_get(w->client, key, (uint32_t)n, value, sizeof(value), w->deadline);
	return NULL;
}

/* Whoever leads when its deadline passes leaves the lead to another; all come back. */
static void every_deadline_is_kept(void **state)
{
	enum { N = 24 };
	struct waiter waiters[N];
	struct fake fake = {0};
	struct fth_kvc *client;

	(void)state;
	fake_start(&fake, play_silent);
	client = open_one(&fake, NULL);
	for (unsigned i = 0; i < N; i++) {
		/* In no order, and some in the past. */
		uint64_t ms = (i * 7) % N * 5;

		waiters[i] = (struct waiter){
			.client = client, .number = i, .deadline = fth_deadline_ns(ms * 1000000)};
		assert_int_equal(
			pthread_create(&waiters[i].thread, NULL, wait_for_nothing, &waiters[i]), 0);
	}
	for (unsigned i = 0; i < N; i++) {
		pthread_join(waiters[i].thread, NULL);
		assert_int_equal(waiters[i].result, -ETIMEDOUT);
	}
	assert_int_equal(stats_of(client).timeouts, N);
	fth_kvc_close(client);
	fake_stop(&fake);
}

/* ---- long requests ---- */

#define LONG_VALUE (9u << 20)

static void play_long(struct fake *fake, int fd, unsigned number)
{
	char line[512], *rest = malloc(LONG_VALUE + 2);
	size_t have = 0;

	(void)number;
	(void)hear(fd, line);
	await_signal(fake, 1); /* the socket is full meanwhile */
	while (have < LONG_VALUE + 2) {
		ssize_t n = recv(fd, rest + have, LONG_VALUE + 2 - have, 0);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	say(fd, have == LONG_VALUE + 2 ? "STORED\r\n" : "SERVER_ERROR short\r\n");
	(void)hear(fd, line);
	say(fd, "VALUE a 0 9437184\r\n");
	say_bytes(fd, rest, LONG_VALUE + 2);
	say(fd, "END\r\n");
	free(rest);
	read_rest(fd);
}

static void long_values(void **state)
{
	struct fth_kvc_op set = {.verb = FTH_KV_SET, .key = "a", .key_length = 1};
	struct fth_kvc_op get = {.verb = FTH_KV_GET, .key = "a", .key_length = 1};
	char *value = malloc(LONG_VALUE);
	struct fake fake = {0};
	struct fth_kvc *client;

	(void)state;
	for (unsigned i = 0; i < LONG_VALUE; i++)
		value[i] = (char)(i * 31 >> 3);
	fake_start(&fake, play_long);
	client = open_one(&fake, NULL);
	set.value = value;
	set.value_length = LONG_VALUE;
	fth_kvc_start(client, &set);
	fth_kvc_start(client, &get);
	__atomic_store_n(&fake.signal, 1, __ATOMIC_RELEASE);
	assert_ok(fth_kvc_wait(client, &get, soon()));
	assert_ok(fth_kvc_wait(client, &set, soon()));
	assert_int_equal(get.length, LONG_VALUE);
	assert_memory_equal(get.data, value, LONG_VALUE);
	fth_kvc_release(&get);
	fth_kvc_close(client);
	fake_stop(&fake);
	free(value);
}

/* ---- passwords ---- */

static void play_password(struct fake *fake, int fd, unsigned number)
{
	char line[512];

	(void)number;
	if (strcmp(hear(fd, line), "set auth 0 0 11\r\n") != 0 ||
	    strcmp(hear(fd, line), "user secret\r\n") != 0)
		return;
	say(fd, fake->text);
	while (*hear(fd, line))
		say(fd, "VALUE a 0 4\r\ngood\r\nEND\r\n");
}

static void passwords(void **state)
{
	struct fake fake = {.text = "STORED\r\n"}, other = {.text = "CLIENT_ERROR no\r\n"};
	struct fth_kvc *client;
	char value[16];

	(void)state;
	fake_start(&fake, play_password);
	client = open_one(&fake, "user secret");
	expect_get(client, "a", "good");
	fth_kvc_close(client);
	fake_stop(&fake);
	fake_start(&other, play_password);
	client = open_one(&other, "user secret");
	assert_int_equal(fth_kvc_get(client, "a", 1, value, 16, soon()), -EACCES);
	fth_kvc_close(client);
	fake_stop(&other);
}

/* ---- servers that are not there ---- */

static void play_any(struct fake *fake, int fd, unsigned number)
{
	char line[512], key[300], answer[700];

	(void)fake;
	(void)number;
	while (sscanf(hear(fd, line), "get %299s", key) == 1) {
		snprintf(answer, sizeof(answer), "VALUE %s 0 4\r\ngood\r\nEND\r\n", key);
		say(fd, answer);
	}
}

/* One of two servers is missing; `down` says what becomes of its keys. */
static void use_half(enum fth_kvc_down down, int expected)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	struct fake fake = {0}, missing = {0};
	const char *names[2] = {fake.name, missing.name};
	unsigned of_missing = 0;
	struct fth_kvc *client;

	fake_start(&fake, play_any);
	close(listen_on(&missing.port));
	snprintf(missing.name, sizeof(missing.name), "127.0.0.1:%u", missing.port);
	options.connections = 1;
	options.down = down;
	options.timeout_ms = 60000;
	options.retry_ms = 1;
	options.retry_max_ms = 5;
	assert_ok(fth_kvc_open(names, 2, &options, &client));
	for (unsigned i = 0; i < 50; i++) {
		char key[16], value[16];
		uint32_t n = (uint32_t)snprintf(key, sizeof(key), "key-%u", i);
		int rc = fth_kvc_get(client, key, n, value, sizeof(value), soon());

		of_missing += fth_kvc_server_of(client, key, n);
		assert_int_equal(rc, fth_kvc_server_of(client, key, n) ? expected : 4);
		if (rc == -EHOSTDOWN) {
			assert_non_null(strstr(fth_error_text(rc), missing.name));
			assert_non_null(strstr(fth_error_text(rc), "refused"));
		}
	}
	assert_true(of_missing > 5 && of_missing < 45);
	/* It comes, and is found. */
	fake_start(&missing, play_any);
	for (unsigned i = 0; i < 50; i++) {
		char key[16];

		snprintf(key, sizeof(key), "key-%u", i);
		if (down == FTH_KVC_DOWN_FAILS)
			expect_get(client, key, "good");
	}
	fth_kvc_close(client);
	fake_stop(&missing);
	fake_stop(&fake);
}

static void missing_server(void **state)
{
	(void)state;
	use_half(FTH_KVC_DOWN_FAILS, -EHOSTDOWN);
	use_half(FTH_KVC_DOWN_MISSES, -ENOENT);
	use_half(FTH_KVC_DOWN_REHASHES, 4);
}

static void bad_servers(void **state)
{
	static const char *const bad[] = {"",	    ":11211",	"host:0", "host:65536",
					  "host:x", "[::1",	"[::1]x", "127.0.0.1/?",
					  "a/?0",   "a/?70000", "unix:"};
	struct fth_kvc *client;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fth_kvc_open(&bad[i], 1, NULL, &client), -EINVAL);
		assert_null(client);
	}
	assert_int_equal(fth_kvc_open(bad, 0, NULL, &client), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_in_pieces),
		cmocka_unit_test(values_in_any_order),
		cmocka_unit_test(garbage),
		cmocka_unit_test(endless_line),
		cmocka_unit_test(errors_of_the_server),
		cmocka_unit_test(closed_in_the_middle),
		cmocka_unit_test(late_answers),
		cmocka_unit_test(silent_server),
		cmocka_unit_test(every_deadline_is_kept),
		cmocka_unit_test(long_values),
		cmocka_unit_test(passwords),
		cmocka_unit_test(missing_server),
		cmocka_unit_test(bad_servers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
