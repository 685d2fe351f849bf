/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The storage daemon and its hosts, in one process: answers, suspensions, hostile and stuck
 * clients, ends.
 */
#include "table/test/table_fixture.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/query.h"
#include "fathom/query/storage.h"
#include "query/remote/wire_batch.h"
#include "query/remote/remote.h"
#include "query/remote/wire.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MANY 200000

struct daemon {
	struct table_fixture f;
	char socket[96], where[104];
	const char *listen[1];
	struct fth_storage_options options;
	struct fth_storage *storage;
	pthread_t thread;
	bool stopped;
	_Atomic unsigned failed; /* task sets */
};

static void hear(void *user, const char *event, const char *text)
{
	struct daemon *d = user;

	assert_true(*text != '\0');
	d->failed += strcmp(event, "failed") == 0;
}

static void *serve(void *user)
{
	assert_ok(fth_storage_run(((struct daemon *)user)->storage));
	return NULL;
}

static void fill(struct daemon *d)
{
	struct fth_query_db *db;
	struct fth_query *query;
	int64_t *values = malloc(MANY * sizeof(*values));

	assert_ok(fth_query_open(d->f.path, NULL, &db));
	assert_ok(fth_query_new(db, &query));
	assert_ok(fth_query_run(
		query,
		"create table people (id int primary key, name varchar(20), pay decimal(10,2),"
		" born date, x double precision, ok boolean)",
		NULL, NULL));
	assert_ok(fth_query_run(
		query,
		"insert into people values (1, 'ann', 1.5, date '1990-01-01', 0.5, true),"
		" (2, null, null, null, null, null), (3, 'cid', -2, date '1950-01-01', 1, false)",
		NULL, NULL));
	fth_query_free(query);
	fth_query_close(db);
	for (int i = 0; i < MANY; i++)
		values[i] = (int64_t)i * 7 % MANY;
	fixture_create(&d->f, "numbers", "n bigint not null");
	fixture_append_ints(&d->f, "numbers", values, NULL, MANY, NULL);
	free(values);
}

static void start(struct daemon *d, uint64_t budget)
{
	memset(d, 0, sizeof(*d));
	fixture_open(&d->f);
	fill(d);
	snprintf(d->socket, sizeof(d->socket), "%s/socket", d->f.path);
	snprintf(d->where, sizeof(d->where), "unix:%s", d->socket);
	d->listen[0] = d->where;
	d->options = (struct fth_storage_options)FTH_STORAGE_OPTIONS_INIT;
	d->options.budget = budget;
	d->options.listen = d->listen;
	d->options.listen_count = 1;
	d->options.timeout_ms = 300;
	d->options.connections = 12;
	d->options.threads = 2;
	d->options.log = hear;
	d->options.user = d;
	assert_ok(fth_storage_open(d->f.path, &d->options, &d->storage));
	assert_int_equal(pthread_create(&d->thread, NULL, serve, d), 0);
}

static void stop(struct daemon *d)
{
	if (!d->stopped) {
		fth_storage_stop(d->storage);
		pthread_join(d->thread, NULL);
	}
	d->stopped = true;
}

static void end(struct daemon *d)
{
	struct fth_storage_stats stats;

	stop(d);
	fth_storage_stats(d->storage, &stats);
	assert_int_equal(stats.connections, 0);
	assert_int_equal(stats.memory, 0); /* everything was given back */
	fth_storage_close(d->storage);
	fixture_close(&d->f);
}

/* ---- hosts ---- */

struct host {
	struct fth_query_db *db;
	struct fth_query *query;
	char answer[4096];
	size_t length;
	uint64_t rows;
	int64_t sum;
	int (*each)(struct host *h);
};

static void open_host(struct daemon *d, bool plain, struct host *h)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;

	memset(h, 0, sizeof(*h));
	options.storage = d->where;
	options.plain = plain;
	options.threads = 2;
	assert_ok(fth_query_open(NULL, &options, &h->db));
	assert_ok(fth_query_new(h->db, &h->query));
}

static void close_host(struct host *h)
{
	fth_query_free(h->query);
	fth_query_close(h->db);
}

static int take(const struct fth_query_batch *b, void *user)
{
	struct host *h = user;
	char text[256];

	for (unsigned row = 0; row < fth_query_rows(b); row++) {
		h->rows++;
		if (fth_query_columns(b) == 1 && fth_query_column(b, 0)->type == FTH_TABLE_INT64)
			h->sum += fth_query_int(b, row, 0);
		for (unsigned i = 0; i < fth_query_columns(b) && h->length < 3000; i++) {
			fth_query_text(b, row, i, text, sizeof(text));
			h->length += (size_t)sprintf(h->answer + h->length, "%s|", text);
		}
	}
	return h->each ? h->each(h) : 0;
}

