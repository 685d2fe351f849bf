/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors. Functions return 0 (or a count) or a negative errno. Where the number alone does not
 * explain the failure, the function also stores a text for the calling thread:
 *
 *	int rc = fth_dev_open(uri, &dev);
 *
 *	if (rc < 0)
 *		fprintf(stderr, "%s: %s\n", uri, fth_error_text(rc));
 */
#ifndef FATHOM_BASE_ERROR_H
#define FATHOM_BASE_ERROR_H

#include <stdarg.h>

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

#define FTH_ERROR_TEXT_MAX 320

/*
 * Store a detail text for this thread and return -err, so that a failure is one line:
 * `return fth_fail(EINVAL, "%s: unknown option", name);`. Does not allocate; preserves errno.
 */
int fth_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prepend `prefix: ` to the detail text of this thread, if there is one. Returns rc. */
int fth_fail_in(int rc, const char *prefix);

/*
 * The text for the result of this thread's latest failing call: the detail text if the call stored
 * one for this error, else strerror() of it. Valid until the thread's next failing call.
 */
const char *fth_error_text(int rc);

/* Clear the detail text of this thread. */
void fth_error_clear(void);

FTH_END_DECLS
#endif
