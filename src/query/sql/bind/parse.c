/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From text to PostgreSQL's parse tree.
 *
 * libpg-query and protobuf-c recurse over the tree without looking at the stack, so the nesting is
 * bounded before they see the text. The scanner, which does not recurse, gives tokens. A tree is at
 * most as deep as there are tokens since the last comma, summed over the open parentheses; a comma
 * starts a sibling. Set operations chain across commas and are never forgotten. Names, constants,
 * dots and the flat AND and OR do not count. The result is compared with what the thread's stack
 * allows.
 */
#include "query/sql/bind/parse.h"

#include "base/utf8.h"

#include <pg_query.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL_BYTES 3072u /* of stack that one level of the tree takes at most, in protobuf-c */
#define LEVELS_MAX  1500u

static unsigned levels_allowed(void)
{
	/* Half of the stack is for us, who come later. */
	size_t levels = sql_stack_left() / 2 / LEVEL_BYTES;

	return levels < LEVELS_MAX ? (unsigned)levels : LEVELS_MAX;
}

/* What a token adds to the depth. */
static unsigned token_weight(const PgQuery__ScanToken *token)
{
	switch (token->token) {
	case PG_QUERY__TOKEN__IDENT:
	case PG_QUERY__TOKEN__ICONST:
	case PG_QUERY__TOKEN__FCONST:
	case PG_QUERY__TOKEN__SCONST:
	case PG_QUERY__TOKEN__ASCII_46:
	case PG_QUERY__TOKEN__AND:
	case PG_QUERY__TOKEN__OR:
		return 0;
	default:
		return 1;
	}
}

struct nesting {
	unsigned limit;
	unsigned open;	/* parentheses */
	unsigned total; /* sum of counts */
	struct {
		unsigned count, chained;
	} * levels; /* limit + 1 of them */
};

/* False once the text nests too deeply. */
static bool count_token(struct nesting *n, const PgQuery__ScanToken *token)
{
	unsigned weight;

	switch (token->token) {
	case PG_QUERY__TOKEN__ASCII_40:
	case PG_QUERY__TOKEN__ASCII_91:
		if (++n->open >= n->limit)
			return false;
		n->levels[n->open].count = n->levels[n->open].chained = 0;
		return true;
	case PG_QUERY__TOKEN__ASCII_41:
	case PG_QUERY__TOKEN__ASCII_93:
		if (n->open) {
			n->total -= n->levels[n->open].count + n->levels[n->open].chained;
			n->open--;
		}
		return true;
	case PG_QUERY__TOKEN__ASCII_44:
		n->total -= n->levels[n->open].count;
		n->levels[n->open].count = 0;
		return true;
	case PG_QUERY__TOKEN__ASCII_59:
		memset(n->levels, 0, (n->open + 1) * sizeof(*n->levels));
		n->open = n->total = 0;
		return true;
	case PG_QUERY__TOKEN__UNION:
	case PG_QUERY__TOKEN__INTERSECT:
	case PG_QUERY__TOKEN__EXCEPT:
		n->levels[n->open].chained++;
		n->total++;
		break;
	default:
		weight = token_weight(token);
		n->levels[n->open].count += weight;
		n->total += weight;
	}
	return n->total + n->open < n->limit;
}

static void *arena_alloc(void *arena, size_t size)
{
	return sql_arena_alloc(arena, size);
}

static void arena_drop(void *arena, void *pointer)
{
	sql_arena_drop(arena, pointer);
}

/* The parser counts characters from 1; we count bytes from 0. */
static int byte_offset(const char *text, int cursor)
{
	int at = 0;

	for (int n = 1; n < cursor && text[at]; n++) {
		at++;
		while (((unsigned char)text[at] & 0xc0) == 0x80)
			at++;
	}
	return cursor > 0 ? at : -1;
}

struct parser_error {
	bool set;
	int at;
	char text[200];
};

static void take_error(const char *text, const PgQueryError *from, struct parser_error *error)
{
	if (!from)
		return;
	error->set = true;
	error->at = byte_offset(text, from->cursorpos);
	strncpy(error->text, from->message ? from->message : "syntax error",
		sizeof(error->text) - 1);
}

static PgQuery__ScanResult *scan_tokens(struct sql_ctx *ctx, const char *text,
					ProtobufCAllocator *allocator)
{
	PgQueryScanResult scan = pg_query_scan(text);
	struct parser_error error = {0};
	PgQuery__ScanResult *tokens = NULL;

	take_error(text, scan.error, &error);
	if (!error.set)
		tokens = pg_query__scan_result__unpack(allocator, scan.pbuf.len,
						       (const uint8_t *)scan.pbuf.data);
	pg_query_free_scan_result(scan);
	if (error.set)
		sql_wrong(ctx, error.at, "%s", error.text);
	if (!tokens)
		sql_no_memory(ctx);
	return tokens;
}

/* Tokens take as much memory as the tree, so they are freed before it is made. */
static void check_nesting(struct sql_ctx *ctx, const char *text, ProtobufCAllocator *allocator)
{
	struct sql_arena_mark mark = sql_arena_mark(ctx->arena);
	PgQuery__ScanResult *tokens = scan_tokens(ctx, text, allocator);
	struct nesting nesting = {.limit = levels_allowed()};

	nesting.levels = sql_alloc(ctx, (nesting.limit + 1) * sizeof(*nesting.levels));
	for (size_t i = 0; i < tokens->n_tokens; i++) {
		if (!count_token(&nesting, tokens->tokens[i]))
			sql_wrong(ctx, tokens->tokens[i]->start, "the statement nests too deeply");
	}
	sql_arena_reset(ctx->arena, mark);
}

PgQuery__ParseResult *sql_parse(struct sql_ctx *ctx, const char *text)
{
	ProtobufCAllocator allocator = {
		.alloc = arena_alloc, .free = arena_drop, .allocator_data = ctx->arena};
	struct parser_error error = {0};
	PgQueryProtobufParseResult parsed;
	PgQuery__ParseResult *result = NULL;
	char bad[UTF8_COMPLAINT];

	if (strlen(text) > SQL_TEXT_MAX)
		sql_wrong(ctx, -1, "the statement has %zu bytes, the limit is %u", strlen(text),
			  SQL_TEXT_MAX);
	if (utf8_text(text, strlen(text)) < strlen(text))
		sql_wrong(ctx, (int)utf8_text(text, strlen(text)), "%s",
			  utf8_complaint(text, strlen(text), bad));
	check_nesting(ctx, text, &allocator);
	parsed = pg_query_parse_protobuf(text);
	take_error(text, parsed.error, &error);
	if (!error.set)
		result = pg_query__parse_result__unpack(&allocator, parsed.parse_tree.len,
							(const uint8_t *)parsed.parse_tree.data);
	pg_query_free_protobuf_parse_result(parsed);
	if (error.set)
		sql_wrong(ctx, error.at, "%s", error.text);
	if (!result)
		sql_no_memory(ctx);
	return result;
}
