/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/port.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535u

int fth_port_check(const char *where)
{
	const char *colon = strrchr(where, ':');

	if (!colon || colon[1 + strspn(colon + 1, "0123456789")])
		return 0;
	if (strtoull(colon + 1, NULL, 10) > PORT_MAX)
		return fth_fail(EINVAL, "%s: port %s is above %u", where, colon + 1, PORT_MAX);
	return 0;
}
