/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/sql/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Line and column, in characters, of a byte offset. */
static void find_position(const char *text, struct sql_error *error)
{
	error->line = 1;
	error->column = 1;
	for (int i = 0; i < error->at && text[i]; i++) {
		if (text[i] == '\n') {
			error->line++;
			error->column = 1;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
			error->column++;
		}
	}
}

static void fail_at(struct sql_ctx *ctx, int err, int at, const char *format, va_list args)
{
	struct sql_error *error = &ctx->error;
	int n = 0;

	ctx->rc = -err;
	memset(error, 0, sizeof(*error));
	error->at = ctx->view ? -1 : at;
	if (ctx->view)
		n = snprintf(error->text, sizeof(error->text), "in view %.60s: ", ctx->view);
	vsnprintf(error->text + n, sizeof(error->text) - (size_t)n, format, args);
	if (error->at >= 0)
		find_position(ctx->text, error);
}

void sql_wrong(struct sql_ctx *ctx, int at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail_at(ctx, EINVAL, at, format, args);
	va_end(args);
	longjmp(ctx->trap, 1);
}

void sql_unsupported(struct sql_ctx *ctx, int at, const char *what, ...)
{
	va_list args;
	size_t n;

	va_start(args, what);
	fail_at(ctx, EOPNOTSUPP, at, what, args);
	va_end(args);
	n = strlen(ctx->error.text);
	snprintf(ctx->error.text + n, sizeof(ctx->error.text) - n, " is not supported");
	longjmp(ctx->trap, 1);
}

void sql_no_memory(struct sql_ctx *ctx)
{
	ctx->rc = -ENOMEM;
	memset(&ctx->error, 0, sizeof(ctx->error));
	ctx->error.at = -1;
	snprintf(ctx->error.text, sizeof(ctx->error.text),
		 "the statement needs more than %zu KiB of memory to compile",
		 sql_arena_size(ctx->arena) / 1024);
	longjmp(ctx->trap, 1);
}

size_t sql_stack_left(void)
{
	const char *here = __builtin_frame_address(0);
	size_t size, left = 1u << 20;
	pthread_attr_t attr;
	void *low;

	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		if (pthread_attr_getstack(&attr, &low, &size) == 0 && here > (const char *)low)
			left = (size_t)(here - (const char *)low);
		pthread_attr_destroy(&attr);
	}
	return left;
}

void sql_enter(struct sql_ctx *ctx, int at)
{
	if (++ctx->depth > SQL_DEPTH_MAX)
		sql_wrong(ctx, at, "the statement nests deeper than %d levels", SQL_DEPTH_MAX);
	if ((const char *)__builtin_frame_address(0) < ctx->stack_low)
		sql_wrong(ctx, at, "the statement nests too deeply for the thread's stack");
}

void sql_leave(struct sql_ctx *ctx)
{
	ctx->depth--;
}

void *sql_alloc(struct sql_ctx *ctx, size_t size)
{
	void *at = sql_arena_alloc(ctx->arena, size);

	if (!at)
		sql_no_memory(ctx);
	return at;
}

char *sql_copy(struct sql_ctx *ctx, const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(sql_alloc(ctx, size), text, size);
}

char *sql_format(struct sql_ctx *ctx, const char *format, ...)
{
	va_list args;
	char text[512];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return sql_copy(ctx, text);
}

void sql_list_add(struct sql_ctx *ctx, struct sql_list *list, void *item)
{
	if (list->count == list->room) {
		unsigned room = list->room ? list->room * 2 : 8;
		void **items = SQL_ARRAY(ctx, void *, room);

		if (list->count)
			memcpy(items, list->items, list->count * sizeof(*items));
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = item;
}

void sql_set_add(struct sql_ctx *ctx, struct sql_set *set, int column)
{
	unsigned word = (unsigned)column / 64;

	if (word >= set->words) {
		unsigned words = word + 1 > ctx->column_count / 64 + 1 ? word + 1
								       : ctx->column_count / 64 + 1;
		uint64_t *bits = SQL_ARRAY(ctx, uint64_t, words);

		if (set->words)
			memcpy(bits, set->bits, set->words * sizeof(*bits));
		set->bits = bits;
		set->words = words;
	}
	set->bits[word] |= UINT64_C(1) << (column % 64);
}

void sql_set_clear(struct sql_set *set)
{
	if (set->words)
		memset(set->bits, 0, set->words * sizeof(*set->bits));
}

void sql_set_remove(struct sql_set *set, int column)
{
	if ((unsigned)column / 64 < set->words)
		set->bits[column / 64] &= ~(UINT64_C(1) << (column % 64));
}

bool sql_set_has(const struct sql_set *set, int column)
{
	return (unsigned)column / 64 < set->words &&
	       (set->bits[column / 64] >> (column % 64) & 1) != 0;
}

bool sql_set_within(const struct sql_set *part, const struct sql_set *whole)
{
	for (unsigned i = 0; i < part->words; i++) {
		if (part->bits[i] & ~(i < whole->words ? whole->bits[i] : 0))
			return false;
	}
	return true;
}

bool sql_set_meets(const struct sql_set *a, const struct sql_set *b)
{
	for (unsigned i = 0; i < a->words && i < b->words; i++) {
		if (a->bits[i] & b->bits[i])
			return true;
	}
	return false;
}

bool sql_set_empty(const struct sql_set *set)
{
	for (unsigned i = 0; i < set->words; i++) {
		if (set->bits[i])
			return false;
	}
	return true;
}

void sql_set_join(struct sql_ctx *ctx, struct sql_set *set, const struct sql_set *more)
{
	for (unsigned i = 0; i < more->words; i++) {
		if (!more->bits[i])
			continue;
		if (i >= set->words)
			sql_set_add(ctx, set,
				    (int)(i * 64 + (unsigned)__builtin_ctzll(more->bits[i])));
		set->bits[i] |= more->bits[i];
	}
}

void sql_set_add_outputs(struct sql_ctx *ctx, struct sql_set *set, const struct sql_rel *rel)
{
	for (unsigned i = 0; i < rel->width; i++)
		sql_set_add(ctx, set, rel->columns[i]);
}

int sql_new_column(struct sql_ctx *ctx, const char *name, struct sql_type type, bool nullable)
{
	if (ctx->column_count == ctx->column_room) {
		unsigned room = ctx->column_room ? ctx->column_room * 2 : 64;
		struct sql_column *columns = SQL_ARRAY(ctx, struct sql_column, room);

		if (ctx->column_count)
			memcpy(columns, ctx->columns, ctx->column_count * sizeof(*columns));
		ctx->columns = columns;
		ctx->column_room = room;
	}
	ctx->columns[ctx->column_count] =
		(struct sql_column){.name = name, .type = type, .nullable = nullable};
	return (int)ctx->column_count++;
}
