/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software NVMe controller: consumes real NVMe 1.4 queues in memory and executes them on any
 * device, so that everything above runs with no SSD.
 *
 *	fth_dev_open("mem:1G", &dev);
 *	fth_nvme_ctrl_new(dev, NULL, &ctrl);
 *	fth_nvme_ctrl_grant(ctrl, memory, length, bus_address);
 *	... bring it up by its registers, as over PCIe ...
 *	fth_nvme_ctrl_free(ctrl);
 *
 * To its host it is a PCIe function: registers, doorbells, and memory it reaches by bus address.
 * It has one namespace, number 1, which is the whole device. It polls its doorbells; it interrupts
 * where that was asked for.
 *
 * It touches nothing but memory that was granted, whatever the rings, the doorbells and the
 * registers hold; bad commands end with the status that the specification names.
 *
 * How it works inside: src/nvme/ctrl/README.md.
 */
#ifndef FATHOM_NVME_CTRL_H
#define FATHOM_NVME_CTRL_H

#include "base/private.h"
#include "fathom/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_nvme_ctrl;

#define FTH_NVME_CTRL_IO_QUEUES_MAX 1024
#define FTH_NVME_CTRL_THREADS_MAX   64
#define FTH_NVME_CTRL_SERIAL_MAX    20

struct fth_nvme_ctrl_options {
	size_t size;		/* of this struct */
	uint32_t queue_entries; /* the longest queue, CAP.MQES + 1: 2 to 65536 */
	uint32_t io_queues;	/* of each kind, 1 to FTH_NVME_CTRL_IO_QUEUES_MAX */
	uint32_t mdts;	    /* longest transfer is 2^mdts pages of 4 KiB; 0: no limit; up to 16 */
	uint32_t threads;   /* workers; 0: only fth_nvme_ctrl_step() does work */
	uint32_t depth;	    /* commands a worker has in flight at most, 1 to 65535 */
	uint32_t lba_shift; /* log2 of the block size, 9 to 16; 0: the device's, at least 9 */
	const char *serial; /* up to FTH_NVME_CTRL_SERIAL_MAX characters; copied */

	/* The windows; see below. Sizes are powers of two from 4 KiB on; 0: no such window. */
	uint64_t pmr_size;
	struct fth_dev *pmr_dev; /* keeps the region; borrowed; NULL: memory does */
	uint64_t cmb_size;	 /* up to 2 GiB */
	uint64_t cmb_garbage;	 /* seed: each reset fills the CMB with garbage; 0: it does not */
};

#define FTH_NVME_CTRL_OPTIONS_INIT                                                              \
	{                                                                                       \
		sizeof(struct fth_nvme_ctrl_options), 4096, 64, 8, 1, 256, 0, "FATHOM-SOFT", 0, \
			NULL, 0, 0                                                              \
	}

/*
 * Make a controller over `dev`, which is borrowed and must outlive it; options may be NULL. It is
 * off (CC.EN = 0) and its workers are running. -EINVAL for options out of range, among them an
 * lba_shift below the device's block size; -ENOMEM; or what opening a channel returned.
 */
FTH_PRIVATE int fth_nvme_ctrl_new(struct fth_dev *dev, const struct fth_nvme_ctrl_options *options,
				  struct fth_nvme_ctrl **out);

/*
 * Stop the workers and free. Commands in flight on the device are waited for and dropped; no
 * granted memory is touched after this returns. Nothing is flushed: that is the shutdown by
 * CC.SHN. No other call on the controller may be running. Accepts NULL.
 */
FTH_PRIVATE void fth_nvme_ctrl_free(struct fth_nvme_ctrl *ctrl);

/* ---- memory the controller may touch ---- */

/*
 * Grant [addr, addr + len) at bus address iova; all three are multiples of 4096. The memory must
 * stay until it is revoked or the controller is freed. A queue has to lie within one grant; the
 * pages of a transfer may lie in any. -EEXIST if part of the bus range is granted already,
 * -EINVAL, -ENOMEM. Thread-safe; waits for running passes of the workers, which are short.
 */
