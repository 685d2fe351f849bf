/* SPDX-License-Identifier: BSD-2-Clause */
#include "find_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool bench_find_beside(const char *name, char path[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	int n;

	self[length < 0 ? 0 : length] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	n = snprintf(path, PATH_MAX, "%s/%s", self, name);
	return n < PATH_MAX && access(path, R_OK) == 0;
}

void bench_find_fathom(char path[PATH_MAX])
{
	if (!bench_find_beside("fathom", path) &&
	    !bench_find_beside(FTH_BIN_FROM_LIBEXEC "/fathom", path))
		snprintf(path, PATH_MAX, "fathom");
}
