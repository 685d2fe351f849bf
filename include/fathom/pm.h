/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent memory: plain loads and stores, and a call that makes stores persistent.
 *
 *	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
 *	struct fth_pm *pm;
 *	uint64_t *counter;
 *
 *	options.flags = FTH_PM_CREATE;
 *	fth_pm_map("shm:counter", 1u << 20, &options, &pm);
 *	counter = fth_pm_base(pm);
 *	*counter += 1;
 *	fth_pm_persist(pm, counter, sizeof(*counter));
 *	fth_pm_unmap(pm);
 *
 * Names of memory:
 *
 *	name			a store is persistent once		guarantee
 *	shm:NAME		it is executed (POSIX shared memory)	EXIT
 *	pmem:PATH		the processor's caches are written	POWER on a DAX file system
 *				back (libpmem)
 *	pmem:PATH?force=1	the same, on any file; for tests	EXIT
 *	window(URI)		the device's window is persisted	see fathom/dev/window.h
 *	any other device URI	it is written to the device, and	POWER, if flushed data
 *				the device is flushed			survives a power loss
 *
 * The last kind, a file or a block device as a rule, is called *drained*: the memory is a copy in
 * DRAM. All of the device is read when it is mapped, and the mapping takes as much DRAM as its
 * size, so that it cannot be larger than DRAM (fathom/flat.h can). Stores go to the copy, and
 * persist writes the changed pages of 4 KiB to the device, in place. Threads that persist at the
 * same time share the writes and the flush.
 *
 * The memory begins with a header of 4 KiB, which is not part of fth_pm_base(). It is checked
 * when the memory is mapped. The rest is zero after it was created.
 *
 * What survives: a store survives once a persist that covers it and was called after it has
 * returned 0. A crash before that leaves of each aligned word of 8 bytes any value that was stored
 * into it since it was last persisted, independent of all other words. An aligned word is never
 * torn.
 *
 * Thread safety: any number of threads may load, store and persist. A persist covers stores of
 * other threads that happened before it. Map and unmap while no other thread uses the same object.
 *
 * fork(): the memory belongs to the process that mapped it. A child may load, and may unmap it,
 * which the parent does not notice. Stores of the child reach the parent's memory. In the child
 * fth_pm_persist(), fth_pm_flush() and fth_pm_drain() return -EPERM for window() and drained
 * memory, and work for the other kinds. Calls that change logs, transactions and checkpoints return
 * -EPERM in the child for all kinds.
 */
#ifndef FATHOM_PM_H
#define FATHOM_PM_H

#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/detail/pm/view.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_pm;

#define FTH_PM_HEADER 4096u /* bytes in front of fth_pm_base() */

/* What persisted data survives; each includes those before it. */
enum fth_pm_guarantee {
	FTH_PM_VOLATILE, /* nothing: for tests */
	FTH_PM_EXIT,	 /* the end of the process, however it ends */
	FTH_PM_POWER	 /* a power loss */
};

enum fth_pm_kind {
	FTH_PM_KIND_SHM,
	FTH_PM_KIND_PMEM,
	FTH_PM_KIND_WINDOW,
	FTH_PM_KIND_DRAINED,
	FTH_PM_KIND_COUNT
};

/* Flags of options. */
#define FTH_PM_CREATE	 1u /* create it if it does not exist, or if the device is blank */
#define FTH_PM_EXCLUSIVE 2u /* with CREATE: -EEXIST if it exists */
#define FTH_PM_READ_ONLY 4u /* loads only: a store raises SIGSEGV, persist returns -EROFS */

struct fth_pm_options {
	size_t size;		     /* sizeof(struct fth_pm_options) */
	uint32_t flags;		     /* FTH_PM_CREATE, ... */
	uint32_t timeout_ms;	     /* longest wait for a device; 0: 30000 */
	enum fth_pm_guarantee least; /* refuse memory with a weaker guarantee */
	uint64_t tag; /* identifies the program's format; kept in the header; 0: accept any */
};
#define FTH_PM_OPTIONS_INIT                                             \
	{                                                               \
		sizeof(struct fth_pm_options), 0, 0, FTH_PM_VOLATILE, 0 \
	}

/*
 * Map persistent memory by name. `bytes` is the size for the program; 0 takes that of existing
 * memory. options may be NULL: then the memory must exist. Only one mapping for writing exists at a
 * time, or any number for reading. Blocks while a device is read. Returns 0; -ENOENT if it does not
 * exist; -EEXIST with FTH_PM_EXCLUSIVE; -EBUSY if it is mapped elsewhere; -EINVAL for invalid
 * options, names and sizes; -EBADMSG if it is not persistent memory of this library, or is damaged
 * (nothing is modified then); -EMEDIUMTYPE if the tag differs; -ENOTSUP if the guarantee is weaker
 * than `least` or the kind is not available; or the error of the device. fth_error_text() explains
 * it. After an error *out is NULL.
 */
