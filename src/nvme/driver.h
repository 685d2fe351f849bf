/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host driver: brings an NVMe controller up by the book and offers its queue pairs, and a
 * `dev` on top of them. It knows registers, rings and commands; how registers and DMA memory are
 * reached is a transport's business, so that the software controller and a real drive differ in
 * nothing else.
 *
 * Most users open a device (fth_dev_open("softnvme(mem:1G)", ...)) and never see this header.
 * GPU code and benchmarks use the queue pairs themselves.
 */
#ifndef FATHOM_NVME_DRIVER_H
#define FATHOM_NVME_DRIVER_H

#include "base/private.h"
#include "fathom/dev.h"
#include "fathom/detail/nvme/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transports ---- */

struct fth_dev_window_model; /* fathom/dev/delay.h */
struct fth_nvme_transport;

struct fth_nvme_transport_ops {
	/* Controller registers, by offset into BAR0. Doorbells are reached by pointer. */
	uint32_t (*read32)(struct fth_nvme_transport *t, uint32_t offset);
	uint64_t (*read64)(struct fth_nvme_transport *t, uint32_t offset);
	void (*write32)(struct fth_nvme_transport *t, uint32_t offset, uint32_t value);
	void (*write64)(struct fth_nvme_transport *t, uint32_t offset, uint64_t value);

	/*
	 * Let the controller reach whole pages of memory, contiguous for it at *iova; and end
	 * that. Thread-safe.
	 */
	int (*map)(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t *iova);
	void (*unmap)(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t iova);

	/*
	 * Optional, all three or none: memory BARs of the function beside the registers. `bar` is
	 * 0 to 5; a 64-bit BAR goes by the number of its low half, as in CMBLOC.BIR.
	 *
	 * bar_size: its size in bytes, a power of two; -ENODEV if it is no memory BAR.
	 * bar: let the CPU reach [offset, offset + size) by loads and stores at *out, from any
	 * thread; offset and size are multiples of 4096. -ENODEV as above, -ERANGE beyond the
	 * BAR's end, or what mapping returned. BAR 0 may be asked for too: a window may lie
	 * behind the doorbells. bar_unmap: end that, whole, as it was mapped.
	 */
	int (*bar_size)(struct fth_nvme_transport *t, unsigned bar, uint64_t *size);
	int (*bar)(struct fth_nvme_transport *t, unsigned bar, uint64_t offset, uint64_t size,
		   void **out);
	void (*bar_unmap)(struct fth_nvme_transport *t, void *addr, uint64_t size);

	/*
	 * Optional: the write barrier for [offset, offset + size) of the persistent memory
	 * region, which must be enabled; returns PMRSTS. For a controller in software, which
	 * sees no stores and would have to compare the whole region at a read of PMRSTS. Its I/O
	 * ends at the deadline, with PMRSTS.ERR.
	 */
	uint32_t (*pmr_barrier)(struct fth_nvme_transport *t, uint64_t offset, uint64_t size,
				uint64_t deadline);

	/*
	 * Optional. 0 while the function is there, -ENODEV for ever once the system wants it back:
	 * whoever uses it should let go. Any thread.
	 */
	int (*alive)(struct fth_nvme_transport *t);

	/*
	 * Optional, for a controller that does not let itself be disabled: reset all of the
	 * function, so that it forgets its state and leaves memory alone. 0 or a negative errno.
	 */
	int (*reset)(struct fth_nvme_transport *t);

	/*
	 * Optional: a descriptor that becomes readable when the interrupt with this number, below
	 * `vectors`, fires, and stays so until it is read, 8 bytes. Non-blocking, owned by the
	 * transport, the same one for each call; its interrupt is off until the first call. Any
	 * thread. Or a negative errno.
	 */
	int (*vector_fd)(struct fth_nvme_transport *t, unsigned vector);

	/*
	 * Where `sleeps` below is set: sleep until the interrupt fires that has this number,
	 * or has fired since the last such call. 0, -ETIME at the deadline, or an error. Among
	 * several waiters one may get what another waits for.
	 */
	int (*wait)(struct fth_nvme_transport *t, unsigned vector, uint64_t deadline);

	/* The controller is disabled and everything unmapped. Frees the transport. */
	void (*close)(struct fth_nvme_transport *t);
};

struct fth_nvme_transport {
	const struct fth_nvme_transport_ops *ops;
	char *doorbells;       /* BAR0 + 0x1000 */
	size_t doorbell_bytes; /* that may be touched there; 0: all that any queue needs */
	uint32_t vectors;      /* interrupts there are: the first for the admin queue; 0: none */
	bool sleeps;	       /* waits sleep until an interrupt comes, rather than poll */

	bool plain_bars; /* BARs beside the registers are ordinary memory of this process */

	/* Of a window that is emulated; both NULL for a drive. */
	const char *pmr_note; /* what becomes of the region beyond what the registers say */
	const struct fth_dev_window_model *window_model; /* loads and stores are slowed to this */
};

/* ---- the driver ---- */

struct fth_nvme;

/* What identify said, checked and in plain units. */
struct fth_nvme_info {
	char serial[21];
	char model[41];
	char firmware[9];
	uint32_t nsid;
	uint32_t lba_shift; /* log2 of the block size */
	uint64_t blocks;
	uint64_t max_transfer; /* bytes per command */
	uint32_t queues;       /* I/O queue pairs that were created */
	uint32_t ids;	       /* commands in flight per queue pair */
	bool write_cache;      /* volatile: a flush is needed and does something */
	bool has_discard;
	bool has_write_zeroes;
};

