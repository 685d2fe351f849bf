/* SPDX-License-Identifier: BSD-2-Clause */
/* Text of single rows, UTF-8, C collation; and compiled patterns of LIKE. */
#ifndef FTH_QUERY_TEXT_H
#define FTH_QUERY_TEXT_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

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
 * A pattern of LIKE: pieces between the '%' signs. Each piece has `len` bytes of text; where `wild` is
 * set there is a '_' in it, and it is matched character by character.
 */
struct fth_like_piece {
	const char *text; /* escapes resolved */
	const bool *any;  /* per byte of text: it stands for one character, any */
	uint32_t len;
	bool wild;
};

struct fth_like {
	bool open_start, open_end; /* begins, ends with '%' */
	unsigned pieces;
	struct fth_like_piece *piece;
};

/*
 * Compile; memory comes from the arena and lives as long as it. escape: a character, or 0 for none.
 * Returns 0, -ENOMEM, or -EINVAL with a text if the pattern ends with the escape character.
 */
int fth_like_compile(struct fth_arena *arena, struct fth_str pattern, char escape,
		     struct fth_like *out);
bool fth_like_match(const struct fth_like *like, struct fth_str s);
/*
 * A text that all rows hold which match, at no fixed place, so that it can be searched for in many rows at once.
 * NULL: there is none.
 */
const struct fth_like_piece *fth_like_needle(const struct fth_like *like);
/* The pattern is %text% without '_': a row that holds the needle matches. */
bool fth_like_is_contains(const struct fth_like *like);
/*
 * Bit i of out: row i holds the needle; all rows lie in order in [block, block + len). Hits that lie across
 * two rows do not count.
 */
void fth_like_search(const struct fth_like_piece *needle, const struct fth_str *rows, unsigned n,
		     const char *block, size_t len, uint64_t *out);

#endif
