/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory budget of queries. Every byte that a query allocates is charged to an account here
 * before it exists. Accounts form a tree: the root holds the budget, its children are queries,
 * theirs are operators or threads. A charge that does not fit fails, and the operator uses its
 * overflow plan.
 *
 *	struct fth_qmem *root = fth_qmem_new(64 << 20);
 *	struct fth_qmem *query = fth_qmem_child(root, "query", FTH_QMEM_NO_LIMIT);
 *	uint64_t *words = fth_qmem_alloc(query, n * sizeof(*words));
 *
 * An account holds a grant of its parent and charges against it without a lock. It keeps a little
 * of what is given back (FTH_QMEM_UNIT), so that threads with accounts of their own seldom meet;
 * the slack is collected from all accounts before a charge fails. All functions are thread-safe,
 * except that close must be the last call on an account.
 */
#ifndef FTH_QUERY_QMEM_H
#define FTH_QUERY_QMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FTH_QMEM_NO_LIMIT UINT64_MAX
#define FTH_QMEM_UNIT	  (64u << 10)
/*
 * Every allocation is aligned to this: a line of the processor's cache, the widest vector register.
 */
#define FTH_QMEM_ALIGN 64u

struct fth_qmem;

/* The root of a tree of accounts with a budget in bytes. Returns NULL if out of memory. */
struct fth_qmem *fth_qmem_new(uint64_t budget);

/*
 * An account below `parent` that may hold at most `limit` bytes. `name` is shown in error texts and
 * must outlive the account. Close it before its parent. Returns NULL if the budget does not hold
 * the account.
 */
struct fth_qmem *fth_qmem_child(struct fth_qmem *parent, const char *name, uint64_t limit);

/*
 * Close an account without children. Returns the bytes that were still charged to it: 0 unless
 * somebody leaked. The parent gets them back in any case. Accepts NULL.
 */
uint64_t fth_qmem_close(struct fth_qmem *m);

/*
 * Take `bytes` from the parent and keep them for this account until it is closed: charges up to
 * that amount cannot fail. A second call adds. Returns 0 or -ENOMEM with nothing changed.
 */
int fth_qmem_reserve(struct fth_qmem *m, uint64_t bytes);

/* Charge and discharge memory that somebody else allocates. Returns 0 or -ENOMEM, with a text. */
int fth_qmem_charge(struct fth_qmem *m, uint64_t bytes);
void fth_qmem_discharge(struct fth_qmem *m, uint64_t bytes);

/*
 * Memory of `size` bytes, aligned to FTH_QMEM_ALIGN; zalloc gives zeroes. The caller passes the
 * same size when it frees; NULL is accepted. Returns NULL, with a text for -ENOMEM, if it does not
 * fit. A size of 0 gives a valid pointer.
 */
void *fth_qmem_alloc(struct fth_qmem *m, size_t size);
void *fth_qmem_zalloc(struct fth_qmem *m, size_t size);
void fth_qmem_free(struct fth_qmem *m, void *p, size_t size);

/* Grow or shrink. Returns NULL, and leaves the old memory as it was, if it does not fit. */
void *fth_qmem_realloc(struct fth_qmem *m, void *p, size_t old_size, size_t new_size);

/* The bytes that an allocation of `size` is charged with. */
uint64_t fth_qmem_cost(size_t size);

/*
 * Bytes charged now; the most that ever was; bytes that a charge could get now, slack of others
 * included.
 */
uint64_t fth_qmem_used(struct fth_qmem *m);
uint64_t fth_qmem_peak(struct fth_qmem *m);
uint64_t fth_qmem_available(struct fth_qmem *m);
/* The most since the last call of this function; the next one starts at what is charged now. */
uint64_t fth_qmem_take_peak(struct fth_qmem *m);

/* For tests: the nth charge from now on in the whole tree fails, once; 0 switches it off. */
void fth_qmem_fail_nth(struct fth_qmem *m, uint64_t n);
/* Whether that charge has not come yet. */
bool fth_qmem_fail_pending(struct fth_qmem *m);

/*
 * An arena: many small pieces that are released together. Zero-initialise, then init. Not
 * thread-safe.
 */
struct fth_arena_chunk;
struct fth_arena {
	struct fth_qmem *mem;
	struct fth_arena_chunk *chunks; /* newest first */
	size_t used;			/* of the newest */
	size_t chunk_size;
};

/* chunk_size: bytes taken at a time; pieces that are larger get a chunk of their own. */
void fth_arena_init(struct fth_arena *a, struct fth_qmem *mem, size_t chunk_size);
/* `align` is a power of two, at most FTH_QMEM_ALIGN. Returns NULL if it does not fit. */
void *fth_arena_alloc(struct fth_arena *a, size_t size, size_t align);
/* Make all pieces free. Keeps one chunk. */
void fth_arena_reset(struct fth_arena *a);
/* Free everything; accepts a zeroed arena and can be called twice. */
void fth_arena_release(struct fth_arena *a);

#endif
