/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that end a test which is a program of its own. */
#ifndef FTH_MUST_FIXTURE_H
#define FTH_MUST_FIXTURE_H

#include "fathom/base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                         \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

#define OK(call)                                                                      \
	do {                                                                          \
		int rc_ = (call);                                                     \
		if (rc_ < 0) {                                                        \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				fth_error_text(rc_));                                 \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

#endif
