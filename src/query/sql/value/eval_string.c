/* SPDX-License-Identifier: BSD-2-Clause */
/* String functions and LIKE. */
#include "query/sql/value/eval_internal.h"

#include "query/vec/like.h"
#include "scalar/text.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static struct fth_str str_of(const struct sql_value *value)
{
	return (struct fth_str){value->text, (uint32_t)value->length, 0};
}

static void set_str(struct sql_value *value, struct fth_str s)
{
	value->text = s.data;
	value->length = s.len;
}

static void set_number(struct sql_value *value, int64_t number)
{
	memset(value, 0, sizeof(*value));
	value->integer = number;
}

void sql_eval_substring(struct sql_value *value, int64_t from, int64_t count)
{
	struct fth_str part;

	if (fth_str_substring(str_of(value), from, count, &part) == 0)
		set_str(value, part);
}

/* LIKE sees a char(n) with all of its n characters. */
static int pad_char(struct sql_env *env, struct sql_type type, struct sql_value *value)
{
	size_t chars = fth_str_chars(str_of(value));
	size_t blanks = chars < (size_t)type.length ? (size_t)type.length - chars : 0;
	char *text;

	if (type.kind != SQL_CHAR || blanks == 0)
		return 0;
	text = sql_arena_alloc(env->arena, value->length + blanks);
	if (!text)
		return -ENOMEM;
	memcpy(text, value->text, value->length);
	memset(text + value->length, ' ', blanks);
	value->text = text;
	value->length += blanks;
	return 0;
}

static int eval_like(struct sql_env *env, struct sql_type type, const struct sql_value *pattern,
		     const struct sql_value *escape, struct sql_value *value)
{
	void *memory = sql_arena_alloc(env->arena, fth_like_bytes((uint32_t)pattern->length));
	struct fth_like like;
	int rc = memory ? pad_char(env, type, value) : -ENOMEM;

	if (rc < 0)
		return rc;
	if (escape->length > 1)
		return sql_eval_fail(env, EINVAL, "an escape string must be one ASCII character");
	rc = fth_like_compile(str_of(pattern), escape->length ? escape->text[0] : 0, memory, &like);
	if (rc < 0)
		return sql_eval_fail(env, EINVAL,
				     "a LIKE pattern must not end with its escape character");
	set_number(value, fth_like_match(&like, str_of(value)));
	return 0;
}

static int eval_substring(struct sql_env *env, int64_t start, const struct sql_value *length,
			  struct sql_value *value)
{
	if (length && length->integer < 0)
		return sql_eval_fail(env, EINVAL, "negative substring length not allowed");
	sql_eval_substring(value, start, length ? (int64_t)length->integer : FTH_STR_REST);
	return 0;
}

static int eval_concat(struct sql_env *env, const struct sql_value *tail, struct sql_value *value)
{
	char *text = sql_arena_alloc(env->arena, value->length + tail->length + 1);

	if (!text)
		return -ENOMEM;
	if (value->length)
		memcpy(text, value->text, value->length);
	if (tail->length)
		memcpy(text + value->length, tail->text, tail->length);
	value->text = text;
	value->length += tail->length;
	return 0;
}

static int eval_letters(struct sql_env *env, bool up, struct sql_value *value)
{
	char *text = sql_arena_alloc(env->arena, value->length + 1);

	if (!text)
		return -ENOMEM;
	if (up)
		fth_str_upper(str_of(value), text);
	else
		fth_str_lower(str_of(value), text);
	value->text = text;
	return 0;
}

static void eval_trim(enum sql_op op, const struct sql_value *set, struct sql_value *value)
{
	unsigned sides = (op != SQL_RTRIM ? 1u : 0u) | (op != SQL_LTRIM ? 2u : 0u);

	set_str(value, fth_str_trim(str_of(value), str_of(set), sides));
}

/* LEFT and RIGHT; a negative count leaves that many out at the other end. */
static void eval_end(enum sql_op op, int64_t count, struct sql_value *value)
{
	int64_t all = fth_str_chars(str_of(value));

	if (count < 0)
		count = all + count < 0 ? 0 : all + count;
	if (count > all)
		count = all;
	sql_eval_substring(value, op == SQL_LEFT ? 1 : all - count + 1, count);
}

/* REPLACE, LPAD, RPAD, REPEAT: with `out` NULL, the bytes of the result. */
static uint64_t make_string(const struct sql_expr *e, struct fth_str s,
			    const struct sql_value *second, const struct sql_value *third,
			    char *out)
{
	if (e->op == SQL_REPLACE)
		return fth_str_replace(s, str_of(second), str_of(third), out);
	if (e->op == SQL_REPEAT)
		return fth_str_repeat(s, (int64_t)second->integer, out);
	return fth_str_pad(s, (int64_t)second->integer, str_of(third), e->op == SQL_LPAD, out);
}

static int eval_made(struct sql_env *env, const struct sql_expr *e, const struct sql_value *second,
		     const struct sql_value *third, struct sql_value *value)
{
	uint64_t bytes = make_string(e, str_of(value), second, third, NULL);
	char *text;

	if (bytes > FTH_STR_MADE_MAX)
		return sql_eval_fail(env, ERANGE, "the result is longer than 1073741823 bytes");
	text = sql_arena_alloc(env->arena, bytes + 1);
	if (!text)
		return -ENOMEM;
	make_string(e, str_of(value), second, third, text);
	value->text = text;
	value->length = bytes;
	return 0;
}

static int eval_reverse(struct sql_env *env, struct sql_value *value)
{
	char *text = sql_arena_alloc(env->arena, value->length + 1);

	if (!text)
		return -ENOMEM;
	fth_str_reverse(str_of(value), text);
	value->text = text;
	return 0;
}

int sql_eval_string(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value second = {0}, third = {0};
	int rc = 0;

	if (e->count > 1)
		rc = sql_eval(env, e->args[1], &second);
	if (rc == 0 && e->count > 2)
		rc = sql_eval(env, e->args[2], &third);
	if (rc < 0)
		return rc;
	if ((e->count > 1 && second.null) || (e->count > 2 && third.null)) {
		memset(value, 0, sizeof(*value));
		value->null = true;
		return 0;
	}
	switch (e->op) {
	case SQL_LIKE:
		return eval_like(env, e->args[0]->type, &second, &third, value);
	case SQL_CONCAT:
		return eval_concat(env, &second, value);
	case SQL_SUBSTRING:
		return eval_substring(env, (int64_t)second.integer, e->count > 2 ? &third : NULL,
				      value);
	case SQL_UPPER:
	case SQL_LOWER:
		return eval_letters(env, e->op == SQL_UPPER, value);
	case SQL_LENGTH:
		set_number(value, fth_str_chars(str_of(value)));
		return 0;
	case SQL_TRIM:
	case SQL_LTRIM:
	case SQL_RTRIM:
		eval_trim(e->op, &second, value);
		return 0;
	case SQL_POSITION:
		set_number(value, fth_str_position(str_of(value), str_of(&second)));
		return 0;
	case SQL_LEFT:
	case SQL_RIGHT:
		eval_end(e->op, (int64_t)second.integer, value);
		return 0;
	case SQL_REPLACE:
	case SQL_LPAD:
	case SQL_RPAD:
	case SQL_REPEAT:
		return eval_made(env, e, &second, &third, value);
	case SQL_REVERSE:
		return eval_reverse(env, value);
	case SQL_STARTS_WITH:
		set_number(value, value->length >= second.length &&
					  memcmp(value->text, second.text, second.length) == 0);
		return 0;
	default:
		return sql_eval_fail(env, EINVAL, "unknown operator");
	}
}
