/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checkpoints: the layout of their area and its checksums, for CPU and GPU. fathom/pm/checkpoint.h
 * is the interface.
 *
 *	page 0		header: magic, version, number of groups, capacity of a group
 *	from page 1	records, 64 bytes each, that of group g and copy c at (2 g + c) * 64; whole
 *			pages
 *	then		the same records a second time
 *	then		for each group copy 0 and copy 1 of its data, each of the capacity, in whole
 *			pages
 *
 * Invariants:
 *
 *	1. The checkpoint of a group is the copy whose record has the highest version among those
 *	   with a check that matches. Of a copy's two records one is enough.
 *	2. A save writes the other copy, persists it, then writes that copy's records and persists
 *	   them, both with one fence. So at any time the checkpoint's copy and records are whole.
 *	   A torn record does not verify; if both are torn, the other copy counts.
 *	3. After a save has returned, damage to one record leaves the other. A copy with two
 *	   records that do not verify, of which one has the version after the checkpoint's, was
 *	   being saved when the program ended, or both of its records are damaged.
 *
 * The checksum of data is the sum over its words of 8 bytes of fth_pm_cp_word(number of the word,
 * word): many threads can add their parts in any order. The bytes of a group's buffers lie behind
 * each other, each from a multiple of 4096 on (block by block); the rest of a buffer's last block
 * counts as zeroes.
 */
#ifndef FATHOM_DETAIL_PM_CHECKPOINT_H
#define FATHOM_DETAIL_PM_CHECKPOINT_H

#include "fathom/base/rng.h"
#include "fathom/detail/pm/view.h"

#define FTH_PM_CP_MAGIC	  0x31706b636d706674u /* "tfpmckp1" */
#define FTH_PM_CP_VERSION 2u
#define FTH_PM_CP_BLOCK	  4096u
#define FTH_PM_CP_RECORDS 2u /* of a copy, in different pages */

struct fth_pm_cp_header {
	uint64_t magic;
	uint32_t version;
	uint32_t groups;
	uint64_t salt;	   /* in the check of each record */
	uint64_t capacity; /* bytes of one copy of a group; a multiple of 4096 */
	uint64_t buffers;  /* of a group, at most */
	uint64_t pad[2];
	uint64_t check; /* of the words from version on */
};

struct fth_pm_cp_record {
	uint64_t version; /* from 1 on */
	uint64_t digest;  /* of number, sizes and order of the buffers */
	uint64_t bytes;	  /* of data, in whole blocks */
	uint64_t sum;	  /* checksum of data */
	uint64_t pad[3];
	uint64_t check; /* of the words before, the salt, group and copy */
};

FTH_HD uint64_t fth_pm_cp_word(uint64_t number, uint64_t word)
{
	return fth_mix64(word ^ (number * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du));
}

/*
 * The sum of `bytes` bytes at `from`, which begin at word `number` of the group's data; the last
 * word is filled with zeroes.
 */
FTH_HD uint64_t fth_pm_cp_sum(uint64_t number, const void *from, uint64_t bytes)
{
	const uint8_t *at = (const uint8_t *)from;
	uint64_t sum = 0, word, i;

	for (i = 0; i + 8 <= bytes; i += 8) {
		memcpy(&word, at + i, 8);
		sum += fth_pm_cp_word(number + i / 8, word);
	}
	if (i < bytes) {
		word = 0;
		memcpy(&word, at + i, bytes - i);
		sum += fth_pm_cp_word(number + i / 8, word);
		i += 8;
	}
	/* Zeroes up to the end of the block. */
	for (; i % FTH_PM_CP_BLOCK; i += 8)
		sum += fth_pm_cp_word(number + i / 8, 0);
	return sum;
}

FTH_HD uint64_t fth_pm_cp_chain(uint64_t h, uint64_t word)
{
	return fth_mix64(h ^ word) + 0x9e3779b97f4a7c15u;
}

FTH_HD uint64_t fth_pm_cp_record_check(const struct fth_pm_cp_record *r, uint64_t salt,
				       uint32_t group, uint32_t copy)
{
	uint64_t h = fth_pm_cp_chain(salt, (uint64_t)group * 2 + copy + 1);

	h = fth_pm_cp_chain(h, r->version);
	h = fth_pm_cp_chain(h, r->digest);
	h = fth_pm_cp_chain(h, r->bytes);
	return fth_pm_cp_chain(h, r->sum);
}

