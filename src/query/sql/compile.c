/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The front end as a whole. Its folders, in the order in which a text passes them:
 *
 *  bind/     parse.c: text to PostgreSQL's parse tree, nesting bounded; bind_statement.c:
 *            statements; bind_select.c, bind_set.c, bind_from.c, bind_grouping.c: queries; bind_expr.c, bind_call.c,
 *            bind_agg.c, bind_number.c, bind_date.c, bind_list.c: expressions; bind_scope.c: names; typing.c: types; script.c: a script cut into
 *            statements
 *  rewrite/  rewrite.c: the order of the rewrites; unnest*.c: subqueries; push_predicates.c and
 *            inner_joins.c: predicates; simplify.c: expressions; dependencies.c and
 *            use_uniqueness.c: uniqueness; prune_columns.c: columns; mark_nullable.c: NULLs
 *  tree/     nodes of the logical tree: making, walking, comparing
 *  value/    values: text, calendar; eval*.c: what operators do
 *
 * context.c has errors, memory and sets; sql_arena.c the memory of a statement.
 */
#include "query/sql/bind/bind.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compile_text(struct sql_ctx *ctx, struct sql_statement *st, bool simplify)
{
	const PgQuery__ParseResult *parsed = sql_parse(ctx, ctx->text);
	struct sql_bound bound;

	if (parsed->n_stmts == 0)
		sql_wrong(ctx, -1, "the statement is empty");
	if (parsed->n_stmts > 1)
		sql_wrong(ctx, parsed->stmts[1]->stmt_location,
			  "expected a single statement, found another after it");
	sql_bind_statement(ctx, st, parsed->stmts[0]->stmt);
	if (st->kind == SQL_SELECT || st->kind == SQL_INSERT) {
		bound = (struct sql_bound){.rel = st->query.root,
					   .count = st->query.output_count,
					   .columns = st->query.outputs,
					   .names = st->query.output_names};
		bound = sql_rewrite(ctx, bound, simplify);
		st->query.root = bound.rel;
		st->query.outputs = bound.columns;
	}
	st->query.column_count = ctx->column_count;
	st->query.columns = ctx->columns;
}

/* Everything that may longjmp() is below this frame. */
static int compile_guarded(struct sql_ctx *ctx, struct sql_statement *st, bool simplify)
{
	if (setjmp(ctx->trap))
		return ctx->rc;
	compile_text(ctx, st, simplify);
	return 0;
}

static void report(const struct sql_ctx *ctx, struct sql_error *error)
{
	if (error)
		*error = ctx->error;
	if (ctx->error.at >= 0)
		fth_fail(-ctx->rc, "line %u, column %u: %s", ctx->error.line, ctx->error.column,
			 ctx->error.text);
	else
		fth_fail(-ctx->rc, "%s", ctx->error.text);
}

int sql_compile(const struct sql_catalog *catalog, const char *text,
		const struct sql_limits *limits, struct sql_statement **out,
		struct sql_error *error)
{
	struct sql_arena *arena =
		sql_arena_new(limits && limits->memory ? limits->memory : SQL_MEMORY_LIMIT);
	struct sql_statement *st;
	struct sql_ctx *ctx;
	size_t left;
	char *copy;
	int rc;

	if (arena && limits)
		sql_arena_charge(arena, limits->charge, limits->user);
	st = arena ? sql_arena_alloc(arena, sizeof(*st)) : NULL;
	ctx = st ? sql_arena_alloc(arena, sizeof(*ctx)) : NULL;
	copy = ctx ? sql_arena_alloc(arena, strlen(text) + 1) : NULL;
	if (!copy) {
		sql_arena_free(arena);
		if (error)
			*error = (struct sql_error){.at = -1, .text = "out of memory"};
		return fth_fail(ENOMEM, "out of memory");
	}
	ctx->arena = st->arena = arena;
	ctx->catalog = catalog;
	ctx->params = limits ? limits->params : NULL;
	left = sql_stack_left();
	if (left > SQL_STACK_LEFT)
		ctx->stack_low = (const char *)__builtin_frame_address(0) - (left - SQL_STACK_LEFT);
	else
		ctx->stack_low = __builtin_frame_address(0);
	ctx->text = strcpy(copy, text);
	rc = compile_guarded(ctx, st, !(limits && limits->keep_as_bound));
	if (rc < 0) {
		report(ctx, error);
		sql_arena_free(arena);
		return rc;
	}
	*out = st;
	return 0;
}

void sql_free(struct sql_statement *statement)
{
	if (statement)
		sql_arena_free(statement->arena);
}