struct fth_nvme_options {
	size_t size;	  /* of this struct; set by the initialiser */
	uint32_t nsid;	  /* namespace; default 1 */
	uint32_t queues;  /* I/O queue pairs wanted; 0: one per CPU, at most 16 */
	uint32_t entries; /* per ring, a power of two; the controller may allow fewer */
	/* How long a command may take before the controller is reset; admin ones get a second. */
	uint64_t timeout_ns;
};

#define FTH_NVME_OPTIONS_INIT                                              \
	{                                                                  \
		sizeof(struct fth_nvme_options), 1, 0, 256, 30000000000ull \
	}

/*
 * Reset the controller behind `transport`, identify it and create its I/O queues. On success
 * the driver owns the transport. On failure the caller keeps it, the controller is disabled, and
 * the text says what is wrong. Blocks for as long as the controller takes, which CAP.TO bounds.
 */
FTH_PRIVATE int fth_nvme_open(struct fth_nvme_transport *transport,
			      const struct fth_nvme_options *options, struct fth_nvme **out);

/* Shut the controller down normally, disable it, and free all. Accepts NULL. */
FTH_PRIVATE void fth_nvme_close(struct fth_nvme *nvme);

FTH_PRIVATE const struct fth_nvme_info *fth_nvme_info(const struct fth_nvme *nvme);

/* I/O queue pair i, 0 to info.queues - 1. Any number of threads may use it. */
FTH_PRIVATE struct fth_nvme_qp *fth_nvme_qp(struct fth_nvme *nvme, unsigned i);

/*
 * Execute an admin command and wait for it. Any thread. 0 or a negative errno. A command that the
 * controller does not answer, in time or at all, fails it (see below): either way it has let go
 * of the command's memory when this returns.
 */
int fth_nvme_admin(struct fth_nvme *nvme, const struct fth_nvme_sqe *command, uint32_t *result);

/* A controller register, by its offset (enum fth_nvme_register). All ones: it is gone. */
FTH_PRIVATE uint32_t fth_nvme_register32(struct fth_nvme *nvme, uint32_t offset);
uint64_t fth_nvme_register64(struct fth_nvme *nvme, uint32_t offset);

/*
 * Identify data (enum fth_nvme_cns) into FTH_NVME_IDENTIFY_SIZE bytes, as the controller gave it:
 * nothing in it is checked. Any thread. 0 or a negative errno; a controller that does not answer
 * in time is failed, as by fth_nvme_fail().
 */
int fth_nvme_identify(struct fth_nvme *nvme, uint32_t cns, uint32_t nsid, void *page);

/*
 * The first `len` bytes of a log page (enum fth_nvme_log_page): a multiple of 4, up to 4096. Ask
 * for no more than the page has. The rest as for fth_nvme_identify().
 */
int fth_nvme_log_page(struct fth_nvme *nvme, uint32_t id, uint32_t nsid, void *buf, size_t len);

/* Memory the controller reaches; page-aligned, zeroed, of huge pages if it is large. */
struct fth_nvme_dma {
	void *ptr;
	uint64_t iova;
	size_t len;
};
FTH_PRIVATE int fth_nvme_dma_alloc(struct fth_nvme *nvme, size_t len, struct fth_nvme_dma *dma);
FTH_PRIVATE void fth_nvme_dma_free(struct fth_nvme *nvme, struct fth_nvme_dma *dma);

/*
 * The controller does not answer, or not sanely: disable it, so that it lets go of all memory,
 * and end every wait with -err. Any thread; only the first call does something.
 */
FTH_PRIVATE void fth_nvme_fail(struct fth_nvme *nvme, int err);

/*
 * Look whether the controller is still there and well, which waits do now and then: fails it with
 * ENODEV when it has left or the system wants it back, with EIO when it reports a fatal status or
 * was disabled behind our back. Any thread; does not wait for others who do the same.
 */
void fth_nvme_watch(struct fth_nvme *nvme);

/*
 * Bring a failed controller back: 0 when it is up (or was never down), -EBUSY while threads
 * still hold commands that they have yet to collect, -ENODEV for ever when it has left, or why it
 * does not come up. Any thread.
 */
FTH_PRIVATE int fth_nvme_recover(struct fth_nvme *nvme);

/*
 * Check and translate identify data, as it comes from outside. 0, or -EINVAL, -EOPNOTSUPP or
 * -ENODEV with a text: no such format, block size out of range or beyond what a command carries,
 * metadata, empty namespace.
 */
int fth_nvme_parse_identify(const struct fth_nvme_id_ctrl *ctrl, const struct fth_nvme_id_ns *ns,
			    struct fth_nvme_info *info);

/* A device on top; owns the driver on success. */
int fth_nvme_dev_new(struct fth_nvme *nvme, struct fth_dev **out);

/*
 * The driver under a device that fth_nvme_dev_new() made, which is what the NVMe schemes open;
 * it lives as long as the device. NULL for any other device, wrappers around one included.
 */
FTH_PRIVATE struct fth_nvme *fth_nvme_of_dev(struct fth_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
