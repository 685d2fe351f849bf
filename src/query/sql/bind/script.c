/* SPDX-License-Identifier: BSD-2-Clause */
/* Cutting a script into statements. */
#include "query/sql/sql.h"

#include <ctype.h>
#include <string.h>

/* Behind the quoted text that begins at `at`; a doubled quote stays inside. */
static size_t skip_quoted(const char *s, size_t at, bool backslashes)
{
	char quote = s[at++];

	while (s[at] && s[at] != quote)
		at += backslashes && s[at] == '\\' && s[at + 1] ? 2 : 1;
	return s[at] ? at + 1 : at;
}

static size_t skip_block_comment(const char *s, size_t at)
{
	unsigned depth = 0;

	do {
		if (s[at] == '/' && s[at + 1] == '*') {
			depth++;
			at += 2;
		} else if (s[at] == '*' && s[at + 1] == '/') {
			depth--;
			at += 2;
		} else {
			at++;
		}
	} while (depth && s[at]);
	return at;
}

/* Behind $tag$ ... $tag$, or one character on if there is no such quote. */
static size_t skip_dollar(const char *s, size_t at)
{
	size_t n = 1;
	const char *end;

	while (isalnum((unsigned char)s[at + n]) || s[at + n] == '_')
		n++;
	if (s[at + n] != '$' || isdigit((unsigned char)s[at + 1]))
		return at + 1;
	n++;
	for (end = s + at + n; *end; end++) {
		if (!strncmp(end, s + at, n))
			return (size_t)(end - s) + n;
	}
	return at + n + strlen(s + at + n);
}

static bool is_escape_string(const char *s, size_t at)
{
	return at && (s[at - 1] == 'e' || s[at - 1] == 'E') &&
	       (at < 2 || !(isalnum((unsigned char)s[at - 2]) || s[at - 2] == '_'));
}

/* Behind a token that begins at `at`; *blank says whether it means nothing. */
static size_t skip_token(const char *s, size_t at, bool *blank)
{
	*blank = true;
	if (isspace((unsigned char)s[at]))
		return at + 1;
	if (s[at] == '-' && s[at + 1] == '-')
		return at + strcspn(s + at, "\n");
	if (s[at] == '/' && s[at + 1] == '*')
		return skip_block_comment(s, at);
	*blank = false;
	if (s[at] == '\'')
		return skip_quoted(s, at, is_escape_string(s, at));
	if (s[at] == '"')
		return skip_quoted(s, at, false);
	return s[at] == '$' ? skip_dollar(s, at) : at + 1;
}

size_t sql_split(const char *script, size_t from, size_t *begin, size_t *length)
{
	size_t at = from, end = 0;
	bool any = false;

	while (script[at]) {
		bool blank;
		size_t next = skip_token(script, at, &blank);

		if (script[at] == ';') {
			at = next;
			if (any)
				break;
			continue;
		}
		if (!blank) {
			if (!any)
				*begin = at;
			any = true;
			end = next;
		}
		at = next;
	}
	if (!any)
		return 0;
	*length = end - *begin;
	return at;
}
