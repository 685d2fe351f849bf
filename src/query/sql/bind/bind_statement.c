/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements other than queries, and EXPLAIN around them. */
#include "query/sql/bind/bind_query.h"
#include "query/sql/bind/typing.h"

#include <pg_query.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_query(struct sql_ctx *ctx, struct sql_statement *st, struct sql_bound bound)
{
	(void)ctx;
	st->query.root = bound.rel;
	st->query.output_count = bound.count;
	st->query.outputs = bound.columns;
	st->query.output_names = bound.names;
}

static const char *option_value(struct sql_ctx *ctx, const PgQuery__DefElem *option)
{
	const PgQuery__Node *arg = option->arg;

	if (!arg)
		return "";
	switch (arg->node_case) {
	case PG_QUERY__NODE__NODE_STRING:
		return arg->string->sval;
	case PG_QUERY__NODE__NODE_INTEGER:
		return sql_format(ctx, "%d", arg->integer->ival);
	case PG_QUERY__NODE__NODE_FLOAT:
		return arg->float_->fval;
	case PG_QUERY__NODE__NODE_BOOLEAN:
		return arg->boolean->boolval ? "true" : "false";
	case PG_QUERY__NODE__NODE_TYPE_NAME:
		if (arg->type_name->n_names)
			return sql_node_string(ctx,
					       arg->type_name->names[arg->type_name->n_names - 1]);
		/* fall through */
	default:
		sql_unsupported(ctx, option->location, "this value of option \"%s\"",
				option->defname);
	}
}

static void take_options(struct sql_ctx *ctx, struct sql_statement *st, size_t n,
			 PgQuery__Node **options)
{
	st->option_count = (unsigned)n;
	st->options = SQL_ARRAY(ctx, struct sql_option, n);
	for (size_t i = 0; i < n; i++) {
		const PgQuery__DefElem *option = options[i]->def_elem;

		st->options[i].name = option->defname;
		st->options[i].value = option_value(ctx, option);
	}
}

static int table_column(const struct sql_table *table, const char *name)
{
	for (unsigned i = 0; i < table->column_count; i++) {
		if (!strcmp(table->columns[i].name, name))
			return (int)i;
	}
	return -1;
}

/* The ordinal of a column that must be there. */
static unsigned need_column(struct sql_ctx *ctx, const struct sql_table *table, const char *name,
			    int at)
{
	struct sql_suggestion s = {.wanted = name};
	int ordinal = table_column(table, name);

	if (ordinal >= 0)
		return (unsigned)ordinal;
	for (unsigned i = 0; i < table->column_count; i++)
		sql_suggest(&s, table->columns[i].name);
	sql_wrong(ctx, at, "table \"%s\" has no column \"%s\"%s", table->name, name,
		  sql_suggested(ctx, &s));
}

static void add_target(struct sql_ctx *ctx, struct sql_statement *st, const char *name, int at)
{
	unsigned ordinal = need_column(ctx, st->table, name, at);

	for (unsigned i = 0; i < st->target_count; i++) {
		if (st->targets[i] == ordinal)
			sql_wrong(ctx, at, "column \"%s\" is listed twice", name);
	}
	st->targets[st->target_count++] = ordinal;
}

static void all_targets(struct sql_statement *st)
{
	for (unsigned i = 0; i < st->table->column_count; i++)
		st->targets[st->target_count++] = i;
}

/* Columns that are left out become NULL: none of them may be NOT NULL. */
static void check_left_out(struct sql_ctx *ctx, const struct sql_statement *st, int at)
{
	for (unsigned i = 0; i < st->table->column_count; i++) {
		bool given = st->table->columns[i].nullable || st->table->columns[i].accepts_null;

		for (unsigned j = 0; j < st->target_count; j++)
			given |= st->targets[j] == i;
		if (!given)
			sql_wrong(ctx, at,
				  "column \"%s\" of table \"%s\" is NOT NULL and has no value",
				  st->table->columns[i].name, st->table->name);
	}
}

static bool assignable(struct sql_type from, struct sql_type to)
{
	if (sql_is_string(to.kind))
		return from.kind != SQL_INTERVAL;
	return from.kind == to.kind || (sql_is_number(from.kind) && sql_is_number(to.kind));
}

