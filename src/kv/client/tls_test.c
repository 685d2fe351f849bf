/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client over TLS: values of any size by many threads, and servers that it must not talk to.
 * Certificates are made by the program openssl; without it the test is skipped.
 */
#include "fathom/kv/client.h"

#include "fathom/kv/server.h"

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
#define THREADS 8u
#define ROUNDS	200u

static char folder[] = "/tmp/fathom-tls-test-XXXXXX";

static uint64_t soon(void)
{
	return fth_deadline_ns(LONG_NS);
}

/* ---- certificates ---- */

static bool command(const char *format, const char *name, const char *alternative)
{
	char text[1024], line[1200];

	snprintf(text, sizeof(text), format, folder, name, folder, name, alternative, folder, name,
		 folder, name);
	snprintf(line, sizeof(line), "(%s) >/dev/null 2>&1", text);
	return system(line) == 0;
}

/* NAME.pem and NAME.key, for a subject alternative name; `days`: -1 for one that has expired. */
static bool make_certificate(const char *name, const char *alternative, int days)
{
	const char *valid = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
			    "-keyout %s/%s.key -out %s/%s.pem -subj /CN=fathom "
			    "-addext subjectAltName=%s -days 2";
	const char *expired =
		"openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
		"-keyout %s/%s.key -out %s/%s.csr -subj /CN=fathom "
		"-addext subjectAltName=%s && openssl x509 -req -days -1 -copy_extensions copy "
		"-in %s/%s.csr -out %s/%s.pem -signkey ";
	char with_key[1024];

	if (days > 0)
		return command(valid, name, alternative);
	snprintf(with_key, sizeof(with_key), "%s%s/%s.key", expired, folder, name);
	return command(with_key, name, alternative);
}

static char *path_of(const char *name, const char *end)
{
	static char paths[4][64];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s.%s", folder, name, end);
	return path;
}

/* ---- a server ---- */

struct node {
	struct fth_kv *kv;
	struct fth_kv_server *server;
	char name[64];
};

static void node_start(struct node *node, const char *certificate)
{
	struct fth_kv_server_options options = FTH_KV_SERVER_OPTIONS_INIT;
	struct fth_kv_options kv = FTH_KV_OPTIONS_INIT;
	const char *where = "127.0.0.1:0";

	kv.memory = 64u << 20;
	kv.items = 10000;
	options.listen = &where;
	options.listen_count = 1;
	options.workers = 1;
	options.tls_certificate = path_of(certificate, "pem");
	options.tls_key = path_of(certificate, "key");
	assert_ok(fth_kv_open(&kv, &node->kv));
	assert_ok(fth_kv_server_start(node->kv, &options, &node->server));
	snprintf(node->name, sizeof(node->name), "127.0.0.1:%u", fth_kv_server_port(node->server));
}

static void node_stop(struct node *node)
{
	fth_kv_server_stop(node->server, fth_deadline_ns(0));
	assert_ok(fth_kv_close(node->kv));
}

static struct fth_kvc *open_client(const char *server, const char *ca, const char *name)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	struct fth_kvc *client;

	options.tls_ca = path_of(ca, "pem");
	options.tls_name = name;
	options.timeout_ms = 10000;
	assert_ok(fth_kvc_open(&server, 1, &options, &client));
	return client;
}

/* ---- a good certificate ---- */

struct user {
	struct fth_kvc *client;
	pthread_t thread;
	unsigned number;
};

/* Values from nothing to more than a record of TLS and a buffer of a socket. */
static void *use(void *context)
{
	struct user *user = context;
	const uint32_t room = 1u << 20;
	char *value = malloc(room), *got = malloc(room), key[32];

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t length = i % 50 == 49 ? 700000 : i * 97 % 20000;
		uint32_t key_length =
			(uint32_t)snprintf(key, sizeof(key), "%u.%u", user->number, i);

		memset(value, 'a' + (int)(i % 26), length);
		assert_ok(fth_kvc_set(user->client, key, key_length, value, length, 0, soon()));
		assert_int_equal(fth_kvc_get(user->client, key, key_length, got, room, soon()),
				 length);
		assert_memory_equal(got, value, length);
	}
	free(value);
	free(got);
	return NULL;
}

