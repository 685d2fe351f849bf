/* SPDX-License-Identifier: BSD-2-Clause */
/* Composite keys. */
#include "query/keys/composite_key.h"
#include "query/keys/bit_rows.h"
#include "query/vec/kern/kern.h"

#include "fathom/base/error.h"

#include <errno.h>

/* Codes: 0 for null if there are any, then the values from min on. */
static unsigned column_bits(const struct composite_key_column *c)
{
	fth_u128 most = (fth_u128)c->max - (fth_u128)c->min;
	unsigned bits = 0;

	if (c->text || c->max < c->min || most >> 127)
		return 1000;
	for (most += c->nullable; most; most >>= 1)
		bits++;
	return bits;
}

int composite_key_init(struct composite_key *k, const struct composite_key_column *columns,
		       unsigned count)
{
	*k = (struct composite_key){.count = count};
	if (count > FTH_KEY_COLUMNS)
		return fth_fail(EINVAL, "a key has %u columns, the limit is %u", count,
				FTH_KEY_COLUMNS);
	for (unsigned i = 0; i < count; i++) {
		struct composite_key_column *c = &k->columns[i];

		*c = columns[i];
		c->bits = column_bits(c);
		c->shift = k->bits;
		k->bits += c->bits;
	}
	k->form = k->bits <= 64 ? FTH_KEY_64 : k->bits <= 128 ? FTH_KEY_128 : FTH_KEY_BYTES;
	return 0;
}

static bool is_null(const struct fth_vec *v, uint64_t i)
{
	return v->nulls && fth_bit(v->nulls, (unsigned)i);
}

static int out_of_range(unsigned column)
{
	return fth_fail(ERANGE,
			"key column %u: a value is outside the range in the table statistics",
			column);
}

/* Selected rows out of [min, max], null ones apart. */
static bool any_outside(const struct composite_key_column *col, const struct fth_vec *v, unsigned n,
			const uint64_t *rows)
{
	fth_i128 most = (fth_i128)1 << (8 * fth_phys_width(v->type) - 1), lo = col->min - v->base,
		 hi = col->max - v->base;
	uint64_t good[FTH_BATCH_WORDS], bad = 0;

	if (lo <= -most && hi >= most - 1)
		return false;
	if (lo >= most || hi < -most)
		memset(good, 0, sizeof(good));
	else
		fth_kern()->between[v->type](good, v->data, (int64_t)(lo < -most ? -most : lo),
					     (int64_t)(hi >= most ? most - 1 : hi), n);
	for (unsigned i = 0; i < fth_bits_words(n); i++)
		bad |= rows[i] & ~good[i] & ~(v->nulls ? v->nulls[i] : 0);
	return bad != 0;
}

/* Codes of selected rows with values of 128 bits, whose range is narrower. */
static int wide_codes(const struct composite_key_column *col, const struct fth_vec *v, unsigned n,
		      const uint64_t *rows, int64_t *codes)
{
	memset(codes, 0, n * sizeof(*codes));
	FTH_FOR_ROWS(rows, n, i)
	{
		fth_i128 value = fth_vec_int(v, (unsigned)i);

		if (is_null(v, i))
			continue;
		if (value < col->min || value > col->max)
			return -ERANGE;
		codes[i] = (int64_t)(value - col->min + col->nullable);
	}
	return 0;
}

static int column_codes(const struct composite_key_column *col, const struct fth_vec *v, unsigned n,
			const uint64_t *rows, int64_t *codes)
{
	if (v->type == FTH_I128)
		return wide_codes(col, v, n, rows, codes);
	if (any_outside(col, v, n, rows))
		return -ERANGE;
	if (col->bits == 0)
		return 0;
	fth_kern()->convert[FTH_I64][v->type](
		codes, v->data, (int64_t)((uint64_t)v->base - (uint64_t)col->min + col->nullable),
		n);
	if (v->nulls)
		FTH_FOR_ROWS(v->nulls, n, i)
	codes[i] = 0;
	return 0;
}

