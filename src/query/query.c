/* SPDX-License-Identifier: BSD-2-Clause */
/* Databases for SQL, and the way of a statement through front end, planner and executor. query.h names the siblings. */
#include "query/query.h"

#include "base/options.h"
#include "query/exec/estimate.h"
#include "query/plan/plan.h"
#include "query/sql/sql_arena.h"
#include "query/spill/scratch.h"
#include "query/views.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK (1u << 14)
/* The parts of the budget that the front end has for certain, and that it may take, for one statement. */
#define PARSE_SHARE 8
#define PARSE_MOST  2

/* ---- databases ---- */

static int check_options(const struct fth_query_options *options)
{
	if (options->size != sizeof(*options))
		return fth_fail(EINVAL, "query: opts.size is %zu, expected %zu", options->size,
				sizeof(*options));
	if (options->budget != 0 && options->budget < FTH_QUERY_BUDGET_MIN)
		return fth_fail(EINVAL, "query: opts.budget is %llu bytes, the minimum is %llu",
				(unsigned long long)options->budget,
				(unsigned long long)FTH_QUERY_BUDGET_MIN);
	if (options->create && options->readonly)
		return fth_fail(EINVAL,
				"query: opts.create and opts.readonly are mutually exclusive");
	return 0;
}

static int open_tables(struct fth_query_db *db, const char *where, const char *storage,
		       unsigned flags)
{
	int rc;

	if (storage == NULL)
		return where == NULL ? fth_fail(EINVAL, "query: no database given")
				     : fth_table_db_open(where, flags, &db->tables);
	rc = remote_open(storage, &db->remote);
	return rc < 0 ? rc : remote_tables(db->remote, &db->tables);
}

int fth_query_open(const char *where, const struct fth_query_options *options,
		   struct fth_query_db **out)
{
	static const struct fth_query_options defaults = FTH_QUERY_OPTIONS_INIT;
	struct fth_query_db *db;
	unsigned flags;
	int rc;

	*out = NULL;
	if (options == NULL)
		options = &defaults;
	rc = check_options(options);
	if (rc < 0)
		return rc;
	db = calloc(1, sizeof(*db));
	if (db == NULL)
		return -ENOMEM;
	db->budget = options->budget != 0 ? options->budget : FTH_QUERY_BUDGET;
	db->threads = options->threads;
	db->mem = fth_qmem_new(db->budget);
	flags = (options->create ? FTH_TABLE_DB_CREATE : 0) |
		(options->readonly ? FTH_TABLE_DB_READONLY : 0);
	db->plain = options->plain;
	rc = db->mem == NULL ? -ENOMEM : open_tables(db, where, options->storage, flags);
	db->scratch_limit = options->scratch_limit;
	if (rc == 0)
		rc = scratch_choose(options->scratch, options->storage == NULL ? where : NULL,
				    &db->scratch);
	if (rc < 0) {
		fth_query_close(db);
		return rc;
	}
	*out = db;
	return 0;
}

void fth_query_close(struct fth_query_db *db)
{
	if (db == NULL)
		return;
	fth_table_db_close(db->tables);
	remote_close(db->remote);
	fth_qmem_close(db->mem);
	free(db->scratch);
	free(db);
}

struct fth_table_db *fth_query_tables(struct fth_query_db *db)
{
	return db->tables;
}

int fth_query_views(struct fth_query_db *db,
		    int (*visit)(const char *name, const char *text, void *user), void *user)
{
	return views_visit(db->tables, db->mem, NULL, visit, user);
}

int fth_query_new(struct fth_query_db *db, struct fth_query **out)
{
	struct fth_query *query = calloc(1, sizeof(*query));

	*out = query;
	if (query == NULL)
		return -ENOMEM;
	query->db = db;
	return 0;
}

void fth_query_free(struct fth_query *query)
{
	free(query);
}

void fth_query_cancel(struct fth_query *query)
{
	/* relaxed: the flag orders nothing, it only has to be seen some time */
	atomic_store_explicit(&query->cancel, true, memory_order_relaxed);
}

