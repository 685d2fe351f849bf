/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the devices of a volume by URI, and keeping others out of them (dev/lock.h). */
#include "vol/vol.h"

#include "fathom/base/error.h"

#include "dev/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int vol_open_all(const char *const *uris, unsigned n, enum vol_access access,
		 struct vol_opened *out)
{
	unsigned flags = access == VOL_ACCESS_WRITE ? 0 : FTH_DEV_READONLY;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (n == 0 || n > FTH_VOL_DEVICES_MAX)
		return fth_fail(EINVAL, "a volume needs 1 to %u devices, %u given",
				FTH_VOL_DEVICES_MAX, n);
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		out->locks[i] = -1;
		out->count = i + 1;
		/* Opened first: create=on may have to make the file that is locked. */
		rc = fth_dev_open_flags(uris[i], flags, &out->devs[i]);
		if (rc == 0)
			rc = fth_dev_lock_uri(uris[i], access != VOL_ACCESS_READ, &out->locks[i]);
	}
	if (rc < 0)
		vol_close_all(out);
	return rc;
}

void vol_close_all(struct vol_opened *opened)
{
	for (unsigned i = 0; i < opened->count; i++) {
		fth_dev_close(opened->devs[i]);
		fth_dev_unlock(opened->locks[i]);
	}
	opened->count = 0;
}

int fth_vol_split_uris(const char *list, const char ***uris, unsigned *n)
{
	size_t length = strlen(list), count = 1;
	unsigned depth = 0;
	const char **out;
	char *text;

	for (const char *p = list; *p; p++)
		count += *p == ',';
	out = malloc(count * sizeof(*out) + length + 1);
	if (!out)
		return -ENOMEM;
	text = (char *)(out + count);
	memcpy(text, list, length + 1);
	*n = 0;
	out[(*n)++] = text;
	for (; *text; text++) {
		depth += *text == '(';
		depth -= *text == ')' && depth > 0;
		if (*text == ',' && depth == 0) {
			*text = '\0';
			out[(*n)++] = text + 1;
		}
	}
	*uris = out;
	return 0;
}
