/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings of a session: SET, SHOW, and the ParameterStatus messages at the start. */
#include "pg/session.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PLAIN = 0, TOLD = 1, FIXED = 2 };

/* TOLD: sent to clients as ParameterStatus; FIXED: SET accepts the present value only. */
static const struct {
	const char *name, *value;
	int flags;
} known[] = {
	{"application_name", "", TOLD},
	{"backslash_quote", "safe_encoding", PLAIN},
	{"bytea_output", "hex", PLAIN},
	{"check_function_bodies", "on", PLAIN},
	{"client_encoding", "UTF8", TOLD | FIXED},
	{"client_min_messages", "notice", PLAIN},
	{"DateStyle", "ISO, MDY", TOLD | FIXED},
	{"default_table_access_method", "fathom", PLAIN},
	{"default_tablespace", "", PLAIN},
	{"default_text_search_config", "pg_catalog.simple", PLAIN},
	{"default_transaction_deferrable", "off", PLAIN},
	{"default_transaction_isolation", "read committed", PLAIN},
	{"default_transaction_read_only", "off", TOLD},
	{"enable_bitmapscan", "on", PLAIN},
	{"enable_hashjoin", "on", PLAIN},
	{"enable_mergejoin", "on", PLAIN},
	{"enable_nestloop", "on", PLAIN},
	{"enable_seqscan", "on", PLAIN},
	{"extra_float_digits", "1", PLAIN},
	{"geqo", "on", PLAIN},
	{"idle_in_transaction_session_timeout", "0", PLAIN},
	{"in_hot_standby", "off", TOLD | FIXED},
	{"integer_datetimes", "on", TOLD | FIXED},
	{"IntervalStyle", "postgres", TOLD},
	{"is_superuser", "on", TOLD | FIXED},
	{"jit", "off", PLAIN},
	{"lc_collate", "C", FIXED},
	{"lc_ctype", "C", FIXED},
	{"lc_messages", "C", PLAIN},
	{"lc_monetary", "C", PLAIN},
	{"lc_numeric", "C", PLAIN},
	{"lc_time", "C", PLAIN},
	{"lock_timeout", "0", PLAIN},
	{"max_identifier_length", "63", FIXED},
	{"max_index_keys", "32", FIXED},
	{"row_security", "on", PLAIN},
	{"search_path", "\"$user\", public", PLAIN},
	{"server_encoding", "UTF8", TOLD | FIXED},
	{"server_version", PG_VERSION, TOLD | FIXED},
	{"server_version_num", PG_VERSION_NUM, FIXED},
	{"session_authorization", "", TOLD},
	{"ssl", "off", FIXED},
	{"standard_conforming_strings", "on", TOLD | FIXED},
	{"statement_timeout", "0", PLAIN},
	{"synchronize_seqscans", "on", PLAIN},
	{"synchronous_commit", "on", PLAIN},
	{"TimeZone", "UTC", TOLD},
	{"transaction_deferrable", "off", PLAIN},
	{"transaction_isolation", "read committed", PLAIN},
	{"transaction_read_only", "off", PLAIN},
	{"work_mem", "4MB", PLAIN},
	{"xmloption", "content", PLAIN},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static int find_known(const char *name)
{
	for (unsigned i = 0; i < KNOWN; i++)
		if (strcasecmp(known[i].name, name) == 0)
			return (int)i;
	return -1;
}

static struct pg_setting **find_own(struct pg_session *s, const char *name)
{
	struct pg_setting **at = &s->settings;

	while (*at && strcasecmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

const char *pg_setting(struct pg_session *s, const char *name)
{
	struct pg_setting *own = *find_own(s, name);
	int i;

	if (own)
		return own->value;
	if (strcasecmp(name, "session_authorization") == 0 || strcasecmp(name, "role") == 0)
		return s->user;
	i = find_known(name);
	return i < 0 ? NULL : known[i].value;
}

static void put_status(struct pg_session *s, const char *name, const char *value)
{
	pg_put_begin(&s->wire, 'S');
	pg_put_string(&s->wire, name);
	pg_put_string(&s->wire, value);
	(void)pg_put_end(&s->wire);
}

int pg_put_settings(struct pg_session *s)
{
	for (unsigned i = 0; i < KNOWN; i++)
		if (known[i].flags & TOLD)
			put_status(s, known[i].name, pg_setting(s, known[i].name));
	return s->wire.failed;
}

/* Values that mean the same: UTF8 and utf-8, ISO and ISO, MDY. */
static bool same_value(const char *name, const char *have, const char *want)
{
	char a[64] = "", b[64] = "";
	size_t n = 0;

	if (strcasecmp(name, "DateStyle") == 0)
		return strncasecmp(want, "ISO", 3) == 0;
	for (const char *c = have; *c && n < 63; c++)
		if (isalnum((unsigned char)*c))
			a[n++] = (char)tolower((unsigned char)*c);
	n = 0;
	for (const char *c = want; *c && n < 63; c++)
		if (isalnum((unsigned char)*c))
			b[n++] = (char)tolower((unsigned char)*c);
	if (strcmp(a, b) == 0)
		return true;
	return strcasecmp(name, "client_encoding") == 0 &&
	       (strcmp(b, "unicode") == 0 || strcmp(b, "sqlascii") == 0 || strcmp(b, "utf8") == 0);
}

/* Milliseconds of a time: a number with ms, s, min or h, or without a unit. False: it is none. */
static bool read_time(const char *text, char *to, size_t room)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}};
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (end == text || *text == '-' || n > 2147483647)
		return false;
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		snprintf(to, room, "%llu", n * (unsigned long long)units[i].ms);
		return true;
	}
	return false;
}

