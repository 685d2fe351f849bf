/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/reserved.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <strings.h>

int name_reserved(const char *name)
{
	if (strncasecmp(name, "fathom_", 7) == 0)
		return fth_fail(EINVAL,
				"table name \"%s\" is reserved: names must not begin with fathom_",
				name);
	return 0;
}
