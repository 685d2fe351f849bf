/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's half of a drive whose commands are not executed on the GPU: NVMe queue pairs and
 * slots for data in host memory, served by CPU threads on any device (the software controller of
 * nvme/ctrl.h), or by an NVMe drive itself. No CUDA in here: drive_service.cu makes it a
 * GPU's, and a test gives it to warps of CPU threads.
 */
#ifndef FTH_GPU_SERVICE_H
#define FTH_GPU_SERVICE_H

#include "fathom/gpu.h"
#include "nvme/ctrl.h"
#include "nvme/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_gpu_service {
	struct fth_dev *dev;
	struct fth_nvme *nvme;	    /* the driver whose queue pairs are given away */
	struct fth_nvme_ctrl *ctrl; /* of software; NULL: a drive is the controller */
	bool of_dev;		    /* the driver is the device's own */
	bool stopped;
	struct fth_nvme_dma bounce;
	uint32_t slot; /* bytes of bounce memory for each id */
	uint32_t queues;
	uint32_t shift; /* of the rings */
	uint32_t ids;
	uint64_t blocks;
	uint32_t block_shift;			   /* log2 of their bytes */
	uint64_t before[FTH_NVME_CTRL_STAT_COUNT]; /* the counts when it was started */
};

/*
 * Open the device and start serving it: opts gives queues, entries, slot, threads and the timeout
 * of commands that set up queues. A drive with fewer or shorter queues gives what it has. 0, or
 * what the URI or the options are wrong about.
 */
int fth_gpu_service_open(const char *uri, const struct fth_gpu_drive_options *opts,
			 struct fth_gpu_service **out);

/*
 * What queue pair q is made of, as the host sees it; memory for ids, slots and marks is the
 * caller's to add.
 */
void fth_gpu_service_setup(const struct fth_gpu_service *service, uint32_t q,
			   struct fth_nvme_qp_setup *setup);

/*
 * See that no memory is touched any more: 0; -ETIME, and it may be tried again, when the device
 * still holds commands at the deadline. A drive that can not be stopped is waited for as long as
 * it asks for.
 */
int fth_gpu_service_stop(struct fth_gpu_service *service, uint64_t deadline);

/* New queues in the same memory after a stop; whoever uses them begins anew. */
int fth_gpu_service_start(struct fth_gpu_service *service);

/* What was done since the last start, as far as the controller is ours. */
void fth_gpu_service_stats(const struct fth_gpu_service *service,
			   struct fth_gpu_drive_stats *stats);

/* It is stopped; or was never used. Accepts NULL. */
void fth_gpu_service_close(struct fth_gpu_service *service);

#ifdef __cplusplus
}
#endif
#endif