int fth_pm_map(const char *name, uint64_t bytes, const struct fth_pm_options *options,
	       struct fth_pm **out);

/*
 * The same on a device that is open: drained memory. The caller closes the device after the memory
 * is unmapped, and locks it against others if that is needed.
 */
int fth_pm_map_dev(struct fth_dev *dev, uint64_t bytes, const struct fth_pm_options *options,
		   struct fth_pm **out);

/*
 * Unmap the memory. Does not persist stores. No other call on it may be in progress. If a device
 * does not complete its requests within 30 seconds, the memory that it may still read is leaked;
 * everything else is always released. Returns 0, or the first error of a persist since it was
 * mapped. In a child of fork() it returns 0, and the device stays open there. Accepts NULL.
 */
int fth_pm_unmap(struct fth_pm *pm);

/*
 * Remove memory by name: shared memory and files are unlinked; other devices are zeroed. What a
 * creation left that was interrupted is removed as well: also a segment or file that is empty, or
 * has nothing but zeroes. Returns 0; -ENOENT; -EBUSY if it is mapped; -EBADMSG if it is not
 * persistent memory of this library; or the error of the device.
 */
int fth_pm_remove(const char *name);

/* The first byte for the program, aligned to 4096, and the number of bytes. Any thread. */
void *fth_pm_base(const struct fth_pm *pm);
uint64_t fth_pm_size(const struct fth_pm *pm);

/*
 * What persisted data survives, as a value and as an English text, valid until unmap; the kind; the
 * tag in the header. Any thread.
 */
enum fth_pm_guarantee fth_pm_guarantee(const struct fth_pm *pm);
const char *fth_pm_guarantee_text(const struct fth_pm *pm);
enum fth_pm_kind fth_pm_kind(const struct fth_pm *pm);
uint64_t fth_pm_tag(const struct fth_pm *pm);

/* The name that it was mapped with. Valid until unmap. */
const char *fth_pm_name(const struct fth_pm *pm);

/*
 * Make the stores to [ptr, ptr + length) that happened before the call persistent. Any thread. On
 * drained memory it blocks for up to two rounds of write and flush, each at most for
 * options.timeout_ms. Returns 0; -ERANGE outside of the memory; -EROFS; -EPERM in a child of
 * fork(), see above; -ETIMEDOUT; or the error of the device. After an error of the device all
 * persists return it, until the memory is unmapped: no store since the last successful persist is
 * certain to survive.
 */
int fth_pm_persist(struct fth_pm *pm, const void *ptr, uint64_t length);

/*
 * The two halves of fth_pm_persist(), to persist several ranges with one wait: fth_pm_flush()
 * starts to persist a range, fth_pm_drain() waits for all ranges that this thread has flushed. Both
 * return the same values as fth_pm_persist().
 */
int fth_pm_flush(struct fth_pm *pm, const void *ptr, uint64_t length);
int fth_pm_drain(struct fth_pm *pm);

/* For code that is shared with GPUs: fathom/detail/pm/view.h. Valid until unmap. Any thread. */
struct fth_pm_view fth_pm_view(struct fth_pm *pm);

/*
 * Start a thread that serves persists of a GPU on drained memory; without effect for other kinds.
 * It ends with fth_pm_unmap(). Returns 0 or a negative errno, -EPERM in a child of fork().
 */
int fth_pm_serve(struct fth_pm *pm);

enum fth_pm_stat {
	FTH_PM_STAT_PERSISTS, /* calls of fth_pm_persist() and fth_pm_drain() */
	FTH_PM_STAT_BYTES,    /* in ranges given to fth_pm_persist() and fth_pm_flush() */
	FTH_PM_STAT_ROUNDS,   /* of drained memory: writes of changed pages, each with a flush */
	FTH_PM_STAT_PAGES,    /* written in these rounds */
	FTH_PM_STAT_WRITES,   /* requests to the device for these pages */
	FTH_PM_STAT_ERRORS,   /* persists that returned an error */
	FTH_PM_STAT_COUNT
};

/* A count since the memory was mapped. Any thread. */
uint64_t fth_pm_stat(const struct fth_pm *pm, enum fth_pm_stat which);

/* "volatile", "exit", "power"; "shm", "pmem", "window", "drained"; "unknown" for other values. */
const char *fth_pm_guarantee_name(enum fth_pm_guarantee guarantee);
const char *fth_pm_kind_name(enum fth_pm_kind kind);

FTH_END_DECLS
#endif
