/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/page/dict.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dict_init(struct dict *dict, uint32_t max_values, uint32_t max_bytes)
{
	*dict = (struct dict){.max_values = max_values, .max_bytes = max_bytes};
}

void dict_release(struct dict *dict)
{
	free(dict->slot);
	free(dict->hash);
	free(dict->offsets);
	free(dict->bytes);
	*dict = (struct dict){0};
}

void dict_clear(struct dict *dict)
{
	if (dict->slot)
		memset(dict->slot, 0, dict->slots * sizeof(*dict->slot));
	dict->count = 0;
}

/* Mixes the length, and the first and last bytes eight at a time; long strings in steps. */
static uint32_t hash_of(const char *bytes, uint32_t length)
{
	uint64_t a = 0, b = 0, h = length * 0x9e3779b97f4a7c15u;

	if (length < 8) {
		/* Two overlapping halves instead of a copy of unknown length. */
		if (length >= 4) {
			uint32_t low, high;

			memcpy(&low, bytes, 4);
			memcpy(&high, bytes + length - 4, 4);
			a = (uint64_t)high << 32 | low;
		} else if (length) {
			a = (uint64_t)(unsigned char)bytes[0] |
			    (uint64_t)(unsigned char)bytes[length / 2] << 8 |
			    (uint64_t)(unsigned char)bytes[length - 1] << 16;
		}
		return (uint32_t)fth_mix64(a ^ h);
	}
	for (uint32_t i = 0; i + 8 < length; i += 8) {
		memcpy(&a, bytes + i, 8);
		h = (h ^ a) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	memcpy(&b, bytes + length - 8, 8);
	return (uint32_t)fth_mix64(h ^ b);
}

static bool is_value(const struct dict *dict, uint32_t code, const char *bytes, uint32_t length)
{
	uint32_t at = dict->offsets[code];

	return dict->offsets[code + 1] - at == length &&
	       (length == 0 || memcmp(dict->bytes + at, bytes, length) == 0);
}

/* Where the string is, or would be. */
static uint32_t find_slot(const struct dict *dict, uint32_t hash, const char *bytes,
			  uint32_t length)
{
	uint32_t i = hash & (dict->slots - 1);

	while (dict->slot[i] && (dict->hash[dict->slot[i] - 1] != hash ||
				 !is_value(dict, dict->slot[i] - 1, bytes, length)))
		i = (i + 1) & (dict->slots - 1);
	return i;
}

uint32_t dict_find(const struct dict *dict, const char *bytes, uint32_t length)
{
	return dict->slots ? dict->slot[find_slot(dict, hash_of(bytes, length), bytes, length)] - 1
			   : DICT_NONE;
}

static int fill_slots(struct dict *dict, uint32_t slots)
{
	uint32_t *slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	free(dict->slot);
	dict->slot = slot;
	dict->slots = slots;
	for (uint32_t code = 0; code < dict->count; code++) {
		uint32_t i = dict->hash[code] & (slots - 1);

		while (slot[i])
			i = (i + 1) & (slots - 1);
		slot[i] = code + 1;
	}
	return 0;
}

static int grow_values(struct dict *dict)
{
	uint32_t room = dict->value_room ? dict->value_room * 2 : 64;
	uint32_t *hash, *offsets;

	if (dict->count < dict->value_room)
		return 0;
	hash = reallocarray(dict->hash, room, sizeof(*hash));
	dict->hash = hash ? hash : dict->hash;
	offsets = reallocarray(dict->offsets, room + 1, sizeof(*offsets));
	dict->offsets = offsets ? offsets : dict->offsets;
	if (!hash || !offsets)
		return -ENOMEM;
	dict->value_room = room;
	dict->offsets[0] = 0;
	return 0;
}

static int grow_bytes(struct dict *dict, uint32_t bytes)
{
	uint32_t room = dict->byte_room ? dict->byte_room : 4096;
	char *grown;

	if (bytes <= dict->byte_room)
		return 0;
	while (room < bytes)
		room *= 2;
	grown = realloc(dict->bytes, room);
	if (!grown)
		return -ENOMEM;
	dict->bytes = grown;
	dict->byte_room = room;
	return 0;
}

int dict_add(struct dict *dict, const char *bytes, uint32_t length, uint32_t *code)
{
	uint32_t hash = hash_of(bytes, length), used, i;
	int rc = 0;

	if (dict->count * 2 >= dict->slots)
		rc = fill_slots(dict, dict->slots ? dict->slots * 2 : 128);
	if (rc < 0)
		return rc;
	i = find_slot(dict, hash, bytes, length);
	if (dict->slot[i]) {
		*code = dict->slot[i] - 1;
		return 0;
	}
	used = dict->count ? dict->offsets[dict->count] : 0;
	if (dict->count >= dict->max_values || length > dict->max_bytes - used)
		return -ENOSPC;
	rc = grow_values(dict);
	if (rc == 0)
		rc = grow_bytes(dict, used + length);
	if (rc < 0)
		return rc;
	if (length)
		memcpy(dict->bytes + used, bytes, length);
	dict->hash[dict->count] = hash;
	dict->offsets[dict->count + 1] = used + length;
	*code = dict->count++;
	dict->slot[i] = *code + 1;
	return 0;
}

/* ---- order ---- */

struct view {
	const char *bytes;
	uint32_t length, code;
};

static int compare_views(const void *a, const void *b)
{
	const struct view *x = a, *y = b;
	uint32_t common = x->length < y->length ? x->length : y->length;
	int order = common ? memcmp(x->bytes, y->bytes, common) : 0;

	return order ? order : (x->length > y->length) - (x->length < y->length);
}

int dict_sort(struct dict *dict, uint32_t *codes)
{
	struct view *views = calloc(dict->count + 1, sizeof(*views));
	char *bytes = malloc(dict->byte_room + 1);
	uint32_t *hash = calloc(dict->value_room + 1, sizeof(*hash)), at = 0;

	if (!views || !bytes || !hash) {
		free(views);
		free(bytes);
		free(hash);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < dict->count; i++)
		views[i] = (struct view){dict->bytes + dict->offsets[i],
					 dict->offsets[i + 1] - dict->offsets[i], i};
	qsort(views, dict->count, sizeof(*views), compare_views);
	for (uint32_t i = 0; i < dict->count; i++) {
		if (views[i].length)
			memcpy(bytes + at, views[i].bytes, views[i].length);
		hash[i] = dict->hash[views[i].code];
		if (codes)
			codes[views[i].code] = i;
		dict->offsets[i] = at;
		at += views[i].length;
	}
	free(views);
	free(dict->bytes);
	free(dict->hash);
	dict->bytes = bytes;
	dict->hash = hash;
	return dict->slots ? fill_slots(dict, dict->slots) : 0;
}

bool dict_ordered(const uint32_t *offsets, const char *bytes, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		struct view a = {bytes + offsets[i - 1], offsets[i] - offsets[i - 1], 0};
		struct view b = {bytes + offsets[i], offsets[i + 1] - offsets[i], 0};

		if (compare_views(&a, &b) >= 0)
			return false;
	}
	return true;
}
