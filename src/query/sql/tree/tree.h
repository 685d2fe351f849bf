/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The logical tree: what the SQL front end makes of a query and the planner reads.
 *
 * Invariants of the tree that sql_compile() returns (sql_tree_check() of the tests verifies them):
 *
 *  1. A column has a number, unique in the query: an index into sql_query.columns. A relation lists
 *     the numbers of its output columns. Relations that pass a column on (filter, sort, limit,
 *     join, the keys of an aggregate, a projection's plain column) keep its number; whatever
 *     computes a value gives it a new one. So a number means one value wherever it is visible,
 *     except that the right side of a left or single join may turn it into NULL.
 *  2. An expression refers to columns of the inputs of its relation and to nothing else. There are
 *     no subqueries: they have become joins.
 *  3. Every expression has its type. `nullable` is false only if the value cannot be NULL there.
 *  4. AND and OR have two arguments or more, and no argument with the same operator. NOT stands
 *     only above LIKE, IN, columns, casts, CASE and COALESCE; comparisons are inverted instead. A
 *     constant is the right argument of a comparison. Constant expressions are folded, except those
 *     that would raise an error: that is left to the rows that reach them.
 *  5. Arguments of a comparison or IN have the same kind: a char that meets a varchar is cast, or
 *     the other way round. So do those of arithmetic. An IN list has constants only. Decimals may
 *     differ in scale: the value counts, not its representation. Results of CASE and arguments of
 *     COALESCE, GREATEST and LEAST have the type of the whole.
 *  6. A filter's predicate lies as low as it may; a condition on one input of an inner join is a
 *     filter below it. Inner joins stand in the order of the text, connected inputs first: the
 *     planner chooses the real order.
 *  7. Keys of aggregates and of sorts are plain columns; a projection below computes them.
 *     Arguments of aggregates are expressions.
 *  8. No relation has an output column that nothing uses, except that a relation may have none at
 *     all (count(*)).
 *
 * Nodes are allocated in the statement's arena and shared freely: an expression may occur in
 * several places. Rewrites make new nodes.
 */
#ifndef QUERY_SQL_TREE_H
#define QUERY_SQL_TREE_H

#include "query/sql/sql_catalog.h"
#include "query/sql/type.h"

enum sql_op {
	/* logic, three-valued */
	SQL_AND,
	SQL_OR,
	SQL_NOT,
	SQL_IS_NULL,
	SQL_IS_NOT_NULL,
	/* comparisons of one kind, char and varchar being two; strings byte by byte */
	SQL_EQ,
	SQL_NE,
	SQL_LT,
	SQL_LE,
	SQL_GT,
	SQL_GE,
	SQL_IS_DISTINCT,     /* never NULL: NULL is a value equal to itself */
	SQL_IS_NOT_DISTINCT, /* likewise */
	SQL_IN,	  /* x, then constants: true if equal to one; NULL if not and x or one is NULL */
	SQL_LIKE, /* string, pattern, escape character (empty: none) */
	/* arithmetic: overflow and division by zero are errors */
	SQL_ADD,
	SQL_SUB,
	SQL_MUL,
	SQL_DIV, /* integers truncate */
	SQL_MOD,
	SQL_NEG,
	SQL_ABS,
	SQL_ROUND, /* number, digits: half away from zero */
	SQL_FLOOR,
	SQL_CEIL,
	SQL_SQRT, /* double, or decimal; the next ones are of doubles */
	SQL_EXP,
	SQL_LN,
	SQL_LOG10,
	SQL_POWER,
	/* dates */
	SQL_DATE_ADD,	   /* date, interval constant; months clamp the day to the month's last */
	SQL_DATE_ADD_DAYS, /* date, int32 */
	SQL_DATE_DIFF,	   /* date - date: days, int32 */
	SQL_YEAR,
	SQL_QUARTER,
	SQL_MONTH,
	SQL_DAY,
	SQL_DATE_PART,	/* date, constant enum fth_date_part: int32 or decimal */
	SQL_DATE_TRUNC, /* date, constant enum fth_date_part: a date */
	/* strings: lengths and positions count characters, from 1 */
	SQL_CONCAT,
	SQL_SUBSTRING, /* string, start [, length] */
	SQL_UPPER,     /* ASCII letters only, as in the C locale */
	SQL_LOWER,
	SQL_LENGTH,
	SQL_TRIM, /* string, characters to remove from both ends */
	SQL_LTRIM,
	SQL_RTRIM,
	SQL_POSITION, /* string, what is searched: 0 if absent */
	SQL_LEFT,
	SQL_RIGHT,
	SQL_REPLACE, /* string, what is searched, what takes its place */
	SQL_LPAD,    /* string, characters, what it is filled up with */
	SQL_RPAD,
	SQL_REPEAT,
	SQL_REVERSE,
	SQL_STARTS_WITH,
	/* others */
	SQL_COALESCE,
	SQL_NULLIF,
	SQL_GREATEST, /* NULLs are ignored */
	SQL_LEAST,
	SQL_OP_COUNT
};

enum sql_expr_kind {
	SQL_COLUMN,
	SQL_CONST,
	SQL_CALL,     /* op(args) */
	SQL_CASE,     /* args: when, then, when, then, ..., else; the first `when` that is true */
	SQL_CAST,     /* args[0] as type */
	SQL_SUBQUERY, /* inside the front end only */
};

struct sql_subquery;

struct sql_expr {
	enum sql_expr_kind kind;
	struct sql_type type;
	bool nullable;
	int at;		/* byte offset in the text, or -1 */
	unsigned param; /* a constant: the number of the parameter, from 1, that it stands for */
	union {
		int column;
		enum sql_op op;
		struct sql_value value;
		struct sql_subquery *sub;
	};
	unsigned count;
	struct sql_expr **args;
};

enum sql_agg_op { SQL_COUNT_ROWS, SQL_COUNT, SQL_SUM, SQL_AVG, SQL_MIN, SQL_MAX };

/* Ignores NULLs. Without any row COUNT is 0 and the others are NULL. */
struct sql_agg {
	enum sql_agg_op op;
	bool distinct;
	struct sql_expr *arg; /* NULL for SQL_COUNT_ROWS */
	int column;	      /* the result's */
};

enum sql_rel_kind {
	SQL_SCAN,
	SQL_FILTER,
	SQL_PROJECT,
	SQL_JOIN,
	SQL_AGGREGATE,
	SQL_SORT,
	SQL_LIMIT,
	SQL_UNION,
	SQL_VALUES,
};

enum sql_join_kind {
	SQL_INNER,
	SQL_LEFT_OUTER,
	SQL_SEMI,   /* rows of the left side with a match */
	SQL_ANTI,   /* rows of the left side without one */
	SQL_SINGLE, /* a left join that fails if a row has more than one match: "more than one row
		     * returned by a subquery used as an expression" */
};

struct sql_sort_key {
	int column;
	bool descending, nulls_first;
};

struct sql_rel {
	enum sql_rel_kind kind;
	struct sql_rel *left, *right; /* inputs; the only one is left */
	unsigned width;
	int *columns; /* output columns */
	union {
		struct {
			const struct sql_table *table;
			unsigned *ordinals; /* for each output column */
		} scan;
		struct sql_expr *predicate; /* filter: rows for which it is true */
		struct sql_expr **exprs;    /* project: one for each output column */
		struct {
			enum sql_join_kind kind;
			/* Rows match if it is true; NULL: all match. */
			struct sql_expr *condition;
			/* Anti joins made of NOT IN: rows match if it is, besides, true or NULL. */
			struct sql_expr *null_condition;
		} join;
		struct {
			/*
			 * Output columns are the keys, then the results. Only the first
			 * determinant_count keys are needed to tell groups apart; the other keys
			 * depend on them and are carried along. Without keys there is always
			 * exactly one group, and a `distinct` is an aggregate without aggregates.
			 */
			unsigned key_count, determinant_count;
			unsigned agg_count;
			struct sql_agg *aggs;
			bool grouped; /* GROUP BY: no rows, no groups, even if there are no keys */
		} agg;
		struct {
			unsigned key_count;
			struct sql_sort_key *keys;
		} sort;
		struct {
			int64_t count; /* -1: all */
			int64_t offset;
		} limit;
		struct {
			/*
			 * Always UNION ALL; a union that removes duplicates has an aggregate above.
			 */
			int *left_columns, *right_columns; /* for each output column */
		} set;
		struct {
			unsigned row_count;
			struct sql_expr **cells; /* row by row; they refer to no columns */
		} values;
	};
};

/* A column of the query; the index is its number. */
struct sql_column {
	const char *name; /* for people */
	struct sql_type type;
	bool nullable;		       /* where it is made */
	const struct sql_table *table; /* the table it is read from, or NULL */
	unsigned ordinal;
};

struct sql_query {
	struct sql_rel *root;
	unsigned column_count;
	struct sql_column *columns;
	/* The result: names and column numbers of root, in order; a number may occur twice. */
	unsigned output_count;
	const char **output_names;
	int *outputs;
};

/* How SQL writes an operator or a function. */
const char *sql_op_name(enum sql_op op);

#endif
