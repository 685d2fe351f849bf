/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of logs in persistent memory: the same bytes for the CPU and for GPUs,
 * little-endian.
 *
 *	0	struct fth_pm_log_header, written once, when the log is created; checksummed
 *	128	epoch of an HCL log: one word, with a check of its own
 *	4096	entries (hcl.h), or partitions (conv.h)
 *
 * There is no tail in persistent memory. An entry has a check word over its payload, its place, the
 * log's salt and the epoch. Opening the log takes entries as long as their check words match.
 *
 *	1. An entry and its check word are stored, then one fence. Before the fence any subset of
 *	   its words may survive; then the check word does not match, except in one case of 2^31.
 *	2. Entry n + 1 of a thread or partition is stored after the fence of entry n. So a crash
 *	   leaves a prefix of what was inserted, with all entries whose insertion had returned.
 *	3. Clearing adds one to the epoch. Complete entries of other epochs never match, since the
 *	   epoch is added to a sum of all the rest.
 *	4. A check word is never 0: memory that is zeroed holds no entry, and 0 removes one.
 *	5. After the last entry there is no other one of this epoch with a matching check word:
 *	   removal goes from the end.
 */
#ifndef FATHOM_DETAIL_PM_LOG_LAYOUT_H
#define FATHOM_DETAIL_PM_LOG_LAYOUT_H

#include "fathom/detail/pm/view.h"

#define FTH_PM_LOG_MAGIC   0x474f4c4d50485446u /* "FTHPMLOG" */
#define FTH_PM_LOG_VERSION 1u
#define FTH_PM_LOG_EPOCH   128u	 /* byte of the epoch in an HCL log */
#define FTH_PM_LOG_DATA	   4096u /* byte of the first entry, or partition */

#define FTH_PM_LOG_LANES     32u /* of a warp; a stripe has a chunk of each */
#define FTH_PM_LOG_CHUNK     4u
#define FTH_PM_LOG_EPOCH_MAX 0x7fffffffu
#define FTH_PM_LOG_ENTRY_MAX 4096u /* bytes of payload, HCL */

enum fth_pm_log_kind { FTH_PM_LOG_HCL = 1, FTH_PM_LOG_CONV = 2 };

struct fth_pm_log_header {
	uint64_t magic;
	uint32_t version;
	uint32_t kind;	/* of enum fth_pm_log_kind */
	uint64_t bytes; /* of the log, this header included */
	uint64_t salt;	/* differs from log to log */
	/* HCL */
	uint32_t blocks;
	uint32_t threads; /* of a block */
	uint32_t entry_bytes;
	uint32_t entries; /* of a thread */
	/* conventional */
	uint32_t partitions;
	uint32_t zero;
	uint64_t partition_bytes;
	uint64_t check; /* of all of the above */
};

#ifdef __cplusplus
static_assert(sizeof(struct fth_pm_log_header) == 72, "a format on media");
#else
_Static_assert(sizeof(struct fth_pm_log_header) == 72, "a format on media");
#endif

/* ---- check words ---- */

/*
 * Add a word. For a given word it is a bijection of the sum, and the other way round: one word that
 * differs is always found.
 */
FTH_HD uint32_t fth_pm_log_mix(uint32_t sum, uint32_t word)
{
	sum = (sum ^ word) * 0x9e3779b1u;
	return sum ^ sum >> 15;
}

/* The sum that a check word begins with. */
FTH_HD uint32_t fth_pm_log_seed(uint32_t salt, uint32_t part, uint32_t place)
{
	return fth_pm_log_mix(fth_pm_log_mix(salt, part), place);
}

FTH_HD uint32_t fth_pm_log_check_word(uint32_t sum, uint32_t epoch)
{
	sum *= 0x85ebca77u;
	sum ^= sum >> 13;
	return (sum + epoch) << 1 | 1;
}

/* Chunk k of data; on a GPU it must be aligned to 4 bytes. */
FTH_HD uint32_t fth_pm_log_chunk(const void *data, uint32_t k)
{
	const char *at = (const char *)data + (uint64_t)k * FTH_PM_LOG_CHUNK;
	uint32_t word;

#ifdef __CUDA_ARCH__
	memcpy(&word, __builtin_assume_aligned(at, 4), sizeof(word));
#else
	memcpy(&word, at, sizeof(word));
#endif
	return word;
}

/* ---- epochs ---- */

/* An epoch as it is stored: a bit that flips is found. */
FTH_HD uint64_t fth_pm_log_epoch_word(uint32_t epoch, uint32_t salt, uint32_t part)
{
	uint32_t sum = fth_pm_log_mix(fth_pm_log_seed(salt, part, 0x65706f63u), epoch);

	return (uint64_t)sum << 32 | epoch;
}

/* The epoch in such a word, or 0 if it is damaged. */
FTH_HD uint32_t fth_pm_log_epoch_of(uint64_t word, uint32_t salt, uint32_t part)
{
	uint32_t epoch = (uint32_t)word;

	if (epoch == 0 || epoch > FTH_PM_LOG_EPOCH_MAX)
		return 0;
	return fth_pm_log_epoch_word(epoch, salt, part) == word ? epoch : 0;
}

#endif
