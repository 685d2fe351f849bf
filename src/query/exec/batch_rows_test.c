/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that wait for others: what that takes, that it is left out where memory is short, and that
 * values survive it.
 */
#include "fathom/base/error.h"
#include "fathom/query.h"
#include "query/exec/runner.h"
#include "table/test/table_fixture.h"

#define SLOTS 3u
#define ROWS  6000u

/* ---- memory ---- */

/* A task with a FETCH step behind another one: slots of 64 bits, of 128 bits and the row number. */
struct plain_task {
	struct table_fixture f;
	struct fth_table *table;
	struct task_slot slots[SLOTS];
	struct task_step steps[2];
	struct task task;
};

static void make_task(struct plain_task *p)
{
	memset(p, 0, sizeof(*p));
	fixture_open(&p->f);
	fixture_create(&p->f, "t", "k int not null");
	assert_ok(fth_table_open(p->f.db, "t", NULL, &p->table));
	for (unsigned i = 0; i < SLOTS; i++)
		p->slots[i] =
			(struct task_slot){.type = fth_type(FTH_T_INT64), .lo = 0, .hi = 1000};
	p->slots[1].type = fth_type_decimal(38, 0);
	p->slots[1].hi = (fth_i128)1 << 100;
	p->steps[0].kind = TASK_SELECT;
	p->steps[1].kind = TASK_FETCH;
	p->task = (struct task){.source = {.kind = TASK_TABLE, .table = p->table},
				.slot_count = SLOTS,
				.slots = p->slots,
				.step_count = 2,
				.steps = p->steps};
}

/* Opens waiting with so much memory. Returns whether rows can wait, and what was taken. */
static bool opens(const struct plain_task *p, uint64_t budget, uint64_t *bytes)
{
	bool carried[SLOTS] = {true, true, true};
	struct step_state steps[2] = {{.carried = carried}, {.carried = carried}};
	struct runner r = {.task = &p->task, .steps = steps};
	bool waits;

	r.mem = fth_qmem_new(budget);
	fth_arena_init(&r.arena, r.mem, 1024);
	assert_ok(wait_open(&r));
	waits = steps[1].waiting;
	*bytes = fth_qmem_used(r.mem);
	wait_close(&r);
	assert_null(steps[1].waiting);
	fth_arena_release(&r.arena);
	assert_int_equal(fth_qmem_close(r.mem), 0);
	return waits;
}

static void values_are_as_wide_as_needed(void **state)
{
	uint64_t needed = FTH_BATCH * (8 + 16 + 8 + 3.0 / 8), bytes;
	struct plain_task p;

	(void)state;
	make_task(&p);
	assert_int_equal(wait_bytes(&p.task), needed);
	assert_true(opens(&p, 8 << 20, &bytes));
	assert_true(bytes >= needed && bytes < needed + 16384);
	fth_table_close(p.table);
	fixture_close(&p.f);
}

static void rows_do_not_wait_without_memory(void **state)
{
	struct plain_task p;
	uint64_t bytes;

	(void)state;
	make_task(&p);
	for (uint64_t budget = 64 << 10; budget <= 512 << 10; budget += 64 << 10)
		if (!opens(&p, budget, &bytes))
			assert_true(bytes < 8192);
	assert_false(opens(&p, 64 << 10, &bytes));
	assert_false(opens(&p, 256 << 10, &bytes));
	fth_table_close(p.table);
	fixture_close(&p.f);
}

/* ---- values ---- */

static int collect(const struct fth_query_batch *batch, void *user)
{
	FILE *out = user;

	for (unsigned row = 0; row < fth_query_rows(batch); row++)
		for (unsigned c = 0; c < fth_query_columns(batch); c++) {
			char text[128];

			fth_query_text(batch, row, c, text, sizeof(text));
			fprintf(out, "%s%c", fth_query_null(batch, row, c) ? "null" : text,
				c + 1 == fth_query_columns(batch) ? '\n' : '|');
		}
	return 0;
}

static char *ask(const char *path, uint64_t budget, const char *sql)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	struct fth_query_db *db;
	struct fth_query *query;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int rc;

	options.budget = budget;
	options.threads = 1;
	options.create = true;
	assert_ok(fth_query_open(path, &options, &db));
	assert_ok(fth_query_new(db, &query));
	rc = fth_query_run(query, sql, collect, out);
	if (rc < 0)
		fail_msg("%s: %s", sql, fth_error_text(rc));
	fclose(out);
	fth_query_free(query);
	fth_query_close(db);
	return text;
}

/* Row i has values that depend on i, and some nulls. */
static void write_rows(const char *path)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (unsigned i = 0; i < ROWS; i++) {
		fprintf(file, "%u|%u|", i, i % 61);
		if (i % 7 != 0)
			fprintf(file, "%u", i * 3);
		fprintf(file, "|%u7777777777777777777777777777.5|%u.25|%c|text of row %u\n",
			i % 90 + 10, i, i % 2 == 0 ? 't' : 'f', i);
	}
	fclose(file);
}

static void expect_rows(const char *text)
{
	unsigned n = 0;

	for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, n++) {
		char want[256], three[16];
		unsigned i = n * 61 + 5;

		snprintf(three, sizeof(three), "%u", i * 3);
		snprintf(want, sizeof(want),
			 "%s|%u7777777777777777777777777777.5|%u.25|%s|text of row %u\n",
			 i % 7 == 0 ? "null" : three, i % 90 + 10, i, i % 2 == 0 ? "t" : "f", i);
		assert_int_equal(strncmp(at, want, strlen(want)), 0);
	}
	assert_int_equal(n, (ROWS - 5 + 60) / 61);
}

static void values_survive_waiting(void **state)
{
	static const uint64_t budgets[] = {2 << 20, 4 << 20, 64 << 20};
	char path[] = "/tmp/fathom-wait-XXXXXX", sql[512];

	(void)state;
	assert_non_null(mkdtemp(path));
	snprintf(sql, sizeof(sql), "%s/rows", path);
	write_rows(sql);
	free(ask(path, 0,
		 "create table a (k int not null, m int not null, n int, d decimal(38,1) not null, "
		 "x double precision not null, g boolean not null, s varchar(40) not null)"));
	free(ask(path, 0,
		 "create table b (k int not null, m int not null, n int, d decimal(38,1) not null, "
		 "x double precision not null, g boolean not null, s varchar(40) not null)"));
	for (unsigned t = 0; t < 2; t++) {
		snprintf(sql, sizeof(sql), "copy %c from '%s/rows' with (delimiter '|', null '')",
			 "ab"[t], path);
		free(ask(path, 0, sql));
	}
	for (unsigned i = 0; i < sizeof(budgets) / sizeof(*budgets); i++) {
		char *text = ask(path, budgets[i],
				 "select a.n, a.d, a.x, a.g, b.s from a left join b on a.x = b.x "
				 "where a.m = 5");

		expect_rows(text);
		free(text);
	}
	nftw(path, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_as_wide_as_needed),
		cmocka_unit_test(rows_do_not_wait_without_memory),
		cmocka_unit_test(values_survive_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
