/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of strings with codes, in the order in which they were added. Within limits of values and
 * bytes. One thread at a time changes it; dict_find() may run in any number of threads meanwhile if
 * none does.
 */
#ifndef TABLE_DICT_H
#define TABLE_DICT_H

#include <stdbool.h>
#include <stdint.h>

#define DICT_NONE UINT32_MAX

struct dict {
	uint32_t max_values, max_bytes;
	uint32_t count, slots; /* slots: a power of two, or 0 */
	uint32_t *slot;	       /* code + 1 */
	uint32_t *hash;	       /* of each value */
	uint32_t *offsets;     /* count + 1 */
	char *bytes;
	uint32_t value_room, byte_room;
};

void dict_init(struct dict *dict, uint32_t max_values, uint32_t max_bytes);
void dict_release(struct dict *dict);
void dict_clear(struct dict *dict);

uint32_t dict_find(const struct dict *dict, const char *bytes, uint32_t length);

/* The code of a string, which is added if it is new: 0; -ENOSPC at a limit; -ENOMEM. */
int dict_add(struct dict *dict, const char *bytes, uint32_t length, uint32_t *code);

/*
 * Put the values in ascending order. codes (count numbers, may be NULL) gets the new code of each
 * old one. -ENOMEM.
 */
int dict_sort(struct dict *dict, uint32_t *codes);

bool dict_ordered(const uint32_t *offsets, const char *bytes, uint32_t count);

#endif
