/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking into a stack of wrappers: fault(delay(mem:4G)) is three devices, each the next one's
 * owner. The control functions of fault.h and crash.h want the wrapper itself, wherever in the
 * stack it is:
 *
 *	fth_dev_open("crash(fault(mem:1M))", &dev);
 *	fth_dev_fault_disarm(fth_dev_inner(dev));
 */
#ifndef FATHOM_DEV_WRAP_H
#define FATHOM_DEV_WRAP_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

/*
 * The device inside a wrapper, or NULL when dev is none. It stays the wrapper's: do not close it,
 * and remember that what is done to it directly goes past the wrapper. Any thread.
 */
struct fth_dev *fth_dev_inner(const struct fth_dev *dev);

FTH_END_DECLS
#endif