FTH_HD uint64_t fth_pm_cp_header_check(const struct fth_pm_cp_header *header)
{
	uint64_t h = fth_pm_cp_chain(FTH_PM_CP_MAGIC + header->version, header->groups);

	h = fth_pm_cp_chain(h, header->salt);
	h = fth_pm_cp_chain(h, header->capacity);
	return fth_pm_cp_chain(h, header->buffers);
}

/* Offsets in the area. */
FTH_HD uint64_t fth_pm_cp_record_pages(const struct fth_pm_cp_header *h)
{
	uint64_t records = (uint64_t)h->groups * 2 * sizeof(struct fth_pm_cp_record);

	return (records + FTH_PM_CP_BLOCK - 1) / FTH_PM_CP_BLOCK;
}

/* `which` of the FTH_PM_CP_RECORDS records of a copy. */
FTH_HD uint64_t fth_pm_cp_record_at(const struct fth_pm_cp_header *h, uint32_t group, uint32_t copy,
				    uint32_t which)
{
	return (1 + which * fth_pm_cp_record_pages(h)) * FTH_PM_CP_BLOCK +
	       ((uint64_t)group * 2 + copy) * sizeof(struct fth_pm_cp_record);
}

FTH_HD uint64_t fth_pm_cp_data_at(const struct fth_pm_cp_header *h, uint32_t group, uint32_t copy)
{
	return (1 + FTH_PM_CP_RECORDS * fth_pm_cp_record_pages(h)) * FTH_PM_CP_BLOCK +
	       ((uint64_t)group * 2 + copy) * h->capacity;
}

/* ---- for the CPU: saving and restoring by other means than memcpy(), such as kernels ---- */

struct fth_pm_checkpoint;

struct fth_pm_cp_buffer {
	void *address;
	uint64_t bytes;
	uint64_t at; /* in the group's data; a multiple of 4096 */
};

struct fth_pm_cp_plan {
	uint64_t version;
	uint32_t group, copy;
	uint64_t offset; /* of the copy's data, from the base of the persistent memory */
	uint64_t bytes;	 /* of the data, in whole blocks */
	const struct fth_pm_cp_buffer *buffers;
	uint32_t count;
	/*
	 * Checksums of the blocks of this copy, fth_pm_cp_sum() of each, by number of the block.
	 * `known` says whether they are valid: then a block whose checksum is the same need not be
	 * written. A save has to set all of them.
	 */
	uint64_t *sums;
	uint32_t known;
	uint64_t sum; /* of a restore: what the sums of all blocks have to add up to */
	int result;   /* of a restore that succeeds: 0 or FTH_PM_CHECKPOINT_OLDER */
};

FTH_BEGIN_DECLS

/*
 * Begin a save; flags as fth_pm_checkpoint_save(). The caller writes the data, sets plan->sums,
 * flushes what it has written (by its own view), and calls commit, which makes the fence and writes
 * the record. `written` is the number of bytes that the caller wrote. Without a commit the last
 * checkpoint stays.
 */
int fth_pm_checkpoint_plan_save(struct fth_pm_checkpoint *cp, uint32_t group, uint32_t flags,
				struct fth_pm_cp_plan *plan);
int fth_pm_checkpoint_commit(struct fth_pm_checkpoint *cp, const struct fth_pm_cp_plan *plan,
			     uint64_t written);

/*
 * Begin a restore. The caller computes the sums of all blocks, compares their sum with plan->sum,
 * copies the data, and returns plan->result. It may set plan->sums, and says by verified that it
 * has set them and that they match, so that the next save into this copy is incremental.
 */
int fth_pm_checkpoint_plan_restore(struct fth_pm_checkpoint *cp, uint32_t group,
				   struct fth_pm_cp_plan *plan);
void fth_pm_checkpoint_verified(struct fth_pm_checkpoint *cp, const struct fth_pm_cp_plan *plan);

/* The memory that the area is in. */
struct fth_pm;
struct fth_pm *fth_pm_checkpoint_memory(const struct fth_pm_checkpoint *cp);

FTH_END_DECLS

#endif
