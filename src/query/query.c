/* SPDX-License-Identifier: BSD-2-Clause */
/* Databases for SQL, and the run of a statement by its kind. query.h names the siblings. */
#include "query/query.h"

#include "base/options.h"
#include "query/spill/scratch.h"
#include "query/views.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

/* ---- databases ---- */

static int check_options(const struct fth_query_options *options)
{
	int rc = fth_options_check("query", options->size, sizeof(*options));

	if (rc < 0)
		return rc;
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

	if (!storage)
		return !where ? fth_fail(EINVAL, "query: no database given")
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
	if (!options)
		options = &defaults;
	rc = check_options(options);
	if (rc < 0)
		return rc;
	db = calloc(1, sizeof(*db));
	if (!db)
		return -ENOMEM;
	db->budget = options->budget != 0 ? options->budget : FTH_QUERY_BUDGET;
	db->threads = options->threads;
	db->mem = fth_qmem_new(db->budget);
	flags = (options->create ? FTH_TABLE_DB_CREATE : 0) |
		(options->readonly ? FTH_TABLE_DB_READONLY : 0);
	db->plain = options->plain;
	rc = db->mem ? open_tables(db, where, options->storage, flags) : -ENOMEM;
	db->scratch_limit = options->scratch_limit;
	if (rc == 0)
		rc = scratch_choose(options->scratch, options->storage ? NULL : where,
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
	if (!db)
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
	if (!query)
		return -ENOMEM;
	query->db = db;
	return 0;
}

void fth_query_free(struct fth_query *query)
{
	if (query)
		transaction_release(query);
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

/* ---- statements ---- */

static int dispatch(struct statement *s)
{
	int rc;

	switch (s->query->report.kind) {
	case FTH_QUERY_SELECT:
		rc = statement_plan(s);
		return rc < 0 ? rc : statement_rows(s);
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

/* The parameters as the front end wants them, in the statement's arena. */
static int take_parameters(struct statement *s, const struct fth_query_parameter *from,
			   unsigned room)
{
	struct sql_param *to;

	if (room == 0)
		return 0;
	to = fth_arena_alloc(&s->arena, room * sizeof(*to), 16);
	if (!to)
		return -ENOMEM;
	for (unsigned i = 0; i < room; i++)
		to[i] = (struct sql_param){{.kind = (enum sql_kind)from[i].type}, from[i].text};
	s->params = (struct sql_params){.room = room, .params = to};
	return 0;
}

static int check_parameters(const struct fth_query_parameter *parameters, unsigned count)
{
	if (count > FTH_QUERY_PARAMETERS_MAX)
		return fth_fail(EINVAL, "query: %u parameters, the limit is %u", count,
				FTH_QUERY_PARAMETERS_MAX);
	for (unsigned i = 0; i < count; i++)
		if (parameters[i].type > FTH_TABLE_VARCHAR)
			return fth_fail(EINVAL, "query: parameter $%u has no type %d", i + 1,
					(int)parameters[i].type);
	return 0;
}

int fth_query_run_with(struct fth_query *query, const char *sql,
		       const struct fth_query_parameter *parameters, unsigned count,
		       int (*rows)(const struct fth_query_batch *batch, void *user), void *user)
{
	uint64_t start = statement_begin(query);
	struct statement s;
	int rc = statement_open(&s, query);

	s.rows = rows;
	s.user = user;
	if (rc == 0)
		rc = check_parameters(parameters, count);
	if (rc == 0)
		rc = take_parameters(&s, parameters, count);
	if (rc == 0)
		rc = statement_compile(&s, sql);
	if (rc == 0)
		rc = dispatch(&s);
	statement_end(&s, start);
	statement_close(&s);
	return rc;
}

int fth_query_run(struct fth_query *query, const char *sql,
		  int (*rows)(const struct fth_query_batch *batch, void *user), void *user)
{
	return fth_query_run_with(query, sql, NULL, 0, rows, user);
}

int fth_query_describe(struct fth_query *query, const char *sql,
		       struct fth_query_parameter *parameters, unsigned room, unsigned *count,
		       int (*rows)(const struct fth_query_batch *batch, void *user), void *user)
{
	uint64_t start = statement_begin(query);
	struct statement s;
	int rc = statement_open(&s, query);

	s.rows = rows;
	s.user = user;
	if (rc == 0)
		rc = check_parameters(parameters, room);
	if (rc == 0)
		rc = take_parameters(&s, parameters, room);
	s.params.count = *count;
	if (rc == 0)
		rc = statement_compile(&s, sql);
	for (unsigned i = 0; rc == 0 && i < s.params.count && i < room; i++)
		parameters[i].type = (enum fth_table_type)s.params.params[i].type.kind;
	if (rc == 0) {
		*count = s.params.count;
		rc = statement_columns(&s);
	}
	statement_end(&s, start);
	statement_close(&s);
	return rc;
}
