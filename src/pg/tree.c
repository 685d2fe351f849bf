/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/tree.h"

#include <errno.h>
#include <pg_query.h>
#include <stdlib.h>
#include <string.h>

#define TREE_BYTES (32u << 20)

static int parse_guarded(struct sql_ctx *ctx, struct pg_tree *tree)
{
	const PgQuery__ParseResult *parsed;

	if (setjmp(ctx->trap))
		return ctx->rc;
	parsed = sql_parse(ctx, ctx->text);
	if (parsed->n_stmts > 1)
		sql_wrong(ctx, parsed->stmts[1]->stmt_location,
			  "cannot insert multiple commands into a prepared statement");
	tree->node = parsed->n_stmts == 1 ? parsed->stmts[0]->stmt : NULL;
	return 0;
}

int pg_tree_parse(struct pg_tree *tree, const char *text, struct sql_error *error)
{
	struct sql_arena *arena = sql_arena_new(TREE_BYTES);
	struct sql_ctx *ctx = arena ? sql_arena_alloc(arena, sizeof(*ctx)) : NULL;
	char *copy = ctx ? sql_arena_alloc(arena, strlen(text) + 1) : NULL;
	size_t left = sql_stack_left();
	int rc;

	*tree = (struct pg_tree){0};
	if (!copy) {
		sql_arena_free(arena);
		*error = (struct sql_error){.at = -1, .text = "out of memory"};
		return -ENOMEM;
	}
	ctx->arena = arena;
	ctx->text = strcpy(copy, text);
	ctx->stack_low = __builtin_frame_address(0);
	if (left > SQL_STACK_LEFT)
		ctx->stack_low -= left - SQL_STACK_LEFT;
	tree->ctx = ctx;
	rc = parse_guarded(ctx, tree);
	if (rc < 0)
		*error = ctx->error;
	return rc;
}

void pg_tree_free(struct pg_tree *tree)
{
	if (tree->ctx)
		sql_arena_free(tree->ctx->arena);
	*tree = (struct pg_tree){0};
}

void *pg_tree_alloc(struct pg_tree *tree, size_t size)
{
	return sql_arena_alloc(tree->ctx->arena, size);
}

/* Call take with each token until it returns true. */
static void scan(const char *text, bool (*take)(void *user, const PgQuery__ScanToken *token),
		 void *user)
{
	PgQueryScanResult scanned = pg_query_scan(text);
	PgQuery__ScanResult *tokens = NULL;

	if (!scanned.error)
		tokens = pg_query__scan_result__unpack(NULL, scanned.pbuf.len,
						       (const uint8_t *)scanned.pbuf.data);
	for (size_t i = 0; tokens && i < tokens->n_tokens; i++)
		if (take(user, tokens->tokens[i]))
			break;
	if (tokens)
		pg_query__scan_result__free_unpacked(tokens, NULL);
	pg_query_free_scan_result(scanned);
}

struct search {
	PgQuery__Token wanted;
	int depth, begin, end; /* of the text that was found; -1 */
};

static bool find_token(void *user, const PgQuery__ScanToken *token)
{
	struct search *s = user;

	s->depth += token->token == PG_QUERY__TOKEN__ASCII_40;
	s->depth -= token->token == PG_QUERY__TOKEN__ASCII_41;
	if (s->depth == 0 && token->token == s->wanted)
		s->begin = token->end;
	return s->begin >= 0;
}

const char *pg_text_behind(const char *text, PgQuery__Token wanted)
{
	struct search s = {.wanted = wanted, .begin = -1};

	scan(text, find_token, &s);
	return s.begin < 0 ? NULL : text + s.begin;
}

static bool find_parentheses(void *user, const PgQuery__ScanToken *token)
{
	struct search *s = user;

	if (token->token == PG_QUERY__TOKEN__ASCII_40 && s->depth++ == 0)
		s->begin = token->end;
	if (token->token == PG_QUERY__TOKEN__ASCII_41 && --s->depth == 0)
		s->end = token->start;
	return s->end >= 0;
}

char *pg_text_in_parentheses(const char *text)
{
	struct search s = {.begin = -1, .end = -1};

	scan(text, find_parentheses, &s);
	return s.end < 0 ? NULL : strndup(text + s.begin, (size_t)(s.end - s.begin));
}
