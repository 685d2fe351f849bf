/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of the server share: a server, and plain clients of it. Clients wait at most WAIT_S
 * for anything, so that a test fails instead of hanging.
 */
#ifndef KV_SERVER_FIXTURE_H
#define KV_SERVER_FIXTURE_H

#include "fathom/kv/server.h"

#include "fathom/hd/wait.h"

#include "fth_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_S 30

struct fixture {
	struct fth_kv *kv;
	struct fth_kv_server *server;
	unsigned port;
};

static inline void start(struct fixture *f, const char *flash, struct fth_kv_server_options *server)
{
	struct fth_kv_server_options none = FTH_KV_SERVER_OPTIONS_INIT;
	struct fth_kv_options kv = FTH_KV_OPTIONS_INIT;
	const char *where = "127.0.0.1:0";

	server = server ? server : &none;
	kv.flash = flash;
	kv.memory = flash ? 8u << 20 : 32u << 20;
	kv.items = 200000;
	kv.timeout_ns = 500000000u;
	if (!server->listen) {
		server->listen = &where;
		server->listen_count = 1;
	}
	server->workers = server->workers ? server->workers : 2;
	assert_ok(fth_kv_open(&kv, &f->kv));
	assert_ok(fth_kv_server_start(f->kv, server, &f->server));
	f->port = fth_kv_server_port(f->server);
}

static inline void stop(struct fixture *f)
{
	fth_kv_server_stop(f->server, fth_deadline_ns(2000000000u));
	assert_ok(fth_kv_close(f->kv));
}

/* ---- clients ---- */

static inline int dial_address(const void *address, socklen_t length)
{
	const struct sockaddr *to = address;
	struct timeval wait = {.tv_sec = WAIT_S};
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)), 0);
	assert_int_equal(connect(fd, to, length), 0);
	return fd;
}

static inline int dial_port(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return dial_address(&to, sizeof(to));
}

/* where: "unix:PATH" */
static inline int dial_unix(const char *where)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	strncpy(to.sun_path, where + strlen("unix:"), sizeof(to.sun_path) - 1);
	return dial_address(&to, sizeof(to));
}

/* A place for a Unix socket. */
static inline const char *unix_place(void)
{
	static char where[64];

	snprintf(where, sizeof(where), "unix:/tmp/fathom-kv-test-%d", (int)getpid());
	return where;
}

static inline int dial(const struct fixture *f)
{
	return dial_port(f->port);
}

static inline void put(int fd, const void *data, size_t n)
{
	const char *at = data;

	while (n) {
		ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);

		if (sent <= 0)
			fail_msg("send: %s", strerror(errno));
		at += sent;
		n -= (size_t)sent;
	}
}

static inline void take(int fd, void *data, size_t n)
{
	char *at = data;

	while (n) {
		ssize_t got = recv(fd, at, n, 0);

		if (got <= 0)
			fail_msg("recv: %s", got ? strerror(errno) : "the server closed");
		at += got;
		n -= (size_t)got;
	}
}

static inline void expect_text(int fd, const char *text)
{
	char *got = calloc(1, strlen(text) + 1);

	take(fd, got, strlen(text));
	assert_string_equal(got, text);
	free(got);
}

static inline void ask(int fd, const char *say, const char *answer)
{
	put(fd, say, strlen(say));
	expect_text(fd, answer);
}

static inline void expect_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	close(fd);
}

/* Everything up to the end of the connection, or up to `end`. */
static inline char *take_until(int fd, const char *end)
{
	size_t have = 0, room = 1 << 20;
	char *text = malloc(room + 1);

	assert_non_null(text);
	for (;;) {
		ssize_t n = recv(fd, text + have, room - have, 0);

		assert_true(n >= 0);
		have += (size_t)n;
		text[have] = '\0';
		assert_true(have < room);
		if (n == 0 || (end && strstr(text, end)))
			return text;
	}
}

static inline uint64_t stat_of(int fd, const char *name)
{
	char wanted[64], *text, *at;
	uint64_t value;

	put(fd, "stats\r\n", 7);
	text = take_until(fd, "\r\nEND\r\n");
	snprintf(wanted, sizeof(wanted), "STAT %s ", name);
	at = strstr(text, wanted);
	if (!at)
		fail_msg("no %s in stats", name);
	value = strtoull(at + strlen(wanted), NULL, 10);
	free(text);
	return value;
}

/* The whole response of an HTTP server. */
static inline char *http(unsigned port, const char *request)
{
	int fd = dial_port(port);
	char *text;

	put(fd, request, strlen(request));
	text = take_until(fd, NULL);
	close(fd);
	return text;
}

/* A file with a new name. path: as of mkstemp() */
static inline void write_file(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

#endif
