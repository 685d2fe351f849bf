/* SPDX-License-Identifier: BSD-2-Clause */
/* A main() for tests of regions, which skips without userfaultfd. */
#ifndef FATHOM_SRC_FLAT_TEST_FLAT_MAIN_FIXTURE_H
#define FATHOM_SRC_FLAT_TEST_FLAT_MAIN_FIXTURE_H

#include "fth_test.h"

#include "fathom/flat.h"

#include <errno.h>
#include <stdio.h>

static inline bool flat_is_supported(void)
{
	struct fth_flat *flat;
	int rc = fth_flat_open("mem:2M", 64u << 12, NULL, &flat);

	if (rc == -ENOTSUP) {
		printf("skipped: %s\n", fth_error_text(rc));
		return false;
	}
	fth_flat_discard(flat);
	return true;
}

/* The result of main(). */
#define FLAT_RUN(tests) (flat_is_supported() ? cmocka_run_group_tests(tests, NULL, NULL) : 77)

#endif
