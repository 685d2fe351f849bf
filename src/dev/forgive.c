/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/forgive.h"

#include "fathom/dev/driver.h"
#include "fathom/dev/wrap.h"

void dev_flush_forgive(struct fth_dev *dev)
{
	for (; dev; dev = fth_dev_inner(dev))
		if (dev->ops->flush_forgive)
			dev->ops->flush_forgive(dev);
}
