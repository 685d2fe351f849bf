/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Storage for GPU threads, through NVMe queue pairs. What works today, on GPUs of compute
 * capability 8.0 or newer (tested on an H200 only): any device, with CPU threads that execute the
 * commands; and software controllers on the GPU itself, for measurements. A real drive used by the
 * GPU alone (nvme:) is experimental: it was never run on hardware.
 *
 * The URI chooses what executes the commands, and kernels do not see the difference:
 *
 * - gpu:host?bytes=16G&ssds=4, gpu:hbm?..., gpu:none?...: a software controller that runs on a few
 *   blocks of the same GPU, over pinned host memory, GPU memory or no memory; one or more SSDs, at
 *   the speed of the hardware or of a drive model;
 * - file:/data/a, mem:1G, vol(...)?object=x: any other device; CPU threads execute the commands;
 * - nvme:0000:01:00.0: an NVMe drive, used by GPU threads alone; experimental.
 *
 *	struct fth_gpu_drive_options options = FTH_GPU_DRIVE_OPTIONS_INIT;
 *	struct fth_gpu_drive *drive;
 *
 *	options.queues = 8;
 *	rc = fth_gpu_drive_open_uri("file:/data/a", &options, &drive);
 *	my_kernel<<<blocks, threads, 0, stream>>>(fth_gpu_drive_view(drive), ...);
 *
 * Kernels use the view with fathom/gpu/io.h, or its queue pairs with
 * fathom/detail/nvme/queue_warp.h.
 *
 * The controller of a running gpu: drive is a kernel that does not end. Therefore
 * - launch kernels on streams of your own, created with cudaStreamNonBlocking;
 *   cudaDeviceSynchronize() and cudaFree() would wait for the controller for ever;
 * - allocate GPU and pinned memory before you open the drive, and free it after you stop it;
 * - load kernels before: set CUDA_MODULE_LOADING=EAGER in the environment, or call
 *   cudaFuncGetAttributes() on each. CUDA cannot load a kernel while the controller runs.
 * Other drives have none of these limits, and tools that serialise kernels work with them.
 *
 * A service drive is a drive whose commands CPU threads execute on a device. They cannot write GPU
 * memory, so rings and doorbells are in host memory that the GPU maps, and every command id has a
 * data slot there; the warps of the kernel copy between slots and GPU memory. The controller checks
 * each command: it completes a command for blocks beyond the end of the device with an error status
 * (-ERANGE), and so a command for memory outside the slots (-EFAULT). nvme: drives differ in the
 * controller only; they are untested, see doc/gpu-nvme.md.
 *
 * Commands count in blocks of 1 << view.block_shift bytes, 512 to 8192: the blocks of the device or
 * drive; for a gpu: drive, options.block.
 *
 * In libfathom_cuda, which is built if nvcc is present. One host thread at a time uses a drive, and
 * a drive belongs to the CUDA device that was current when it was opened. Functions return 0 or a
 * negative errno and leave a text (fathom/base/error.h); -EOPNOTSUPP without a GPU.
 */
#ifndef FATHOM_GPU_H
#define FATHOM_GPU_H

#include "fathom/base/decls.h"
#include "fathom/dev/delay.h"
#include "fathom/detail/nvme/queue.h"

FTH_BEGIN_DECLS

#define FTH_GPU_BLOCK_MIN  512u /* a block is a power of two of bytes, from 512 to 8192 */
#define FTH_GPU_BLOCK_MAX  8192u
#define FTH_GPU_SSDS_MAX   16u
#define FTH_GPU_QUEUES_MAX 1024u

enum fth_gpu_medium {
	FTH_GPU_MEDIUM_HOST,   /* pinned memory of the host, over PCIe */
	FTH_GPU_MEDIUM_DEVICE, /* memory of the GPU */
	FTH_GPU_MEDIUM_NONE    /* commands are checked and completed without moving data */
};

/* Start from FTH_GPU_DRIVE_OPTIONS_INIT. */
struct fth_gpu_drive_options {
	size_t size; /* of this struct */
	enum fth_gpu_medium medium;
	uint64_t bytes;	  /* of each SSD, a multiple of 4096 and of the block */
	void *memory;	  /* NULL: allocated; or ssds * bytes of pinned host memory or GPU memory */
	uint32_t ssds;	  /* 1 to 16 */
	uint32_t queues;  /* queue pairs; number q belongs to SSD q % ssds */
	uint32_t entries; /* of each ring, a power of two from 2 to 65536 */
	uint32_t warps;	  /* of the controller for each queue pair, 1 to 16; 0: chosen */
	uint32_t batch;	  /* commands that a warp of it takes at once, 1 to 32; 0: chosen */
	uint32_t timeout_ms;		   /* for the controller to start and to stop; not 0 */
	const struct fth_dev_model *model; /* NULL: the speed of the hardware */
	/*
	 * For tests: post completions late_us before their data arrives, as the GPU may observe it
	 * with a drive on PCIe. `ordered` makes up for it.
	 */
	bool late_data;
	uint32_t late_us;
	/*
	 * After each read, fathom/gpu/io.h sends a second command, one for all warps that need it,
	 * before it uses the data (Qureshi, dissertation, 8.2.1).
	 */
	bool ordered;
	uint32_t threads; /* of a service drive, 1 to 64; 0: as many as queues, at most 4 */
	/*
	 * Bytes for the data of each command of a service drive, a power of two from its block, or
	 * 512, to 8192; 0: 8192. queues * entries of them are pinned.
	 */
	uint32_t slot;
	uint32_t block; /* bytes of a block of a gpu: drive, a power of two, 512 to 8192; 0: 512 */
};
#define FTH_GPU_DRIVE_OPTIONS_INIT                                                               \
	{                                                                                        \
		sizeof(struct fth_gpu_drive_options), FTH_GPU_MEDIUM_HOST, 1u << 20, NULL, 1, 1, \
			1024, 0, 0, 10000, NULL, false, 100, false, 0, 0, 0                      \
	}

