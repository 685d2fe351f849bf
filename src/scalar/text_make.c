/* SPDX-License-Identifier: BSD-2-Clause */
#include "scalar/text.h"

static struct fth_str rest_of(struct fth_str s, uint64_t from)
{
	return (struct fth_str){s.data + from, (uint32_t)(s.len - from), 0};
}

/* Copies s to `at` bytes behind out; returns the bytes so far. */
static uint64_t put(char *out, uint64_t at, struct fth_str s)
{
	if (out && s.len > 0)
		memcpy(out + at, s.data, s.len);
	return at + s.len;
}

uint64_t fth_str_replace(struct fth_str s, struct fth_str from, struct fth_str to, char *out)
{
	uint64_t bytes = 0;

	while (from.len > 0) {
		const char *hit = memmem(s.data, s.len, from.data, from.len);
		uint64_t before = hit ? (uint64_t)(hit - s.data) : s.len;

		if (!hit)
			break;
		bytes = put(out, bytes, (struct fth_str){s.data, (uint32_t)before, 0});
		bytes = put(out, bytes, to);
		s = rest_of(s, before + from.len);
	}
	return put(out, bytes, s);
}

/* `chars` characters of fill, again and again. */
static uint64_t put_fill(char *out, uint64_t at, struct fth_str fill, int64_t chars)
{
	int64_t each = fth_str_chars(fill);
	struct fth_str part;

	if (each == 0)
		return at;
	for (; chars >= each; chars -= each)
		at = put(out, at, fill);
	fth_str_substring(fill, 1, chars, &part);
	return put(out, at, part);
}

uint64_t fth_str_pad(struct fth_str s, int64_t chars, struct fth_str fill, bool start, char *out)
{
	int64_t missing;
	uint64_t bytes = 0;

	if (chars > FTH_STR_MADE_MAX / 4)
		return (uint64_t)FTH_STR_MADE_MAX + 1;
	if (chars < 0)
		chars = 0;
	fth_str_substring(s, 1, chars, &s);
	missing = fill.len > 0 ? chars - (int64_t)fth_str_chars(s) : 0;
	if (start)
		bytes = put_fill(out, bytes, fill, missing);
	bytes = put(out, bytes, s);
	return start ? bytes : put_fill(out, bytes, fill, missing);
}

uint64_t fth_str_repeat(struct fth_str s, int64_t count, char *out)
{
	uint64_t bytes = 0;

	if (count <= 0 || s.len == 0)
		return 0;
	if ((uint64_t)count > FTH_STR_MADE_MAX / s.len)
		return (uint64_t)FTH_STR_MADE_MAX + 1;
	for (int64_t i = 0; out && i < count; i++)
		bytes = put(out, bytes, s);
	return (uint64_t)count * s.len;
}

void fth_str_reverse(struct fth_str s, char *out)
{
	uint32_t from = 0, to;

	for (; from < s.len; from = to) {
		for (to = from + 1; to < s.len && ((unsigned char)s.data[to] & 0xc0) == 0x80; to++)
			;
		memcpy(out + s.len - to, s.data + from, to - from);
	}
}
