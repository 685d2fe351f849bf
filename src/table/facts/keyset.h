/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of integers as a bitmap of pages, within a limit of memory: which keys were seen. */
#ifndef TABLE_KEYSET_H
#define TABLE_KEYSET_H

#include <stddef.h>
#include <stdint.h>

struct keyset;

/*
 * `memory` bytes are its own. It takes more from *spare, which several sets share, and leaves all
 * of it there when it is freed.
 */
struct keyset *keyset_new(size_t memory, size_t *spare);
void keyset_free(struct keyset *set);

/* 1 if the key is new, 0 if it was there, -1 if the set is full and says nothing any more. */
int keyset_add(struct keyset *set, int64_t key);

#endif
