/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The figures of a running server, by memcached's command `stats`; for `fathom kv stat` and `top`.
 */
#ifndef FTH_TOOLS_KV_STATS_VIEW_H
#define FTH_TOOLS_KV_STATS_VIEW_H

#include "kv_wire.h"

#include <stdbool.h>
#include <stdint.h>

#define FTH_KV_SERVER_DEFAULT "127.0.0.1:11211"

struct fth_kv_figure {
	const char *name, *value;
};

/* An answer to `stats`; zero-initialise. */
struct fth_kv_figures {
	char *text;
	struct fth_kv_figure *list;
	unsigned count;
	uint64_t taken_ns;
};

/* A connection that is made when it is needed. Zero-initialise but for wire.fd, which is -1. */
struct fth_kv_link {
	const char *server;    /* HOST:PORT, HOST or unix:PATH */
	const char *auth_file; /* its first line is "user:password"; NULL: none is needed */
	struct fth_kv_tls tls;
	uint64_t timeout_ns; /* of each call */
	struct fth_kv_wire wire;
};

/*
 * Ask for `stats WHAT`; the figures that were there before go. Connects if need be. After an error
 * the connection is closed, and the next call makes a new one. 0 or a negative errno with a text:
 * -EOPNOTSUPP if the server knows no such statistics, -ECANCELED if fth_cli_stopped().
 */
int fth_kv_link_stats(struct fth_kv_link *link, const char *what, struct fth_kv_figures *out);
/* Connect, unless it is connected. 0 or a negative errno with a text. */
int fth_kv_link_open(struct fth_kv_link *link);
void fth_kv_link_close(struct fth_kv_link *link);

/* The first line of a file, "user:password", with a blank instead of the colon. */
#define FTH_KV_PASSWORD_MAX 600
int fth_kv_read_password(const char *path, char line[FTH_KV_PASSWORD_MAX]);

/* The value of a figure; NULL if the server has none of that name. */
const char *fth_kv_figure(const struct fth_kv_figures *figures, const char *name);
/* The same as a number; false if there is none, or no number. */
bool fth_kv_figure_u64(const struct fth_kv_figures *figures, const char *name, uint64_t *out);
/* The same, 0 if there is none. */
uint64_t fth_kv_figure_or_0(const struct fth_kv_figures *figures, const char *name);
void fth_kv_figures_release(struct fth_kv_figures *figures);

#endif