static int store(struct pg_session *s, const char *name, const char *value)
{
	struct pg_setting **at = find_own(s, name), *own = *at;
	char *copy = value ? strdup(value) : NULL;

	if (value && !copy)
		return -1;
	if (!own && value) {
		own = calloc(1, sizeof(*own));
		if (own)
			own->name = strdup(name);
		if (!own || !own->name) {
			free(own);
			free(copy);
			return -1;
		}
		*at = own;
	}
	if (own && !value) {
		*at = own->next;
		free(own->name);
		free(own->value);
		free(own);
	} else if (own) {
		free(own->value);
		own->value = copy;
	}
	return 0;
}

int pg_set(struct pg_session *s, const char *name, const char *value)
{
	int i = find_known(name);
	char time[32];

	if (i < 0 && !strchr(name, '.') && strcasecmp(name, "role") != 0 &&
	    strcasecmp(name, "seed") != 0) {
		pg_error(s, "42704", "unrecognized configuration parameter \"%s\"", name);
		return -1;
	}
	if (value && i >= 0 && known[i].flags & FIXED) {
		if (same_value(name, pg_setting(s, name), value))
			return 0;
		pg_error(s, "22023", "parameter \"%s\" is always %s, not %s", name, known[i].value,
			 value);
		return -1;
	}
	if (value && strcasecmp(name, "statement_timeout") == 0) {
		if (!read_time(value, time, sizeof(time))) {
			pg_error(s, "22023", "invalid value for parameter \"%s\": \"%s\"", name,
				 value);
			return -1;
		}
		value = time;
	}
	if (store(s, i >= 0 ? known[i].name : name, value) < 0) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	if (i >= 0 && known[i].flags & TOLD && s->logged_in)
		put_status(s, known[i].name, pg_setting(s, known[i].name));
	return 0;
}

void pg_free_settings(struct pg_session *s)
{
	while (s->settings) {
		struct pg_setting *next = s->settings->next;

		free(s->settings->name);
		free(s->settings->value);
		free(s->settings);
		s->settings = next;
	}
}

void pg_reset_all(struct pg_session *s)
{
	char *application = NULL;
	const char *own = pg_setting(s, "application_name");

	if (*own)
		application = strdup(own); /* clients that connected with a name keep it */
	pg_free_settings(s);
	if (application)
		(void)store(s, "application_name", application);
	free(application);
}

void pg_visit_settings(struct pg_session *s,
		       void (*visit)(void *user, const char *name, const char *value), void *user)
{
	for (unsigned i = 0; i < KNOWN; i++)
		visit(user, known[i].name, pg_setting(s, known[i].name));
}