int fth_nvme_ctrl_grant(struct fth_nvme_ctrl *ctrl, void *addr, size_t len, uint64_t iova);

/*
 * Take a grant back, whole, as it was given. Once this returned 0 the memory is never touched
 * again. It does not wait: -EBUSY, and nothing changed, while a queue lies in it or a command in
 * flight moves data to or from it. -ENOENT if there is no such grant. Thread-safe.
 */
int fth_nvme_ctrl_revoke(struct fth_nvme_ctrl *ctrl, uint64_t iova, size_t len);

/* ---- registers ---- */

/*
 * Register access as over PCIe: `offset` is that in BAR0, a multiple of the access size. What is
 * not there reads 0 and ignores writes. Any thread.
 *
 *	CC.EN 0 to 1	enables: CSTS.RDY, or CSTS.CFS if CC, AQA, ASQ or ACQ can not be used
 *	CC.EN 1 to 0	resets: commands in flight are dropped, queues go away, doorbells become
 *			0. CSTS.RDY is 0 once no command touches memory any more
 *	CC.SHN		commands in flight end, the device is flushed, CSTS.SHST says complete;
 *			CSTS.CFS too if the flush failed
 *	PMRCTL.EN	enables and disables the persistent memory region, before the write returns
 *	PMRSTS		reading it is the region's write barrier
 *
 * With no workers a change that waits for commands in flight needs fth_nvme_ctrl_step().
 */
FTH_PRIVATE uint32_t fth_nvme_ctrl_read32(struct fth_nvme_ctrl *ctrl, uint32_t offset);
uint64_t fth_nvme_ctrl_read64(struct fth_nvme_ctrl *ctrl, uint32_t offset);
FTH_PRIVATE void fth_nvme_ctrl_write32(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value);
void fth_nvme_ctrl_write64(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint64_t value);

/*
 * The doorbells: plain memory, page-aligned, that stands for BAR0 + 0x1000, with the stride 4 of
 * CAP.DSTRD = 0. Hosts and GPUs store into it with fth_store_release_sys32(); the controller
 * polls it. The memory lives as long as the controller; its size is whole pages of 4 KiB.
 */
void *fth_nvme_ctrl_doorbells(struct fth_nvme_ctrl *ctrl);

/*
 * Interrupts: a vector for each queue, 0 to io_queues, 0 being that of the admin queue. When
 * completions were posted to a queue that was created with interrupts, 1 is written to the eventfd
 * that its vector has; without one (the default; fd -1) nothing happens and nothing is paid. The
 * descriptor is borrowed, and must be non-blocking. When this returns, no completion is posted any
 * more that the old setting is used for. 0 or -EINVAL. Any thread; waits for running passes.
 */
int fth_nvme_ctrl_set_vector(struct fth_nvme_ctrl *ctrl, unsigned vector, int fd);

/* How many vectors there are: io_queues + 1. */
unsigned fth_nvme_ctrl_vectors(const struct fth_nvme_ctrl *ctrl);

/* ---- windows ---- */

/*
 * A controller with cmb_size has a controller memory buffer (4.7), one with pmr_size a persistent
 * memory region (4.8). Both are plain memory of this process, so a host's loads and stores cost
 * nothing and are not seen by the controller.
 *
 * What the region promises is emulated to the letter. A store survives a power loss for certain
 * once a write barrier that followed it has ended well; before that it may be there or not, by
 * lines of 64 bytes. The barrier is a read of PMRSTS (PMRCAP.PMRWBM bit 1). A read of the region,
 * the other barrier of the specification, is not offered: nothing traps a load from memory.
 * Clearing PMRCTL.EN and a shutdown by CC.SHN keep all stores as a barrier does.
 *
 * With pmr_dev the region is loaded from the first pmr_size bytes of that device when PMRCTL.EN
 * is set, and a barrier writes what has changed there and flushes. A device that fails to load
 * shows as PMRSTS.HSTS "restore error", one that fails to write or flush as PMRSTS.ERR, which
 * stays until PMRCTL.EN is cleared. Without pmr_dev the region lives as long as the controller.
 *
 * The CMB promises nothing. Commands can not use it: CMBSZ offers neither queues nor data in it.
 */
