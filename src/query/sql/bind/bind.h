/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The binder: names become columns, expressions get types, a select becomes relations. What it
 * makes may have subqueries in expressions (context.h); the rewriter removes them.
 */
#ifndef QUERY_SQL_BIND_H
#define QUERY_SQL_BIND_H

#include "query/sql/tree/tree_build.h"
#include "query/sql/bind/parse.h"

struct sql_scope_column {
	const char *table; /* the name it may be qualified with; NULL: merged by USING */
	const char *name;
	int column;
	bool nullable;
	bool hidden; /* merged by USING: found only with its table's name */
};

struct sql_cte {
	const char *name;
	const PgQuery__CommonTableExpr *node;
	const struct sql_scope *parent; /* the columns around the WITH, and */
	const struct sql_cte *visible;	/* the WITH queries that its own query sees */
	const struct sql_cte *next;
	bool *used; /* a FROM clause names it */
};

/* The select that is being bound, as expressions see it. */
struct sql_scope {
	const struct sql_scope *parent;
	const struct sql_cte *ctes;
	struct sql_list columns; /* struct sql_scope_column */
	/* aggregates */
	const char *clause;	 /* "WHERE" and so on */
	bool aggregates_allowed; /* in this clause */
	bool in_aggregate;
	struct sql_list aggs;	   /* struct sql_agg */
	struct sql_list groupings; /* struct sql_grouping_call */
};

/* A bound query: its relation, and which columns are the result. */
struct sql_bound {
	struct sql_rel *rel;
	unsigned count;
	int *columns;
	const char **names;
};

/* bind_scope.c */
void sql_scope_add(struct sql_ctx *ctx, struct sql_scope *scope, const char *table,
		   const char *name, int column, bool nullable);
/* The column that a reference means; the scope's own first, then those around it. */
struct sql_expr *sql_resolve(struct sql_ctx *ctx, const struct sql_scope *scope, const char *table,
			     const char *name, int at);
/* The closest of the names to what was written, as ", did you mean ...", or "". */
struct sql_suggestion {
	const char *wanted, *best;
	unsigned distance;
};
void sql_suggest(struct sql_suggestion *s, const char *name);
const char *sql_suggested(struct sql_ctx *ctx, const struct sql_suggestion *s);

/* bind_expr.c, bind_call.c */
struct sql_expr *sql_bind_expr(struct sql_ctx *ctx, struct sql_scope *scope,
			       const PgQuery__Node *node);
struct sql_expr *sql_bind_function(struct sql_ctx *ctx, struct sql_scope *scope,
				   const PgQuery__FuncCall *call);
const char *sql_operator_name(struct sql_ctx *ctx, size_t n, PgQuery__Node **name, int at);
/* SQL_OP_COUNT if name is no comparison. */
enum sql_op sql_comparison_op(const char *name);
/* bind_list.c. value IN (items); what is not constant in the list is compared by itself. */
struct sql_expr *sql_in_list(struct sql_ctx *ctx, struct sql_expr *value, unsigned count,
			     struct sql_expr **items, int at);
struct sql_expr *sql_bind_any_array(struct sql_ctx *ctx, struct sql_scope *scope,
				    const PgQuery__AExpr *x);
/* LIKE, ILIKE and their operators. */
struct sql_expr *sql_bind_like(struct sql_ctx *ctx, struct sql_scope *scope,
			       const PgQuery__AExpr *x);
struct sql_expr *sql_bind_grouping(struct sql_ctx *ctx, struct sql_scope *scope,
				   const PgQuery__GroupingFunc *node);
/* NULL if name is none of an aggregate (bind_agg.c), a number (bind_number.c), a date (bind_date.c). */
struct sql_expr *sql_bind_aggregate(struct sql_ctx *ctx, struct sql_scope *scope, const char *name,
				    const PgQuery__FuncCall *call);
struct sql_expr *sql_bind_numeric(struct sql_ctx *ctx, const char *name, size_t n,
				  struct sql_expr **args, int at);
struct sql_expr *sql_bind_date_function(struct sql_ctx *ctx, const char *name, size_t n,
					struct sql_expr **args, int at);
void sql_suggest_aggregates(struct sql_suggestion *s);
struct sql_type sql_bind_type(struct sql_ctx *ctx, const PgQuery__TypeName *name);
const char *sql_node_string(struct sql_ctx *ctx, const PgQuery__Node *node);
/* The words for a kind of node that is not supported. */
const char *sql_node_name(const PgQuery__Node *node);
int sql_node_location(const PgQuery__Node *node);

/* bind_from.c */
struct sql_rel *sql_bind_from(struct sql_ctx *ctx, struct sql_scope *scope,
			      const PgQuery__SelectStmt *select);
const struct sql_table *sql_find_table(struct sql_ctx *ctx, const PgQuery__RangeVar *var);
/* Binds the query of a WITH, for one of its uses. */
struct sql_bound sql_bind_cte(struct sql_ctx *ctx, const struct sql_cte *cte);

/* bind_select.c */
struct sql_bound sql_bind_select(struct sql_ctx *ctx, const struct sql_scope *parent,
				 const struct sql_cte *ctes, const PgQuery__SelectStmt *select);

/* bind_statement.c */
void sql_bind_statement(struct sql_ctx *ctx, struct sql_statement *statement,
			const PgQuery__Node *node);

/* rewrite.c: removes subqueries and simplifies. */
struct sql_bound sql_rewrite(struct sql_ctx *ctx, struct sql_bound bound, bool simplify);

#endif
