/* SPDX-License-Identifier: BSD-2-Clause */
#include "fathom/base/version.h"

const char *fth_version(void)
{
	return FTH_VERSION_STRING;
}
