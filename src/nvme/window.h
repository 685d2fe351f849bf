/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The byte-addressable window of an NVMe drive: memory of the drive that the CPU reaches by loads
 * and stores. There are two kinds, and a drive may have either, both or none:
 *
 *	PMR	persistent memory region (NVMe 1.4, 4.8): survives power loss
 *	CMB	controller memory buffer (4.7): promises nothing
 *
 *	struct fth_nvme_window *window;
 *
 *	fth_dev_open("softnvme(mem:1G)?pmr=1M", &dev);
 *	fth_nvme_window_open(fth_nvme_of_dev(dev), FTH_NVME_WINDOW_PMR, &window);
 *	fth_nvme_window_store(window, offset, record, length);
 *	fth_nvme_window_persist(window, offset, length, fth_deadline_ns(1000000000));
 *	...
 *	fth_nvme_window_close(window);
 *	fth_dev_close(dev);
 *
 * A store is *there* for later loads at once, and *durable* when a persist that covers it and was
 * called after it has returned 0. Until then a power loss may keep it, lose it, or keep some of
 * its bytes, and keep a later store while it loses an earlier one. Where order matters, persist
 * the first before storing the second.
 *
 * Thread safety: any number of threads may load, store and persist; loads and stores that overlap
 * in time on the same bytes are the callers' business, as with memory. A persist covers the
 * stores of other threads that happened before it. Open and close one kind from one thread at a
 * time, and close only when no other call is running.
 */
#ifndef FATHOM_NVME_WINDOW_H
#define FATHOM_NVME_WINDOW_H

#include "nvme/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_nvme_window;

enum fth_nvme_window_kind { FTH_NVME_WINDOW_CMB, FTH_NVME_WINDOW_PMR };

enum fth_nvme_window_flag {
	/* What survives. */
	FTH_NVME_WINDOW_PERSISTENT = 1 << 0,	/* what was persisted survives a power loss */
	FTH_NVME_WINDOW_EMULATED = 1 << 1,	/* by software; the report says what that means */
	FTH_NVME_WINDOW_RESTORE_ERROR = 1 << 2, /* it works, but may have lost what it held */
	FTH_NVME_WINDOW_READ_ONLY = 1 << 3,

	/* What makes stores durable, PMRCAP.PMRWBM; persist does what is needed. */
	FTH_NVME_WINDOW_BARRIER_READ = 1 << 4,	 /* a read of the region */
	FTH_NVME_WINDOW_BARRIER_STATUS = 1 << 5, /* a read of PMRSTS */
	FTH_NVME_WINDOW_READ_BYPASS = 1 << 6,	 /* reads may overtake writes in the buffer */

	/* What the controller's own commands may use the window for: CMBSZ, PMRCAP. */
	FTH_NVME_WINDOW_SQS = 1 << 8,	 /* submission queues */
	FTH_NVME_WINDOW_CQS = 1 << 9,	 /* completion queues */
	FTH_NVME_WINDOW_LISTS = 1 << 10, /* PRP and SGL lists */
	FTH_NVME_WINDOW_RDS = 1 << 11,	 /* data it hands to the host */
	FTH_NVME_WINDOW_WDS = 1 << 12	 /* data the host hands to it */
};

struct fth_nvme_window_info {
	enum fth_nvme_window_kind kind;
	uint32_t flags; /* of enum fth_nvme_window_flag, as they were when it was opened */
	void *base;	/* device memory: see below before using it */
	uint64_t size;
	unsigned bar; /* where it lies in the function */
	uint64_t bar_offset;
	uint64_t elasticity; /* PMREBS: bytes that may be stored at full speed; 0: not told */
	uint64_t sustained;  /* PMRSWTP: bytes a second after that; 0: not told */
};

/*
 * Find the window, enable it and map it. A PMR is disabled first if it was enabled, which clears
 * old errors and keeps its contents. Blocks for as long as the drive takes, which PMRCAP.PMRTO
 * bounds. -ENODEV if the drive has no such window, -EOPNOTSUPP if the transport can not map it,
 * -EBUSY if it is open already, -EIO if it is unreliable, -ETIMEDOUT, -ENOMEM. A region with
 * RESTORE_ERROR opens: look at the flags before believing what is in it.
 */
int fth_nvme_window_open(struct fth_nvme *nvme, enum fth_nvme_window_kind kind,
			 struct fth_nvme_window **out);

/* Disable and unmap it. Persists nothing. Before the device is closed. Accepts NULL. */
void fth_nvme_window_close(struct fth_nvme_window *window);

/*
 * What it is. Whoever uses base by himself keeps to what device memory allows: aligned accesses
 * of 1, 2, 4 or 8 bytes, no memcpy, no atomic read-modify-write, no instruction fetch.
 */
const struct fth_nvme_window_info *fth_nvme_window_info(const struct fth_nvme_window *window);

/*
 * What survives a power loss and how, in plain words, cut to `size` bytes with the final 0.
 * Returns the length of the whole text, as snprintf does.
 */
int fth_nvme_window_report(const struct fth_nvme_window *window, char *text, size_t size);

/*
 * Copy from or to the window; any offset, length and alignment. Done with aligned accesses of up
 * to 8 bytes, each byte of the range once, none outside it. A naturally aligned access of 1, 2, 4
 * or 8 bytes is one access and not torn. -ERANGE, and nothing done, beyond the end; a store into
 * a region that was READ_ONLY when opened is -EROFS. A drive that has gone loads as all ones and
 * swallows stores: persist and check find out.
 */
int fth_nvme_window_load(const struct fth_nvme_window *window, uint64_t offset, void *to,
			 uint64_t length);
int fth_nvme_window_store(struct fth_nvme_window *window, uint64_t offset, const void *from,
			  uint64_t length);

/*
 * Make stores into [offset, offset + length) durable: the read-back that the drive asks for, and
 * a look at what it says. -ERANGE; -EOPNOTSUPP for a CMB, and for a region that names no barrier;
 * and the errors of check, after which nothing stored since the last good persist is certain.
 * Stores outside the range may become durable too. Waits for the drive to answer a read.
 */
int fth_nvme_window_persist(struct fth_nvme_window *window, uint64_t offset, uint64_t length,
			    uint64_t deadline);

/*
 * How the drive says the window is (PMRSTS): 0; -EIO if writes were lost or it is unreliable, and
 * from then on until it is opened again; -EROFS if it has become read-only; -ENXIO if it is not
 * enabled any more, as after a reset of the function; -ENODEV if the drive has gone.
 */
int fth_nvme_window_check(const struct fth_nvme_window *window);

#ifdef __cplusplus
}
#endif
#endif
