/* SPDX-License-Identifier: BSD-2-Clause */
/* Removing persistent memory by name, after a look at its header. */
#include <errno.h>

#include "fathom/base/error.h"
#include "pm/pm_internal.h"

/* Nothing that is not ours is removed. -EBADMSG for a damaged header: such memory is removed by hand. */
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

int fth_pm_remove(const char *name)
{
	struct fth_uri uri;
	int rc = look(name);

	if (rc < 0)
		return rc;
	rc = fth_uri_parse(&uri, name);
	if (rc < 0)
		return rc;
	rc = pm_kind_of(&uri)->remove(name, &uri);
	fth_uri_release(&uri);
	return rc;
}
