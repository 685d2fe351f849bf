/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled patterns of LIKE. */
#ifndef FTH_QUERY_LIKE_H
#define FTH_QUERY_LIKE_H

#include "query/vec/vec.h"

/*
 * A pattern of LIKE: pieces between the '%' signs. Each piece has `len` bytes of text; where `wild`
 * is set there is a '_' in it, and it is matched character by character.
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

/* The bytes that a pattern of `length` bytes takes compiled, aligned for pointers. */
size_t fth_like_bytes(uint32_t length);
/*
 * Compile into `memory` of fth_like_bytes(pattern.len) bytes, which must live as long as *out.
 * escape: a character, or 0 for none. Returns 0, or -EINVAL with a text if the pattern ends with
 * the escape character.
 */
int fth_like_compile(struct fth_str pattern, char escape, void *memory, struct fth_like *out);
bool fth_like_match(const struct fth_like *like, struct fth_str s);
/*
 * A text that all rows hold which match, at no fixed place, so that it can be searched for in many
 * rows at once. NULL: there is none.
 */
const struct fth_like_piece *fth_like_needle(const struct fth_like *like);
/* The pattern is %text% without '_': a row that holds the needle matches. */
bool fth_like_is_contains(const struct fth_like *like);
/*
 * Bit i of out: row i holds the needle; all rows lie in order in [block, block + len). Hits that
 * lie across two rows do not count.
 */
void fth_like_search(const struct fth_like_piece *needle, const struct fth_str *rows, unsigned n,
		     const char *block, size_t len, uint64_t *out);

#endif
