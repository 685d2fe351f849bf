/* SPDX-License-Identifier: BSD-2-Clause */
/* Users and passwords: lines "user:password" of a file, as memcached's option -Y reads them. */
#include "kv/server/server.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define AUTH_LINE 256u /* bytes of a line, its end included */
#define AUTH_MAX  1024u

struct auth_entry {
	char text[AUTH_LINE]; /* "user password", the rest zeroes */
	uint32_t length;
};

static int add_line(struct auth *auth, const char *path, unsigned number, char *line)
{
	size_t length = strcspn(line, "\r\n");
	struct auth_entry *entries, *entry;
	char *colon;

	line[length] = '\0';
	if (length == 0)
		return 0;
	colon = strchr(line, ':');
	if (!colon || colon == line || !colon[1])
		return fth_fail(EINVAL, "%s: line %u is not user:password", path, number);
	if (auth->count == AUTH_MAX)
		return fth_fail(EINVAL, "%s: more than %u users", path, AUTH_MAX);
	entries = realloc(auth->entries, (auth->count + 1) * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	auth->entries = entries;
	entry = &entries[auth->count++];
	memset(entry, 0, sizeof(*entry));
	*colon = ' ';
	memcpy(entry->text, line, length);
	entry->length = (uint32_t)length;
	return 0;
}

int auth_load(struct auth *auth, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[AUTH_LINE + 1];
	unsigned number = 0;
	int rc = 0;

	if (!file)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	while (rc == 0 && fgets(line, sizeof(line), file)) {
		number++;
		if (strlen(line) == AUTH_LINE)
			rc = fth_fail(EINVAL, "%s: line %u has more than %u bytes", path, number,
				      AUTH_LINE - 1);
		else
			rc = add_line(auth, path, number, line);
	}
	if (rc == 0 && ferror(file))
		rc = fth_fail(EIO, "%s: read error", path);
	if (rc == 0 && auth->count == 0)
		rc = fth_fail(EINVAL, "%s: no user:password line", path);
	fclose(file);
	explicit_bzero(line, sizeof(line));
	return rc;
}

void auth_release(struct auth *auth)
{
	if (auth->entries)
		explicit_bzero(auth->entries, auth->count * sizeof(*auth->entries));
	free(auth->entries);
	memset(auth, 0, sizeof(*auth));
}

/* Takes the same time wherever the first difference is. */
bool auth_check(const struct auth *auth, const char *text, size_t length)
{
	char given[AUTH_LINE] = {0};
	bool found = false;

	if (length == 0 || length >= sizeof(given))
		return false;
	memcpy(given, text, length);
	for (unsigned i = 0; i < auth->count; i++) {
		const struct auth_entry *entry = &auth->entries[i];
		volatile unsigned differ = entry->length != length;

		for (unsigned j = 0; j < AUTH_LINE; j++)
			differ |= (unsigned char)(given[j] ^ entry->text[j]);
		found |= differ == 0;
	}
	return found;
}
