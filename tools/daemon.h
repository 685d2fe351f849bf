/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands that run as daemons share: their log and the sockets they listen on. */
#ifndef FTH_TOOLS_DAEMON_H
#define FTH_TOOLS_DAEMON_H

#include <stdbool.h>

enum fth_log_format { FTH_LOG_OFF, FTH_LOG_TEXT, FTH_LOG_JSON };

/* "off", "text" or "json"; false after a message. */
bool fth_daemon_log_format(const char *name, enum fth_log_format *out);
/* A line on standard error: time, an event, and a text that tells more. */
void fth_daemon_log(enum fth_log_format format, const char *event, const char *text);

#define FTH_DAEMON_SOCKETS 16u

struct fth_daemon_sockets {
	const char *where[FTH_DAEMON_SOCKETS];
	unsigned count;
	char names[FTH_DAEMON_SOCKETS][16]; /* of sockets that systemd hands over */
	char *copy;
};

/*
 * The sockets of a list "A,B", or without one (NULL) those that systemd has bound for us
 * (sd_listen_fds(3)). Begin with zeroes. False after a message.
 */
bool fth_daemon_sockets(const char *list, struct fth_daemon_sockets *out);
void fth_daemon_sockets_free(struct fth_daemon_sockets *sockets);

#endif
