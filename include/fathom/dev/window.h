/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte-addressable windows: memory of a device that the CPU reaches by loads and stores.
 *
 *	struct fth_dev_window *window;
 *
 *	fth_dev_open("softnvme(mem:1G)?pmr=1M", &dev);
 *	fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_POWER, &window);
 *	fth_dev_window_store(window, offset, record, length);
 *	fth_dev_window_persist(window, offset, length, FTH_DEV_TIMEOUT);
 *	...
 *	fth_dev_window_close(window);
 *	fth_dev_close(dev);
 *
 *	device			kind	guarantee of persist
 *	mem:			MEMORY	VOLATILE
 *	file: on DAX		FILE	POWER: the CPU's caches are written back
 *	file:?window=map	FILE	POWER: fdatasync; EXIT on a file system in memory
 *	nvme:, softnvme()	PMR	POWER: the drive's write barrier
 *	nvme:, softnvme()	CMB	VOLATILE
 *	crash(URI)		that of URI; a simulated power loss takes what was not persisted
 *	fault(URI)		that of URI; the plan may fail a persist as it fails a flush
 *	delay(URI)		that of URI, as fast as it is
 *
 * A store is visible to later loads at once. It has the guarantee when a persist that covers it and
 * was called after it has returned 0. Until then a power loss may keep it, lose it, or keep some of
 * its bytes, and may keep a later store while it loses an earlier one. Where the order matters,
 * persist the first store before making the second one.
 *
 * Thread safety: any number of threads may load, store and persist. Loads and stores on the same
 * bytes at the same time are ordered by the callers, as with memory. A persist covers the stores of
 * other threads that happened before it. Open and close from one thread at a time; close when no
 * other call on the window is running, and before the device is closed.
 *
 * A window and the blocks of the device: on mem: and file: the window shows the same bytes as the
 * blocks. Do not use both on the same range at the same time. A PMR or CMB is separate memory.
 */
#ifndef FATHOM_DEV_WINDOW_H
#define FATHOM_DEV_WINDOW_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_dev_window;

enum fth_dev_window_kind {
	FTH_DEV_WINDOW_ANY,    /* for open only: of those that the device has, the strongest */
	FTH_DEV_WINDOW_MEMORY, /* plain memory of this process */
	FTH_DEV_WINDOW_FILE,   /* a mapped file */
	FTH_DEV_WINDOW_CMB,    /* controller memory buffer of an NVMe drive (NVMe 1.4, 4.7) */
	FTH_DEV_WINDOW_PMR,    /* persistent memory region of an NVMe drive (4.8) */
	FTH_DEV_WINDOW_KINDS
};

/* What persisted data survives; each level includes those before it. */
enum fth_dev_window_guarantee {
	FTH_DEV_WINDOW_VOLATILE, /* nothing: it is lost when the device is closed, or before */
	FTH_DEV_WINDOW_EXIT,	 /* the end of the process and closing the device */
	FTH_DEV_WINDOW_POWER	 /* a power loss */
};

enum fth_dev_window_flag {
	/*
	 * base is memory of a PCIe function: use aligned accesses of 1, 2, 4 or 8 bytes; no memcpy,
	 * no atomic read-modify-write, no instruction fetch. Without this flag base is ordinary
	 * memory.
	 */
	FTH_DEV_WINDOW_IO_MEMORY = 1 << 0,
	FTH_DEV_WINDOW_EMULATED = 1 << 1,      /* by software; the text says what that means */
	FTH_DEV_WINDOW_READ_ONLY = 1 << 2,     /* store returns -EROFS */
	FTH_DEV_WINDOW_RESTORE_ERROR = 1 << 3, /* usable, but may have lost what it held before */
};

struct fth_dev_window_info {
	enum fth_dev_window_kind kind;		 /* never ANY */
	enum fth_dev_window_guarantee guarantee; /* of data that was persisted */
	uint32_t flags; /* of enum fth_dev_window_flag, as they were when it was opened */
	void *base;	/* direct loads and stores are allowed at [base, base + size) */
	uint64_t size;
};

/*
 * Open a window of the device, enable it and map it. `least` is the weakest guarantee that the
 * caller accepts: a program that relies on durability passes FTH_DEV_WINDOW_POWER, and a test that
 * is content with memory FTH_DEV_WINDOW_VOLATILE. Thread-safe for different kinds. May block, for
 * as long as the drive is allowed to take. Returns 0; -EOPNOTSUPP if the device has no window, none
 * of this kind, or none with this guarantee; -EBUSY if it has one that can be open once only and
 * is; -EINVAL for an unknown kind or guarantee; or the error of the device. The error text says
 * which. On failure *out is NULL.
 */
int fth_dev_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			enum fth_dev_window_guarantee least, struct fth_dev_window **out);

/* Unmap and disable it. Persists nothing. Accepts NULL. */
void fth_dev_window_close(struct fth_dev_window *window);

/* Valid until the window is closed. Any thread. */
const struct fth_dev_window_info *fth_dev_window_info(const struct fth_dev_window *window);

/* What survives, and how, as English sentences. Valid until the window is closed. Any thread. */
const char *fth_dev_window_text(const struct fth_dev_window *window);

/*
 * Copy from or to the window, at any offset and alignment. A naturally aligned access of 1, 2, 4 or
 * 8 bytes is made as one access and never torn. Any thread. Does not block. Returns 0, -ERANGE
 * beyond the end (nothing is copied), or -EROFS. A drive that is gone loads as all ones and
 * ignores stores; persist and check report that.
 */
int fth_dev_window_load(const struct fth_dev_window *window, uint64_t offset, void *to,
			uint64_t length);
int fth_dev_window_store(struct fth_dev_window *window, uint64_t offset, const void *from,
			 uint64_t length);

/*
 * Give the stores into [offset, offset + length) the guarantee, whether they were made by
 * fth_dev_window_store() or through base. Waits until `deadline` at the latest (as in
 * fth_dev_flush(); FTH_DEV_TIMEOUT is 30 seconds from now), except that a single read of a drive's
 * register is not interrupted. Any thread. Returns 0, also where the guarantee is VOLATILE;
 * -ERANGE; -ETIMEDOUT; or the error of the device, after which no store since the last successful
 * persist is certain to survive. Other stores may become durable too.
 */
int fth_dev_window_persist(struct fth_dev_window *window, uint64_t offset, uint64_t length,
			   uint64_t deadline);

/*
 * Ask the device for the state of the window. Any thread. Returns 0; -EIO if stores were lost or
 * the window is unreliable, until it is opened again; -EROFS if it has become read-only; -ENXIO if
 * it was disabled, as by a reset of the function; -ENODEV if the device is gone.
 */
int fth_dev_window_check(const struct fth_dev_window *window);

/* "memory", "file", "cmb", "pmr"; "volatile", "exit", "power"; "unknown" for other values. */
const char *fth_dev_window_kind_name(enum fth_dev_window_kind kind);
const char *fth_dev_window_guarantee_name(enum fth_dev_window_guarantee guarantee);

FTH_END_DECLS
#endif
