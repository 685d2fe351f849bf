/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench gpufile` measures with: GPU threads that use a device which CPU threads serve,
 * and CPU threads that move the same data to the GPU by themselves. gpufile.cu where there is CUDA,
 * gpufile_none.c where not.
 */
#ifndef FTH_BENCH_GPUFILE_H
#define FTH_BENCH_GPUFILE_H

#include "gpufile_host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GPUFILE_LINE 4096u

struct gpufile_setup {
	uint64_t size;	      /* bytes of the device that are used, at most; a power of two */
	uint64_t cache;	      /* bytes of GPU memory; 0: an eighth of what is used */
	uint32_t queues;      /* queue pairs */
	uint32_t entries;     /* of their rings, a power of two */
	uint32_t cpu_threads; /* that serve them; the peer has as many */
	uint32_t gpu_threads; /* a multiple of 256 */
	uint32_t ahead;	      /* lines that a warp brings in at once, 1 to 32 */
	uint32_t depth;	      /* requests that each thread of the peer has on the device */
	uint32_t batch;	      /* blocks that it moves to the GPU at once */
	uint32_t seed;	      /* of the data */
	unsigned ms;	      /* that random blocks are read for, at most */
	struct gpufile_watch watch;
};

/* Writing comes last: what was written is not put back. */
enum gpufile_case {
	GPUFILE_READ_512,
	GPUFILE_READ_4096,
	GPUFILE_SEQUENTIAL, /* lines through the cache, one after the other, all of them */
	GPUFILE_RANDOM,	    /* a quarter of them, anywhere */
	GPUFILE_WRITE_READ, /* blocks of 4096 bytes written and read back */
	GPUFILE_CASES
};

/* What became of the setup. */
struct gpufile_info {
	const char *gpu;
	uint64_t size, cache;
	uint32_t block; /* bytes, of the drive */
	uint32_t queues;
	uint32_t request; /* bytes that the peer reads at once, when sequential */
	uint64_t tile;	  /* bytes that it copies at once then */
};

/* One run of each side. Commands a second; bytes a second of cases with a cache. */
struct gpufile_round {
	double ours, peer;
	uint64_t commands; /* that were served; lines read from the device, with a cache */
};

struct gpufile;

/* A GPU and its memory. 0; -EOPNOTSUPP when there is no GPU or no CUDA; others with a text. */
int gpufile_open(const struct gpufile_setup *setup, struct gpufile **bench);

/* The device, which is overwritten, and a cache on it. Close it all after a failure. */
int gpufile_start(struct gpufile *bench, const char *uri);
void gpufile_close(struct gpufile *bench);

void gpufile_info(const struct gpufile *bench, struct gpufile_info *info);

/* Some devices have no blocks of 512 bytes. */
bool gpufile_can(const struct gpufile *bench, enum gpufile_case what);

/*
 * Ours, then the peer's. All that is read is checked on the GPU; -EILSEQ when some was wrong,
 * -EINTR when it was stopped, other errors with a text.
 */
int gpufile_run(struct gpufile *bench, enum gpufile_case what, struct gpufile_round *round);

#ifdef __cplusplus
}
#endif
#endif
