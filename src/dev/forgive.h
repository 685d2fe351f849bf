/* SPDX-License-Identifier: BSD-2-Clause */
/* Going on after a failed flush, for a layer that knows what it may have lost. */
#ifndef FTH_DEV_FORGIVE_H
#define FTH_DEV_FORGIVE_H

#include "fathom/dev.h"

/*
 * Let flushes succeed again after one has failed. The caller counts all that was written since the
 * last good flush as lost, writes it again or forgets it, and nobody else uses the device. A
 * channel of a file: that has not seen the lost write-back yet reports it once more: then call it
 * again. Has no effect on devices that do not keep an error, and on volumes. Any thread.
 */
void dev_flush_forgive(struct fth_dev *dev);

#endif
