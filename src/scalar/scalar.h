/* SPDX-License-Identifier: BSD-2-Clause */
/* The types of single values: wide integers, and strings. */
#ifndef SCALAR_SCALAR_H
#define SCALAR_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef __int128 fth_i128;
__extension__ typedef unsigned __int128 fth_u128;

/* A view of bytes that somebody else owns. */
struct fth_str {
	const char *data;
	uint32_t len;
	uint32_t unused;
};

static inline struct fth_str fth_str_of(const char *text)
{
	return (struct fth_str){text, (uint32_t)strlen(text), 0};
}

#endif
