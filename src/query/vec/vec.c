/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bitmaps, selections and plain access to vectors. Beside it: agg.c aggregates; like.c LIKE; kern/
 * the loops; prog/ expression trees (expression.c), their compilation into programs (lower*.c) and
 * the execution (prog_run*.c). src/scalar has values of single rows.
 */
#include "query/vec/vec.h"
#include "query/vec/kern/kern.h"

#include <stdatomic.h>

uint64_t fth_dict_next_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

enum fth_phys fth_phys_for(fth_i128 lo, fth_i128 hi)
{
	if (lo >= INT8_MIN && hi <= INT8_MAX)
		return FTH_I8;
	if (lo >= INT16_MIN && hi <= INT16_MAX)
		return FTH_I16;
	if (lo >= INT32_MIN && hi <= INT32_MAX)
		return FTH_I32;
	return lo >= INT64_MIN && hi <= INT64_MAX ? FTH_I64 : FTH_I128;
}

void fth_bits_fill(uint64_t *bits, unsigned n)
{
	memset(bits, 0xff, n / 64 * sizeof(*bits));
	if (n % 64)
		bits[n / 64] = ((uint64_t)1 << n % 64) - 1;
}

unsigned fth_bits_count(const uint64_t *bits, unsigned n)
{
	return fth_kern()->count(bits, n);
}

bool fth_bits_any(const uint64_t *bits, unsigned n)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < fth_bits_words(n); i++)
		any |= bits[i];
	return any != 0;
}

unsigned fth_bits_rows(const uint64_t *bits, unsigned n, uint16_t *rows)
{
	return fth_kern()->rows(bits, n, rows);
}

void fth_sel_all(struct fth_sel *s, unsigned n)
{
	s->n = s->count = n;
	s->has_rows = false;
	fth_bits_fill(s->bits, n);
}

static void selection_changed(struct fth_sel *s)
{
	s->count = fth_bits_count(s->bits, s->n);
	s->has_rows = false;
}

void fth_sel_and(struct fth_sel *s, const uint64_t *bits)
{
	for (unsigned i = 0; i < fth_bits_words(s->n); i++)
		s->bits[i] &= bits[i];
	selection_changed(s);
}

void fth_sel_and_not(struct fth_sel *s, const uint64_t *bits)
{
	for (unsigned i = 0; i < fth_bits_words(s->n); i++)
		s->bits[i] &= ~bits[i];
	selection_changed(s);
}

const uint16_t *fth_sel_rows(struct fth_sel *s)
{
	if (!s->has_rows)
		fth_bits_rows(s->bits, s->n, s->rows);
	s->has_rows = true;
	return s->rows;
}

fth_i128 fth_vec_int(const struct fth_vec *v, unsigned i)
{
	switch (v->type) {
	case FTH_I8:
		return (fth_i128)((const int8_t *)v->data)[i] + v->base;
	case FTH_I16:
		return (fth_i128)((const int16_t *)v->data)[i] + v->base;
	case FTH_I32:
		return (fth_i128)((const int32_t *)v->data)[i] + v->base;
	case FTH_I64:
		return (fth_i128)((const int64_t *)v->data)[i] + v->base;
	case FTH_I128:
		return ((const fth_i128 *)v->data)[i] + v->base;
	default:
		return 0;
	}
}

void fth_vec_gather(enum fth_phys type, void *dst, const void *src, const uint16_t *rows,
		    unsigned count)
{
	unsigned width = fth_phys_width(type);

	fth_kern()->gather[__builtin_ctz(width)](dst, src, rows, count);
}

void fth_bits_gather(uint64_t *dst, const uint64_t *src, const uint16_t *rows, unsigned count)
{
	memset(dst, 0, fth_bits_words(count) * sizeof(*dst));
	for (unsigned i = 0; i < count; i++)
		dst[i / 64] |= (src[rows[i] / 64] >> rows[i] % 64 & 1) << i % 64;
}

void fth_vec_to_i64(int64_t *dst, const struct fth_vec *v, unsigned n)
{
	const fth_i128 *wide = v->data;

	if (v->type < FTH_I128) {
		fth_kern()->convert[FTH_I64][v->type](dst, v->data, v->base, n);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		dst[i] = (int64_t)(wide[i] + v->base);
}