#define FTH_NVME_CTRL_CMB_BAR  2u
#define FTH_NVME_CTRL_PMR_BAR  4u
#define FTH_NVME_CTRL_PMR_LINE 64u /* what a power loss keeps or loses as a whole */

/* The memory of a BAR and its size, a power of two; NULL if there is none. Page-aligned. */
void *fth_nvme_ctrl_bar(struct fth_nvme_ctrl *ctrl, unsigned bar, uint64_t *size);

/* The device that keeps the region, or NULL. */
struct fth_dev *fth_nvme_ctrl_pmr_dev(const struct fth_nvme_ctrl *ctrl);

/*
 * A write barrier for [offset, offset + len) of the region, rounded outward to whole lines or
 * blocks, and cut to its size. Returns PMRSTS; what a read of PMRSTS does for the whole region.
 * Does nothing while the region is disabled. Waits for pmr_dev until the deadline at the latest;
 * what was not kept by then shows as PMRSTS.ERR. Any thread.
 */
uint32_t fth_nvme_ctrl_pmr_barrier(struct fth_nvme_ctrl *ctrl, uint64_t offset, uint64_t len,
				   uint64_t deadline);

/*
 * For tests: the region loses power. What a barrier covered stays. Of each line that differs
 * from that, either the old or the new content stays, as `seed` decides; it is then what is
 * durable. The region is disabled afterwards, as after power-on, and shows what is left of it
 * when it is enabled. 0, -ENODEV without a region, -ENXIO while it is disabled, or the error of
 * pmr_dev. No thread may be storing.
 */
int fth_nvme_ctrl_pmr_power_loss(struct fth_nvme_ctrl *ctrl, uint64_t seed);

/*
 * For tests: what PMRSTS.HSTS shows from now on, an enum fth_nvme_pmr_health. While it is "read
 * only", barriers take stores back instead of keeping them. 0 or -ENODEV. Any thread.
 */
int fth_nvme_ctrl_pmr_health(struct fth_nvme_ctrl *ctrl, unsigned health);

/* ---- work ---- */

/*
 * Do what there is to do once, without waiting: take finished requests from the device, post
 * completions, fetch and start commands, run admin commands. Returns the amount of progress, 0
 * when there was nothing. Any thread; returns 0 while another thread is in it.
 */
unsigned fth_nvme_ctrl_step(struct fth_nvme_ctrl *ctrl);

/* ---- statistics ---- */

enum fth_nvme_ctrl_stat {
	FTH_NVME_CTRL_STAT_ADMIN, /* commands completed, by kind */
	FTH_NVME_CTRL_STAT_READS,
	FTH_NVME_CTRL_STAT_WRITES,
	FTH_NVME_CTRL_STAT_FLUSHES,
	FTH_NVME_CTRL_STAT_OTHERS, /* compare, write zeroes, dataset management, unknown ones */
	FTH_NVME_CTRL_STAT_BYTES_READ,
	FTH_NVME_CTRL_STAT_BYTES_WRITTEN,
	FTH_NVME_CTRL_STAT_ERRORS,	 /* commands completed with another status than success */
	FTH_NVME_CTRL_STAT_MEDIA_ERRORS, /* those the device failed */
	FTH_NVME_CTRL_STAT_DOORBELLS,	 /* changes seen of submission tails */
	FTH_NVME_CTRL_STAT_BAD_DOORBELLS,
	FTH_NVME_CTRL_STAT_BOUNCED, /* requests that needed a copy, for alignment or comparison */
	FTH_NVME_CTRL_STAT_RESETS,
	FTH_NVME_CTRL_STAT_COUNT
};

/* What happened since fth_nvme_ctrl_new(). Any thread. */
FTH_PRIVATE uint64_t fth_nvme_ctrl_stat(const struct fth_nvme_ctrl *ctrl,
					enum fth_nvme_ctrl_stat which);

#ifdef __cplusplus
}
#endif
#endif
