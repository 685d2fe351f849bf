/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives that GPU threads use by themselves, through NVMe queue pairs. Who executes the commands is
 * chosen by name, and kernels do not see the difference:
 *
 * - gpu:host?bytes=16G&ssds=4, gpu:hbm?..., gpu:none?...: a software controller on a few blocks of
 *   the same GPU, on pinned host memory, GPU memory or nothing at all; one or more SSDs, as fast as
 *   the hardware or as a model of a drive says;
 * - file:/data/a, mem:1G, vol(...)?object=x: any other device, by threads of the CPU;
 * - nvme:0000:01:00.0: an NVMe drive, which no CPU thread takes part in using.
 *
 *	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;
 *	struct fth_gpu_drive *drive;
 *
 *	opts.queues = 8;
 *	rc = fth_gpu_drive_open_uri("file:/data/a", &opts, &drive);
 *	my_kernel<<<blocks, threads, 0, stream>>>(fth_gpu_drive_view(drive), ...);
 *
 * Kernels use the view with fathom/gpu/io.h, or its queue pairs with fathom/detail/nvme/queue_warp.h.
 *
 * While a gpu: drive runs its controller is a kernel that does not end. So
 * - launch kernels on streams of your own, created with cudaStreamNonBlocking;
 *   cudaDeviceSynchronize() and cudaFree() wait for the controller as well, that is for ever;
 * - allocate GPU and pinned memory before the drive is opened, and free it after it is stopped;
 * - see that kernels are loaded before: set CUDA_MODULE_LOADING=EAGER in the environment, or
 *   call cudaFuncGetAttributes() on each. A kernel that is not loaded can not be, while another
 *   runs.
 * With other drives none of that matters, and tools that serialise kernels work.
 *
 * The drive of a device ("service drive") touches nothing of the GPU: CPU threads can not write GPU
 * memory. Rings and doorbells are host memory that the GPU sees, and every command id has a slot
 * for data there; the kernel's own warps copy between slots and GPU memory. The controller checks
 * what a command asks for: blocks beyond the device end with a status (-ERANGE), and so does memory
 * other than the slots (-EFAULT). nvme: drives differ in the controller only; that way is untested,
 * see doc/gpu-nvme.md.
 *
 * Commands count in blocks of 1 << view.block_shift bytes, 512 to 8192: those of the device or the
 * drive, 4096 for instance where a disk has no smaller ones; a gpu: drive's as asked for.
 *
 * In libfathom_cuda, which is built where nvcc is. A drive belongs to one thread at a time, and to
 * the CUDA device that was current when it was opened. Functions return 0 or a negative errno and
 * leave a text (fathom/base/error.h); -EOPNOTSUPP where there is no GPU.
 */
#ifndef FATHOM_GPU_H
#define FATHOM_GPU_H

#include "fathom/base/decls.h"
#include "fathom/dev/delay.h"
#include "fathom/detail/nvme/queue.h"

FTH_BEGIN_DECLS

#define FTH_GPU_BLOCK_MIN  512u /* bytes of a logical block: a power of two between these */
#define FTH_GPU_BLOCK_MAX  8192u
#define FTH_GPU_SSDS_MAX   16u
#define FTH_GPU_QUEUES_MAX 1024u

enum fth_gpu_medium {
	FTH_GPU_MEDIUM_HOST,   /* pinned memory of the host, over PCIe */
	FTH_GPU_MEDIUM_DEVICE, /* memory of the GPU */
	FTH_GPU_MEDIUM_NONE    /* commands are checked and answered, and no data moves */
};

struct fth_gpu_drive_opts {
	size_t size; /* of this struct */
	enum fth_gpu_medium medium;
	uint64_t bytes;	 /* of each SSD, a multiple of 4096 and of the block */
	void *memory;	 /* NULL: allocated here; or ssds * bytes: pinned host memory, GPU memory */
	uint32_t ssds;	 /* 1 to 16 */
	uint32_t queues; /* queue pairs; number q belongs to SSD q % ssds */
	uint32_t entries;    /* of each ring, a power of two from 2 to 65536 */
	uint32_t warps;	     /* of the controller for each queue pair, 1 to 16; 0: as fits */
	uint32_t batch;	     /* commands that one of them takes at once, 1 to 32; 0: as fits */
	uint32_t timeout_ms; /* for the controller to start and to stop; not 0 */
	const struct fth_dev_model *model; /* NULL: no model, as fast as it goes */
	/*
	 * Post completions before the data, which follows after late_us, as a drive may seem to do
	 * across PCIe; `ordered` is the cure.
	 */
	bool late_data;
	uint32_t late_us;
	/*
	 * Let fathom/gpu/io.h follow each read by another command, shared by all who need one,
	 * before it looks at the data (Qureshi, dissertation, 8.2.1).
	 */
	bool ordered;
	uint32_t threads; /* of a service drive, 1 to 64; 0: as many as queues, at most 4 */
	/*
	 * Bytes for the data of each command of a service drive, a power of two from its block, or
	 * 512, to 8192; 0: 8192. queues * entries of them are pinned.
	 */
	uint32_t slot;
	uint32_t block; /* bytes of a gpu: drive's, a power of two from 512 to 8192; 0: 512 */
};
#define FTH_GPU_DRIVE_OPTS_INIT                                                               \
	{                                                                                     \
		sizeof(struct fth_gpu_drive_opts), FTH_GPU_MEDIUM_HOST, 1u << 20, NULL, 1, 1, \
			1024, 0, 0, 10000, NULL, false, 100, false, 0, 0, 0                   \
	}

