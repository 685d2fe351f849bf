/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors and notices for clients, with PostgreSQL's codes. */
#include "pg/session.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * Words of the engine's texts, for errors of a statement that is wrong. The first that occurs
 * decides.
 */
static const struct {
	const char *words, *state;
} by_text[] = {
	{"syntax error", "42601"},
	{"unterminated quoted field", "22P04"},
	{"unterminated", "42601"},
	{"table \"%\" does not exist", "42P01"},
	{"is not in the FROM clause", "42P01"},
	{"view \"%\" does not exist", "42P01"},
	{"column \"%\" does not exist", "42703"},
	{"has no column", "42703"},
	{"function \"%\" does not exist", "42883"},
	{"is ambiguous", "42702"},
	{"already exists", "42P07"},
	{"was replaced by", "55006"},
	{"must appear in GROUP BY", "42803"},
	{"aggregate", "42803"},
	{"is declared twice", "42701"},
	{"is listed twice", "42701"},
	{"division by zero", "22012"},
	{"out of range", "22003"},
	{"overflow", "22003"},
	{"has more than", "22003"},
	{"too long", "22001"},
	{"is longer than", "22001"},
	{"characters", "22001"},
	{"not null", "23502"},
	{"NOT NULL", "23502"},
	{"null in", "23502"},
	{"is not a valid", "22P02"},
	{"invalid date", "22007"},
	{" for date", "22007"},
	{"invalid input syntax", "22P02"},
	{" for bigint", "22P02"},
	{" for int", "22P02"},
	{" for decimal", "22P02"},
	{" for double", "22P02"},
	{" for bool", "22P02"},
	{"more than one row returned", "21000"},
	{"cannot cast", "42846"},
	{"does not take", "42883"},
	{"do not match", "42804"},
	{"must be of type", "42804"},
	{"is of type", "42804"},
	{"there is no parameter", "42P02"},
	{"nests too deeply", "54001"},
	{"the limit is", "54000"},
	{"more than", "54000"},
	{"reserved", "42939"},
	{"UTF-8", "22021"},
};

/* Whether a text has words, of which % stands for anything. */
static bool has_words(const char *text, const char *words)
{
	const char *star = strchr(words, '%');
	char first[32];
	const char *at;

	if (!star)
		return strstr(text, words) != NULL;
	snprintf(first, sizeof(first), "%.*s", (int)(star - words), words);
	at = strstr(text, first);
	return at && strstr(at + strlen(first), star + 1) != NULL;
}

const char *pg_sqlstate(int rc, const char *text)
{
	switch (rc) {
	case -EOPNOTSUPP:
		return "0A000";
	case -ECANCELED:
		return "57014";
	case -ENOMEM:
		return "53200";
	case -ENOSPC:
	case -EDQUOT:
		return "53100";
	case -EMFILE:
	case -ENFILE:
		return "53300";
	case -EROFS:
		return "25006";
	case -EBUSY:
		return "55006";
	case -EACCES:
	case -EPERM:
		return "42501";
	case -EDOM:
		return "22012";
	case -ERANGE:
		return "22003";
	case -EEXIST:
		return "42P07";
	case -EBADMSG:
	case -EUCLEAN:
		return "XX001";
	case -EIO:
	case -ENXIO:
	case -ETIMEDOUT:
		return "58030";
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(by_text) / sizeof(by_text[0]); i++)
		if (has_words(text, by_text[i].words))
			return by_text[i].state;
	return rc == -ENOENT ? "42P01" : rc == -EINVAL ? "42000" : "XX000";
}

static void put_fields(struct pg_wire *w, char type, const char *severity, const char *state,
		       unsigned position, const char *text)
{
	char number[16];

	pg_put_begin(w, type);
	pg_put_u8(w, 'S');
	pg_put_string(w, severity);
	pg_put_u8(w, 'V');
	pg_put_string(w, severity);
	pg_put_u8(w, 'C');
	pg_put_string(w, state);
	pg_put_u8(w, 'M');
	pg_put_string(w, text);
	if (position > 0) {
		snprintf(number, sizeof(number), "%u", position);
		pg_put_u8(w, 'P');
		pg_put_string(w, number);
	}
	pg_put_u8(w, 0);
	(void)pg_put_end(w);
}

void pg_error_at(struct pg_session *s, const char *state, unsigned position, const char *text)
{
	put_fields(&s->wire, 'E', s->logged_in ? "ERROR" : "FATAL", state, position, text);
	if (s->status == 'T')
		s->status = 'E';
	pthread_mutex_lock(&s->server->lock);
	s->server->stats.errors++;
	pthread_mutex_unlock(&s->server->lock);
}

void pg_error(struct pg_session *s, const char *state, const char *format, ...)
{
	char text[FTH_ERROR_TEXT_MAX + 128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pg_error_at(s, state, 0, text);
}

/* The place of line and column in a statement, in characters from 1. */
static unsigned position_of(const char *statement, unsigned line, unsigned column)
{
	unsigned position = 1;

	if (line == 0)
		return 0;
	for (const char *c = statement; *c && line > 1; c++) {
		line -= *c == '\n';
		position += ((unsigned char)*c & 0xc0) != 0x80;
	}
	return position + column - 1;
}

void pg_error_of(struct pg_session *s, const char *statement, int rc)
{
	const struct fth_query_report *report = fth_query_report(s->query);
	const char *text = fth_error_text(rc), *colon;
	char copy[FTH_ERROR_TEXT_MAX + 1];

	/* The text begins with the place, which has a field of its own here. */
	colon = report->line > 0 && strncmp(text, "line ", 5) == 0 ? strstr(text, ": ") : NULL;
	snprintf(copy, sizeof(copy), "%s", colon ? colon + 2 : text);
	pg_error_at(s, pg_sqlstate(rc, copy), position_of(statement, report->line, report->column),
		    copy);
}

void pg_notice(struct pg_session *s, const char *severity, const char *state, const char *format,
	       ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_fields(&s->wire, 'N', severity, state, 0, text);
}
