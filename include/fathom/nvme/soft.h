/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way from the host driver to the software controller, and the device scheme
 *
 *	softnvme(URI)?queues=N&depth=N&threads=N&lba=SIZE&mdts=N&timeout_ms=N
 *
 *	queues		I/O queue pairs; default one per CPU, at most 16
 *	depth		entries per ring, a power of two from 2 to 4096; default 256
 *	threads		that execute commands in the controller; default 1
 *	lba		block size; default that of the device inside, at least 512
 *	mdts		longest transfer is 2^mdts pages of 4 KiB; default 8, 1 MiB; 0: no limit
 *	timeout_ms	how long a command may take before the controller is reset; default 30000
 */
#ifndef FATHOM_NVME_SOFT_H
#define FATHOM_NVME_SOFT_H

#include "fathom/dev/driver.h"
#include "fathom/nvme/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_nvme_ctrl;

/* A transport to a controller of this process; closing it frees the controller. 0 or -ENOMEM. */
int fth_nvme_soft_new(struct fth_nvme_ctrl *ctrl, struct fth_nvme_transport **out);

extern const struct fth_dev_scheme fth_nvme_scheme_soft;

#ifdef __cplusplus
}
#endif
#endif
