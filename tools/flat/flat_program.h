/* SPDX-License-Identifier: BSD-2-Clause */
/* Can a library be preloaded into a program? */
#ifndef FTH_TOOLS_FLAT_PROGRAM_H
#define FTH_TOOLS_FLAT_PROGRAM_H

#include <limits.h>

/* The file that exec() would start for `name`. Returns 0 or a negative errno with an error text. */
int fth_flat_find_program(const char *name, char path[PATH_MAX]);

/*
 * 0, or -ENOTSUP with a reason: it is statically linked, gets other rights than its caller's, is
 * not for x86-64 or glibc. Scripts are judged by their interpreter.
 */
int fth_flat_check_program(const char *path);

#endif
