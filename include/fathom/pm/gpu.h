/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent memory for the threads of a GPU. The host maps it (fathom/pm.h), registers it here,
 * and gives kernels a view, by value:
 *
 *	__global__ void add_one(struct fth_pm_view pm)
 *	{
 *		uint64_t *mine = (uint64_t *)pm.base + blockIdx.x * blockDim.x + threadIdx.x;
 *
 *		fth_pm_put64(&pm, mine, *mine + 1);
 *		fth_pm_persist_range(&pm, mine, sizeof(*mine));
 *	}
 *
 *	fth_gpu_pm_register(pm, &gpu);
 *	add_one<<<8, 256>>>(fth_gpu_pm_view(gpu));
 *
 * fth_pm_persist_range() returns 0 when the stores of the calling thread into the range have the
 * guarantee of the memory: after a system-scope fence for shared memory, after the device's flush
 * for drained memory. Lanes that call it together share the wait. fathom/detail/pm/view.h has all
 * functions for kernels; fathom/pm/log.h has logs.
 *
 * Kinds of memory that a GPU can use: shm: (guarantee EXIT), and drained, that is any other device
 * URI (POWER for devices that flush). The driver pins memory for a GPU for a long time, which Linux
 * refuses for mappings of files, so pmem: is refused; so is window().
 */
#ifndef FATHOM_PM_GPU_H
#define FATHOM_PM_GPU_H

#include "fathom/base/decls.h"
#include "fathom/pm.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"

FTH_BEGIN_DECLS

struct fth_gpu_pm;

/*
 * Register the memory with CUDA. For drained memory this also starts a host thread that serves the
 * persists of the GPU. The memory must stay mapped until it is unregistered. One thread at a time.
 * Returns 0;
 * -EOPNOTSUPP for kinds that cannot be registered, and without a GPU; -EBUSY if it is registered
 * already; -ENOMEM; or another error of CUDA. fth_error_text() explains it.
 */
int fth_gpu_pm_register(struct fth_pm *pm, struct fth_gpu_pm **out);

/*
 * Unregister it. No kernel may use it any more. Accepts NULL. Returns the first error; everything
 * is released nevertheless.
 */
int fth_gpu_pm_unregister(struct fth_gpu_pm *gpu);

/* The view of the memory for kernels. Valid until the memory is unregistered. */
struct fth_pm_view fth_gpu_pm_view(const struct fth_gpu_pm *gpu);

/* The address that kernels use for host address `host`, which is inside the memory. */
void *fth_gpu_pm_address(const struct fth_gpu_pm *gpu, const void *host);

struct fth_gpu_pm_log;

/*
 * Open the log at byte `offset` of the memory for kernels: they find its entries, in parallel, and
 * their number is kept in GPU memory. Do not change it by fth_pm_log_* functions of the host
 * meanwhile. 0; -ENOENT or -EBADMSG as fth_pm_log_open(); -EINVAL; -ERANGE; -ENOMEM; or another
 * error of CUDA.
 */
int fth_gpu_pm_log_open(struct fth_gpu_pm *gpu, uint64_t offset, struct fth_gpu_pm_log **out);

/* Release it; the entries stay. Accepts NULL. No kernel may use it any more. */
int fth_gpu_pm_log_close(struct fth_gpu_pm_log *log);

/* For kernels: fth_pm_log_insert_hd() and others. Valid until the log is cleared or closed. */
struct fth_pm_log_view fth_gpu_pm_log_view(const struct fth_gpu_pm_log *log);

/* Remove all entries, persistently. No kernel may use the log meanwhile. */
int fth_gpu_pm_log_clear(struct fth_gpu_pm_log *log);

struct CUstream_st; /* what CUDA's cudaStream_t points to */

/*
 * fth_pm_checkpoint_save() and fth_pm_checkpoint_restore() for a group whose buffers are in GPU
 * memory: kernels copy between them and the persistent memory, which is registered. They run on
 * `stream` (NULL: the default one), and the calls wait for them. Return as these; -EINVAL if the
 * memory is not registered; or an error of CUDA. After an error of CUDA while it restores, the
 * buffers hold anything. Several checkpoint objects on one memory may be used at the same time,
 * each by one thread.
 */
int fth_gpu_pm_checkpoint_save(struct fth_pm_checkpoint *cp, uint32_t group, uint32_t flags,
			       struct CUstream_st *stream);
int fth_gpu_pm_checkpoint_restore(struct fth_pm_checkpoint *cp, uint32_t group,
				  struct CUstream_st *stream);

FTH_END_DECLS
#endif
