/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log as the code on a CPU or on a GPU sees it. Kernels take it by value. It is made by
 * fth_pm_log_view() or fth_gpu_pm_log_view(), and valid until the log is cleared or closed.
 */
#ifndef FATHOM_DETAIL_PM_LOG_VIEW_H
#define FATHOM_DETAIL_PM_LOG_VIEW_H

#include "fathom/detail/pm/log_layout.h"

/* What is not persistent of a partition: rebuilt when the log is opened. */
struct fth_pm_conv_part {
	uint32_t lock;	/* 1: somebody appends or removes */
	uint32_t epoch; /* the fields below change under the lock */
	uint32_t tail;	/* bytes in use of the partition */
	uint32_t count; /* entries */
};

struct fth_pm_log_view {
	struct fth_pm_view pm;
	uint8_t *data;	/* the first entry, or partition */
	uint32_t kind;	/* of enum fth_pm_log_kind */
	uint32_t parts; /* threads of an HCL log, those that pad blocks included; or partitions */
	uint32_t salt;
	/* HCL */
	uint32_t epoch;
	uint32_t block_threads; /* threads of a block, rounded up to warps */
	uint32_t entry_bytes;
	uint32_t entries; /* of a thread */
	uint32_t *counts; /* entries that each thread has; not persistent */
	/* conventional */
	uint32_t partition_bytes;
	struct fth_pm_conv_part *partitions;
};

/* What `part` is for thread `thread` of block `block` of an HCL log. */
FTH_HD uint32_t fth_pm_log_thread(const struct fth_pm_log_view *log, uint32_t block,
				  uint32_t thread)
{
	return block * log->block_threads + thread;
}

#endif
