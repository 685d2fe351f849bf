/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way from the host driver to the software controller, and the device scheme
 *
 *	softnvme(URI)?queues=N&depth=N&threads=N&lba=SIZE&mdts=N&timeout_ms=N
 *		&pmr=SIZE&pmr_dev=URI&cmb=SIZE&window_model=NAME
 *
 *	queues		I/O queue pairs; default one per CPU, at most 16
 *	depth		entries per ring, a power of two from 2 to 4096; default 256
 *	threads		that execute commands in the controller; default 1
 *	lba		block size; default that of the device inside, at least 512
 *	mdts		longest transfer is 2^mdts pages of 4 KiB; default 8, 1 MiB; 0: no limit
 *	timeout_ms	how long a command may take before the controller is reset; default 30000
 *	pmr		a persistent memory region of that size, a power of two from 4K;
 *			default none
 *	pmr_dev		the device that keeps it, a URI with % ? & ( ) written as %XX; default
 *			memory, gone when the device is closed. At least as large as the region
 *	cmb		a controller memory buffer of that size, a power of two from 4K;
 *			default none
 *	window_model	"flatflash": loads and stores through nvme/window.h take at
 *			least as long, line by line, as its authors measured; default as fast
 *			as memory
 *
 * What a region keeps and what it loses: nvme/ctrl.h. How to reach it: nvme/window.h,
 * with fth_nvme_of_dev().
 */
#ifndef FATHOM_NVME_SOFT_H
#define FATHOM_NVME_SOFT_H

#include "base/private.h"
#include "fathom/dev/driver.h"
#include "nvme/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_nvme_ctrl;

/* A transport to a controller of this process; closing it frees the controller. 0 or -ENOMEM. */
FTH_PRIVATE int fth_nvme_soft_new(struct fth_nvme_ctrl *ctrl, struct fth_nvme_transport **out);

/* The controller behind a driver, for simulated power losses; NULL if it is not one of these. */
FTH_PRIVATE struct fth_nvme_ctrl *fth_nvme_soft_ctrl(struct fth_nvme *nvme);

#ifdef __cplusplus
}
#endif
#endif
