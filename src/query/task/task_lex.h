/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of task text. */
#ifndef FTH_QUERY_TASK_LEX_H
#define FTH_QUERY_TASK_LEX_H

#include <stdbool.h>
#include <stddef.h>

enum lex_kind {
	LEX_END,
	LEX_WORD,   /* letter or _, then letters, digits and _ */
	LEX_NAME,   /* "in double quotes"; a quote inside is doubled */
	LEX_STRING, /* 'in single quotes' */
	LEX_NUMBER, /* digits, perhaps with a point between digits */
	LEX_MARK,   /* one of # ( ) [ ] , : ; = + - * / % < > <> <= >= || -> .. */
	LEX_BAD,    /* a byte that begins no word, or a quote without end */
};

struct lex {
	const char *text;
	size_t length, at;
	unsigned line, column; /* of `at`, from 1 */
};

struct lex_token {
	enum lex_kind kind;
	const char *text; /* of quoted ones without the quotes around */
	size_t length;
	unsigned line, column;
};

void lex_init(struct lex *l, const char *text, size_t length);
/* The next word. Blanks and comments, from -- to the end of the line, are skipped. */
struct lex_token lex_next(struct lex *l);
bool lex_is(const struct lex_token *token, enum lex_kind kind, const char *text);

#endif
