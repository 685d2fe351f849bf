/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands of `fathom pm` share. */
#ifndef FTH_TOOLS_PM_SOURCE_H
#define FTH_TOOLS_PM_SOURCE_H

#include "fathom/pm.h"

#define FTH_PM_NAMES \
	"NAME is shm:NAME, pmem:PATH, window(URI) or the URI of a device, such as file:PATH."

/* Say what is wrong; FTH_EXIT_FAILED. */
int fth_pm_complain(const char *name, int rc);

/* Map it for reading. FTH_CLI_GO_ON, or the exit status after a complaint. */
int fth_pm_source_open(const char *name, struct fth_pm **pm);

#endif
