/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options structs are alike over the whole API: struct fth_X_options begins with `size_t size`, the
 * bytes of the struct as the caller's headers have it, and starts from FTH_X_OPTIONS_INIT. Each
 * function that takes one checks the size before it looks at another field.
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "fathom/base/error.h"

#include <errno.h>
#include <stddef.h>

/*
 * Returns -EINVAL and leaves a text that begins with the module's name if the sizes differ, else 0.
 */
static inline int fth_options_check(const char *module, size_t size, size_t expected)
{
	if (size == expected)
		return 0;
	return fth_fail(EINVAL, "%s: options.size is %zu, expected %zu", module, size, expected);
}

#endif
