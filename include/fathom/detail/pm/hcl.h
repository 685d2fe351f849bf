/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hierarchical coalesced log (Pandey, Kamath, Basu: GPM, ASPLOS 2022), for host and device. Its
 * layout follows the grid: blocks, their warps, and for each slot of a warp one stripe per chunk,
 * with the chunks of all 32 lanes side by side:
 *
 *	warp w, slot s:	| chunk 0 of lane 0, lane 1, ... lane 31 |	a stripe: 128 bytes, stored
 *			| chunk 1 of lane 0, ...		 |	by one instruction of the
 *			  ...						warp
 *			| check word of lane 0, ...		 |
 *
 * Unlike in the paper there is no tail: log_layout.h says why none is needed. An insertion has one
 * fence.
 *
 * Threads share nothing: thread t alone inserts, removes and reads entries of t. Its number of
 * entries, counts[t], is not persistent; fth_pm_hcl_scan() finds it.
 */
#ifndef FATHOM_DETAIL_PM_HCL_H
#define FATHOM_DETAIL_PM_HCL_H

#include "fathom/detail/pm/log_view.h"

/* Entries up to 128 bytes are moved without a loop where their size is known at compile time. */
#ifdef __CUDA_ARCH__
#define FTH_PM_UNROLL_ _Pragma("unroll 32")
#else
#define FTH_PM_UNROLL_
#endif

/* The first chunk of a slot; the next one is FTH_PM_LOG_LANES words further. */
FTH_HD uint32_t *fth_pm_hcl_slot(const struct fth_pm_log_view *log, uint32_t thread, uint32_t slot)
{
	uint32_t stripes = log->entry_bytes / FTH_PM_LOG_CHUNK + 1;
	uint64_t stripe = ((uint64_t)(thread / FTH_PM_LOG_LANES) * log->entries + slot) * stripes;

	return (uint32_t *)(void *)log->data + stripe * FTH_PM_LOG_LANES +
	       thread % FTH_PM_LOG_LANES;
}

/* Make the chunks of a slot persistent. Each is in a stripe of its own. */
FTH_HD int fth_pm_hcl_persist_(const struct fth_pm_log_view *log, const uint32_t *slot,
			       uint32_t chunks)
{
#ifndef __CUDA_ARCH__
	if (log->pm.mode == FTH_PM_MODE_FLUSH) {
		for (uint32_t k = 0; k < chunks; k++)
			fth_pm_flush_range(&log->pm, slot + (uint64_t)k * FTH_PM_LOG_LANES,
					   FTH_PM_LOG_CHUNK);
		return fth_pm_fence(&log->pm);
	}
#endif
	return fth_pm_persist_range(&log->pm, slot,
				    (uint64_t)(chunks - 1) * FTH_PM_LOG_LANES * FTH_PM_LOG_CHUNK +
					    FTH_PM_LOG_CHUNK);
}

/*
 * Add an entry of this thread, and make it persistent. `bytes` is that of the log; data is aligned
 * to 4 bytes on a GPU. 0; -ENOSPC if the thread has all its entries; -EINVAL; or the error of the
 * persist: then the entry may or may not be found after a crash, and is not counted.
 */
FTH_HD int fth_pm_hcl_insert(const struct fth_pm_log_view *log, uint32_t thread, const void *data,
			     uint32_t bytes)
{
	uint32_t chunks = bytes / FTH_PM_LOG_CHUNK, sum, slot, *to;
	int rc;

	if (thread >= log->parts || bytes != log->entry_bytes)
		return -EINVAL;
	slot = log->counts[thread];
	if (slot >= log->entries)
		return -ENOSPC;
	to = fth_pm_hcl_slot(log, thread, slot);
	sum = fth_pm_log_seed(log->salt, thread, slot);
	FTH_PM_UNROLL_
	for (uint32_t k = 0; k < chunks; k++) {
		uint32_t word = fth_pm_log_chunk(data, k);

		fth_pm_put32(&log->pm, to + (uint64_t)k * FTH_PM_LOG_LANES, word);
		sum = fth_pm_log_mix(sum, word);
	}
	fth_pm_put32(&log->pm, to + (uint64_t)chunks * FTH_PM_LOG_LANES,
		     fth_pm_log_check_word(sum, log->epoch));
	rc = fth_pm_hcl_persist_(log, to, chunks + 1);
	if (rc == 0)
		log->counts[thread] = slot + 1;
	return rc;
}

