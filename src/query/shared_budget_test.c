/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two to eight queries at once that share one budget, each of which spills, through the public
 * interface. Every answer is right, the charged memory stays within the budget, and afterwards a
 * query alone has all of it again; also if queries are canceled or their callers refuse rows.
 *
 * A query that runs alone in a budget may still be refused beside others. With --strict it may not:
 * it waits. FTH_LONG_TESTS runs 500 rounds.
 */
#include "fathom/base/error.h"
#include "fathom/query.h"
#include "table/test/table_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROWS	    30000u
#define PLENTY	    (UINT64_C(256) << 20)
#define ASKERS_MAX  8u
#define TURNS	    2u /* of an asker in a round */
#define ROUNDS_LONG 500u
#ifdef __SANITIZE_THREAD__
#define ROUNDS 2u
#else
#define ROUNDS 6u
#endif

static bool strict;
static const uint64_t budgets[] = {8, 12, 16, 24, 32, 64}; /* MiB */
#define BUDGETS (sizeof(budgets) / sizeof(budgets[0]))

static const char *const questions[] = {
	"select count(*), sum(n), max(m) from (select k, count(*) n, max(s) m from t group by k) z",
	"select count(*), min(m) from (select s, min(k) m from u group by s) z",
	"select count(distinct s), count(distinct d) from t",
	"select g, count(distinct s) from u group by g order by g",
	"select k, s from t order by s, k limit 3 offset 20000",
	"select count(*), max(a.s), sum(b.g) from t a join u b on a.s = b.s",
	"select count(*), count(b.k), max(b.s) from t a left join u b on a.d = b.d and b.g > 10",
	"select count(*), count(a.k), count(b.k) from t a full join u b on a.s = b.s",
	"select count(*), min(s) from t where s not in (select s from u where g < 30)",
	"select count(*), sum(g) from u where exists (select 1 from t where t.s = u.s)",
	"select count(*), min(s), max(s) from (select s from t union select s from u) z",
	"select count(*), sum(z.n), min(c.s) from (select a.s, count(*) n from t a join u b on a.d "
	"= b.d group by a.s) z join t c on z.s = c.s",
	"select count(*), sum(a.g) from t a where a.g >= (select avg(b.g) from u b where b.s = "
	"a.s)",
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

struct shared {
	char path[64];
	char *right[QUESTIONS];
	uint64_t budget;
	struct fth_query_db *db;
	atomic_uint refused, canceled, stopped; /* since the test began */
};

static struct shared shared;

/* ---- asking ---- */

struct taker {
	FILE *out;
	unsigned refuse; /* the batch that the caller refuses, from 1; 0: none */
};

static int take_rows(const struct fth_query_batch *batch, void *user)
{
	struct taker *taker = user;
	char text[128];

	if (taker->refuse != 0 && --taker->refuse == 0)
		return -EXDEV;
	for (unsigned row = 0; row < fth_query_rows(batch); row++)
		for (unsigned c = 0; c < fth_query_columns(batch); c++) {
			fth_query_text(batch, row, c, text, sizeof(text));
			fprintf(taker->out, "%s|", text);
		}
	return 0;
}

/* Its rows as text, to be freed, whatever the result. */
static int ask(struct fth_query *query, const char *sql, unsigned refuse, char **text)
{
	size_t length;
	struct taker taker = {open_memstream(text, &length), refuse};
	int rc;

	assert_non_null(taker.out);
	rc = fth_query_run(query, sql, take_rows, &taker);
	fclose(taker.out);
	return rc;
}

static void open_db(uint64_t budget)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;

	options.budget = shared.budget = budget;
	options.threads = 2;
	options.create = true;
	assert_ok(fth_query_open(shared.path, &options, &shared.db));
}

/* Each question alone has its answer, in every budget. */
static void ask_alone(void)
{
	struct fth_query *query;

	assert_ok(fth_query_new(shared.db, &query));
	for (unsigned i = 0; i < QUESTIONS; i++) {
		char *text;
		int rc = ask(query, questions[i], 0, &text);

		if (rc < 0)
			fail_msg("%s: %s", questions[i], fth_error_text(rc));
		if (!shared.right[i]) {
			shared.right[i] = text;
			continue;
		}
		assert_string_equal(text, shared.right[i]);
		free(text);
	}
	fth_query_free(query);
}

/* ---- tables ---- */

static void write_rows(const char *path, unsigned seed)
{
	struct fth_rng rng = {seed};
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	for (unsigned i = 0; i < ROWS; i++) {
		uint64_t r = fth_rng_next(&rng);

		/* Two rows have a text on average, a third of the texts is in both tables. */
		fprintf(file, "%u|%u|%llu.%02u|%08llx-a-text-of-some-length-%llu\n",
			i * 7919u % ROWS, (unsigned)(r % 50), (unsigned long long)(r >> 20) % 20000,
			(unsigned)(r >> 8) % 100,
			(unsigned long long)(r >> 40) % (ROWS / 2) * 2654435761u % 1000000007u,
			(unsigned long long)(r >> 40) % (ROWS / 2));
	}
	assert_int_equal(fclose(file), 0);
}

