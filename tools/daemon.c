/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon.h"

#include "cli.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool fth_daemon_log_format(const char *name, enum fth_log_format *out)
{
	static const char *const names[] = {"off", "text", "json"};

	for (unsigned i = 0; i < 3; i++)
		if (strcmp(name, names[i]) == 0) {
			*out = (enum fth_log_format)i;
			return true;
		}
	fth_cli_error("--log %s: expected off, text or json", name);
	return false;
}

void fth_daemon_log(enum fth_log_format format, const char *event, const char *text)
{
	char when[32];
	struct tm tm;
	time_t now = time(NULL);

	if (format == FTH_LOG_OFF)
		return;
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	flockfile(stderr);
	if (format == FTH_LOG_JSON) {
		struct fth_json j;

		fth_json_begin(&j, stderr);
		fth_json_string(&j, "time", when);
		fth_json_string(&j, "event", event);
		fth_json_string(&j, "text", text);
		fth_json_finish(&j);
	} else {
		fprintf(stderr, "%s %s: %s\n", when, event, text);
	}
	fflush(stderr);
	funlockfile(stderr);
}

static bool take_activated(struct fth_daemon_sockets *s)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	unsigned long n = pid && count && strtoul(pid, NULL, 10) == (unsigned long)getpid()
				  ? strtoul(count, NULL, 10)
				  : 0;

	if (n > FTH_DAEMON_SOCKETS) {
		fth_cli_error("LISTEN_FDS=%lu: at most %u sockets", n, FTH_DAEMON_SOCKETS);
		return false;
	}
	for (unsigned long i = 0; i < n; i++) {
		snprintf(s->names[i], sizeof(s->names[i]), "fd:%lu", 3 + i);
		s->where[s->count++] = s->names[i];
	}
	return true;
}

bool fth_daemon_sockets(const char *list, struct fth_daemon_sockets *s)
{
	char *next, *save = NULL;

	if (!list)
		return take_activated(s);
	s->copy = strdup(list);
	for (next = s->copy ? strtok_r(s->copy, ",", &save) : NULL; next;
	     next = strtok_r(NULL, ",", &save)) {
		if (s->count == FTH_DAEMON_SOCKETS) {
			fth_cli_error("--listen: at most %u sockets", FTH_DAEMON_SOCKETS);
			return false;
		}
		s->where[s->count++] = next;
	}
	return true;
}

void fth_daemon_sockets_free(struct fth_daemon_sockets *s)
{
	free(s->copy);
}
