/* SPDX-License-Identifier: BSD-2-Clause */
#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* `code` is the error the text belongs to: a text never explains another failure. */
static _Thread_local struct {
	int code;
	char text[FTH_ERROR_TEXT_MAX];
} detail;

int fth_fail(int err, const char *format, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(detail.text, sizeof(detail.text), format, args);
	va_end(args);
	detail.code = -err;
	errno = saved;
	return -err;
}

int fth_fail_in(int rc, const char *prefix)
{
	char old[FTH_ERROR_TEXT_MAX];

	if (rc >= 0)
		return rc;
	memcpy(old, fth_error_text(rc), sizeof(old) - 1);
	old[sizeof(old) - 1] = '\0';
	return fth_fail(-rc, "%s: %s", prefix, old);
}

const char *fth_error_text(int rc)
{
	if (rc >= 0)
		return "success";
	if (detail.code != rc || !detail.text[0])
		fth_fail(-rc, "%s", strerror(-rc));
	return detail.text;
}

void fth_error_clear(void)
{
	detail.code = 0;
	detail.text[0] = '\0';
}
