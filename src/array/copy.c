/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying runs of elements. Others may read or set the same elements at the same time, so those of
 * up to 8 bytes are moved whole: one by one up to a multiple of 8, and from there in words, which
 * tears none. Larger ones promise nothing, and are copied as they come.
 */
#include "internal.h"

#define WORD sizeof(uint64_t)

/* Bytes from `frame` to the next word, at most `bytes`. */
static uint64_t head_of(const uint8_t *frame, uint64_t bytes)
{
	uint64_t head = (uint64_t)(-(uintptr_t)frame & (WORD - 1));

	return head < bytes ? head : bytes;
}

static void out_by_element(uint8_t *to, const uint8_t *frame, uint64_t bytes, size_t size)
{
	for (uint64_t at = 0; at < bytes; at += size)
		fth_array_store_value(to + at, fth_array_load_bytes(frame + at, size), size);
}

static void in_by_element(uint8_t *frame, const uint8_t *from, uint64_t bytes, size_t size)
{
	for (uint64_t at = 0; at < bytes; at += size)
		fth_array_store_bytes(frame + at, fth_array_load_value(from + at, size), size);
}

void fth_array_copy_out(void *to, const uint8_t *frame, uint64_t bytes, size_t size)
{
	uint64_t head, words;

	if (size > WORD) {
		memcpy(to, frame, bytes);
		return;
	}
	head = head_of(frame, bytes);
	words = (bytes - head) / WORD * WORD;
	out_by_element(to, frame, head, size);
	out_by_element((uint8_t *)to + head, frame + head, words, WORD);
	head += words;
	out_by_element((uint8_t *)to + head, frame + head, bytes - head, size);
}

void fth_array_copy_in(uint8_t *frame, const void *from, uint64_t bytes, size_t size)
{
	uint64_t head, words;

	if (size > WORD) {
		memcpy(frame, from, bytes);
		return;
	}
	head = head_of(frame, bytes);
	words = (bytes - head) / WORD * WORD;
	in_by_element(frame, from, head, size);
	in_by_element(frame + head, (const uint8_t *)from + head, words, WORD);
	head += words;
	in_by_element(frame + head, (const uint8_t *)from + head, bytes - head, size);
}

/* Eight bytes of equal elements. */
static uint64_t word_of(const void *value, size_t size)
{
	uint64_t word = fth_array_load_value(value, size);

	for (size_t bits = size * 8; bits < 64; bits *= 2)
		word |= word << bits;
	return word;
}

void fth_array_copy_fill(uint8_t *frame, const void *value, uint64_t bytes, size_t size)
{
	uint64_t at = 0, word, head;

	for (; size > WORD && at < bytes; at += size)
		memcpy(frame + at, value, size);
	if (size > WORD)
		return;
	word = word_of(value, size);
	for (head = head_of(frame, bytes); at < head; at += size)
		fth_array_store_bytes(frame + at, word, size);
	for (; bytes - at >= WORD; at += WORD)
		fth_array_store_bytes(frame + at, word, WORD);
	for (; at < bytes; at += size)
		fth_array_store_bytes(frame + at, word, size);
}
