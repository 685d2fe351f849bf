/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LIKE. A pattern is cut at its '%' signs into pieces. The first piece is tied to the start, the
 * last one to the end, and those between are found one after the other: the earliest place of each
 * is as good as any. So matching never goes back.
 */
#include "query/vec/like.h"

#include "query/vec/kern/kern.h"

#include "fathom/base/error.h"

#include <errno.h>

/* ---- compiling ---- */

struct like_scan {
	struct fth_like_piece *piece; /* the one that is open, or NULL */
	char *text;
	bool *any;
	unsigned at;
};

static void add_char(struct fth_like *like, struct like_scan *scan, char c, bool any)
{
	if (!scan->piece) {
		scan->piece = &like->piece[like->pieces++];
		*scan->piece = (struct fth_like_piece){scan->text + scan->at, scan->any + scan->at,
						       0, false};
	}
	scan->text[scan->at] = c;
	scan->any[scan->at++] = any;
	scan->piece->len++;
	scan->piece->wild |= any;
}

static size_t piece_bytes(uint32_t length)
{
	return (length / 2 + 1) * sizeof(struct fth_like_piece);
}

size_t fth_like_bytes(uint32_t length)
{
	return piece_bytes(length) + 2 * ((size_t)length + 1);
}

int fth_like_compile(struct fth_str pattern, char escape, void *memory, struct fth_like *out)
{
	struct like_scan scan = {0};
	bool percent = false;

	*out = (struct fth_like){.piece = memory};
	scan.text = (char *)memory + piece_bytes(pattern.len);
	scan.any = (bool *)scan.text + pattern.len + 1;
	for (uint32_t i = 0; i < pattern.len; i++) {
		char c = pattern.data[i];

		percent = false;
		if (escape && c == escape) {
			if (++i == pattern.len)
				return fth_fail(
					EINVAL,
					"a LIKE pattern must not end with its escape character");
			add_char(out, &scan, pattern.data[i], false);
		} else if (c == '%') {
			scan.piece = NULL;
			percent = true;
			out->open_start |= i == 0;
		} else {
			add_char(out, &scan, c, c == '_');
		}
	}
	out->open_end = percent;
	return 0;
}

const struct fth_like_piece *fth_like_needle(const struct fth_like *like)
{
	const struct fth_like_piece *found = NULL;
	unsigned end = like->pieces;

	if (end > 0 && !like->open_end)
		end--;
	for (unsigned i = !like->open_start; i < end; i++) {
		const struct fth_like_piece *piece = &like->piece[i];

		if (!piece->wild && (!found || piece->len > found->len))
			found = piece;
	}
	return found;
}

bool fth_like_is_contains(const struct fth_like *like)
{
	return like->open_start && like->open_end && like->pieces == 1 && !like->piece[0].wild;
}

/* ---- matching ---- */

/* Bytes of the character at p. */
static size_t char_bytes(const char *p, const char *end)
{
	const char *q = p + 1;

	while (q < end && ((unsigned char)*q & 0xc0) == 0x80)
		q++;
	return (size_t)(q - p);
}

/* The end of the piece if it matches at p, else NULL. */
static const char *match_here(const struct fth_like_piece *piece, const char *p, const char *end)
{
	if (!piece->wild) {
		bool same =
			(size_t)(end - p) >= piece->len && memcmp(p, piece->text, piece->len) == 0;

		return same ? p + piece->len : NULL;
	}
	for (uint32_t i = 0; i < piece->len; i++) {
		if (p >= end)
			return NULL;
		if (piece->any[i])
			p += char_bytes(p, end);
		else if (*p++ != piece->text[i])
			return NULL;
	}
	return p;
}

/* The end of its first occurrence from p on, or NULL. */
static const char *match_first(const struct fth_like_piece *piece, const char *p, const char *end)
{
	if (!piece->wild) {
		p = fth_kern()->find(p, end, piece->text, piece->len);
		return p ? p + piece->len : NULL;
	}
	for (; p < end; p += char_bytes(p, end)) {
		const char *after = match_here(piece, p, end);

		if (after)
			return after;
	}
	return NULL;
}

/* Whether the piece matches somewhere from p on so that it ends at the end. */
static bool match_last(const struct fth_like_piece *piece, const char *p, const char *end)
{
	if (!piece->wild)
		return (size_t)(end - p) >= piece->len &&
		       memcmp(end - piece->len, piece->text, piece->len) == 0;
	for (; p < end; p += char_bytes(p, end))
		if (match_here(piece, p, end) == end)
			return true;
	return false;
}

bool fth_like_match(const struct fth_like *like, struct fth_str s)
{
	const char *p = s.data, *end = s.data + s.len;
	unsigned i = 0, last = like->pieces;

	if (like->pieces == 0)
		return like->open_start || s.len == 0;
	if (!like->open_start) {
		p = match_here(&like->piece[i++], p, end);
		if (!p)
			return false;
		if (i == like->pieces)
			return like->open_end || p == end;
	}
	last -= !like->open_end;
	for (; i < last; i++) {
		p = match_first(&like->piece[i], p, end);
		if (!p)
			return false;
	}
	return like->open_end || match_last(&like->piece[last], p, end);
}

void fth_like_search(const struct fth_like_piece *needle, const struct fth_str *rows, unsigned n,
		     const char *block, size_t len, uint64_t *out)
{
	const struct fth_kern *k = fth_kern();
	const char *end = block + len;
	unsigned row = 0;

	memset(out, 0, fth_bits_words(n) * sizeof(*out));
	while (row < n) {
		const char *from = rows[row].data > block ? rows[row].data : block;
		const char *hit = k->find(from, end, needle->text, needle->len);

		if (!hit)
			return;
		while (row < n && rows[row].data + rows[row].len < hit + needle->len)
			row++;
		if (row == n)
			return;
		/* The hit begins in this row, or before it: across two rows. */
		if (rows[row].data <= hit)
			fth_bit_set(out, row++);
	}
}
