/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernels of `fathom bench gpupm` that log, and plain stores of as many bytes. */
#ifndef FTH_BENCH_GPUPM_KERNELS_H
#define FTH_BENCH_GPUPM_KERNELS_H

#include "fathom/pm/log.h"

#define GPUPM_BLOCK 256u /* threads of a block */

/* An entry of so many bytes. */
template <uint32_t BYTES> struct gpupm_entry {
	uint32_t words[BYTES / 4];
};

/* Word k of entry i of a thread. */
FTH_HD uint32_t gpupm_word(uint32_t thread, uint32_t i, uint32_t k, uint32_t stamp)
{
	return ((thread ^ stamp) * 0x9e3779b1u + i * 0x85ebca77u) ^ k * 0xc2b2ae3du;
}

template <uint32_t BYTES>
FTH_HD struct gpupm_entry<BYTES> gpupm_make(uint32_t thread, uint32_t i, uint32_t stamp) {
	struct gpupm_entry<BYTES> entry;

	for (uint32_t k = 0; k < BYTES / 4; k++)
		entry.words[k] = gpupm_word(thread, i, k, stamp);
	return entry;
}

__device__ static inline uint32_t
gpupm_thread(void)
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

/* Where chunk k of entry i of a thread is, in chunks, if all that is stored is payload. */
FTH_HD uint64_t gpupm_raw_at(uint32_t thread, uint32_t i, uint32_t k, uint32_t entries,
			     uint32_t chunks)
{
	return (((uint64_t)(thread / 32) * entries + i) * chunks + k) * 32 + thread % 32;
}

/* Stores of 4 bytes per lane, 128 per warp. */
template <uint32_t BYTES>
__global__ void gpupm_raw4(uint32_t *base, uint32_t entries, uint32_t stamp)
{
	uint32_t thread = gpupm_thread();

	for (uint32_t i = 0; i < entries; i++) {
		struct gpupm_entry<BYTES> e = gpupm_make<BYTES>(thread, i, stamp);

#pragma unroll
		for (uint32_t k = 0; k < BYTES / 4; k++)
			base[gpupm_raw_at(thread, i, k, entries, BYTES / 4)] = e.words[k];
	}
}

/* Stores of 16 bytes per lane, 512 per warp. */
template <uint32_t BYTES> __global__ void gpupm_raw16(uint4 *base, uint32_t entries, uint32_t stamp)
{
	uint32_t thread = gpupm_thread();

	for (uint32_t i = 0; i < entries; i++) {
		struct gpupm_entry<BYTES> e = gpupm_make<BYTES>(thread, i, stamp);

#pragma unroll
		for (uint32_t k = 0; k < BYTES / 16; k++)
			base[gpupm_raw_at(thread, i, k, entries, BYTES / 16)] =
				make_uint4(e.words[4 * k], e.words[4 * k + 1], e.words[4 * k + 2],
					   e.words[4 * k + 3]);
	}
}

template <uint32_t BYTES>
__global__ void gpupm_hcl(struct fth_pm_log_view log, uint32_t entries, uint32_t stamp,
			  uint32_t *failed)
{
	uint32_t thread = gpupm_thread();

	for (uint32_t i = 0; i < entries; i++) {
		struct gpupm_entry<BYTES> e = gpupm_make<BYTES>(thread, i, stamp);

		if (fth_pm_hcl_insert(&log, thread, &e, BYTES) < 0)
			atomicAdd(failed, 1u);
	}
}

/* Entries say whose they are, in front of the payload's other words. */
template <uint32_t BYTES>
FTH_HD struct gpupm_entry<BYTES> gpupm_make_named(uint32_t thread, uint32_t i, uint32_t stamp) {
	struct gpupm_entry<BYTES> e = gpupm_make<BYTES>(thread, i, stamp);

	e.words[0] = thread;
	e.words[1] = i;
	return e;
}

template <uint32_t BYTES>
__global__ void gpupm_conv(struct fth_pm_log_view log, uint32_t entries, uint32_t stamp,
			   uint32_t *failed)
{
	uint32_t thread = gpupm_thread();

	for (uint32_t i = 0; i < entries; i++) {
		struct gpupm_entry<BYTES> e = gpupm_make_named<BYTES>(thread, i, stamp);

		if (fth_pm_conv_insert(&log, thread % log.parts, &e, BYTES) < 0)
			atomicAdd(failed, 1u);
	}
}

/*
 * The conventional log as GPM has it, for comparison: the end of each partition is kept in
 * persistent memory. An insertion takes the lock, reads the end, stores the entry, fences, stores
 * the new end, and fences.
 */
struct gpupm_tail_log {
	uint64_t *ends; /* persistent: bytes in use of each partition */
	uint8_t *data;	/* persistent */
	uint32_t *locks;
	uint32_t partitions, partition_bytes;
};

template <uint32_t BYTES>
__device__ static inline void gpupm_tail_append(const struct gpupm_tail_log &log, uint32_t part,
						const struct gpupm_entry<BYTES> &e)
{
	volatile uint64_t *end = log.ends + part;
	uint64_t at = *end;
	volatile uint64_t *to = (uint64_t *)(log.data + (uint64_t)part * log.partition_bytes + at);

#pragma unroll
	for (uint32_t k = 0; k < BYTES / 8; k++)
		to[k] = e.words[2 * k] | (uint64_t)e.words[2 * k + 1] << 32;
	__threadfence_system();
	*end = at + BYTES;
	__threadfence_system();
}

template <uint32_t BYTES>
__global__ void gpupm_tail(struct gpupm_tail_log log, uint32_t entries, uint32_t stamp)
{
	uint32_t thread = gpupm_thread(), part = thread % log.partitions;

	for (uint32_t i = 0; i < entries; i++) {
		struct gpupm_entry<BYTES> e = gpupm_make_named<BYTES>(thread, i, stamp);
		bool done = false;

		/* Whoever holds the lock gives it back without waiting for anything. */
		while (!done) {
			uint32_t unlocked = 0;

			if (!fth_cas_acquire_dev32(&log.locks[part], &unlocked, 1))
				continue;
			gpupm_tail_append<BYTES>(log, part, e);
			fth_store_release_dev32(&log.locks[part], 0);
			done = true;
		}
	}
}

#endif
