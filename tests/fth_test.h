/* SPDX-License-Identifier: BSD-2-Clause */
/* cmocka, with the headers it needs before it and a few words of our own. */
#ifndef FTH_TEST_H
#define FTH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fathom/base/error.h"

/* rc must be >= 0; says why when it is not. */
#define assert_ok(call)                                                      \
	do {                                                                 \
		long rc_ = (long)(call);                                     \
		if (rc_ < 0)                                                 \
			fail_msg("%s: %s", #call, fth_error_text((int)rc_)); \
	} while (0)

#endif