static int make_tables(void **state)
{
	char path[80], sql[200];
	struct fth_query *query;

	(void)state;
	snprintf(shared.path, sizeof(shared.path), "/tmp/fathom-shared-XXXXXX");
	assert_non_null(mkdtemp(shared.path));
	open_db(PLENTY);
	assert_ok(fth_query_new(shared.db, &query));
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/rows", shared.path);
		write_rows(path, i + 1);
		snprintf(sql, sizeof(sql),
			 "create table %s (k bigint not null, g int not null, d decimal(12,2) not "
			 "null, s varchar(60) not null)",
			 i == 0 ? "t" : "u");
		assert_ok(fth_query_run(query, sql, NULL, NULL));
		snprintf(sql, sizeof(sql), "copy %s from '%s' with (delimiter '|')",
			 i == 0 ? "t" : "u", path);
		assert_ok(fth_query_run(query, sql, NULL, NULL));
		unlink(path);
	}
	fth_query_free(query);
	ask_alone();
	fth_query_close(shared.db);
	return 0;
}

static int remove_tables(void **state)
{
	(void)state;
	for (unsigned i = 0; i < QUESTIONS; i++)
		free(shared.right[i]);
	nftw(shared.path, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* ---- rounds ---- */

struct asker {
	pthread_t thread;
	struct fth_query *query;
	struct fth_rng rng;
	bool may_be_canceled, refuses;
	char error[300]; /* empty: all answers were as expected */
};

static void judge(struct asker *a, unsigned question, int rc, const char *text, bool refused)
{
	uint64_t memory = fth_query_report(a->query)->memory;

	if (memory > shared.budget)
		snprintf(a->error, sizeof(a->error), "%s: %llu bytes were charged",
			 questions[question], (unsigned long long)memory);
	if (rc == 0 && !refused && strcmp(text, shared.right[question]) == 0)
		return;
	if (rc == -ENOMEM && !strict)
		atomic_fetch_add(&shared.refused, 1);
	else if (rc == -EXDEV && refused)
		atomic_fetch_add(&shared.stopped, 1);
	else if (rc == -ECANCELED && a->may_be_canceled)
		atomic_fetch_add(&shared.canceled, 1);
	else
		snprintf(a->error, sizeof(a->error), "%s: %s", questions[question],
			 rc < 0 ? fth_error_text(rc) : text);
}

static void *ask_some(void *self)
{
	struct asker *a = self;

	for (unsigned i = 0; i < TURNS; i++) {
		unsigned question = (unsigned)(fth_rng_next(&a->rng) % QUESTIONS);
		unsigned refuse = a->refuses ? 1 + (unsigned)(fth_rng_next(&a->rng) % 2) : 0;
		char *text;
		int rc = ask(a->query, questions[question], refuse, &text);

		judge(a, question, rc, text, refuse != 0);
		free(text);
	}
	return NULL;
}

struct canceler {
	pthread_t thread;
	struct asker *askers;
	unsigned n;
	atomic_bool end;
};

static void *cancel_some(void *self)
{
	struct canceler *c = self;

	for (unsigned i = 0; !c->end; i++) {
		fth_query_cancel(c->askers[i % c->n].query);
		usleep(2000);
	}
	return NULL;
}

static void run_askers(struct fth_rng *rng, unsigned n, bool cancels)
{
	struct asker askers[ASKERS_MAX];
	struct canceler canceler = {.askers = askers, .n = n};

	for (unsigned i = 0; i < n; i++) {
		askers[i] = (struct asker){.rng = {fth_rng_next(rng)},
					   .may_be_canceled = cancels,
					   .refuses = fth_rng_next(rng) % 8 == 0};
		assert_ok(fth_query_new(shared.db, &askers[i].query));
	}
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_some, &askers[i]), 0);
	if (cancels)
		assert_int_equal(pthread_create(&canceler.thread, NULL, cancel_some, &canceler), 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(askers[i].thread, NULL);
	canceler.end = true;
	if (cancels)
		pthread_join(canceler.thread, NULL);
	for (unsigned i = 0; i < n; i++) {
		fth_query_free(askers[i].query);
		if (askers[i].error[0])
			fail_msg("%u queries in %llu MiB: %s", n,
				 (unsigned long long)(shared.budget >> 20), askers[i].error);
	}
}

static void queries_share_a_budget(void **state)
{
	unsigned rounds = getenv("FTH_LONG_TESTS") ? ROUNDS_LONG : ROUNDS;
	struct fth_rng rng = {7};

	(void)state;
	for (unsigned i = 0; i < rounds; i++) {
		unsigned n = 2 + (unsigned)(fth_rng_next(&rng) % (ASKERS_MAX - 1));

		open_db(budgets[i % BUDGETS] << 20);
		if (i < BUDGETS)
			ask_alone();
		run_askers(&rng, n, i % 4 == 3);
		if (i % 10 == 0)
			ask_alone(); /* all memory is free again */
		fth_query_close(shared.db);
	}
	print_message("%u rounds: %u refused, %u canceled, %u stopped by their callers\n", rounds,
		      shared.refused, shared.canceled, shared.stopped);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queries_share_a_budget),
	};

	strict = argc > 1 && strcmp(argv[1], "--strict") == 0;
	return cmocka_run_group_tests(tests, make_tables, remove_tables);
}