const struct fth_query_report *fth_query_report(const struct fth_query *query)
{
	return &query->report;
}

size_t fth_query_split(const char *script, size_t from, size_t *begin, size_t *length)
{
	return sql_split(script, from, begin, length);
}

/* ---- parts of a statement ---- */

int statement_canceled(const struct statement *s)
{
	if (!atomic_load_explicit(&s->query->cancel, memory_order_relaxed))
		return 0;
	return fth_fail(ECANCELED, "the query was canceled");
}

int statement_plan(struct statement *s)
{
	struct plan_options options = {.mem = s->mem, .open = catalog_table, .self = s->catalog};

	return plan_query(&s->sql->query, &options, &s->arena, &s->set);
}

int statement_place(struct statement *s)
{
	size_t bytes = s->set.task_count * sizeof(bool);

	if (s->query->db->remote == NULL || s->query->db->plain)
		return 0;
	s->offload = (struct offload_report){.at_storage = fth_arena_alloc(&s->arena, bytes, 16)};
	if (s->offload.at_storage == NULL)
		return -ENOMEM;
	memset(s->offload.at_storage, true, bytes);
	return 0;
}

static uint64_t mebibytes(uint64_t bytes)
{
	return (bytes + (1u << 20) - 1) >> 20;
}

/* Before any work: a budget in which no task can read its rows is refused. */
static int check_budget(const struct statement *s)
{
	uint64_t least = estimate_least(&s->set, fth_qmem_used(s->mem));

	if (s->query->db->remote != NULL || least <= s->query->db->budget)
		return 0;
	return fth_fail(ENOMEM,
			"this query needs at least %llu MiB of memory, the budget is %llu MiB",
			(unsigned long long)mebibytes(least),
			(unsigned long long)(s->query->db->budget >> 20));
}

int statement_exec(struct statement *s, statement_emit emit, void *user, struct exec_stats *stats)
{
	struct exec_options options = {
		.mem = s->mem,
		.threads = s->query->db->threads,
		.cancel = &s->query->cancel,
		.scratch = s->query->db->scratch,
		.scratch_limit = s->query->db->scratch_limit,
		.thrift = &s->thrift,
	};
	size_t bytes = s->set.task_count * sizeof(*stats);
	struct exec_stats *own;
	int rc = check_budget(s);

	if (rc < 0)
		return rc;
	own = stats != NULL ? NULL : fth_qmem_zalloc(s->mem, bytes);
	if (stats == NULL && own == NULL)
		return -ENOMEM;
	if (stats == NULL)
		stats = own;
	rc = statement_place(s);
	if (rc == 0)
		rc = s->offload.at_storage != NULL
			     ? offload_run(s->query->db->remote, &s->set, &options, emit, user,
					   stats, &s->offload)
			     : exec_run(&s->set, &options, emit, user, stats);
	s->query->report.storage_bytes += s->offload.storage_bytes;
	s->query->report.suspensions += s->offload.suspensions;
	for (unsigned i = 0; i < s->set.task_count; i++)
		s->query->report.bytes += stats[i].bytes;
	fth_qmem_free(s->mem, own, own == NULL ? 0 : bytes);
	return rc;
}

static enum fth_query_kind kind_of(const struct sql_statement *sql)
{
	static const enum fth_query_kind kinds[] = {
		[SQL_SELECT] = FTH_QUERY_SELECT,
		[SQL_INSERT] = FTH_QUERY_INSERT,
		[SQL_COPY_FROM] = FTH_QUERY_COPY,
		[SQL_CREATE_TABLE] = FTH_QUERY_CREATE_TABLE,
		[SQL_CREATE_VIEW] = FTH_QUERY_CREATE_VIEW,
		[SQL_DROP_TABLE] = FTH_QUERY_DROP_TABLE,
		[SQL_DROP_VIEW] = FTH_QUERY_DROP_VIEW,
	};

	return sql->explain ? FTH_QUERY_EXPLAIN : kinds[sql->kind];
}

