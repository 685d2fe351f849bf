/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_stats_view.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fth_kv_read_password(const char *path, char line[FTH_KV_PASSWORD_MAX])
{
	FILE *file = fopen(path, "re");
	int rc = 0;
	char *colon;

	if (!file || !fgets(line, FTH_KV_PASSWORD_MAX, file))
		rc = fth_fail(file ? EINVAL : errno, "%s: %s", path,
			      file ? "the file is empty" : strerror(errno));
	if (file)
		fclose(file);
	if (rc < 0)
		return rc;
	line[strcspn(line, "\r\n")] = 0;
	colon = strchr(line, ':');
	if (!colon)
		return fth_fail(EINVAL, "%s: the first line is not user:password", path);
	*colon = ' ';
	return 0;
}

int fth_kv_link_open(struct fth_kv_link *link)
{
	char password[FTH_KV_PASSWORD_MAX];
	int rc = 0;

	if (link->wire.fd >= 0)
		return 0;
	if (link->auth_file)
		rc = fth_kv_read_password(link->auth_file, password);
	return rc < 0 ? rc
		      : fth_kv_wire_open(&link->wire, link->server, &link->tls,
					 link->auth_file ? password : NULL, link->timeout_ns);
}

void fth_kv_link_close(struct fth_kv_link *link)
{
	fth_kv_wire_close(&link->wire);
}

/* ---- figures ---- */

void fth_kv_figures_release(struct fth_kv_figures *figures)
{
	free(figures->text);
	free(figures->list);
	memset(figures, 0, sizeof(*figures));
}

/* Cut the text into names and values. A terminal must not obey what a server sends. */
static int parse(struct fth_kv_figures *out)
{
	unsigned lines = 0;
	char *save = NULL;

	for (char *at = out->text; *at; at++) {
		lines += *at == '\n';
		if (((unsigned char)*at < ' ' && *at != '\r' && *at != '\n') || *at == 0x7f)
			*at = '?';
	}
	out->list = calloc(lines + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (char *line = strtok_r(out->text, "\r\n", &save); line;
	     line = strtok_r(NULL, "\r\n", &save)) {
		char *name = line + strlen("STAT "), *blank;

		if (strncmp(line, "STAT ", strlen("STAT ")) != 0)
			break;
		blank = strchr(name, ' ');
		if (blank)
			*blank = 0;
		out->list[out->count++] = (struct fth_kv_figure){name, blank ? blank + 1 : ""};
	}
	return 0;
}

static int ask(struct fth_kv_link *link, const char *what, struct fth_kv_figures *out)
{
	char request[64];
	int n = snprintf(request, sizeof(request), "stats%s%s\r\n", *what ? " " : "", what);
	int rc = fth_kv_link_open(link);

	if (rc == 0)
		rc = fth_kv_wire_ask(&link->wire, request, (size_t)n, link->timeout_ns, &out->text);
	if (rc < 0)
		return rc;
	out->taken_ns = fth_now_ns();
	if (strncmp(out->text, "STAT ", 5) == 0 || strcmp(out->text, "END\r\n") == 0)
		return parse(out);
	if (strcmp(out->text, "ERROR\r\n") == 0)
		return fth_fail(EOPNOTSUPP, "%s does not support stats %s", link->server, what);
	out->text[strcspn(out->text, "\r\n")] = 0;
	return fth_fail(EPROTO, "%s replied \"%.80s\"%s", link->server, out->text,
			strstr(out->text, "unauthenticated") ? "; --auth names a file with "
							       "user:password"
							     : "");
}

int fth_kv_link_stats(struct fth_kv_link *link, const char *what, struct fth_kv_figures *out)
{
	int rc;

	fth_kv_figures_release(out);
	rc = ask(link, what, out);
	if (rc == 0)
		return 0;
	if (rc != -EOPNOTSUPP)
		fth_kv_link_close(link);
	free(out->text);
	out->text = NULL;
	return rc;
}

const char *fth_kv_figure(const struct fth_kv_figures *figures, const char *name)
{
	for (unsigned i = 0; i < figures->count; i++)
		if (strcmp(figures->list[i].name, name) == 0)
			return figures->list[i].value;
	return NULL;
}

bool fth_kv_figure_u64(const struct fth_kv_figures *figures, const char *name, uint64_t *out)
{
	const char *value = fth_kv_figure(figures, name);
	char *end;

	if (!value || *value < '0' || *value > '9')
		return false;
	errno = 0;
	*out = strtoull(value, &end, 10);
	return errno == 0 && *end == 0;
}

uint64_t fth_kv_figure_or_0(const struct fth_kv_figures *figures, const char *name)
{
	uint64_t value;

	return fth_kv_figure_u64(figures, name, &value) ? value : 0;
}