static void test_threads_share_sessions(void **state)
{
	struct user users[THREADS];
	struct fth_kvc_stats stats;
	struct node node;
	struct fth_kvc *client;

	(void)state;
	node_start(&node, "good");
	client = open_client(node.name, "good", NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		users[i] = (struct user){.client = client, .number = i};
		assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(users[i].thread, NULL);
	fth_kvc_stats(client, &stats);
	assert_int_equal(stats.hits, THREADS * ROUNDS);
	assert_int_equal(stats.breaks, 0);
	fth_kvc_close(client);
	node_stop(&node);
}

static void test_many_gets_at_once(void **state)
{
	struct fth_kvc_op ops[500];
	char keys[500][16];
	struct node node;
	struct fth_kvc *client;

	(void)state;
	node_start(&node, "good");
	client = open_client(node.name, "good", NULL);
	for (unsigned i = 0; i < 500; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%u", i);
		assert_ok(fth_kvc_set(client, keys[i], (uint32_t)strlen(keys[i]), keys[i],
				      (uint32_t)strlen(keys[i]), 0, soon()));
		ops[i] = (struct fth_kvc_op){.verb = FTH_KV_GET,
					     .key = keys[i],
					     .key_length = (uint32_t)strlen(keys[i])};
	}
	assert_int_equal(fth_kvc_do_many(client, ops, 500, soon()), 500);
	for (unsigned i = 0; i < 500; i++) {
		assert_int_equal(ops[i].length, strlen(keys[i]));
		assert_memory_equal(ops[i].data, keys[i], ops[i].length);
		fth_kvc_release(&ops[i]);
	}
	fth_kvc_close(client);
	node_stop(&node);
}

/* Writing to a session whose peer is gone must not raise SIGPIPE. */
static void test_a_server_that_is_gone(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	struct node node;
	struct fth_kvc *client;
	const char *server = node.name;
	int rc;

	(void)state;
	node_start(&node, "good");
	options.tls_ca = path_of("good", "pem");
	options.retry_ms = 1;
	assert_ok(fth_kvc_open(&server, 1, &options, &client));
	assert_ok(fth_kvc_set(client, "k", 1, "v", 1, 0, soon()));
	fth_kv_server_stop(node.server, fth_deadline_ns(0));
	for (unsigned i = 0; i < 20; i++) {
		rc = fth_kvc_set(client, "k", 1, "w", 1, 0, soon());
		assert_true(rc == -ECONNRESET || rc == -EHOSTDOWN);
	}
	assert_ok(fth_kv_close(node.kv));
	fth_kvc_close(client);
}

/* ---- servers that are refused ---- */

static void expect_down(const char *server, const char *ca, const char *name, const char *text)
{
	struct fth_kvc *client = open_client(server, ca, name);
	char got[8];
	int rc = fth_kvc_get(client, "k", 1, got, sizeof(got), soon());

	assert_int_equal(rc, -EHOSTDOWN);
	if (!strstr(fth_error_text(rc), text))
		fail_msg("\"%s\" does not say \"%s\"", fth_error_text(rc), text);
	fth_kvc_close(client);
}

static void test_certificates_that_do_not_verify(void **state)
{
	struct node node;

	(void)state;
	node_start(&node, "good");
	expect_down(node.name, "other", NULL, "TLS: self"); /* unknown authority */
	expect_down(node.name, "good", "127.0.0.2", "TLS: IP address mismatch");
	expect_down(node.name, "good", "elsewhere.example", "TLS: hostname mismatch");
	node_stop(&node);
	node_start(&node, "named");
	expect_down(node.name, "named", NULL, "TLS: IP address mismatch");
	fth_kvc_close(open_client(node.name, "named", "cache.example"));
	node_stop(&node);
}

static void test_the_name_of_the_options(void **state)
{
	struct fth_kvc *client;
	struct node node;

	(void)state;
	node_start(&node, "named");
	client = open_client(node.name, "named", "cache.example");
	assert_ok(fth_kvc_set(client, "k", 1, "v", 1, 0, soon()));
	fth_kvc_close(client);
	node_stop(&node);
}

static void test_an_expired_certificate(void **state)
{
	struct node node;

	(void)state;
	if (!make_certificate("expired", "IP:127.0.0.1", -1))
		skip();
	node_start(&node, "expired");
	expect_down(node.name, "expired", NULL, "TLS: certificate has expired");
	node_stop(&node);
}

static void test_a_file_that_has_no_certificate(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	const char *server = "127.0.0.1:1";
	struct fth_kvc *client;
	int rc;

	(void)state;
	options.tls_ca = path_of("good", "key");
	rc = fth_kvc_open(&server, 1, &options, &client);
	assert_int_equal(rc, -EINVAL);
	assert_non_null(strstr(fth_error_text(rc), "cannot read a certificate"));
	assert_null(client);
}

/* ---- handshakes that do not end well ---- */

struct fake {
	int listener;
	char name[32];
	pthread_t thread;
	bool silent;
};

/* Closes each connection after the first bytes, or reads and says nothing until the client goes. */
static void *fake_main(void *context)
{
	struct fake *fake = context;
	char bytes[64];
	int fd;

	while ((fd = accept(fake->listener, NULL, NULL)) >= 0) {
		(void)!recv(fd, bytes, sizeof(bytes), 0);
		while (fake->silent && recv(fd, bytes, sizeof(bytes), 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

static void fake_start(struct fake *fake, bool silent)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);

	fake->silent = silent;
	fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fake->listener, 16), 0);
	assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&at, &length), 0);
	snprintf(fake->name, sizeof(fake->name), "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&fake->thread, NULL, fake_main, fake), 0);
}

