/* SPDX-License-Identifier: BSD-2-Clause */
/* Removing persistent memory by name, after a look at its header. */
#include "pm/pm_internal.h"
#include "pm/map/header.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Nothing that is not ours is removed. -EBADMSG for a damaged header: such memory is removed by
 * hand.
 */
static int look(const char *name)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;
	int rc;

	options.flags = FTH_PM_READ_ONLY;
	rc = fth_pm_map(name, 0, &options, &pm);
	if (rc == 0)
		fth_pm_unmap(pm);
	return rc;
}

/*
 * From the first byte on: whether a creation that was interrupted left it. It has allocated zeroes,
 * and then written to the header.
 */
static bool is_unfinished(int fd)
{
	uint64_t words[512];
	ssize_t n;

	for (off_t at = 0; (n = pread(fd, words, sizeof(words), at)) > 0; at += n) {
		if (at == 0 && n >= (ssize_t)sizeof(words[0]) && words[0] == PM_HEADER_CREATING)
			return true;
		for (ssize_t i = 0; i < n; i++)
			if (((const uint8_t *)words)[i] != 0)
				return false;
	}
	return n == 0;
}

int pm_remove_check(int fd, int looked)
{
	struct stat st;

	if (looked == 0)
		return 0;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_unfinished(fd) ? 0 : looked;
}

int fth_pm_remove(const char *name)
{
	int looked = look(name), rc;
	struct fth_uri uri;

	if (looked < 0 && looked != -ENOENT && looked != -EBADMSG)
		return looked;
	rc = fth_uri_parse(&uri, name);
	if (rc < 0)
		return rc;
	rc = pm_kind_of(&uri)->remove(name, &uri, looked);
	fth_uri_release(&uri);
	return rc;
}