int query_charge(void *mem, ptrdiff_t bytes)
{
	if (bytes >= 0)
		return fth_qmem_charge(mem, (uint64_t)bytes);
	fth_qmem_discharge(mem, (uint64_t)-bytes);
	return 0;
}

/* The front end allocates by itself. Later parts of the statement use what it left of its reserve. */
int statement_compile(struct statement *s, const char *text)
{
	struct sql_limits limits = {.memory = s->query->db->budget / PARSE_MOST,
				    .charge = query_charge,
				    .user = s->mem};
	struct fth_query_report *report = &s->query->report;
	struct sql_error error = {.at = -1};
	int rc = fth_qmem_reserve(s->mem, s->query->db->budget / PARSE_SHARE);

	if (rc < 0)
		return rc;
	rc = sql_compile(catalog_sql(s->catalog), text, &limits, &s->sql, &error);
	if (rc == 0) {
		report->kind = kind_of(s->sql);
		return 0;
	}
	report->line = error.line;
	report->column = error.column;
	/* An error of reading a table is reported as such, not as a table that does not exist. */
	return catalog_error(s->catalog) < 0 ? catalog_error(s->catalog) : rc;
}

static int dispatch(struct statement *s)
{
	switch (s->query->report.kind) {
	case FTH_QUERY_SELECT:
		return statement_select(s);
	case FTH_QUERY_EXPLAIN:
		return statement_explain(s);
	case FTH_QUERY_INSERT:
		return statement_insert(s);
	case FTH_QUERY_COPY:
		return statement_copy(s);
	case FTH_QUERY_CREATE_TABLE:
		return statement_create_table(s);
	case FTH_QUERY_DROP_TABLE:
		return statement_drop_table(s);
	case FTH_QUERY_CREATE_VIEW:
		return statement_create_view(s);
	case FTH_QUERY_DROP_VIEW:
		return statement_drop_view(s);
	default:
		return -EINVAL;
	}
}

int statement_open(struct statement *s, struct fth_query *query)
{
	*s = (struct statement){.query = query};
	s->mem = fth_qmem_child(query->db->mem, "query", FTH_QMEM_NO_LIMIT);
	if (s->mem == NULL)
		return -ENOMEM;
	fth_arena_init(&s->arena, s->mem, ARENA_CHUNK);
	return catalog_new(query->db->tables, s->mem, &s->catalog);
}

void statement_close(struct statement *s)
{
	if (s->mem == NULL)
		return;
	sql_free(s->sql);
	fth_arena_release(&s->arena);
	catalog_free(s->catalog);
	fth_qmem_close(s->mem);
}

uint64_t statement_begin(struct fth_query *query)
{
	memset(&query->report, 0, sizeof(query->report));
	atomic_store_explicit(&query->cancel, false, memory_order_relaxed);
	if (query->db->remote != NULL) {
		query->wire_sent = atomic_load(&query->db->remote->sent);
		query->wire_received = atomic_load(&query->db->remote->received);
	}
	return fth_now_ns();
}

void statement_end(struct statement *s, uint64_t start)
{
	s->query->report.memory = s->mem == NULL ? 0 : fth_qmem_peak(s->mem);
	s->query->report.wall_ns = fth_now_ns() - start;
	if (s->query->db->remote != NULL) {
		const struct remote *r = s->query->db->remote;

		s->query->report.wire_sent = atomic_load(&r->sent) - s->query->wire_sent;
		s->query->report.wire_received =
			atomic_load(&r->received) - s->query->wire_received;
	}
}

int fth_query_run(struct fth_query *query, const char *sql,
		  int (*rows)(const struct fth_query_batch *batch, void *user), void *user)
{
	uint64_t start = statement_begin(query);
	struct statement s;
	int rc = statement_open(&s, query);

	s.rows = rows;
	s.user = user;
	if (rc == 0)
		rc = statement_compile(&s, sql);
	if (rc == 0)
		rc = dispatch(&s);
	statement_end(&s, start);
	statement_close(&s);
	return rc;
}