static void fake_stop(struct fake *fake)
{
	(void)shutdown(fake->listener, SHUT_RDWR);
	pthread_join(fake->thread, NULL);
	close(fake->listener);
}

static void test_a_server_that_closes_during_the_handshake(void **state)
{
	struct fake fake;

	(void)state;
	fake_start(&fake, false);
	expect_down(fake.name, "good", NULL, "TLS: ");
	fake_stop(&fake);
}

/* The timeout of the options ends the handshake; a deadline of the caller ends the wait before. */
static void test_a_server_that_is_silent(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	struct fth_kvc *client;
	struct fake fake;
	const char *server = fake.name;
	char got[8];

	(void)state;
	fake_start(&fake, true);
	options.tls_ca = path_of("good", "pem");
	options.timeout_ms = 50;
	assert_ok(fth_kvc_open(&server, 1, &options, &client));
	assert_int_equal(fth_kvc_get(client, "k", 1, got, sizeof(got), soon()), -EHOSTDOWN);
	fth_kvc_close(client);
	options.timeout_ms = 60000;
	assert_ok(fth_kvc_open(&server, 1, &options, &client));
	assert_int_equal(fth_kvc_get(client, "k", 1, got, sizeof(got), fth_deadline_ns(50000000)),
			 -ETIMEDOUT);
	fth_kvc_close(client);
	fake_stop(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_share_sessions),
		cmocka_unit_test(test_many_gets_at_once),
		cmocka_unit_test(test_a_server_that_is_gone),
		cmocka_unit_test(test_certificates_that_do_not_verify),
		cmocka_unit_test(test_the_name_of_the_options),
		cmocka_unit_test(test_an_expired_certificate),
		cmocka_unit_test(test_a_file_that_has_no_certificate),
		cmocka_unit_test(test_a_server_that_closes_during_the_handshake),
		cmocka_unit_test(test_a_server_that_is_silent),
	};
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	const char *server = "127.0.0.1:1";
	struct fth_kvc *client;
	char line[100];
	int rc;

	options.tls = true;
	rc = fth_kvc_open(&server, 1, &options, &client);
	fth_kvc_close(client);
	if (rc == -ENOTSUP) {
		printf("skipped: %s\n", fth_error_text(rc));
		return 77;
	}
	if (!mkdtemp(folder))
		return 1;
	if (make_certificate("good", "IP:127.0.0.1", 2) &&
	    make_certificate("other", "IP:127.0.0.1", 2) &&
	    make_certificate("named", "DNS:cache.example", 2)) {
		rc = cmocka_run_group_tests(tests, NULL, NULL);
	} else {
		printf("skipped: no openssl\n");
		rc = 77;
	}
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	if (system(line) != 0)
		return 1;
	return rc;
}