/* Is there an entry in this slot? Writes its payload to `out`, unless that is NULL. */
FTH_HD bool fth_pm_hcl_get_(const struct fth_pm_log_view *log, uint32_t thread, uint32_t slot,
			    void *out, uint32_t bytes)
{
	const uint32_t *from = fth_pm_hcl_slot(log, thread, slot);
	uint32_t sum = fth_pm_log_seed(log->salt, thread, slot), check;
	uint32_t chunks = bytes / FTH_PM_LOG_CHUNK;

	FTH_PM_UNROLL_
	for (uint32_t k = 0; k < chunks; k++) {
		uint32_t word = fth_load_relaxed_sys32(from + (uint64_t)k * FTH_PM_LOG_LANES);

		if (out)
			memcpy((char *)out + (uint64_t)k * FTH_PM_LOG_CHUNK, &word, sizeof(word));
		sum = fth_pm_log_mix(sum, word);
	}
	check = fth_load_relaxed_sys32(from + (uint64_t)chunks * FTH_PM_LOG_LANES);
	return check == fth_pm_log_check_word(sum, log->epoch);
}

/*
 * Read entry `index` of this thread, 0 is the oldest. `bytes` is that of the log. 0; -ENOENT if
 * there is none; -EBADMSG if it is damaged: `out` holds anything then; -EINVAL.
 */
FTH_HD int fth_pm_hcl_read(const struct fth_pm_log_view *log, uint32_t thread, uint32_t index,
			   void *out, uint32_t bytes)
{
	if (thread >= log->parts || bytes != log->entry_bytes)
		return -EINVAL;
	if (index >= log->counts[thread])
		return -ENOENT;
	return fth_pm_hcl_get_(log, thread, index, out, bytes) ? 0 : -EBADMSG;
}

/*
 * Remove the newest entry of this thread, persistently. 0; -ENOENT; -EINVAL; or the error of the
 * persist.
 */
FTH_HD int fth_pm_hcl_remove(const struct fth_pm_log_view *log, uint32_t thread)
{
	uint32_t chunks = log->entry_bytes / FTH_PM_LOG_CHUNK, count, *check;
	int rc;

	if (thread >= log->parts)
		return -EINVAL;
	count = log->counts[thread];
	if (count == 0)
		return -ENOENT;
	check = fth_pm_hcl_slot(log, thread, count - 1) + (uint64_t)chunks * FTH_PM_LOG_LANES;
	fth_pm_put32(&log->pm, check, 0);
	rc = fth_pm_hcl_persist_(log, check, 1);
	if (rc == 0)
		log->counts[thread] = count - 1;
	return rc;
}

/*
 * Find the entries of a thread after a crash: sets counts[thread]. 0, or -EBADMSG if an entry
 * follows one that is not valid: no crash leaves that, so something else has damaged the log.
 */
FTH_HD int fth_pm_hcl_scan(const struct fth_pm_log_view *log, uint32_t thread)
{
	uint32_t count = 0;

	while (count < log->entries && fth_pm_hcl_get_(log, thread, count, NULL, log->entry_bytes))
		count++;
	log->counts[thread] = count;
	for (uint32_t slot = count + 1; slot < log->entries; slot++)
		if (fth_pm_hcl_get_(log, thread, slot, NULL, log->entry_bytes))
			return -EBADMSG;
	return 0;
}

#endif