static int ask(struct host *h, const char *sql)
{
	h->length = 0;
	h->answer[0] = '\0';
	h->rows = 0;
	h->sum = 0;
	return fth_query_run(h->query, sql, take, h);
}

static void expect(struct host *h, const char *sql, const char *want)
{
	int rc = ask(h, sql);

	if (rc < 0)
		fail_msg("%s: %s", sql, fth_error_text(rc));
	assert_string_equal(h->answer, want);
}

static void answers(void **state)
{
	struct daemon d;
	struct host h;

	(void)state;
	start(&d, 64 << 20);
	for (int plain = 0; plain < 2; plain++) {
		const struct fth_query_report *report;

		open_host(&d, plain, &h);
		report = fth_query_report(h.query);
		expect(&h, "select * from people order by id",
		       "1|ann|1.50|1990-01-01|0.5|t|2||||||3|cid|-2.00|1950-01-01|1|f|");
		expect(&h, "select count(*), sum(n) from numbers where n < 1000", "1000|499500|");
		assert_int_equal(report->suspensions, 0);
		assert_true(report->wire_received > 0);
		assert_true(plain ? report->storage_bytes == 0
				  : report->storage_bytes == report->bytes);
		assert_ok(ask(&h, "select n from numbers where n % 2 = 0"));
		assert_int_equal(h.rows, MANY / 2);
		assert_int_equal(h.sum, (int64_t)(MANY / 2) * (MANY / 2 - 1));
		expect(&h,
		       "select name from people where id in (select n from numbers) and pay > 0",
		       "ann|");
		/* Errors of a query are those of a local one; nothing is taken over. */
		assert_int_equal(ask(&h, "select 1 / (n - 5) from numbers where n < 9"), -EDOM);
		assert_string_equal(fth_error_text(-EDOM), "division by zero");
		assert_int_equal(report->suspensions, 0);
		assert_int_equal(ask(&h, "insert into people values (9)"), -EROFS);
		assert_int_equal(ask(&h, "select nothing from people"), -EINVAL);
		assert_ok(ask(&h, "explain select count(*) from numbers"));
		assert_true(plain == (!strstr(h.answer, "runs at the storage daemon")));
		close_host(&h);
	}
	end(&d);
}

/* A budget that is too small: the host goes on, and says so. */
static void suspensions(void **state)
{
	static const char sql[] = "select count(*), sum(n) from (select n, count(*) as c from "
				  "numbers group by n) as t,"
				  " people where id = c";
	struct fth_storage_stats stats;
	char explain[256];
	struct daemon d;
	struct host h;

	(void)state;
	start(&d, 1 << 20);
	open_host(&d, false, &h);
	expect(&h, sql, "200000|19999900000|");
	assert_true(fth_query_report(h.query)->suspensions > 0);
	snprintf(explain, sizeof(explain), "explain analyze %s", sql);
	assert_ok(ask(&h, explain));
	assert_non_null(strstr(h.answer, "runs on the host"));
	assert_non_null(strstr(h.answer, "suspended: "));
	fth_storage_stats(d.storage, &stats);
	assert_true(stats.suspended > 0);
	assert_true(stats.memory_peak <= 1 << 20);
	close_host(&h);
	end(&d);
}

struct asker {
	struct daemon *daemon;
	pthread_t thread;
	int wrong;
};

static void *ask_often(void *user)
{
	struct asker *a = user;
	struct host h;

	open_host(a->daemon, false, &h);
	for (int i = 0; i < 6; i++) {
		if (ask(&h, "select count(*), sum(n) from (select n, count(*) as c from numbers "
			    "group by n) as t") < 0 ||
		    strcmp(h.answer, "200000|19999900000|") != 0)
			a->wrong++;
	}
	close_host(&h);
	return NULL;
}

static void several_hosts(void **state)
{
	struct asker askers[3];
	struct fth_storage_stats stats;
	struct daemon d;

	(void)state;
	start(&d, 24 << 20);
	for (int i = 0; i < 3; i++) {
		askers[i] = (struct asker){.daemon = &d};
		pthread_create(&askers[i].thread, NULL, ask_often, &askers[i]);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(askers[i].thread, NULL);
		assert_int_equal(askers[i].wrong, 0);
	}
	fth_storage_stats(d.storage, &stats);
	assert_true(stats.memory_peak <= 24 << 20);
	end(&d);
}

/* ---- ends ---- */

