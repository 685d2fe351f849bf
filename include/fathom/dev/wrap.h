/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to the devices inside wrappers: fault(delay(mem:4G)) is three devices, and each wrapper
 * owns the next one. The control functions of fault.h and crash.h take the fault or crash device
 * itself, wherever in the stack it is:
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
 * Return the device inside a wrapper, or NULL if dev is not a wrapper. The wrapper owns it: do not
 * close it. Operations on it bypass the wrapper. Any thread.
 */
struct fth_dev *fth_dev_inner(const struct fth_dev *dev);

FTH_END_DECLS
#endif