/* The result of the query takes the types of the table's columns. */
static struct sql_bound assign_types(struct sql_ctx *ctx, const struct sql_statement *st,
				     struct sql_bound bound)
{
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, bound.count);
	int *columns = SQL_ARRAY(ctx, int, bound.count);
	char from[40], to[40];

	for (unsigned i = 0; i < bound.count; i++) {
		const struct sql_table_column *target = &st->table->columns[st->targets[i]];
		struct sql_type type = ctx->columns[bound.columns[i]].type;

		if (type.kind == SQL_UNKNOWN) {
			sql_retype(ctx, bound.rel, bound.columns[i], target->type);
			type = ctx->columns[bound.columns[i]].type;
		}
		if (!assignable(type, target->type))
			sql_wrong(ctx, -1, "column \"%s\" is of type %s, the value is of type %s",
				  target->name, sql_type_name(target->type, to),
				  sql_type_name(type, from));
		exprs[i] = sql_cast_expr(ctx, sql_column_expr(ctx, bound.columns[i], -1),
					 target->type);
		columns[i] = sql_new_column(ctx, target->name, target->type, true);
	}
	bound.rel = sql_project(ctx, bound.rel, bound.count, columns, exprs);
	bound.columns = columns;
	return bound;
}

static void bind_insert(struct sql_ctx *ctx, struct sql_statement *st,
			const PgQuery__InsertStmt *insert)
{
	int at = insert->relation->location;
	struct sql_bound bound;

	if (insert->on_conflict_clause)
		sql_unsupported(ctx, at, "ON CONFLICT");
	if (insert->n_returning_list)
		sql_unsupported(ctx, at, "RETURNING");
	if (insert->with_clause)
		sql_unsupported(ctx, insert->with_clause->location, "WITH before INSERT");
	if (!insert->select_stmt)
		sql_unsupported(ctx, at, "INSERT ... DEFAULT VALUES");
	st->kind = SQL_INSERT;
	st->table = sql_find_table(ctx, insert->relation);
	st->name = insert->relation->relname;
	st->targets = SQL_ARRAY(ctx, unsigned, st->table->column_count + insert->n_cols);
	for (size_t i = 0; i < insert->n_cols; i++)
		add_target(ctx, st, insert->cols[i]->res_target->name,
			   insert->cols[i]->res_target->location);
	if (insert->n_cols == 0)
		all_targets(st);
	bound = sql_bind_query(ctx, NULL, NULL, insert->select_stmt->select_stmt, true);
	if (insert->n_cols == 0 && bound.count < st->target_count)
		st->target_count = bound.count;
	if (bound.count != st->target_count)
		sql_wrong(ctx, at, "INSERT has %u values for %u columns", bound.count,
			  st->target_count);
	check_left_out(ctx, st, at);
	take_query(ctx, st, assign_types(ctx, st, bound));
}

static void bind_copy(struct sql_ctx *ctx, struct sql_statement *st, const PgQuery__CopyStmt *copy)
{
	int at = copy->relation ? copy->relation->location : -1;

	if (!copy->is_from)
		sql_unsupported(ctx, at, "COPY ... TO");
	if (copy->is_program)
		sql_unsupported(ctx, at, "COPY ... FROM PROGRAM");
	if (copy->where_clause)
		sql_unsupported(ctx, at, "COPY ... WHERE");
	st->kind = SQL_COPY_FROM;
	st->table = sql_find_table(ctx, copy->relation);
	st->name = copy->relation->relname;
	st->file = copy->filename && *copy->filename ? copy->filename : NULL;
	st->targets = SQL_ARRAY(ctx, unsigned, st->table->column_count + copy->n_attlist);
	for (size_t i = 0; i < copy->n_attlist; i++)
		add_target(ctx, st, sql_node_string(ctx, copy->attlist[i]), at);
	if (copy->n_attlist == 0)
		all_targets(st);
	check_left_out(ctx, st, at);
	take_options(ctx, st, copy->n_options, copy->options);
}

/* A table that is being declared. */
struct declaration {
	struct sql_ctx *ctx;
	struct sql_table *table;
	struct sql_table_column *columns;
	struct sql_list keys; /* struct sql_table_key */
};