static int cancel_now(struct host *h)
{
	fth_query_cancel(h->query);
	return 0;
}

static void cancel(void **state)
{
	struct daemon d;
	struct host h;

	(void)state;
	start(&d, 64 << 20);
	open_host(&d, false, &h);
	h.each = cancel_now;
	assert_int_equal(ask(&h, "select n from numbers"), -ECANCELED);
	h.each = NULL;
	expect(&h, "select count(*) from numbers", "200000|");
	close_host(&h);
	end(&d);
}

static struct daemon *to_stop;

static int stop_now(struct host *h)
{
	if (h->rows > 0)
		stop(to_stop);
	return 0;
}

/* The daemon goes in the middle: an error that says so, never a part of the answer as the whole. */
static void daemon_gone(void **state)
{
	struct daemon d;
	struct host h;
	int rc;

	(void)state;
	start(&d, 64 << 20);
	open_host(&d, false, &h);
	expect(&h, "select count(*) from numbers", "200000|");
	to_stop = &d;
	h.each = stop_now;
	rc = ask(&h, "select n, n + 1, n * 2, n - 7, n % 1000 from numbers");
	assert_true(rc < 0 || h.rows == MANY);
	h.each = NULL;
	rc = ask(&h, "select count(*) from people");
	assert_true(rc == -ENOENT || rc == -ECONNREFUSED || rc == -EINVAL);
	close_host(&h);
	end(&d);
}

/* ---- hostile clients ---- */

static int dial(struct daemon *d)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, d->socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The daemon closes the connection; it may say something before. */
static void expect_closed(int fd)
{
	char bytes[4096];
	ssize_t n;

	do {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_int_equal(poll(&p, 1, 60000), 1);
		n = recv(fd, bytes, sizeof(bytes), 0);
	} while (n > 0);
	close(fd);
}

static void *grow(void *user, void *bytes, size_t old_room, size_t room)
{
	(void)user;
	(void)old_room;
	return realloc(bytes, room);
}

static void hello(struct wire_socket *s, struct wire_out *out)
{
	unsigned char answer[WIRE_HEADER + 12];

	wire_begin(out, WIRE_HELLO);
	wire_u32(out, WIRE_VERSION);
	assert_ok(wire_send_frame(s, out, fth_now_ns() + 10000000000u));
	assert_ok(wire_receive(s, answer, sizeof(answer), fth_now_ns() + 10000000000u));
}

