/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parse tree of one statement, for those that the engine does not run. Only .c files include
 * this.
 */
#ifndef PG_TREE_H
#define PG_TREE_H

#include "query/sql/bind/parse.h"

struct pg_tree {
	struct sql_ctx *ctx;	   /* with the arena */
	const PgQuery__Node *node; /* the statement; NULL: there is none */
};

/*
 * Parse a text with at most one statement. Returns 0, or a negative errno: error has the text and
 * its place. Free it in both cases.
 */
int pg_tree_parse(struct pg_tree *tree, const char *text, struct sql_error *error);
void pg_tree_free(struct pg_tree *tree);
/* Memory that lives as long as the tree; NULL if it is short. */
void *pg_tree_alloc(struct pg_tree *tree, size_t size);

/* The text behind the first token of this kind, at depth 0; NULL: there is none. */
const char *pg_text_behind(const char *text, PgQuery__Token token);
/* The text in the first parentheses, to be freed with free(); NULL: there is none. */
char *pg_text_in_parentheses(const char *text);

#endif
