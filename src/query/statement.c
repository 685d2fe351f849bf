/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A statement: its account, and its way through the front end, the planner and the executor. The
 * files that run statements of one kind (result.c, explain.c, append.c, define.c) call these parts;
 * nothing here calls them.
 */
#include "query/query.h"

#include "query/exec/estimate.h"
#include "query/plan/plan.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

#define ARENA_CHUNK (1u << 14)
/*
 * The parts of the budget that the front end has for certain, and that it may take, for one
 * statement.
 */
#define PARSE_SHARE 8
#define PARSE_MOST  2

/* ---- opening and closing ---- */

int statement_open(struct statement *s, struct fth_query *query)
{
	*s = (struct statement){.query = query};
	s->mem = fth_qmem_child(query->db->mem, "query", FTH_QMEM_NO_LIMIT);
	if (!s->mem)
		return -ENOMEM;
	fth_arena_init(&s->arena, s->mem, ARENA_CHUNK);
	return catalog_new(query->db->tables, s->mem, &s->catalog);
}

void statement_close(struct statement *s)
{
	if (!s->mem)
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
	if (query->db->remote) {
		query->wire_sent = atomic_load(&query->db->remote->sent);
		query->wire_received = atomic_load(&query->db->remote->received);
	}
	return fth_now_ns();
}

void statement_end(struct statement *s, uint64_t start)
{
	s->query->report.memory = s->mem ? fth_qmem_peak(s->mem) : 0;
	s->query->report.wall_ns = fth_now_ns() - start;
	if (s->query->db->remote) {
		const struct remote *r = s->query->db->remote;

		s->query->report.wire_sent = atomic_load(&r->sent) - s->query->wire_sent;
		s->query->report.wire_received =
			atomic_load(&r->received) - s->query->wire_received;
	}
}

/* ---- the front end ---- */

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

/*
 * Rows that the transaction has appended are in no snapshot yet: no answer is better than one
 * without.
 */
static int check_transaction(const struct statement *s)
{
	const char *table = s->query->transaction.table;
	enum fth_query_kind kind = s->query->report.kind;

	if (!table || (kind != FTH_QUERY_SELECT && kind != FTH_QUERY_EXPLAIN) ||
	    !catalog_names(s->catalog, table))
		return 0;
	return fth_fail(EOPNOTSUPP,
			"table \"%s\" has rows of this transaction, which cannot be read before it "
			"is committed",
			table);
}

/*
 * The front end allocates by itself. Later parts of the statement use what it left of its reserve.
 */
int statement_compile(struct statement *s, const char *text)
{
	struct sql_limits limits = {.memory = s->query->db->budget / PARSE_MOST,
				    .charge = query_charge,
				    .user = s->mem,
				    .params = s->params.room > 0 ? &s->params : NULL};
	struct fth_query_report *report = &s->query->report;
	struct sql_error error = {.at = -1};
	int rc = fth_qmem_reserve(s->mem, s->query->db->budget / PARSE_SHARE);

	if (rc < 0)
		return rc;
	rc = sql_compile(catalog_sql(s->catalog), text, &limits, &s->sql, &error);
	if (rc == 0) {
		report->kind = kind_of(s->sql);
		return check_transaction(s);
	}
	report->line = error.line;
	report->column = error.column;
	/* An error of reading a table is reported as such, not as a table that does not exist. */
	return catalog_error(s->catalog) < 0 ? catalog_error(s->catalog) : rc;
}

/* ---- planner and executor ---- */

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

	if (!s->query->db->remote || s->query->db->plain)
		return 0;
	s->offload = (struct offload_report){.at_storage = fth_arena_alloc(&s->arena, bytes, 16)};
	if (!s->offload.at_storage)
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

	if (s->query->db->remote || least <= s->query->db->budget)
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
	own = stats ? NULL : fth_qmem_zalloc(s->mem, bytes);
	if (!stats && !own)
		return -ENOMEM;
	if (!stats)
		stats = own;
	rc = statement_place(s);
	if (rc == 0)
		rc = s->offload.at_storage ? offload_run(s->query->db->remote, &s->set, &options,
							 emit, user, stats, &s->offload)
					   : exec_run(&s->set, &options, emit, user, stats);
	s->query->report.storage_bytes += s->offload.storage_bytes;
	s->query->report.suspensions += s->offload.suspensions;
	for (unsigned i = 0; i < s->set.task_count; i++)
		s->query->report.bytes += stats[i].bytes;
	fth_qmem_free(s->mem, own, own ? bytes : 0);
	return rc;
}
