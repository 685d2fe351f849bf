/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keys of a look-up as one 64-bit number.
 *
 * Keys whose ranges need no more than 64 bits together are packed side by side, the first one in
 * the highest bits: the numbering is exact, and numbers are in the order of the keys. Other keys
 * (text, wide decimals) are hashed; then equal numbers do not prove equal keys.
 */
#ifndef FTH_QUERY_KEY_NUMBER_H
#define FTH_QUERY_KEY_NUMBER_H

#include "query/task/task.h"

#define NUMBER_KEYS_MAX 8u

struct numbering {
	bool exact;
	unsigned count;
	const struct task_slot *keys; /* types, and ranges on the build side */
	unsigned width[NUMBER_KEYS_MAX];
	fth_i128 lo[NUMBER_KEYS_MAX], hi[NUMBER_KEYS_MAX];
	uint64_t last; /* the largest number that there can be */
};

/*
 * The range that the type of a slot allows, or a narrower one that the slot knows; false: more than
 * 128 bits.
 */
bool number_range(const struct task_slot *slot, fth_i128 *lo, fth_i128 *hi);
/* The keys must outlive the numbering. */
void numbering_init(struct numbering *n, const struct task_slot *keys, unsigned count);

/*
 * The numbers of the selected rows; bit i of none: row i has a null key or one out of the ranges,
 * so that nothing equals it. What numbers[] holds for other rows is unspecified. work has room for
 * FTH_BATCH.
 */
void numbering_run(const struct numbering *n, struct fth_vec *const *keys,
		   const struct fth_sel *sel, uint64_t *numbers, uint64_t *none, int64_t *work);

/* Equal for doubles that are equal: both zeroes, and all that are not numbers. */
uint64_t number_double(double x);

/* A row of text without the blanks that do not count in a char(n). */
struct fth_str number_text(const struct task_slot *slot, const struct fth_vec *v, unsigned i);

#endif
