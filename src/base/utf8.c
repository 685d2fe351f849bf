/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ONES  0x0101010101010101u
#define HIGHS 0x8080808080808080u

unsigned utf8_length(const char *text, size_t left)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned n = s[0] < 0x80		   ? 1
		     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		     : (s[0] & 0xf0) == 0xe0	   ? 3
		     : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						   : 0;

	if (n == 0 || n > left)
		return 0;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Longer than need be, half of a surrogate pair, or beyond the last character. */
	if ((n == 3 && s[0] == 0xe0 && s[1] < 0xa0) || (n == 3 && s[0] == 0xed && s[1] > 0x9f) ||
	    (n == 4 && s[0] == 0xf0 && s[1] < 0x90) || (n == 4 && s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* Eight bytes of ASCII without a zero, which is what most text has. */
static bool is_plain(const char *s)
{
	uint64_t word;

	memcpy(&word, s, sizeof(word));
	/* Of bytes below 0x80, only a zero borrows its high bit. */
	return ((word | (word - ONES)) & HIGHS) == 0;
}

static bool is_plain_byte(char c)
{
	return (unsigned char)(c - 1) < 0x7f;
}

bool utf8_ascii(const char *s, size_t n)
{
	size_t at = 0;

	while (n - at >= 8 && is_plain(s + at))
		at += 8;
	while (at < n && is_plain_byte(s[at]))
		at++;
	return at == n;
}

size_t utf8_text(const char *s, size_t n)
{
	size_t at = 0;

	while (at < n) {
		unsigned length;

		if (n - at >= 8 && is_plain(s + at)) {
			at += 8;
			continue;
		}
		length = is_plain_byte(s[at]) ? 1 : s[at] ? utf8_length(s + at, n - at) : 0;
		if (length == 0)
			return at;
		at += length;
	}
	return at;
}

const char *utf8_complaint(const char *s, size_t n, char out[UTF8_COMPLAINT])
{
	size_t at = utf8_text(s, n), used;
	unsigned char first = at < n ? (unsigned char)s[at] : 0;
	size_t bytes = first < 0xc0   ? 1
		       : first < 0xe0 ? 2
		       : first < 0xf0 ? 3
		       : first < 0xf8 ? 4
				      : 1;

	used = (size_t)snprintf(out, UTF8_COMPLAINT,
				"invalid byte sequence for encoding \"UTF8\":");
	for (size_t i = at; i < n && i < at + bytes; i++)
		used += (size_t)snprintf(out + used, UTF8_COMPLAINT - used, " 0x%02x",
					 (unsigned char)s[i]);
	return out;
}
