/* SPDX-License-Identifier: BSD-2-Clause */
/* String functions and LIKE. Characters are those of UTF-8; a stray byte counts as one. */
#include "query/sql/value/eval_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static size_t utf8_step(const char *text, size_t length)
{
	size_t n = 1;

	while (n < length && ((unsigned char)text[n] & 0xc0) == 0x80)
		n++;
	return n;
}

size_t sql_utf8_prefix(const char *text, size_t length, size_t count)
{
	size_t at = 0;

	while (count-- && at < length)
		at += utf8_step(text + at, length - at);
	return at;
}

static size_t utf8_length(const char *text, size_t length)
{
	size_t n = 0;

	for (size_t at = 0; at < length; n++)
		at += utf8_step(text + at, length - at);
	return n;
}

/*
 * Whether text matches pattern, with one place to go back to: a `%` that has been passed makes all
 * earlier ones irrelevant. -EINVAL: the pattern ends with the escape character.
 */
static int like_match(const struct sql_value *text, const struct sql_value *pattern, int escape)
{
	size_t t = 0, p = 0, back_t = 0, back_p = SIZE_MAX;

	for (;;) {
		bool literal = false;
		size_t at = p;

		if (at < pattern->length && escape >= 0 && pattern->text[at] == (char)escape) {
			if (++at == pattern->length)
				return -EINVAL;
			literal = true;
		}
		if (at < pattern->length && !literal && pattern->text[at] == '%') {
			back_p = p = at + 1;
			back_t = t;
			continue;
		}
		if (t == text->length && at == pattern->length)
			return 1;
		if (t < text->length && at < pattern->length) {
			if (!literal && pattern->text[at] == '_') {
				t += utf8_step(text->text + t, text->length - t);
				p = at + 1;
				continue;
			}
			if (pattern->text[at] == text->text[t]) {
				t++;
				p = at + 1;
				continue;
			}
		}
		if (back_p == SIZE_MAX || back_t >= text->length)
			return 0;
		back_t += utf8_step(text->text + back_t, text->length - back_t);
		t = back_t;
		p = back_p;
	}
}

/* LIKE sees a char(n) with all of its n characters. */
static int pad_char(struct sql_env *env, struct sql_type type, struct sql_value *value)
{
	size_t chars = utf8_length(value->text, value->length);
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
	int matches, rc = pad_char(env, type, value);

	if (rc < 0)
		return rc;

	if (escape->length > 1)
		return sql_eval_fail(env, EINVAL, "an escape string must be one ASCII character");
	matches = like_match(value, pattern, escape->length ? (unsigned char)escape->text[0] : -1);
	if (matches < 0)
		return sql_eval_fail(env, EINVAL,
				     "a LIKE pattern must not end with its escape character");
	memset(value, 0, sizeof(*value));
	value->integer = matches;
	return 0;
}

static int eval_substring(struct sql_env *env, int64_t start, const struct sql_value *length,
			  struct sql_value *value)
{
	int64_t end = length ? start + (int64_t)length->integer : INT64_MAX;
	size_t skip;

	if (length && length->integer < 0)
		return sql_eval_fail(env, EINVAL, "negative substring length not allowed");
	if (start < 1)
		start = 1;
	if (end <= start) {
		value->length = 0;
		return 0;
	}
	skip = sql_utf8_prefix(value->text, value->length, (size_t)(start - 1));
	value->text += skip;
	value->length = sql_utf8_prefix(value->text, value->length - skip, (size_t)(end - start));
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
	for (size_t i = 0; i < value->length; i++) {
		char c = value->text[i];

		if (up && c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		else if (!up && c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		text[i] = c;
	}
	value->text = text;
	return 0;
}

/* Whether the character of n bytes at text is one of set. */
static bool in_set(const char *text, size_t n, const struct sql_value *set)
{
	for (size_t at = 0; at < set->length;) {
		size_t step = utf8_step(set->text + at, set->length - at);

		if (step == n && !memcmp(text, set->text + at, n))
			return true;
		at += step;
	}
	return false;
}

static void eval_trim(enum sql_op op, const struct sql_value *set, struct sql_value *value)
{
	while (op != SQL_RTRIM && value->length) {
		size_t n = utf8_step(value->text, value->length);

		if (!in_set(value->text, n, set))
			break;
		value->text += n;
		value->length -= n;
	}
	while (op != SQL_LTRIM && value->length) {
		size_t at = value->length - 1;

		while (at && ((unsigned char)value->text[at] & 0xc0) == 0x80)
			at--;
		if (!in_set(value->text + at, value->length - at, set))
			break;
		value->length = at;
	}
}

static void eval_position(const struct sql_value *what, struct sql_value *value)
{
	const char *hit = what->length
				  ? memmem(value->text, value->length, what->text, what->length)
				  : value->text;
	size_t position = !what->length ? 1
			  : hit		? utf8_length(value->text, (size_t)(hit - value->text)) + 1
					: 0;

	memset(value, 0, sizeof(*value));
	value->integer = (fth_i128)position;
}

/* LEFT and RIGHT; a negative count leaves that many out at the other end. */
static void eval_end(enum sql_op op, int64_t count, struct sql_value *value)
{
	int64_t all = (int64_t)utf8_length(value->text, value->length);
	size_t head;

	if (count < 0)
		count = all + count < 0 ? 0 : all + count;
	if (count > all)
		count = all;
	head = sql_utf8_prefix(value->text, value->length,
			       (size_t)(op == SQL_LEFT ? count : all - count));
	if (op == SQL_LEFT) {
		value->length = head;
	} else {
		value->text += head;
		value->length -= head;
	}
}

int sql_eval_string(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value second, third;
	size_t length;
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
		length = utf8_length(value->text, value->length);
		memset(value, 0, sizeof(*value));
		value->integer = (fth_i128)length;
		return 0;
	case SQL_TRIM:
	case SQL_LTRIM:
	case SQL_RTRIM:
		eval_trim(e->op, &second, value);
		return 0;
	case SQL_POSITION:
		eval_position(&second, value);
		return 0;
	case SQL_LEFT:
	case SQL_RIGHT:
		eval_end(e->op, (int64_t)second.integer, value);
		return 0;
	default:
		return sql_eval_fail(env, EINVAL, "unknown operator");
	}
}
