/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text that comments are pieces of: 300 MiB of sentences, written by a grammar from one
 * sequence of random numbers (TPC-H specification, clause 4.2.2.10).
 *
 * The text is not stored. An index has, for every multiple of 256 bytes, the seed of the sentence
 * at that place and where that sentence begins; a comment is made by writing the few sentences
 * around it again. This takes 0.3 microseconds, and 6 MiB instead of 300.
 */
#ifndef FTH_WORKLOADS_TPCH_PROSE_H
#define FTH_WORKLOADS_TPCH_PROSE_H

#include <stdint.h>

#define TPCH_PROSE_LENGTH  (300u << 20)
#define TPCH_PROSE_SPACING 256u
#define TPCH_COMMENT_MAX   200u /* the longest piece of it that can be asked for */

struct tpch_prose;

/* Write the whole text once, keeping only the index. 0 or -ENOMEM. */
int tpch_prose_new(struct tpch_prose **out);
void tpch_prose_free(struct tpch_prose *prose); /* accepts NULL */

/* Copy [offset, offset + length) of the text to `out`. Any number of threads. */
void tpch_prose_copy(const struct tpch_prose *prose, uint32_t offset, uint32_t length, char *out);

#endif
