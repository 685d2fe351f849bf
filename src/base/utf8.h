/* SPDX-License-Identifier: BSD-2-Clause */
/* Text is UTF-8 without zero bytes. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the UTF-8 character at s, of at most `left` bytes; 0 when it is none. */
unsigned utf8_length(const char *s, size_t left);

/* Whether all bytes are ASCII and none is zero: text, wherever it is cut. */
bool utf8_ascii(const char *s, size_t n);

/* The number of bytes before the first that is no text; n: all is. */
size_t utf8_text(const char *s, size_t n);

/* What is wrong behind utf8_text(s, n) < n, as PostgreSQL says it. Returns out. */
#define UTF8_COMPLAINT 80u
const char *utf8_complaint(const char *s, size_t n, char out[UTF8_COMPLAINT]);

#endif
