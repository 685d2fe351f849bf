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
/* Memory that is zero; NULL if there is no room. `align` is a power of two. */
void *heap_alloc(size_t bytes, size_t align);
/* Bytes of the allocation that begins at `at`; 0 if none does. */
size_t heap_length(const void *at);
void heap_free(void *at);
/* Change the length in place; false if there is no room behind it. */
bool heap_resize(void *at, size_t bytes);
/* Free the pages of [at, at + length), wherever allocations begin. */
void heap_unmap(uintptr_t at, size_t length);
/* Drop the contents: they are zero then. */
void heap_clear(uintptr_t at, size_t length);
/*
 * The pages of [at, at + length) become ordinary memory, with their contents if `keep`. Returns 0 or -ENOMEM.
 */
int heap_leave(uintptr_t at, size_t length, bool keep);
/* The first page at or after `page` that is foreign or not, as wanted; `end` if there is none before it. */
uint64_t heap_foreign(uint64_t page, uint64_t end, bool foreign);

#endif
