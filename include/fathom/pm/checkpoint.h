/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checkpoints of buffers in persistent memory.
 *
 *	struct fth_pm_checkpoint_shape shape = {.groups = 1, .buffers = 2, .bytes = 1u << 20};
 *	struct fth_pm_checkpoint *cp;
 *
 *	fth_pm_checkpoint_open_or_create(pm, 0, &shape, &cp);
 *	fth_pm_checkpoint_register(cp, 0, weights, sizeof(weights));
 *	fth_pm_checkpoint_register(cp, 0, biases, sizeof(biases));
 *	if (fth_pm_checkpoint_version(cp, 0) > 0)
 *		fth_pm_checkpoint_restore(cp, 0);
 *	...
 *	fth_pm_checkpoint_save(cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL);
 *	fth_pm_checkpoint_close(cp);
 *
 * A group is a number of buffers that are saved and restored together. Each group has two copies in
 * persistent memory: a save writes the one that is not the present checkpoint, and then switches to
 * it atomically. Groups are independent of each other. A checkpoint has a version, 1 for the first,
 * checksums, and a record of both, which is kept twice: one flipped bit does not lose a checkpoint.
 * Restore fails if the registered buffers differ from the saved ones in number, sizes or order.
 *
 * Thread safety: one thread at a time for each object. Calls block as fth_pm_persist() does.
 */
#ifndef FATHOM_PM_CHECKPOINT_H
#define FATHOM_PM_CHECKPOINT_H

#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/pm.h"

FTH_BEGIN_DECLS

struct fth_pm_checkpoint;

#define FTH_PM_CHECKPOINT_GROUPS_MAX  65536u
#define FTH_PM_CHECKPOINT_BUFFERS_MAX 65536u

struct fth_pm_checkpoint_shape {
	uint32_t groups;
	uint32_t buffers; /* of a group, at most */
	uint64_t bytes;	  /* of the buffers of a group together, each rounded up to 4096 */
};

/*
 * Bytes of persistent memory that an area of this shape takes, a multiple of 4096; 0 if the shape
 * is invalid.
 */
uint64_t fth_pm_checkpoint_bytes(const struct fth_pm_checkpoint_shape *shape);

/*
 * Make an area at this offset of the memory, a multiple of 4096. What was there before is lost.
 * Returns 0; -EINVAL; -ERANGE if the area does not fit; -EROFS; -ENOMEM; or the error of persist.
 */
int fth_pm_checkpoint_create(struct fth_pm *pm, uint64_t offset,
			     const struct fth_pm_checkpoint_shape *shape,
			     struct fth_pm_checkpoint **out);

/*
 * Open an area. Returns 0; -ENOENT if none was created at this offset: the header is zero, or a
 * creation was interrupted; -EBADMSG if it is damaged, or something else is there; -EINVAL or
 * -ERANGE for an invalid offset; -ENOMEM.
 */
int fth_pm_checkpoint_open(struct fth_pm *pm, uint64_t offset, struct fth_pm_checkpoint **out);

/*
 * Open an area, or create it if none was created at this offset. A damaged one is left as it is.
 * Returns the same values as open and create; -EINVAL also if the area there has another shape.
 */
int fth_pm_checkpoint_open_or_create(struct fth_pm *pm, uint64_t offset,
				     const struct fth_pm_checkpoint_shape *shape,
				     struct fth_pm_checkpoint **out);

/* Close it, before the memory is unmapped. Saves nothing. Accepts NULL. */
void fth_pm_checkpoint_close(struct fth_pm_checkpoint *cp);

/*
 * Add a buffer to a group. The buffer must stay valid until close. The buffers of a group are
 * memory of the CPU; or all of them are memory of a GPU, and the functions of fathom/pm/gpu.h save
 * and restore them. Returns 0; -EINVAL for a group that is not there, or an empty buffer; -ENOSPC
 * if it does not fit the shape; -ENOMEM.
 */
int fth_pm_checkpoint_register(struct fth_pm_checkpoint *cp, uint32_t group, void *buffer,
			       uint64_t bytes);

/*
 * Flag of a save: write only blocks of 4 KiB that differ from those in the copy. Whether they
 * differ is found by a checksum of 64 bits per block, which is kept in memory. The first save into
 * a copy after open writes all blocks.
 */
#define FTH_PM_CHECKPOINT_INCREMENTAL 1u

/*
 * Save the buffers of a group. Returns 0 when the checkpoint is persistent; its version is then one
 * higher. After an error the previous checkpoint is unchanged: -EINVAL for a group that is not
 * there or has no buffers, or unknown flags; -EROFS; -ENOMEM; or the error of persist.
 */
int fth_pm_checkpoint_save(struct fth_pm_checkpoint *cp, uint32_t group, uint32_t flags);

/*
 * Result of a restore or verify: a newer checkpoint than this one was begun, and none of its
 * records is whole. Either a crash interrupted its save, which had not returned, or both records
 * are damaged.
 */
#define FTH_PM_CHECKPOINT_OLDER 1

/*
 * Copy the checkpoint of a group into its buffers. The data is verified before. Returns 0;
 * FTH_PM_CHECKPOINT_OLDER, which is 1, if a newer one may be lost: the buffers have this one
 * nevertheless; -ENODATA if nothing was saved; -EINVAL if it was saved from other buffers (number,
 * sizes or order); -EBADMSG if the data is damaged; -ENOMEM. After an error the buffers are
 * unchanged.
 */
int fth_pm_checkpoint_restore(struct fth_pm_checkpoint *cp, uint32_t group);

/*
 * The version of a group's checkpoint: the number of saves ever. 0 if nothing was saved or there is
 * no such group.
 */
uint64_t fth_pm_checkpoint_version(const struct fth_pm_checkpoint *cp, uint32_t group);

/* The number of groups of the shape. */
uint32_t fth_pm_checkpoint_groups(const struct fth_pm_checkpoint *cp);

/*
 * Verify the data of a group, without buffers. Returns 0, FTH_PM_CHECKPOINT_OLDER, -ENODATA if
 * nothing was saved, -EBADMSG if it is damaged, or -EINVAL.
 */
int fth_pm_checkpoint_verify(struct fth_pm_checkpoint *cp, uint32_t group);

/* Bytes of data that saves have written since open. */
uint64_t fth_pm_checkpoint_written(const struct fth_pm_checkpoint *cp);

/*
 * The data of a group's checkpoint, for programs that read it in place. Sets *data to its first
 * byte; each buffer begins at a multiple of 4096 bytes from there. Returns the number of bytes, or
 * 0 if nothing was saved.
 */
uint64_t fth_pm_checkpoint_data(const struct fth_pm_checkpoint *cp, uint32_t group,
				const void **data);

FTH_END_DECLS
#endif
