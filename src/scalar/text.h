/* SPDX-License-Identifier: BSD-2-Clause */
/* Strings, one at a time: UTF-8, C collation. */
#ifndef SCALAR_TEXT_H
#define SCALAR_TEXT_H

#include "scalar/scalar.h"

/* Byte by byte; less than, equal to or greater than 0. */
int fth_str_cmp(struct fth_str a, struct fth_str b);
static inline bool fth_str_equal(struct fth_str a, struct fth_str b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}
/* 64 bits, well spread. */
uint64_t fth_str_hash(struct fth_str s);

/* Characters, not bytes. */
uint32_t fth_str_chars(struct fth_str s);
/* Without blanks at the end, at the start, or both. */
struct fth_str fth_str_rtrim(struct fth_str s);
struct fth_str fth_str_ltrim(struct fth_str s);
/* Without characters of `set` at the start (sides 1), at the end (2) or both (3). */
struct fth_str fth_str_trim(struct fth_str s, struct fth_str set, unsigned sides);
/* The number of the character at which `what` begins first, from 1; 0: it does not occur. */
uint32_t fth_str_position(struct fth_str s, struct fth_str what);
/* substring(s from `from` for `count`), 1 is the first character; -EINVAL if count is negative. */
int fth_str_substring(struct fth_str s, int64_t from, int64_t count, struct fth_str *out);
#define FTH_STR_REST INT64_MAX
/* ASCII letters only, as the C collation does; out has room for s.len bytes. */
void fth_str_upper(struct fth_str s, char *out);
void fth_str_lower(struct fth_str s, char *out);

/*
 * text_make.c: strings that are longer than their parts. All return the bytes of the result, and
 * write them unless `out` is NULL. Nothing is written, and more than FTH_STR_MADE_MAX returned, if
 * the result has more bytes than that.
 */
#define FTH_STR_MADE_MAX 0x3fffffffu
/* s with `to` in the place of each `from`; an empty `from` does not occur. */
uint64_t fth_str_replace(struct fth_str s, struct fth_str from, struct fth_str to, char *out);
/* s cut to `chars` characters, or filled up with characters of `fill`, at the start or the end. */
uint64_t fth_str_pad(struct fth_str s, int64_t chars, struct fth_str fill, bool start, char *out);
uint64_t fth_str_repeat(struct fth_str s, int64_t count, char *out);
/* Character by character; out has room for s.len bytes. */
void fth_str_reverse(struct fth_str s, char *out);

#endif
