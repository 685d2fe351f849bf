/* SPDX-License-Identifier: BSD-2-Clause */
/* For targets that read their input as a program: numbers, one after the other, and a complaint. */
#ifndef FTH_FUZZ_INPUT_H
#define FTH_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t *input;
static size_t input_left;

static inline void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		abort();
	}
}

/* Beyond the end of the input are zeroes. */
static inline uint8_t byte(void)
{
	if (!input_left)
		return 0;
	input_left--;
	return *input++;
}

static inline uint32_t word(void)
{
	uint32_t value = byte();

	value |= (uint32_t)byte() << 8;
	value |= (uint32_t)byte() << 16;
	return value | (uint32_t)byte() << 24;
}

#endif
