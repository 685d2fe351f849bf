/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench gpublock` measures with: GPU threads that read and write random blocks of a
 * drive, and the same blocks moved without one. gpublock.cu where there is CUDA, gpublock_none.c
 * where not.
 */
#ifndef FTH_BENCH_GPUBLOCK_H
#define FTH_BENCH_GPUBLOCK_H

#include "fathom/dev/delay.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gpublock_design {
	GPUBLOCK_WARP,	 /* ours: queue_warp.h */
	GPUBLOCK_THREAD, /* ours, each thread for itself: queue.h */
	GPUBLOCK_LOCK	 /* one lock around everything */
};

struct gpublock_setup {
	uint64_t medium; /* bytes, a power of two */
	uint64_t data;	 /* bytes of GPU memory for what one run moves */
	unsigned ms;	 /* a run lasts at most */
	const struct fth_dev_model *model;
	uint32_t ssds;
	uint32_t entries;
	uint32_t warps, batch; /* of the controller; 0: its choice */
	bool ordered;
};

struct gpublock_point {
	enum gpublock_design design;
	uint32_t queues;
	uint32_t threads;
	uint32_t block; /* bytes: 512 or 4096 */
	bool write;
	bool nothing; /* a controller that moves no data */
};

struct gpublock_result {
	double rate; /* commands, or blocks, a second */
	uint64_t commands;
	double per_doorbell; /* commands per write of the submission doorbell */
	double per_batch;    /* commands that the controller took at once */
	uint64_t second_commands;
};

struct gpublock;

/* 0; -EOPNOTSUPP when there is no GPU or no CUDA in this build; other errors with a text. */
int gpublock_open(const struct gpublock_setup *setup, struct gpublock **bench);
void gpublock_close(struct gpublock *bench);

const char *gpublock_gpu(const struct gpublock *bench);
double gpublock_pin_seconds(const struct gpublock *bench);

/*
 * Move random blocks between host and GPU memory with no queue, in several ways; the best. All
 * data of this and of runs is checked afterwards; -EILSEQ when some was wrong.
 */
int gpublock_raw(struct gpublock *bench, uint32_t block, bool write, double *rate);

int gpublock_run(struct gpublock *bench, const struct gpublock_point *point,
		 struct gpublock_result *result);

#ifdef __cplusplus
}
#endif
#endif