/* The virtual queue of those who wait for the second command; see fathom/gpu/io.h. */
struct fth_gpu_order {
	FTH_NVME_ALIGNED uint32_t tail; /* asked */
	FTH_NVME_ALIGNED uint32_t head; /* served */
	FTH_NVME_ALIGNED uint32_t lock;
	uint64_t commands; /* second ones that were sent */
};

/* What a kernel gets, by value. */
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
	uint64_t batches; /* commands / batches were taken at once, on average */
	uint64_t blocks_read, blocks_written;
	uint64_t flushes;
	uint64_t errors; /* commands that ended with a status */
	uint64_t sq_doorbells, cq_doorbells;
	uint64_t second_commands; /* of `ordered` */
};

struct fth_gpu_drive;

/*
 * Make a drive on GPU blocks and start its controller. Blocks, for pinning memory too: seconds for
 * many GiB. What fails leaves nothing behind; but after -ETIME the memory of a controller that did
 * not let itself be stopped again is lost.
 */
int fth_gpu_drive_open(const struct fth_gpu_drive_opts *opts, struct fth_gpu_drive **drive);

/*
 * The same by name. gpu:MEDIUM takes the options bytes, block, ssds, queues, entries, warps, batch,
 * model, late_us (late_data as well) and ordered, each over what opts says; opts may be NULL.
 *
 * Anything else is a device (fathom/dev.h). Of opts then queues, entries, timeout_ms, ordered,
 * threads and slot count; ssds is 1; medium, bytes and block are the device's. Blocks smaller than
 * 512 bytes make a drive of 512, and what follows the last whole one is not reached; -EOPNOTSUPP
 * for blocks larger than 8192. It stays open, for the drive alone to change, until the drive is
 * closed.
 */
int fth_gpu_drive_open_uri(const char *uri, const struct fth_gpu_drive_opts *opts,
			   struct fth_gpu_drive **drive);

/* What kernels use; good until the drive is closed. */
struct fth_gpu_view fth_gpu_drive_view(const struct fth_gpu_drive *drive);

/*
 * The device under a service drive; NULL for others, and for NVMe drives. The host may read and
 * write it while no command for the same blocks is under way.
 */
struct fth_dev *fth_gpu_drive_dev(const struct fth_gpu_drive *drive);

/*
 * The medium of an SSD: host memory, GPU memory, or NULL, as for service drives. The host may use
 * its memory while no command for the same blocks is under way; what kernels wrote is there after a
 * flush.
 */
void *fth_gpu_drive_medium(const struct fth_gpu_drive *drive, uint32_t ssd);

/* The same as a pointer for kernels, who then bypass the queues: zero copy. */
void *fth_gpu_drive_mapped(const struct fth_gpu_drive *drive, uint32_t ssd);

/* What the controller has done since it was started; a little behind while it is busy. */
int fth_gpu_drive_stats(struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats);

/*
 * End the controller, and every wait of kernels with -ESHUTDOWN. -ETIME when it does not end in
 * time: a device still holds commands, for instance; call it again then. Does nothing to a drive
 * that is stopped. Nothing is flushed: that is for kernels to ask for, or fth_gpu_cache_flush().
 */
int fth_gpu_drive_stop(struct fth_gpu_drive *drive);

/*
 * Start a stopped drive with new queue pairs. -ETIME when one that was told to stop still has not.
 * No kernel uses the drive.
 */
int fth_gpu_drive_start(struct fth_gpu_drive *drive);

/*
 * Stop and release everything; NULL is allowed. The first error, and all is released even so: the
 * host's memory also after the GPU has failed. But -ETIME, as from a stop, and nothing is released.
 * No kernel uses the drive any more.
 */
int fth_gpu_drive_close(struct fth_gpu_drive *drive);

FTH_END_DECLS
#endif
