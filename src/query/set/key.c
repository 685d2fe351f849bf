/* SPDX-License-Identifier: BSD-2-Clause */
/* Composite keys. */
#include "query/set/key.h"
#include "query/set/rows.h"

#include "fathom/base/error.h"

#include <errno.h>

/* Codes: 0 for null if there are any, then the values from min on. */
static unsigned column_bits(const struct fth_key_column *c)
{
	fth_u128 most = (fth_u128)c->max - (fth_u128)c->min;
	unsigned bits = 0;

	if (c->text || c->max < c->min || most >> 127)
		return 1000;
	for (most += c->nullable; most; most >>= 1)
		bits++;
	return bits;
}

int fth_key_init(struct fth_key *k, const struct fth_key_column *columns, unsigned count)
{
	*k = (struct fth_key){.count = count};
	if (count > FTH_KEY_COLUMNS)
		return fth_fail(EINVAL, "key of %u columns, at most %u are possible", count,
				FTH_KEY_COLUMNS);
	for (unsigned i = 0; i < count; i++) {
		struct fth_key_column *c = &k->columns[i];

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
	return fth_fail(ERANGE, "key: a value of column %u is out of its range", column);
}

int fth_key_pack64(const struct fth_key *k, const struct fth_vec *vecs, unsigned n,
		   const uint64_t *rows, uint64_t *keys)
{
	int64_t values[FTH_BATCH];

	memset(keys, 0, n * sizeof(*keys));
	for (unsigned c = 0; c < k->count; c++) {
		const struct fth_key_column *col = &k->columns[c];
		uint64_t min = (uint64_t)col->min - col->nullable,
			 most = (uint64_t)(col->max - col->min);

		fth_vec_to_i64(values, &vecs[c], n);
		FTH_FOR_ROWS(rows, n, i)
		{
			uint64_t code = (uint64_t)values[i] - min;

			if (is_null(&vecs[c], i))
				code = 0;
			else if (code - col->nullable > most)
				return out_of_range(c);
			if (col->bits > 0) /* else the shift may be the width of the key */
				keys[i] |= code << col->shift;
		}
	}
	return 0;
}

int fth_key_pack128(const struct fth_key *k, const struct fth_vec *vecs, unsigned n,
		    const uint64_t *rows, fth_u128 *keys)
{
	memset(keys, 0, n * sizeof(*keys));
	for (unsigned c = 0; c < k->count; c++) {
		const struct fth_key_column *col = &k->columns[c];

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

bool fth_key_int(const struct fth_key *k, fth_u128 key, unsigned column, fth_i128 *value)
{
	const struct fth_key_column *c = &k->columns[column];
	fth_u128 code = c->bits == 0 ? 0 : key >> c->shift;

	if (c->bits < 128)
		code &= ((fth_u128)1 << c->bits) - 1;
	if (c->nullable && code == 0)
		return false;
	*value = (fth_i128)(code + (fth_u128)c->min - c->nullable);
	return true;
}

/* ---- bytes: for each column a byte, 1 if not null; then 16 bytes, or a length of 4 and the text ---- */

static struct fth_str text_of(const struct fth_vec *v, uint64_t i)
{
	return v->dict ? v->dict->entries[fth_vec_int(v, (unsigned)i)]
		       : ((const struct fth_str *)v->data)[i];
}

static size_t encoded_size(const struct fth_key *k, const struct fth_vec *vecs, uint64_t i)
{
	size_t size = 0;

	for (unsigned c = 0; c < k->count; c++) {
		size++;
		if (!is_null(&vecs[c], i))
			size += k->columns[c].text ? 4 + text_of(&vecs[c], i).len : 16;
	}
	return size;
}

static void encode_row(const struct fth_key *k, const struct fth_vec *vecs, uint64_t i, char *out)
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

int fth_key_encode(const struct fth_key *k, const struct fth_vec *vecs, unsigned n,
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

bool fth_key_decode(const struct fth_key *k, struct fth_str key, unsigned column, fth_i128 *value,
		    struct fth_str *text)
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
