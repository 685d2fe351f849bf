/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The taxi queries of workloads/taxi/taxi.h on a GPU: the distances are scanned in long lines, and
 * the other columns are touched, in short ones, for the trips that are long enough.
 *
 *	fth_gpu_taxi_open(drive, &table, &opts, &taxi);
 *	fth_gpu_taxi_begin(work);
 *	fth_gpu_taxi_launch(work, &taxi.part, &query, 0, NULL);
 *	fth_gpu_taxi_end(work, &table, &query, &answer);
 *	fth_gpu_taxi_close(&taxi);
 *
 * A table that is in memory in parts is launched part by part, between one begin and one end.
 *
 * In fathom_cuda_workloads; see micro/gpu_work.h.
 */
#ifndef FTH_WORKLOADS_GPU_TAXI_H
#define FTH_WORKLOADS_GPU_TAXI_H

#include "workloads/micro/gpu_work.h"
#include "workloads/taxi/taxi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a table. Both sources are cached, in caches of their own or in one, or both are plain. */
struct fth_gpu_taxi_part {
	struct fth_gpu_source miles;  /* doubles; all of them are looked at */
	struct fth_gpu_source values; /* columns 1 and on, one after the other; count 0 for Q0 */
	uint64_t stride;	      /* doubles from one of these columns to the next */
};

/*
 * Two caches of a drive that has a table on it, with the lines that suit each, and the table's
 * columns through them. Opening and closing stop the drive for a moment.
 */
struct fth_gpu_taxi_options {
	uint64_t scan_bytes, bytes; /* of the cache for the distances, and of the other one */
	uint32_t scan_line, line;   /* bytes of their lines */
	uint32_t timeout_ms;	    /* of both, as in fth_gpu_cache_options */
};
#define FTH_GPU_TAXI_OPTIONS_INIT                           \
	{                                                   \
		512u << 20, 256u << 20, 4096u, 512u, 10000u \
	}

struct fth_gpu_taxi {
	struct fth_gpu_cache *scan_cache, *cache;
	struct fth_gpu_taxi_part part;
};

int fth_gpu_taxi_open(struct fth_gpu_drive *drive, const struct fth_taxi_table *table,
		      const struct fth_gpu_taxi_options *opts, struct fth_gpu_taxi *out);

/* Closes both caches, whatever fails; the first error. One that did not open may be closed. */
int fth_gpu_taxi_close(struct fth_gpu_taxi *taxi);

/* Forget all lines: the next query finds nothing in GPU memory. */
int fth_gpu_taxi_empty(struct fth_gpu_taxi *taxi);

/* Lines read from the drive since opening, as bytes and as commands. */
int fth_gpu_taxi_read(struct fth_gpu_taxi *taxi, uint64_t *bytes, uint64_t *requests);

/* Forget what was added up. */
int fth_gpu_taxi_begin(struct fth_gpu_work *work);

/*
 * Add up the rows of a part, on a stream (NULL: the work's own), without waiting. Parts may be
 * added by kernels on different streams at the same time if their slots, 0 to 3, differ; those of
 * one slot are on one stream. The query is the same for all of them.
 */
#define FTH_GPU_TAXI_SLOTS 4u
int fth_gpu_taxi_launch(struct fth_gpu_work *work, const struct fth_gpu_taxi_part *part,
			const struct fth_taxi_query *query, unsigned slot,
			struct CUstream_st *stream);

/* Wait for the work's own stream (the caller has waited for others), and tell the answer. */
int fth_gpu_taxi_end(struct fth_gpu_work *work, const struct fth_taxi_table *table,
		     const struct fth_taxi_query *query, struct fth_taxi_answer *out);

#ifdef __cplusplus
}
#endif
#endif