static void declare_key(struct declaration *d, unsigned count, const unsigned *ordinals,
			bool primary)
{
	struct sql_table_key *key = sql_alloc(d->ctx, sizeof(*key));

	key->count = count;
	key->ordinals = ordinals;
	sql_list_add(d->ctx, &d->keys, key);
	for (unsigned i = 0; primary && i < count; i++)
		d->columns[ordinals[i]].nullable = false;
}

static void declare_constraint(struct declaration *d, const PgQuery__Constraint *c, int column)
{
	unsigned *ordinals, count;

	switch (c->contype) {
	case PG_QUERY__CONSTR_TYPE__CONSTR_NULL:
		break;
	case PG_QUERY__CONSTR_TYPE__CONSTR_NOTNULL:
		d->columns[column].nullable = false;
		break;
	case PG_QUERY__CONSTR_TYPE__CONSTR_PRIMARY:
	case PG_QUERY__CONSTR_TYPE__CONSTR_UNIQUE:
		count = column >= 0 ? 1 : (unsigned)c->n_keys;
		ordinals = SQL_ARRAY(d->ctx, unsigned, count);
		for (unsigned i = 0; i < count; i++)
			ordinals[i] = column >= 0 ? (unsigned)column
						  : need_column(d->ctx, d->table,
								sql_node_string(d->ctx, c->keys[i]),
								c->location);
		declare_key(d, count, ordinals,
			    c->contype == PG_QUERY__CONSTR_TYPE__CONSTR_PRIMARY);
		break;
	case PG_QUERY__CONSTR_TYPE__CONSTR_FOREIGN:
		break; /* nothing checks it, and nothing is concluded from it */
	case PG_QUERY__CONSTR_TYPE__CONSTR_DEFAULT:
		sql_unsupported(d->ctx, c->location, "DEFAULT");
	case PG_QUERY__CONSTR_TYPE__CONSTR_CHECK:
		sql_unsupported(d->ctx, c->location, "CHECK");
	default:
		sql_unsupported(d->ctx, c->location, "this constraint");
	}
}

static void declare_column(struct declaration *d, const PgQuery__ColumnDef *def)
{
	struct sql_table_column *column = &d->columns[d->table->column_count];

	if (table_column(d->table, def->colname) >= 0)
		sql_wrong(d->ctx, def->location, "column \"%s\" is declared twice", def->colname);
	if (!def->type_name)
		sql_wrong(d->ctx, def->location, "column \"%s\" has no type", def->colname);
	if (def->coll_clause)
		sql_unsupported(d->ctx, def->location, "COLLATE");
	column->name = def->colname;
	column->type = sql_bind_type(d->ctx, def->type_name);
	column->nullable = true;
	if (column->type.kind == SQL_INTERVAL)
		sql_unsupported(d->ctx, def->location, "a column of type interval");
	if (column->type.kind == SQL_DECIMAL && column->type.precision == 0)
		sql_wrong(d->ctx, def->location, "column \"%s\": decimal needs precision and scale",
			  def->colname);
	if (column->type.kind == SQL_CHAR && column->type.length == 0)
		column->type.length = 1;
	d->table->column_count++;
}

static void check_create(struct sql_ctx *ctx, const PgQuery__CreateStmt *create)
{
	int at = create->relation->location;

	if (create->relation->schemaname && *create->relation->schemaname &&
	    strcmp(create->relation->schemaname, "public") != 0)
		sql_unsupported(ctx, at, "schema \"%s\"", create->relation->schemaname);
	if (create->relation->relpersistence && *create->relation->relpersistence != 'p')
		sql_unsupported(ctx, at, "CREATE TEMPORARY or UNLOGGED TABLE");
	if (create->n_inh_relations)
		sql_unsupported(ctx, at, "INHERITS");
	if (create->partbound || create->partspec)
		sql_unsupported(ctx, at, "PARTITION");
	if (create->of_typename)
		sql_unsupported(ctx, at, "CREATE TABLE ... OF");
}