static void hostile(void **state)
{
	static const char garbage[] = "GET / HTTP/1.1\r\nHost: storage\r\n\r\n";
	struct wire_out out = {.grow = grow};
	struct fth_storage_stats stats;
	struct wire_socket s = {0};
	uint64_t seed = 5;
	struct daemon d;
	struct host h;

	(void)state;
	start(&d, 64 << 20);
	/* No protocol; nothing at all; half a header; a wrong version. */
	s.fd = dial(&d);
	assert_int_equal(send(s.fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
	expect_closed(s.fd);
	expect_closed(dial(&d));
	s.fd = dial(&d);
	assert_int_equal(send(s.fd, "FSTD", 4, MSG_NOSIGNAL), 4);
	expect_closed(s.fd);
	s.fd = dial(&d);
	wire_begin(&out, WIRE_HELLO);
	wire_u32(&out, 77);
	assert_ok(wire_send_frame(&s, &out, fth_now_ns() + 10000000000u));
	expect_closed(s.fd);
	/*
	 * Requests of every type with random payloads, some behind a valid greeting, some with a
	 * wrong checksum.
	 */
	for (int i = 0; i < 200; i++) {
		unsigned n = (unsigned)((seed = fth_mix64(seed)) % 60);

		s.fd = dial(&d);
		hello(&s, &out);
		wire_begin(&out, (enum wire_type)(1 + i % (WIRE_TYPES - 1)));
		for (unsigned k = 0; k < n; k++)
			wire_u8(&out, (uint8_t)((seed = fth_mix64(seed)) % (i % 2 ? 256 : 4)));
		assert_ok(wire_end(&out));
		if (i % 5 == 0)
			out.bytes[seed % out.used] ^= 1;
		(void)send(s.fd, out.bytes, out.used, MSG_NOSIGNAL);
		shutdown(s.fd, SHUT_WR);
		expect_closed(s.fd);
	}
	fth_storage_stats(d.storage, &stats);
	assert_true(stats.bad_frames > 50);
	/* Others are served as before. */
	open_host(&d, false, &h);
	expect(&h, "select count(*) from numbers", "200000|");
	close_host(&h);
	free(out.bytes);
	end(&d);
}

/*
 * Clients that take no rows, or connect and say nothing, are dropped and cost the others nothing.
 */
static void stuck_clients(void **state)
{
	static const char text[] =
		"task 0: table numbers: n#0\n output: n#0, n#0, n#0, n#0, n#0, n#0\n";
	struct wire_out out = {.grow = grow};
	struct wire_socket s = {0};
	struct daemon d;
	struct host h;

	(void)state;
	start(&d, 64 << 20);
	open_host(&d, false, &h);
	expect(&h, "select count(*) from numbers", "200000|");
	s.fd = dial(&d);
	hello(&s, &out);
	wire_begin(&out, WIRE_RUN);
	wire_u32(&out, 1);
	wire_u32(&out, 1);
	wire_string(&out, "numbers");
	wire_u64(&out, 1);
	wire_string(&out, text);
	assert_ok(wire_send_frame(&s, &out, fth_now_ns() + 10000000000u));
	do
		expect(&h, "select count(*) from people", "3|");
	while (d.failed == 0);
	expect_closed(s.fd);
	free(out.bytes);
	close_host(&h);
	end(&d);
}

static void too_many(void **state)
{
	struct fth_storage_stats stats;
	struct daemon d;
	struct host h;
	int fds[40];

	(void)state;
	start(&d, 64 << 20);
	for (int i = 0; i < 40; i++)
		fds[i] = dial(&d);
	for (int i = 0; i < 40; i++)
		expect_closed(fds[i]);
	fth_storage_stats(d.storage, &stats);
	assert_true(stats.refused > 0);
	open_host(&d, false, &h);
	expect(&h, "select count(*) from numbers", "200000|");
	close_host(&h);
	end(&d);
}

/* ---- rows in frames ---- */

static void batches(void **state)
{
	struct task_slot slots[] = {
		{.type = fth_type(FTH_T_INT32), .lo = -5, .hi = 300, .nullable = true},
		{.type = fth_type_decimal(38, 2), .lo = 1, .hi = 0},
		{.type = fth_type(FTH_T_TEXT), .lo = 1, .hi = 0},
	};
	const int16_t small[] = {-5, 300, 7};
	const fth_i128 wide[] = {-((fth_i128)1 << 100), 0, (fth_i128)1 << 100};
	const struct fth_str texts[] = {fth_str_of("a"), fth_str_of(""), fth_str_of("long enough")};
	const uint64_t nulls[FTH_BATCH_WORDS] = {4};
	const struct fth_vec columns[] = {{.type = FTH_I16, .data = small, .nulls = nulls},
					  {.type = FTH_I128, .data = wide},
					  {.type = FTH_STR, .data = texts}};
	const uint16_t rows[] = {2, 0, 1};
	struct fth_qmem *mem = fth_qmem_new(64 << 20);
	struct wire_out out = {.grow = grow};
	const struct fth_vec *got;
	struct batch *b;
	struct wire_in in;

	(void)state;
	wire_begin(&out, WIRE_BATCH);
	batch_put(&out, columns, slots, 3, rows, 3);
	assert_ok(wire_end(&out));
	assert_ok(batch_open(mem, slots, 3, &b));
	in = (struct wire_in){out.bytes + WIRE_HEADER, out.used - WIRE_HEADER, 0, false};
	assert_int_equal(batch_get(b, &in, &got), 3);
	assert_true(fth_bit(got[0].nulls, 0) && !fth_bit(got[0].nulls, 1));
	assert_true(fth_vec_int(&got[0], 1) == -5 && fth_vec_int(&got[0], 2) == 300);
	assert_true(fth_vec_int(&got[1], 0) == wide[2] && fth_vec_int(&got[1], 1) == wide[0]);
	assert_memory_equal(((const struct fth_str *)got[2].data)[0].data, "long enough", 11);
	/* A value out of the range of its slot is damage; so is every shorter frame. */
	slots[0].hi = 299;
	in.at = 0;
	assert_int_equal(batch_get(b, &in, &got), -EBADMSG);
	slots[0].hi = 300;
	for (size_t n = 0; n < in.length; n++) {
		struct wire_in cut = {in.bytes, n, 0, false};

		assert_int_equal(batch_get(b, &cut, &got), -EBADMSG);
	}
	batch_close(b);
	free(out.bytes);
	assert_int_equal(fth_qmem_close(mem), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches),     cmocka_unit_test(answers),
		cmocka_unit_test(suspensions), cmocka_unit_test(several_hosts),
		cmocka_unit_test(cancel),      cmocka_unit_test(daemon_gone),
		cmocka_unit_test(hostile),     cmocka_unit_test(stuck_clients),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
