/* SPDX-License-Identifier: BSD-2-Clause */
/* A server over real sockets: every command, long requests, connections that end, options. */
#include "server_fixture.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

/* ---- dialogs ---- */

static const struct {
	const char *say, *answer;
} dialogs[] = {
	/* classic */
	{"get a\r\n", "END\r\n"},
	{"set a 5 0 3\r\nabc\r\n", "STORED\r\n"},
	{"get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"},
	{"get a b a\r\n", "VALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\n"},
	{"get  b   a  \r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"},
	{"get a\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"},
	{"add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
	{"replace b 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
	{"append b 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
	{"append a 9 0 2\r\nde\r\n", "STORED\r\n"},
	{"prepend a 9 0 2\r\n12\r\n", "STORED\r\n"},
	{"get a\r\n", "VALUE a 5 7\r\n12abcde\r\nEND\r\n"},
	{"replace a 1 0 0\r\n\r\n", "STORED\r\n"},
	{"get a\r\n", "VALUE a 1 0\r\n\r\nEND\r\n"},
	{"cas b 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"},
	{"cas a 0 0 1 0\r\nx\r\n", "EXISTS\r\n"},
	{"cas a 0 0 1 99999999999\r\nx\r\n", "EXISTS\r\n"},
	{"cas a 0 0 1 99999999999 noreply\r\nx\r\nmn\r\n", "MN\r\n"},
	{"delete a\r\n", "DELETED\r\n"},
	{"delete a\r\n", "NOT_FOUND\r\n"},
	{"delete a noreply\r\nmn\r\n", "MN\r\n"},
	{"incr n 1\r\n", "NOT_FOUND\r\n"},
	{"set n 0 0 2\r\n98\r\n", "STORED\r\n"},
	{"incr n 1\r\nincr n 1\r\ndecr n 50\r\ndecr n 60\r\n", "99\r\n100\r\n50\r\n0\r\n"},
	{"set n 0 0 1\r\nx\r\n", "STORED\r\n"},
	{"incr n 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
	{"touch t 10\r\n", "NOT_FOUND\r\n"},
	{"set t 0 0 1\r\nx\r\ntouch t 100\r\ngat 50 t\r\n",
	 "STORED\r\nTOUCHED\r\nVALUE t 0 1\r\nx\r\nEND\r\n"},
	{"gat -1 t u\r\nget t\r\n", "VALUE t 0 1\r\nx\r\nEND\r\nEND\r\n"},
	{"set e 0 -1 1\r\nx\r\nget e\r\n", "STORED\r\nEND\r\n"},
	{"set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"},
	{"flush_all noreply\r\nget a\r\nflush_all\r\n", "END\r\nOK\r\n"},
	{"verbosity 1\r\nverbosity 1 noreply\r\nmn\r\n", "OK\r\nMN\r\n"},
	/* values with the bytes of line ends */
	{"set a 0 0 5\r\n\r\n\0\r\n\r\n", ""},
	/* errors, and what follows them */
	{"foo\r\n\r\nget\r\n", "ERROR\r\nERROR\r\nERROR\r\n"},
	{"set a 0 0 3\r\nabcd\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
	{"set a 0 0 3\r\nabcdefgh\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
	{"set a 0 0 3 noreply\r\nabcdefg\r\nmn\r\n", "ERROR\r\nMN\r\n"},
	{"set a x 0 3\r\nabc\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n"},
	{"set a 0 0 -1\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n"},
	{"set a 0 0 99999999999\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n"},
	/* meta */
	{"flush_all\r\nmg a\r\nmg a v q\r\nmg a k O9\r\nmn\r\n", "OK\r\nEN\r\nEN ka O9\r\nMN\r\n"},
	{"ms a 3 F5\r\nabc\r\n", "HD\r\n"},
	{"mg a\r\n", "HD\r\n"},
	{"mg a s v k f t O123\r\n", "VA 3 s3 ka f5 t-1 O123\r\nabc\r\n"},
	{"mg a h\r\n", "HD h1\r\n"},
	{"mg YQ== b k v\r\n", "VA 3 kYQ== b\r\nabc\r\n"},
	{"mg YQ b\r\n", "CLIENT_ERROR error decoding key\r\n"},
	{"ms a 3 q\r\nabc\r\nms a 1 ME q\r\nx\r\n", "NS\r\n"},
	{"ms b 1 MR\r\nx\r\nms b 1 MA\r\nx\r\n", "NS\r\nNS\r\n"},
	{"ms a 1 MA\r\nx\r\nms a 1 MP\r\ny\r\nmg a v\r\n", "HD\r\nHD\r\nVA 5\r\nyabcx\r\n"},
	{"ms a 1 C1\r\nx\r\nms b 1 C1\r\nx\r\n", "EX\r\nNF\r\n"},
	{"ms a 1 T100\r\nx\r\nmg a t\r\nmg a T50 t v\r\n", "HD\r\nHD t100\r\nVA 1 t50\r\nx\r\n"},
	{"ms a 3 Z\r\nabc\r\nmn\r\n", "CLIENT_ERROR invalid flag\r\nMN\r\n"},
	{"ms a 3 k O5\r\nabcd\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"},
	{"md a C1\r\nmd a q\r\nmd a q\r\nmd a k O3\r\n", "EX\r\nNF\r\nNF ka O3\r\n"},
	{"ma n\r\nma n N0 J13 v\r\nma n v\r\n", "NF\r\nVA 2\r\n13\r\nVA 2\r\n14\r\n"},
	{"ma n MD D5 v\r\nma n T100 v t\r\n", "VA 1\r\n9\r\nVA 2 t100\r\n10\r\n"},
	{"ma n q\r\nma m N60 v t\r\n", "VA 1 t60\r\n0\r\n"},
	{"me zz\r\nmn\r\n", "EN\r\nMN\r\n"},
	/* stale items, and who is to renew them */
	{"mg v N30 t v\r\nmg v N30 t v\r\n", "VA 0 t30 W\r\n\r\nVA 0 t30 Z\r\n\r\n"},
	{"ms v 1 T60\r\nx\r\nmg v R30\r\nmg v R90\r\nmg v R90\r\n", "HD\r\nHD\r\nHD W\r\nHD Z\r\n"},
	{"md v I T9\r\nmg v t v\r\nmg v v\r\n", "HD\r\nVA 1 t9 X W\r\nx\r\nVA 1 Z X\r\nx\r\n"},
	{"ms v 1 C1 I\r\ny\r\nmg v v\r\nget v\r\n",
	 "HD\r\nVA 1 Z X\r\ny\r\nVALUE v 0 1\r\ny\r\nEND\r\n"},
	{"ms v 1\r\nz\r\nmg v v\r\nmd v I q\r\nmd v\r\nmd v I\r\n",
	 "HD\r\nVA 1\r\nz\r\nHD\r\nNF\r\n"},
	{"stats reset\r\n", "RESET\r\n"},
	{"stats sizes\r\n", "STAT sizes_status disabled\r\nEND\r\n"},
	{"stats nosuch\r\n", "ERROR\r\n"},
};

#define DIALOGS (sizeof(dialogs) / sizeof(dialogs[0]))

static void test_dialogs(void **state)
{
	struct fixture f;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	for (size_t i = 0; i < DIALOGS; i++)
		if (*dialogs[i].answer)
			ask(fd, dialogs[i].say, dialogs[i].answer);
	put(fd, "quit\r\n", 6);
	expect_closed(fd);
	stop(&f);
}

/* The same when bytes come one by one, and when all comes at once. */
static void test_split_dialogs(void **state)
{
	char *all = calloc(1, 65536), *answers = calloc(1, 65536);
	struct fixture f;
	int fd, one = 1;

	(void)state;
	start(&f, "mem:64M", NULL);
	fd = dial(&f);
	(void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	for (size_t i = 0; i < DIALOGS; i++) {
		if (!*dialogs[i].answer)
			continue;
		strcat(all, dialogs[i].say);
		strcat(answers, dialogs[i].answer);
		for (const char *at = dialogs[i].say; *at; at++)
			put(fd, at, 1);
		expect_text(fd, dialogs[i].answer);
	}
	ask(fd, "flush_all\r\n", "OK\r\n");
	ask(fd, all, answers);
	close(fd);
	free(all);
	free(answers);
	stop(&f);
}

static void test_binary_values(void **state)
{
	static const char value[] = "set a 0 0 9\r\n\r\n\0END\r\n\x80\r\nget a\r\n";
	char got[40];
	struct fixture f;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	put(fd, value, sizeof(value) - 1);
	expect_text(fd, "STORED\r\nVALUE a 0 9\r\n");
	take(fd, got, 9 + 7);
	assert_memory_equal(got, "\r\n\0END\r\n\x80\r\nEND\r\n", 16);
	close(fd);
	stop(&f);
}

/* ---- much at once ---- */

struct pusher {
	int fd;
	char *data;
	size_t length;
};

static void *push(void *context)
{
	struct pusher *p = context;

	put(p->fd, p->data, p->length);
	return NULL;
}

static void test_pipeline(void **state)
{
	enum { N = 4000 };
	struct pusher p = {.data = malloc((size_t)N * 80)};
	pthread_t thread;
	struct fixture f;

	(void)state;
	start(&f, "mem:64M", NULL);
	p.fd = dial(&f);
	for (int i = 0; i < N; i++)
		p.length +=
			(size_t)sprintf(p.data + p.length, "set k%d 0 0 8\r\n%08d\r\nget k%d\r\n",
					i % 97, i, i % 97);
	assert_int_equal(pthread_create(&thread, NULL, push, &p), 0);
	for (int i = 0; i < N; i++) {
		char want[80];

		snprintf(want, sizeof(want), "STORED\r\nVALUE k%d 0 8\r\n%08d\r\nEND\r\n", i % 97,
			 i);
		expect_text(p.fd, want);
	}
	pthread_join(thread, NULL);
	close(p.fd);
	free(p.data);
	stop(&f);
}

/* More keys in a line than may be under way; most are on flash. */
static void test_long_get(void **state)
{
	enum { N = 20000 };
	struct pusher p = {.data = malloc((size_t)N * 1100)};
	pthread_t thread;
	struct fixture f;

	(void)state;
	start(&f, "mem:64M", NULL);
	p.fd = dial(&f);
	for (int i = 0; i < N; i++)
		p.length += (size_t)sprintf(p.data + p.length,
					    "set k%d 0 0 1000 noreply\r\n%01000d\r\n", i, i);
	p.length += (size_t)sprintf(p.data + p.length, "get");
	for (int i = 0; i < N; i++)
		p.length += (size_t)sprintf(p.data + p.length, " k%d nosuch%d", i, i);
	p.length += (size_t)sprintf(p.data + p.length, "\r\nmn\r\n");
	assert_int_equal(pthread_create(&thread, NULL, push, &p), 0);
	for (int i = 0; i < N; i++) {
		char want[1100];

		snprintf(want, sizeof(want), "VALUE k%d 0 1000\r\n%01000d\r\n", i, i);
		expect_text(p.fd, want);
	}
	expect_text(p.fd, "END\r\nMN\r\n");
	assert_true(stat_of(p.fd, "get_extstore") > 0);
	pthread_join(thread, NULL);
	close(p.fd);
	free(p.data);
	stop(&f);
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = {0, 1, 100, 16383, 16384, 16385, 100000, 1048575, 1048576};
	char *value = malloc(2000002), *got = malloc(1048578), line[64];
	struct fixture f;
	int fd;

	(void)state;
	start(&f, "mem:64M", NULL);
	fd = dial(&f);
	for (unsigned round = 0; round < 3; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			uint32_t n = sizes[i];

			memset(value, 'a' + (int)(i + round), n);
			memcpy(value + n, "\r\n", 2);
			snprintf(line, sizeof(line), "set size%u 0 0 %u\r\n", n, n);
			put(fd, line, strlen(line));
			put(fd, value, n + 2);
			expect_text(fd, "STORED\r\n");
			snprintf(line, sizeof(line), "VALUE size%u 0 %u\r\n", n, n);
			put(fd, "get ", 4);
			put(fd, line + 6, strcspn(line + 6, " "));
			put(fd, "\r\n", 2);
			expect_text(fd, line);
			take(fd, got, n + 2);
			assert_memory_equal(got, value, n + 2);
			expect_text(fd, "END\r\n");
		}
	/* Too large: an error, its bytes are skipped, and no stale value stays. */
	memset(value, 'x', 2000000);
	memcpy(value + 2000000, "\r\n", 2);
	put(fd, "set size1 0 0 2000000\r\n", 23);
	put(fd, value, 2000002);
	ask(fd, "get size1\r\n", "SERVER_ERROR object too large for cache\r\nEND\r\n");
	put(fd, "add size100 0 0 2000000 noreply\r\n", 33);
	put(fd, value, 2000002);
	ask(fd, "mg size100 s\r\n", "HD s100\r\n");
	close(fd);
	free(value);
	free(got);
	stop(&f);
}

/* ---- connections that end ---- */

static void test_half_closed(void **state)
{
	enum { N = 1000 };
	char *say = malloc(N * 64), *want = malloc(N * 64), *got;
	size_t said = 0, wanted = 0;
	struct fixture f;
	int fd;

	(void)state;
	start(&f, "delay(mem:64M)?read_us=100", NULL);
	fd = dial(&f);
	for (int i = 0; i < N; i++) {
		said += (size_t)sprintf(say + said, "set h%d 0 0 1\r\nx\r\nget h%d\r\n", i, i);
		wanted += (size_t)sprintf(want + wanted, "STORED\r\nVALUE h%d 0 1\r\nx\r\nEND\r\n",
					  i);
	}
	put(fd, say, said);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	got = take_until(fd, NULL);
	assert_string_equal(got, want);
	close(fd);
	free(got);
	/* In the middle of a line, of keys, of a value. */
	for (int i = 0; i < 3; i++) {
		fd = dial(&f);
		put(fd, say, said / 2);
		put(fd,
		    i == 0   ? "\r\nge"
		    : i == 1 ? "\r\nget a b"
			     : "\r\nset a 0 0 100\r\nabc",
		    i == 0   ? 4
		    : i == 1 ? 9
			     : 20);
		assert_int_equal(shutdown(fd, SHUT_WR), 0);
		free(take_until(fd, NULL));
		close(fd);
	}
	free(say);
	free(want);
	stop(&f);
}

static void test_binary_protocol(void **state)
{
	static const uint8_t request[24] = {0x80, 0x0b, [12] = 1, 2, 3, 4}; /* version */
	uint8_t answer[24];
	struct fixture f;
	char *text;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	put(fd, request, 10);
	put(fd, request + 10, 14);
	take(fd, answer, sizeof(answer));
	assert_int_equal(answer[0], 0x81);
	assert_int_equal(answer[1], 0x0b);
	assert_int_equal(answer[7], 0x83); /* not supported */
	assert_memory_equal(answer + 12, request + 12, 4);
	text = take_until(fd, NULL);
	assert_int_equal(strlen(text), answer[11]);
	assert_non_null(strstr(text, "binary protocol is not supported"));
	free(text);
	close(fd);
	/* Elsewhere it is a byte as any other. */
	fd = dial(&f);
	ask(fd, "mn\r\n\x80\r\n", "MN\r\nERROR\r\n");
	close(fd);
	stop(&f);
}

/* A web page makes a browser send commands in the body of a request. */
static void test_http_request(void **state)
{
	static const char request[] = "mn\r\nPOST / HTTP/1.1\r\nHost: cache\r\n"
				      "Content-Length: 22\r\n\r\nset page 0 0 1\r\nx\r\nmn\r\n";
	struct fixture f;
	char *text;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	put(fd, request, strlen(request));
	text = take_until(fd, NULL);
	assert_string_equal(text, "MN\r\n");
	free(text);
	close(fd);
	fd = dial(&f);
	ask(fd, "get page\r\n", "END\r\n");
	close(fd);
	stop(&f);
}

static void test_long_line(void **state)
{
	char line[5000];
	struct fixture f;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	memset(line, 'x', sizeof(line));
	put(fd, line, sizeof(line));
	expect_text(fd, "CLIENT_ERROR line too long\r\n");
	expect_closed(fd);
	fd = dial(&f);
	memcpy(line, "get a ", 6); /* a key that does not end */
	put(fd, line, sizeof(line));
	expect_text(fd, "CLIENT_ERROR bad command line format\r\n");
	ask(fd, "\r\nmn\r\n", "MN\r\n");
	close(fd);
	stop(&f);
}

static void test_limits(void **state)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	struct fixture f;
	int fd[4];

	(void)state;
	o.connections = 3;
	o.idle_s = 1;
	start(&f, NULL, &o);
	for (unsigned i = 0; i < 3; i++) {
		fd[i] = dial(&f);
		ask(fd[i], "mn\r\n", "MN\r\n");
	}
	fd[3] = dial(&f);
	expect_text(fd[3], "SERVER_ERROR too many connections\r\n");
	expect_closed(fd[3]);
	put(fd[0], "set a 0 0 10\r\nhalf", 18);
	for (unsigned i = 0; i < 3; i++)
		expect_closed(fd[i]); /* idle */
	fd[0] = dial(&f);
	assert_int_equal(stat_of(fd[0], "rejected_connections"), 1);
	assert_int_equal(stat_of(fd[0], "idle_kicks"), 3);
	close(fd[0]);
	stop(&f);
}

/* What waits, waits without work: no descriptors, readers that do not read, half-closed peers. */
static void test_no_busy_loops(void **state)
{
	struct rlimit before, low;
	char *value = malloc(1000002);
	int fds[64], one, spare[3];
	struct fixture f;
	uint64_t rounds;

	(void)state;
	start(&f, "mem:64M", NULL);
	one = dial(&f);
	memset(value, 'v', 1000000);
	memcpy(value + 1000000, "\r\n", 2);
	put(one, "set big 0 0 1000000\r\n", 21);
	put(one, value, 1000002);
	expect_text(one, "STORED\r\n");
	for (unsigned i = 0; i < 20; i++) { /* do not read, and half of them say that it is all */
		fds[i] = dial(&f);
		for (unsigned n = 0; n < 50; n++)
			put(fds[i], "get big\r\n", 9);
		if (i % 2)
			assert_int_equal(shutdown(fds[i], SHUT_WR), 0);
	}
	/* No descriptor is left for the server. The clients' are made before. */
	for (unsigned i = 0; i < 3; i++)
		spare[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	getrlimit(RLIMIT_NOFILE, &before);
	low = before;
	low.rlim_cur = (rlim_t)spare[2] + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct sockaddr_in to = {.sin_family = AF_INET,
					 .sin_port = htons((uint16_t)f.port),
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		assert_int_equal(connect(spare[i], (struct sockaddr *)&to, sizeof(to)), 0);
	}
	usleep(300000); /* all settles */
	rounds = stat_of(one, "event_rounds");
	usleep(1000000);
	rounds = stat_of(one, "event_rounds") - rounds;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	/*
	 * Two workers look ten times per second. What wakes them up all the time does so for ever.
	 */
	if (rounds > 500)
		fail_msg("%llu rounds in a second of waiting", (unsigned long long)rounds);
	ask(spare[0], "mn\r\n", "MN\r\n"); /* the queue is taken later */
	assert_true(stat_of(one, "curr_connections") >= 22);
	for (unsigned i = 0; i < 3; i++)
		close(spare[i]);
	for (unsigned i = 0; i < 20; i++)
		close(fds[i]);
	close(one);
	free(value);
	stop(&f);
}

/* ---- options ---- */

static void test_bad_options(void **state)
{
	static const char *const where[] = {"nocolon", "fd:0", "fd:x", "unix:/nonexistent/x",
					    "256.0.0.1:1"};
	struct fth_kv_server_options o;
	struct fth_kv_options kv_options = FTH_KV_OPTIONS_INIT;
	struct fth_kv_server *server;
	char empty[] = "/tmp/fathom-kv-auth-XXXXXX", bad[] = "/tmp/fathom-kv-auth-XXXXXX";
	struct fth_kv *kv;

	(void)state;
	assert_ok(fth_kv_open(&kv_options, &kv));
	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		o = (struct fth_kv_server_options)FTH_KV_SERVER_OPTIONS_INIT;
		o.listen = &where[i];
		o.listen_count = 1;
		assert_true(fth_kv_server_start(kv, &o, &server) < 0);
		assert_null(server);
	}
	o = (struct fth_kv_server_options)FTH_KV_SERVER_OPTIONS_INIT;
	o.size = 3;
	assert_int_equal(fth_kv_server_start(kv, &o, &server), -EINVAL);
	o = (struct fth_kv_server_options)FTH_KV_SERVER_OPTIONS_INIT;
	o.workers = 1000;
	assert_int_equal(fth_kv_server_start(kv, &o, &server), -EINVAL);
	o.workers = 1;
	o.tls_certificate = "/nonexistent";
	assert_int_equal(fth_kv_server_start(kv, &o, &server), -EINVAL);
	o.tls_certificate = NULL;
	write_file(empty, "");
	o.auth_file = empty;
	assert_int_equal(fth_kv_server_start(kv, &o, &server), -EINVAL);
	write_file(bad, "user without a password\n");
	o.auth_file = bad;
	assert_int_equal(fth_kv_server_start(kv, &o, &server), -EINVAL);
	o.auth_file = "/nonexistent";
	assert_int_equal(fth_kv_server_start(kv, &o, &server), -ENOENT);
	unlink(empty);
	unlink(bad);
	assert_ok(fth_kv_close(kv));
}

static void test_unix_socket(void **state)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT, again;
	struct fth_kv_server *second;
	const char *where = unix_place();
	struct fixture f;
	int fd;

	(void)state;
	o.listen = &where;
	o.listen_count = 1;
	again = o;
	start(&f, NULL, &o);
	assert_int_equal(f.port, 0);
	assert_int_equal(fth_kv_server_start(f.kv, &again, &second), -EADDRINUSE);
	fd = dial_unix(where);
	ask(fd, "set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
	/* A client that asks for nothing in return and goes. */
	put(fd, "set b 0 0 1 noreply\r\ny\r\n", 24);
	close(fd);
	fd = dial_unix(where);
	for (unsigned i = 0; i < 1000; i++) {
		char got[5] = "";

		put(fd, "mg b\r\n", 6);
		take(fd, got, 4);
		if (strcmp(got, "HD\r\n") == 0)
			break;
		assert_true(i < 999);
		usleep(1000);
	}
	close(fd);
	stop(&f);
	assert_int_equal(access(where + strlen("unix:"), F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dialogs),	      cmocka_unit_test(test_split_dialogs),
		cmocka_unit_test(test_binary_values), cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_long_get),      cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_half_closed),   cmocka_unit_test(test_binary_protocol),
		cmocka_unit_test(test_http_request),  cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_limits),	      cmocka_unit_test(test_no_busy_loops),
		cmocka_unit_test(test_bad_options),   cmocka_unit_test(test_unix_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
