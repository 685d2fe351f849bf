/* SPDX-License-Identifier: BSD-2-Clause */
/* Distinct strings with numbers: the text in packed records. The string 0 is empty. */
#ifndef FTH_QUERY_STRING_POOL_H
#define FTH_QUERY_STRING_POOL_H

#include <pthread.h>

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

struct pool {
	struct fth_qmem *mem;
	pthread_mutex_t lock;
	struct fth_arena bytes;
	struct fth_str *entries;
	uint32_t count, room;
	uint32_t *table;	/* open addressing: a string's number + 1; 0 where free */
	unsigned bits;		/* of the table's size */
	_Atomic uint64_t total; /* bytes, about */
	struct fth_dict dict;
};

/* Returns 0 or -ENOMEM; release accepts a zeroed pool and one that failed to open. */
int pool_init(struct pool *p, struct fth_qmem *mem);
void pool_release(struct pool *p);
/* The number of a string, which is copied if it is new. Thread-safe. Returns 0 or -ENOMEM. */
int pool_add(struct pool *p, struct fth_str s, uint32_t *number);
/* No more strings will come. */
const struct fth_dict *pool_seal(struct pool *p);
#endif
