/* SPDX-License-Identifier: BSD-2-Clause */
#include "scalar/text.h"

#include "fathom/base/checksum.h"

#include <errno.h>

int fth_str_cmp(struct fth_str a, struct fth_str b)
{
	int rc = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return rc ? rc : (a.len > b.len) - (a.len < b.len);
}

uint64_t fth_str_hash(struct fth_str s)
{
	return fth_checksum(s.data, s.len, 0);
}

/* A byte that begins a character; the others are 10xxxxxx. */
static bool begins(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

uint32_t fth_str_chars(struct fth_str s)
{
	uint32_t chars = 0;

	for (uint32_t i = 0; i < s.len; i++)
		chars += begins(s.data[i]);
	return chars;
}

struct fth_str fth_str_rtrim(struct fth_str s)
{
	while (s.len > 0 && s.data[s.len - 1] == ' ')
		s.len--;
	return s;
}

struct fth_str fth_str_ltrim(struct fth_str s)
{
	while (s.len > 0 && s.data[0] == ' ') {
		s.data++;
		s.len--;
	}
	return s;
}

/* Whether the character of n bytes at `at` is one of set. */
static bool is_one_of(const char *at, uint32_t n, struct fth_str set)
{
	for (uint32_t from = 0, to; from < set.len; from = to) {
		for (to = from + 1; to < set.len && !begins(set.data[to]); to++)
			;
		if (to - from == n && memcmp(set.data + from, at, n) == 0)
			return true;
	}
	return false;
}

struct fth_str fth_str_trim(struct fth_str s, struct fth_str set, unsigned sides)
{
	uint32_t n;

	while ((sides & 1) && s.len > 0) {
		for (n = 1; n < s.len && !begins(s.data[n]); n++)
			;
		if (!is_one_of(s.data, n, set))
			break;
		s.data += n;
		s.len -= n;
	}
	while ((sides & 2) && s.len > 0) {
		for (n = 1; n < s.len && !begins(s.data[s.len - n]); n++)
			;
		if (!is_one_of(s.data + s.len - n, n, set))
			break;
		s.len -= n;
	}
	return s;
}

uint32_t fth_str_position(struct fth_str s, struct fth_str what)
{
	const char *hit = what.len == 0 ? s.data : memmem(s.data, s.len, what.data, what.len);

	if (!hit)
		return 0;
	return fth_str_chars((struct fth_str){s.data, (uint32_t)(hit - s.data), 0}) + 1;
}

static bool is_ascii(const char *p, uint32_t len)
{
	unsigned char any = 0;

	for (uint32_t i = 0; i < len; i++)
		any |= (unsigned char)p[i];
	return any < 0x80;
}

/* Bytes of the first `chars` characters. */
static uint32_t bytes_of(struct fth_str s, int64_t chars)
{
	uint32_t at;

	if (chars >= s.len)
		return s.len;
	if (is_ascii(s.data, (uint32_t)chars) && (chars == s.len || begins(s.data[chars])))
		return (uint32_t)chars;
	for (at = 0; at < s.len && chars > 0; chars--)
		for (at++; at < s.len && !begins(s.data[at]); at++)
			;
	return at;
}

int fth_str_substring(struct fth_str s, int64_t from, int64_t count, struct fth_str *out)
{
	int64_t end; /* the character after the last */
	uint32_t skip;

	if (count < 0)
		return -EINVAL;
	if (__builtin_add_overflow(from, count, &end))
		end = INT64_MAX;
	if (from < 1)
		from = 1;
	*out = (struct fth_str){s.data, 0, 0};
	if (end <= from)
		return 0;
	skip = bytes_of(s, from - 1);
	out->data += skip;
	out->len = s.len - skip;
	out->len = bytes_of(*out, end - from);
	return 0;
}

void fth_str_upper(struct fth_str s, char *out)
{
	for (uint32_t i = 0; i < s.len; i++)
		out[i] = (char)(s.data[i] - (s.data[i] >= 'a' && s.data[i] <= 'z') * 32);
}

void fth_str_lower(struct fth_str s, char *out)
{
	for (uint32_t i = 0; i < s.len; i++)
		out[i] = (char)(s.data[i] + (s.data[i] >= 'A' && s.data[i] <= 'Z') * 32);
}
