/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors. Functions return 0 (or a count) or a negative errno. Where the number alone would leave
 * a user guessing, the failing function also leaves a sentence for the calling thread:
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
 * Remember a detail text for this thread and return -err, so that a failure is one line:
 * `return fth_fail(EINVAL, "%s: unknown option", name);`. Never allocates, keeps errno.
 */
int fth_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Put `prefix: ` before the present detail of this thread, if there is one; returns rc. */
int fth_fail_in(int rc, const char *prefix);

/*
 * The text for a result of this thread's latest failing call: its detail if it left one for that
 * very error, else the system's words for rc. Valid until the thread's next failing call.
 */
const char *fth_error_text(int rc);

/* Forget this thread's detail. */
void fth_error_clear(void);

FTH_END_DECLS
#endif