/* All rows at once: those that are not selected get a key that nobody looks at. */
int composite_key_pack64(const struct composite_key *k, const struct fth_vec *vecs, unsigned n,
			 const uint64_t *rows, uint64_t *keys)
{
	const struct fth_kern *kern = fth_kern();
	int64_t codes[FTH_BATCH];
	bool first = true;

	for (unsigned c = 0; c < k->count; c++) {
		const struct composite_key_column *col = &k->columns[c];
		const struct fth_vec *v = &vecs[c];
		int64_t *to = first ? (int64_t *)keys : codes;

		if (column_codes(col, v, n, rows, to) < 0)
			return out_of_range(c);
		if (col->bits == 0)
			continue;
		if (col->shift > 0)
			kern->arith_const[FTH_I64][FTH_KERN_MUL](
				to, to, (int64_t)((uint64_t)1 << col->shift), n);
		if (!first)
			kern->arith_vec[FTH_I64][FTH_KERN_ADD](keys, keys, to, n);
		first = false;
	}
	if (first)
		memset(keys, 0, n * sizeof(*keys));
	return 0;
}

int composite_key_pack128(const struct composite_key *k, const struct fth_vec *vecs, unsigned n,
			  const uint64_t *rows, fth_u128 *keys)
{
	memset(keys, 0, n * sizeof(*keys));
	for (unsigned c = 0; c < k->count; c++) {
		const struct composite_key_column *col = &k->columns[c];

		FTH_FOR_ROWS(rows, n, i)
		{
			fth_i128 value = fth_vec_int(&vecs[c], (unsigned)i);
			fth_u128 code = (fth_u128)value - (fth_u128)col->min + col->nullable;

			if (is_null(&vecs[c], i))
				code = 0;
			else if (value < col->min || value > col->max)
				return out_of_range(c);
			if (col->bits > 0) /* else the shift may be the width of the key */
				keys[i] |= code << col->shift;
		}
	}
	return 0;
}

bool composite_key_int(const struct composite_key *k, fth_u128 key, unsigned column,
		       fth_i128 *value)
{
	const struct composite_key_column *c = &k->columns[column];
	fth_u128 code = c->bits == 0 ? 0 : key >> c->shift;

	if (c->bits < 128)
		code &= ((fth_u128)1 << c->bits) - 1;
	if (c->nullable && code == 0)
		return false;
	*value = (fth_i128)(code + (fth_u128)c->min - c->nullable);
	return true;
}

/*
 * ---- bytes: for each column a byte, 1 if not null; then 16 bytes, or a length of 4 and the text
 * ----
 */

static struct fth_str text_of(const struct fth_vec *v, uint64_t i)
{
	return v->dict ? v->dict->entries[fth_vec_int(v, (unsigned)i)]
		       : ((const struct fth_str *)v->data)[i];
}

static size_t encoded_size(const struct composite_key *k, const struct fth_vec *vecs, uint64_t i)
{
	size_t size = 0;

	for (unsigned c = 0; c < k->count; c++) {
		size++;
		if (!is_null(&vecs[c], i))
			size += k->columns[c].text ? 4 + text_of(&vecs[c], i).len : 16;
	}
	return size;
}

static void encode_row(const struct composite_key *k, const struct fth_vec *vecs, uint64_t i,
		       char *out)
{
	for (unsigned c = 0; c < k->count; c++) {
		*out++ = !is_null(&vecs[c], i);
		if (is_null(&vecs[c], i))
			continue;
		if (k->columns[c].text) {
			struct fth_str s = text_of(&vecs[c], i);

			memcpy(out, &s.len, 4);
			memcpy(out + 4, s.data, s.len);
			out += 4 + s.len;
		} else {
			fth_i128 value = fth_vec_int(&vecs[c], (unsigned)i);

			memcpy(out, &value, 16);
			out += 16;
		}
	}
}

int composite_key_encode(const struct composite_key *k, const struct fth_vec *vecs, unsigned n,
			 const uint64_t *rows, struct fth_arena *arena, struct fth_str *keys)
{
	FTH_FOR_ROWS(rows, n, i)
	{
		size_t size = encoded_size(k, vecs, i);
		char *bytes = fth_arena_alloc(arena, size, 1);

		if (!bytes)
			return -ENOMEM;
		encode_row(k, vecs, i, bytes);
		keys[i] = (struct fth_str){bytes, (uint32_t)size, 0};
	}
	return 0;
}

bool composite_key_decode(const struct composite_key *k, struct fth_str key, unsigned column,
			  fth_i128 *value, struct fth_str *text)
{
	const char *p = key.data;

	for (unsigned c = 0;; c++) {
		bool there = *p++;
		uint32_t len;

		if (c == column && !there)
			return false;
		if (!there)
			continue;
		if (!k->columns[c].text) {
			memcpy(value, p, 16);
			p += 16;
		} else {
			memcpy(&len, p, 4);
			*text = (struct fth_str){p + 4, len, 0};
			p += 4 + len;
		}
		if (c == column)
			return true;
	}
}
