/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the lines of a cache in GPU memory lie on its drive: bytes become blocks here and nowhere
 * else. No CUDA in here: tests need no GPU.
 */
#ifndef FTH_GPU_CACHE_LAYOUT_H
#define FTH_GPU_CACHE_LAYOUT_H

#include "fathom/gpu/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -EINVAL with a text if the drive can not move lines of so many bytes. */
int fth_gpu_layout_check_line(const struct fth_gpu_view *drive, uint32_t line);

/* Tell the cache of its drive and of its lines, which were checked. */
void fth_gpu_layout_set_lines(struct fth_gpu_cache_state *state, const struct fth_gpu_view *drive,
			      uint32_t line);

/* Bytes that an array can be of, from its offset on; 0 if none. */
uint64_t fth_gpu_layout_room(const struct fth_gpu_cache_state *state,
			     const struct fth_gpu_array_options *o);

/* 0, or what is wrong with an array of elements of so many bytes. */
int fth_gpu_layout_check_array(const struct fth_gpu_cache_state *state, size_t element,
			       const struct fth_gpu_array_options *o);

/* The block, of each SSD, at which an array that was checked begins. */
uint64_t fth_gpu_layout_first_block(const struct fth_gpu_cache_state *state,
				    const struct fth_gpu_array_options *o);

#ifdef __cplusplus
}
#endif
#endif
