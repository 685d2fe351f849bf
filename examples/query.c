/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * query DB: store a few orders and their lines, and ask how much each customer paid, in 4 MiB of
 * memory.
 *
 *	cc query.c $(pkg-config --cflags --libs fathom) -o query
 *	./query /data/db
 *
 * DB is a directory, which is made if it does not exist, or a volume as 'vol(URI,...)'. Shows
 * statements that change a database, a query whose rows are read as values, its plan, and an error
 * with its place.
 */
#include <fathom/base.h>
#include <fathom/query.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const setup[] = {
	"drop table if exists orders",
	"drop table if exists lines",
	"create table orders (id int not null, customer varchar(20) not null, day date)",
	"create table lines (id int not null, amount decimal(10,2) not null)",
	"insert into orders values (1, 'ann', '2024-02-28'), (2, 'bob', '2024-03-01'), (3, 'ann', "
	"null)",
	"insert into lines values (1, 10.25), (1, 0.75), (2, 100), (3, 7), (3, 1.5)",
};

#define QUESTION                                                    \
	"select customer, sum(amount) as paid, max(day) as latest " \
	"from orders join lines on orders.id = lines.id group by customer order by 2 desc"

/* Rows come in batches; the first has the columns and no rows. */
static int print_paid(const struct fth_query_batch *batch, void *user)
{
	int64_t *cents = user;

	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		char paid[FTH_QUERY_TEXT_MAX], day[FTH_QUERY_TEXT_MAX];
		size_t length;
		const char *name = fth_query_string(batch, row, 0, &length);

		fth_query_text(batch, row, 1, paid, sizeof(paid));
		fth_query_text(batch, row, 2, day, sizeof(day));
		printf("%-6.*s %8s  %s\n", (int)length, name, paid,
		       fth_query_null(batch, row, 2) ? "never" : day);
		*cents += fth_query_int(batch, row, 1);
	}
	return 0;
}

static int print_lines(const struct fth_query_batch *batch, void *user)
{
	(void)user;
	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		char line[512];

		fth_query_text(batch, row, 0, line, sizeof(line));
		puts(line);
	}
	return 0;
}

static int ask(struct fth_query *query)
{
	const struct fth_query_report *report = fth_query_report(query);
	int64_t cents = 0;
	int rc = fth_query_run(query, QUESTION, print_paid, &cents);

	if (rc < 0)
		return rc;
	printf("%" PRIu64 " rows, %" PRId64 " cents; memory below 4 MiB: %s\n", report->rows, cents,
	       report->memory <= 4 << 20 ? "yes" : "no");
	rc = fth_query_run(query, "explain " QUESTION, print_lines, NULL);
	if (rc < 0)
		return rc;
	if (fth_query_run(query, "select custmer from orders", NULL, NULL) != -EINVAL)
		return -EPROTO;
	printf("as expected: %s\n", fth_error_text(-EINVAL));
	return 0;
}

static int run(const char *where)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	struct fth_query *query = NULL;
	struct fth_query_db *db;
	int rc;

	options.budget = 4 << 20;
	options.create = strncmp(where, "vol(", 4) != 0;
	rc = fth_query_open(where, &options, &db);
	if (rc < 0)
		return rc;
	rc = fth_query_new(db, &query);
	for (unsigned i = 0; i < sizeof(setup) / sizeof(setup[0]) && rc == 0; i++)
		rc = fth_query_run(query, setup[i], NULL, NULL);
	if (rc == 0)
		rc = ask(query);
	fth_query_free(query);
	fth_query_close(db);
	return rc;
}

int main(int argc, char **argv)
{
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: query DB\n");
		return 2;
	}
	rc = run(argv[1]);
	if (rc < 0)
		fprintf(stderr, "query: %s\n", fth_error_text(rc));
	return rc < 0;
}