static void bind_create(struct sql_ctx *ctx, struct sql_statement *st,
			const PgQuery__CreateStmt *create)
{
	struct declaration d = {.ctx = ctx, .table = &st->declared};
	struct sql_table_key *keys;

	check_create(ctx, create);
	st->kind = SQL_CREATE_TABLE;
	st->name = st->declared.name = create->relation->relname;
	st->if_not_exists = create->if_not_exists;
	st->declared.rows = -1;
	d.columns = SQL_ARRAY(ctx, struct sql_table_column, create->n_table_elts);
	st->declared.columns = d.columns;
	for (size_t i = 0; i < create->n_table_elts; i++) {
		const PgQuery__Node *node = create->table_elts[i];

		if (node->node_case == PG_QUERY__NODE__NODE_COLUMN_DEF)
			declare_column(&d, node->column_def);
		else if (node->node_case != PG_QUERY__NODE__NODE_CONSTRAINT)
			sql_unsupported(ctx, -1, "CREATE TABLE ... LIKE");
	}
	if (st->declared.column_count == 0)
		sql_wrong(ctx, create->relation->location, "table \"%s\" has no columns", st->name);
	for (size_t i = 0; i < create->n_table_elts; i++) {
		const PgQuery__Node *node = create->table_elts[i];

		if (node->node_case == PG_QUERY__NODE__NODE_CONSTRAINT) {
			declare_constraint(&d, node->constraint, -1);
			continue;
		}
		for (size_t j = 0; j < node->column_def->n_constraints; j++)
			declare_constraint(&d, node->column_def->constraints[j]->constraint,
					   table_column(&st->declared, node->column_def->colname));
	}
	keys = SQL_ARRAY(ctx, struct sql_table_key, d.keys.count);
	for (unsigned i = 0; i < d.keys.count; i++)
		keys[i] = *(struct sql_table_key *)d.keys.items[i];
	st->declared.keys = keys;
	st->declared.key_count = d.keys.count;
	take_options(ctx, st, create->n_options, create->options);
	for (unsigned i = 0; i < st->option_count; i++) {
		if (!strcmp(st->options[i].name, "cluster_by"))
			need_column(ctx, &st->declared, st->options[i].value,
				    create->options[i]->def_elem->location);
		else
			sql_wrong(ctx, create->options[i]->def_elem->location,
				  "unknown option \"%s\"; the only option is cluster_by",
				  st->options[i].name);
	}
}

/* Where the query of CREATE VIEW begins: behind its AS. */
static int find_view_query(struct sql_ctx *ctx)
{
	PgQueryScanResult scan = pg_query_scan(ctx->text);
	PgQuery__ScanResult *tokens =
		scan.error ? NULL
			   : pg_query__scan_result__unpack(NULL, scan.pbuf.len,
							   (const uint8_t *)scan.pbuf.data);
	int at = -1;

	for (size_t i = 0; tokens && i < tokens->n_tokens && at < 0; i++) {
		if (tokens->tokens[i]->token == PG_QUERY__TOKEN__AS)
			at = tokens->tokens[i]->end;
	}
	if (tokens)
		pg_query__scan_result__free_unpacked(tokens, NULL);
	pg_query_free_scan_result(scan);
	if (at < 0)
		sql_no_memory(ctx);
	return at;
}

/* The view's text; names for its columns are wrapped around it. */
static const char *view_text(struct sql_ctx *ctx, const PgQuery__ViewStmt *view)
{
	const char *query = ctx->text + find_view_query(ctx);
	size_t length = strlen(query), size = length + 80;
	char *text;
	int n;

	while (length && strchr("; \t\r\n", query[length - 1]))
		length--;
	for (size_t i = 0; i < view->n_aliases; i++)
		size += 2 * strlen(sql_node_string(ctx, view->aliases[i])) + 4;
	text = sql_alloc(ctx, size);
	if (view->n_aliases == 0)
		return memcpy(text, query, length);
	/* A comment at the end of the query must not swallow what follows. */
	n = sprintf(text, "SELECT * FROM (%.*s\n) AS v(", (int)length, query);
	for (size_t i = 0; i < view->n_aliases; i++) {
		n += sprintf(text + n, "%s\"", i ? "," : "");
		for (const char *c = sql_node_string(ctx, view->aliases[i]); *c; c++) {
			if (*c == '"')
				text[n++] = '"';
			text[n++] = *c;
		}
		text[n++] = '"';
	}
	strcpy(text + n, ")");
	return text;
}

