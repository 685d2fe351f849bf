/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench gpufile` does to its device by CPU threads alone: the data, and the reads and
 * writes of a program that has no GPU threads to ask for it. No CUDA in here.
 */
#ifndef FTH_BENCH_GPUFILE_HOST_H
#define FTH_BENCH_GPUFILE_HOST_H

#include "gpu/gpu_data.h"

#include "fathom/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A thread's way into the device. Zero-initialise. */
struct gpufile_mover {
	struct fth_dev_chan *chan;
	unsigned depth;
	struct fth_dev_req *reqs;  /* `depth` of them */
	struct fth_dev_req **free; /* those that are not in flight */
};

/* 0, -ENOMEM, or what opening a channel said. After a failure it needs no closing. */
int gpufile_mover_open(struct fth_dev *dev, unsigned depth, struct gpufile_mover *mover);

/* Accepts one that is zeroed, or closed. */
void gpufile_mover_close(struct gpufile_mover *mover);

/*
 * Read or write n pieces, from piece c of the order on, with as many in flight as the mover is
 * deep. In buf they lie one behind the other. Waits for all; the first error, after which the
 * mover is to be closed.
 */
int gpufile_move(struct gpufile_mover *mover, enum fth_dev_op op, const struct gpufile_order *order,
		 uint64_t c, uint64_t n, char *buf);

/* What n pieces must hold, and whether they do. */
void gpufile_stamp(const struct gpufile_order *order, uint64_t c, uint64_t n, char *buf);
bool gpufile_matches(const struct gpufile_order *order, uint64_t c, uint64_t n, const char *buf);

/* Whoever waits for it; both may be NULL. */
struct gpufile_watch {
	bool (*stopped)(void);				 /* any thread asks */
	void (*progress)(uint64_t done, uint64_t total); /* one thread tells */
};

/*
 * Write all pieces of the order, which is not random, with several threads, and flush. -EINTR once
 * it is stopped.
 */
int gpufile_fill(struct fth_dev *dev, const struct gpufile_order *order, unsigned threads,
		 const struct gpufile_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
