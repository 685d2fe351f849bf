/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a device keep the promises of fathom/dev.h? One suite for every device and every stack of
 * wrappers, without a test framework, so that it also runs where there is none.
 *
 *	rc = fth_dev_conformance("crash(file:/tmp/a)", NULL);
 *	if (rc < 0)
 *		... fth_error_text(rc) says which promise was broken, and how
 *
 * It overwrites the beginning of the device. The device must not be set to fail.
 *
 * Siblings: conformance_basic.c has the checks of one request at a time, conformance_queue.c
 * those of many in flight, conformance_wait.c those of a channel's descriptor, and
 * conformance_model.c random operations against a copy in memory.
 */
#ifndef FTH_DEV_CONFORMANCE_H
#define FTH_DEV_CONFORMANCE_H

#include "fathom/dev.h"

struct fth_conformance_options {
	uint64_t bytes;	     /* how much of the device to use, at most */
	unsigned operations; /* of the random check; each thread does a quarter of it */
	unsigned threads;
	uint64_t seed;
	/* A channel's descriptor must be readable after so long, at the latest; 0: ten seconds. */
	unsigned wait_ms;
	/* Asked now and then, by any thread: true ends it with -EINTR. May be NULL. */
	bool (*stopped)(void);
};

#define FTH_CONFORMANCE_DEFAULTS                                               \
	{                                                                      \
		.bytes = 1u << 20, .operations = 4000, .threads = 4, .seed = 1 \
	}

/*
 * Open the device and check it. 0, the error of an operation that should not have failed, or
 * -EPROTO when a promise was broken; always with a text that begins with the check's name. NULL
 * options are the defaults.
 */
int fth_dev_conformance(const char *uri, const struct fth_conformance_options *options);

#endif
