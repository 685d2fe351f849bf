/* SPDX-License-Identifier: BSD-2-Clause */
#include "vol_source.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

int fth_vol_source_open(const char *list, unsigned flags, struct fth_vol **out)
{
	const char **uris;
	unsigned n;
	int rc = fth_vol_split_uris(list, &uris, &n);

	if (rc == 0) {
		rc = fth_vol_open_uris(uris, n, flags, out);
		free(uris);
	}
	if (rc < 0)
		fth_cli_error("%s: %s", list, fth_error_text(rc));
	else if (fth_vol_warning(*out)[0])
		fth_cli_error("warning: %s", fth_vol_warning(*out));
	return rc;
}

unsigned fth_vol_absence_flags(const struct fth_vol_absence *absence)
{
	return (absence->degraded ? FTH_VOL_DEGRADED : 0) |
	       (absence->minority ? FTH_VOL_MINORITY : 0);
}

int fth_vol_complain(const char *what, int rc)
{
	if (rc == -ECANCELED && fth_cli_stopped()) {
		fth_cli_error("%s: interrupted", what);
		return FTH_EXIT_INTERRUPTED;
	}
	fth_cli_error("%s: %s", what, fth_error_text(rc));
	return FTH_EXIT_FAILED;
}

struct fth_vol_object_options fth_vol_shape_options(const struct fth_vol_shape *shape)
{
	struct fth_vol_object_options o = FTH_VOL_OBJECT_OPTIONS_INIT;

	o.unit = (uint32_t)shape->unit;
	o.replicas = (uint32_t)shape->replicas;
	o.width = (uint32_t)shape->width;
	return o;
}
