/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations in the region, of whole pages. Any thread.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_HEAP_H
#define FATHOM_SRC_FLAT_PRELOAD_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int heap_open(void);
/* Who asked for it: an allocator that was given mappings cuts them up itself. */
enum heap_kind { HEAP_MALLOC = 1, HEAP_MAPPING };
/* Memory that is zero; NULL if there is no room. `align` is a power of two. */
void *heap_alloc(size_t bytes, size_t align, enum heap_kind kind);
/*
 * Bytes of the allocation of this kind that begins at `at`, which is in the region; 0 if none does.
 * Also in a child of fork().
 */
size_t heap_length(const void *at, enum heap_kind kind);
void heap_free(void *at);
/* The allocation that has this address, and its bytes; 0 if there is none. */
uintptr_t heap_around(uintptr_t at, size_t *length);
/* Have all pages of [at, at + length) left the region? */
bool heap_has_left(uintptr_t at, size_t length);
/* Has none of them left it? */
bool heap_has_all(uintptr_t at, size_t length);
/*
 * The kernel's madvise() for those pages of [at, at + length) that have left the region. Returns 0
 * or a negative errno.
 */
int heap_advise_left(uintptr_t at, size_t length, int advice);
/* Change the length in place; false if there is no room behind it. */
bool heap_resize(void *at, size_t bytes);
/* Free the pages of [at, at + length), wherever allocations begin. */
void heap_unmap(uintptr_t at, size_t length);
/* Drop the contents: they are zero then. */
void heap_clear(uintptr_t at, size_t length);
/*
 * The pages of [at, at + length) become ordinary memory, with their contents if `keep`. Returns 0
 * or -ENOMEM.
 */
int heap_leave(uintptr_t at, size_t length, bool keep);
/* Nobody allocates or frees in between. Returns the first page that was never allocated. */
uint64_t heap_freeze(void);
void heap_thaw(void);
/* Changes whenever pages leave the region. */
uint64_t heap_leaves(void);
/*
 * The first page at or after `page` that is foreign or not, as wanted; `end` if there is none
 * before it.
 */
uint64_t heap_foreign(uint64_t page, uint64_t end, bool foreign);

#endif
