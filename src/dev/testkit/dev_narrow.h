/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: narrow(URI), a device that takes one request per submit and has room for two,
 * whatever its channel's depth, and hands back the newest first. It breaks the promise about
 * depth; a wrapper around it must keep it all the same. Its buffers are aligned to 4 bytes at
 * least, which is what many drives ask for.
 */
#ifndef FTH_DEV_NARROW_H
#define FTH_DEV_NARROW_H

#include "fathom/dev/driver.h"

extern const struct fth_dev_scheme fth_dev_scheme_narrow;

#endif
