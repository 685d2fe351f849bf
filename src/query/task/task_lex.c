/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/task_lex.h"

#include <string.h>

void lex_init(struct lex *l, const char *text, size_t length)
{
	*l = (struct lex){text, length, 0, 1, 1};
}

static int peek(const struct lex *l, size_t ahead)
{
	return l->at + ahead < l->length ? (unsigned char)l->text[l->at + ahead] : -1;
}

static void step(struct lex *l, size_t bytes)
{
	for (; bytes > 0 && l->at < l->length; bytes--) {
		bool line = l->text[l->at++] == '\n';

		l->line += line;
		l->column = line ? 1 : l->column + 1;
	}
}

/* Not isalpha(): no locale. */
static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static void skip_blanks(struct lex *l)
{
	for (;;) {
		int c = peek(l, 0);

		if (c == '-' && peek(l, 1) == '-')
			while (peek(l, 0) >= 0 && peek(l, 0) != '\n')
				step(l, 1);
		else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
			step(l, 1);
		else
			return;
	}
}

static size_t quoted_length(const struct lex *l, int quote)
{
	size_t n = 1;

	while (peek(l, n) >= 0) {
		if (peek(l, n) == quote && peek(l, n + 1) != quote)
			return n + 1;
		n += peek(l, n) == quote ? 2 : 1;
	}
	return 0;
}

static size_t mark_length(const struct lex *l)
{
	static const char *const two[] = {"<>", "<=", ">=", "||", "->", ".."};
	int c = peek(l, 0);

	for (size_t i = 0; i < sizeof(two) / sizeof(two[0]); i++)
		if (c == two[i][0] && peek(l, 1) == two[i][1])
			return 2;
	return c > 0 && strchr("#()[],:;=+-*/%<>", c) ? 1 : 0;
}

static size_t number_length(const struct lex *l)
{
	size_t n = 0;

	while (is_digit(peek(l, n)))
		n++;
	if (peek(l, n) == '.' && is_digit(peek(l, n + 1))) {
		n++;
		while (is_digit(peek(l, n)))
			n++;
	}
	return n;
}

static size_t word_length(const struct lex *l)
{
	size_t n = 0;

	while (is_letter(peek(l, n)) || is_digit(peek(l, n)))
		n++;
	return n;
}

struct lex_token lex_next(struct lex *l)
{
	struct lex_token t = {.kind = LEX_END};
	int c;

	skip_blanks(l);
	c = peek(l, 0);
	t.line = l->line;
	t.column = l->column;
	t.text = l->text + l->at;
	if (c < 0)
		return t;
	if (c == '\'' || c == '"') {
		t.length = quoted_length(l, c);
		t.kind = t.length == 0 ? LEX_BAD : c == '"' ? LEX_NAME : LEX_STRING;
	} else if (is_letter(c)) {
		t.length = word_length(l);
		t.kind = LEX_WORD;
	} else if (is_digit(c)) {
		t.length = number_length(l);
		t.kind = LEX_NUMBER;
	} else {
		t.length = mark_length(l);
		t.kind = t.length == 0 ? LEX_BAD : LEX_MARK;
	}
	if (t.kind == LEX_BAD)
		t.length = 1;
	step(l, t.length);
	if (t.kind == LEX_NAME || t.kind == LEX_STRING) {
		t.text++;
		t.length -= 2;
	}
	return t;
}

bool lex_is(const struct lex_token *t, enum lex_kind kind, const char *text)
{
	return t->kind == kind && strlen(text) == t->length &&
	       memcmp(t->text, text, t->length) == 0;
}