/* The virtual queue of warps that wait for the second command; see fathom/gpu/io.h. */
struct fth_gpu_order {
	FTH_NVME_ALIGNED uint32_t tail; /* asked */
	FTH_NVME_ALIGNED uint32_t head; /* served */
	FTH_NVME_ALIGNED uint32_t lock;
	uint64_t commands; /* second commands that were sent */
};

/* A drive as kernels use it; they take it by value. */
struct fth_gpu_view {
	struct fth_nvme_qp *qps;     /* `queues` of them, in GPU memory */
	struct fth_gpu_order *order; /* NULL: completions come after their data */
	uint64_t blocks;	     /* of each SSD */
	uint32_t queues;
	uint32_t ssds;
	uint8_t *bounce;     /* slots for data in host memory; NULL: the drive reaches GPU memory */
	uint64_t bounce_bus; /* where the drive sees them */
	uint32_t bounce_slot; /* bytes for each command id of each queue pair */
	uint32_t block_shift; /* log2 of the bytes of a block, 9 to 13 */
};

struct fth_gpu_drive_stats {
	uint64_t commands;
	uint64_t batches; /* commands / batches is the mean number of commands taken at once */
	uint64_t blocks_read, blocks_written;
	uint64_t flushes;
	uint64_t errors; /* commands that ended with an error status */
	uint64_t sq_doorbells, cq_doorbells;
	uint64_t second_commands; /* of `ordered` */
};

struct fth_gpu_drive;

/*
 * Make a drive on GPU blocks and start its controller. Blocks; pinning many GiB takes seconds. A
 * failure leaves nothing behind, except for -ETIME: a controller that did not stop again keeps its
 * memory.
 */
int fth_gpu_drive_open(const struct fth_gpu_drive_options *options, struct fth_gpu_drive **drive);

/*
 * Open a drive by URI. gpu:MEDIUM takes the options bytes, block, ssds, queues, entries, warps,
 * batch, model, late_us (which sets late_data too) and ordered; each overrides its field of
 * options, which may be NULL.
 *
 * Any other URI is a device (fathom/dev.h). The fields queues, entries, timeout_ms, ordered,
 * threads and slot of options apply; ssds is 1; medium, bytes and block are those of the device. A
 * device with blocks smaller than 512 bytes makes a drive with blocks of 512, which does not reach
 * a remainder at the end; -EOPNOTSUPP for blocks larger than 8192. The device stays open until the
 * drive is closed, and only the drive may change it.
 */
int fth_gpu_drive_open_uri(const char *uri, const struct fth_gpu_drive_options *options,
			   struct fth_gpu_drive **drive);

/* The view for kernels, valid until the drive is closed. */
struct fth_gpu_view fth_gpu_drive_view(const struct fth_gpu_drive *drive);

/*
 * The device of a service drive; NULL for other drives. The host may read and write it while no
 * command for the same blocks is in flight.
 */
struct fth_dev *fth_gpu_drive_dev(const struct fth_gpu_drive *drive);

/*
 * The memory of an SSD of a gpu: drive: host memory or GPU memory; NULL for FTH_GPU_MEDIUM_NONE and
 * for service drives. The host may use host memory while no command for the same blocks is in
 * flight; it holds what kernels wrote after a flush.
 */
void *fth_gpu_drive_medium(const struct fth_gpu_drive *drive, uint32_t ssd);

/* The same memory as a device pointer, for kernels that bypass the queues (zero copy). */
void *fth_gpu_drive_mapped(const struct fth_gpu_drive *drive, uint32_t ssd);

/* Counts since the controller was started; a little behind while it is busy. */
int fth_gpu_drive_stats(struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats);

/*
 * Stop the controller; waits of kernels end with -ESHUTDOWN. -ETIME if the controller does not end
 * in time, for instance because the device still holds commands; the caller can retry. Does nothing
 * to a stopped drive. Does not flush: kernels do, or fth_gpu_cache_flush().
 */
int fth_gpu_drive_stop(struct fth_gpu_drive *drive);

/*
 * Start a stopped drive with new queue pairs. -ETIME if its last controller has not ended yet. No
 * kernel may use the drive meanwhile.
 */
int fth_gpu_drive_start(struct fth_gpu_drive *drive);

/*
 * Stop the drive and release everything. Accepts NULL. No kernel may use the drive any more.
 * Returns the first error; everything is released nevertheless, host memory even after the GPU has
 * failed. Only after -ETIME, see fth_gpu_drive_stop(), nothing is released, and the caller can
 * retry.
 */
int fth_gpu_drive_close(struct fth_gpu_drive *drive);

FTH_END_DECLS
#endif