static void bind_view(struct sql_ctx *ctx, struct sql_statement *st, const PgQuery__ViewStmt *view)
{
	struct sql_bound bound;

	if (view->query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		sql_unsupported(ctx, view->view->location, "this view");
	if (view->n_options || view->with_check_option > 1)
		sql_unsupported(ctx, view->view->location, "an option of CREATE VIEW");
	if (view->view->relpersistence && *view->view->relpersistence != 'p')
		sql_unsupported(ctx, view->view->location, "CREATE TEMPORARY VIEW");
	st->kind = SQL_CREATE_VIEW;
	st->name = view->view->relname;
	st->or_replace = view->replace;
	bound = sql_bind_select(ctx, NULL, NULL, view->query->select_stmt);
	if (view->n_aliases > bound.count)
		sql_wrong(ctx, view->view->location,
			  "view \"%s\" has %u columns but lists %zu column names", st->name,
			  bound.count, view->n_aliases);
	st->text = view_text(ctx, view);
}

static void bind_drop(struct sql_ctx *ctx, struct sql_statement *st, const PgQuery__DropStmt *drop)
{
	switch (drop->remove_type) {
	case PG_QUERY__OBJECT_TYPE__OBJECT_TABLE:
		st->kind = SQL_DROP_TABLE;
		break;
	case PG_QUERY__OBJECT_TYPE__OBJECT_VIEW:
		st->kind = SQL_DROP_VIEW;
		break;
	default:
		sql_unsupported(ctx, -1, "DROP of objects other than tables and views");
	}
	st->if_exists = drop->missing_ok;
	st->name_count = (unsigned)drop->n_objects;
	st->names = SQL_ARRAY(ctx, const char *, drop->n_objects);
	for (size_t i = 0; i < drop->n_objects; i++) {
		const PgQuery__Node *object = drop->objects[i];

		if (object->node_case != PG_QUERY__NODE__NODE_LIST || object->list->n_items != 1)
			sql_unsupported(ctx, -1, "a name with a schema");
		st->names[i] = sql_node_string(ctx, object->list->items[0]);
	}
	st->name = st->names[0];
}

static void bind_explain(struct sql_ctx *ctx, struct sql_statement *st,
			 const PgQuery__ExplainStmt *explain)
{
	for (size_t i = 0; i < explain->n_options; i++) {
		const PgQuery__DefElem *option = explain->options[i]->def_elem;

		if (strcmp(option->defname, "format") == 0) {
			st->json = strcmp(option_value(ctx, option), "json") == 0;
			if (!st->json && strcmp(option_value(ctx, option), "text") != 0)
				sql_unsupported(ctx, option->location, "EXPLAIN format \"%s\"",
						option_value(ctx, option));
			continue;
		}
		if (strcmp(option->defname, "analyze") != 0)
			sql_unsupported(ctx, option->location, "EXPLAIN option \"%s\"",
					option->defname);
		st->analyze = strcmp(option_value(ctx, option), "false") != 0 &&
			      strcmp(option_value(ctx, option), "off") != 0;
	}
	if (explain->query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		sql_unsupported(ctx, -1, "EXPLAIN of a statement other than a query");
	st->explain = true;
	sql_bind_statement(ctx, st, explain->query);
}

void sql_bind_statement(struct sql_ctx *ctx, struct sql_statement *statement,
			const PgQuery__Node *node)
{
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_SELECT_STMT:
		statement->kind = SQL_SELECT;
		take_query(ctx, statement, sql_bind_select(ctx, NULL, NULL, node->select_stmt));
		break;
	case PG_QUERY__NODE__NODE_INSERT_STMT:
		bind_insert(ctx, statement, node->insert_stmt);
		break;
	case PG_QUERY__NODE__NODE_COPY_STMT:
		bind_copy(ctx, statement, node->copy_stmt);
		break;
	case PG_QUERY__NODE__NODE_CREATE_STMT:
		bind_create(ctx, statement, node->create_stmt);
		break;
	case PG_QUERY__NODE__NODE_VIEW_STMT:
		bind_view(ctx, statement, node->view_stmt);
		break;
	case PG_QUERY__NODE__NODE_DROP_STMT:
		bind_drop(ctx, statement, node->drop_stmt);
		break;
	case PG_QUERY__NODE__NODE_EXPLAIN_STMT:
		bind_explain(ctx, statement, node->explain_stmt);
		break;
	default:
		sql_unsupported(ctx, -1, "%s", sql_node_name(node));
	}
}
