/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/remote/wire_batch.h"

#include "fathom/base/error.h"
#include "query/spill/result_rows.h"

#include <errno.h>
#include <string.h>

enum { KIND_INT, KIND_DOUBLE, KIND_BOOL, KIND_TEXT };

static unsigned kind_of(const struct task_slot *slot)
{
	if (slot->type.kind == FTH_T_DOUBLE)
		return KIND_DOUBLE;
	if (slot->type.kind == FTH_T_BOOL)
		return KIND_BOOL;
	return fth_type_is_text(slot->type) ? KIND_TEXT : KIND_INT;
}

/* ---- writing ---- */

static bool is_null(const struct fth_vec *v, unsigned row)
{
	return v->nulls && fth_bit(v->nulls, row);
}

static fth_i128 int_at(const struct fth_vec *v, unsigned kind, unsigned row)
{
	if (is_null(v, row))
		return 0;
	return kind == KIND_TEXT ? (fth_i128)rows_text(v, row).len : fth_vec_int(v, row);
}

static void put_bits(struct wire_out *out, const uint64_t *bits, const uint16_t *rows, unsigned n)
{
	unsigned char *to = wire_room(out, (n + 7) / 8);

	if (!to)
		return;
	memset(to, 0, (n + 7) / 8);
	for (unsigned i = 0; i < n; i++)
		to[i / 8] |= (unsigned char)(fth_bit(bits, rows[i]) << i % 8);
}

static unsigned width_of(fth_u128 span)
{
	unsigned width = 0;

	while (width < 16 && span >> (8 * width) != 0)
		width++;
	return width;
}

/* Values that are null count as 0. */
static void put_ints(struct wire_out *out, const struct fth_vec *v, unsigned kind,
		     const uint16_t *rows, unsigned n)
{
	fth_i128 lo = n > 0 ? int_at(v, kind, rows[0]) : 0, hi = lo;
	unsigned width;
	unsigned char *to;

	for (unsigned i = 1; i < n; i++) {
		fth_i128 x = int_at(v, kind, rows[i]);

		lo = x < lo ? x : lo;
		hi = x > hi ? x : hi;
	}
	width = width_of((fth_u128)hi - (fth_u128)lo);
	wire_u64(out, (uint64_t)lo);
	wire_u64(out, (uint64_t)(lo >> 64));
	wire_u8(out, (uint8_t)width);
	to = wire_room(out, (size_t)n * width);
	for (unsigned i = 0; i < n && to; i++) {
		fth_u128 x = (fth_u128)int_at(v, kind, rows[i]) - (fth_u128)lo;

		for (unsigned k = 0; k < width; k++)
			*to++ = (unsigned char)(x >> (8 * k));
	}
}

static void put_column(struct wire_out *out, const struct fth_vec *v, unsigned kind,
		       const uint16_t *rows, unsigned n)
{
	wire_u8(out, (uint8_t)kind);
	wire_u8(out, !!v->nulls);
	if (v->nulls)
		put_bits(out, v->nulls, rows, n);
	if (kind == KIND_BOOL)
		put_bits(out, v->data, rows, n);
	if (kind == KIND_INT || kind == KIND_TEXT)
		put_ints(out, v, kind, rows, n);
	for (unsigned i = 0; i < n && kind == KIND_DOUBLE; i++)
		wire_put(out, (const double *)v->data + rows[i], sizeof(double));
	for (unsigned i = 0; i < n && kind == KIND_TEXT && out->error == 0; i++)
		if (!is_null(v, rows[i])) {
			struct fth_str s = rows_text(v, rows[i]);

			wire_put(out, s.data, s.len);
		}
}

void batch_put(struct wire_out *out, const struct fth_vec *columns, const struct task_slot *slots,
	       unsigned count, const uint16_t *rows, unsigned n)
{
	wire_u32(out, n);
	for (unsigned i = 0; i < count; i++)
		put_column(out, &columns[i], kind_of(&slots[i]), rows, n);
}

/* ---- reading ---- */

struct column {
	void *values; /* 16 bytes each */
	uint64_t nulls[FTH_BATCH_WORDS];
};

struct batch {
	struct fth_qmem *mem;
	const struct task_slot *slots;
	unsigned count;
	struct fth_vec *vecs;
	struct column *columns;
};

int batch_open(struct fth_qmem *mem, const struct task_slot *slots, unsigned count,
	       struct batch **out)
{
	struct batch *b = fth_qmem_zalloc(mem, sizeof(*b));
	int rc = 0;

	*out = NULL;
	if (!b)
		return -ENOMEM;
	b->mem = mem;
	b->slots = slots;
	b->count = count;
	b->vecs = fth_qmem_zalloc(mem, (count + 1) * sizeof(*b->vecs));
	b->columns = fth_qmem_zalloc(mem, (count + 1) * sizeof(*b->columns));
	if (!b->vecs || !b->columns)
		rc = -ENOMEM;
	for (unsigned i = 0; i < count && rc == 0; i++) {
		b->columns[i].values = fth_qmem_alloc(mem, FTH_BATCH * 16);
		rc = b->columns[i].values ? 0 : -ENOMEM;
	}
	if (rc < 0)
		batch_close(b);
	else
		*out = b;
	return rc;
}

void batch_close(struct batch *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < b->count && b->columns; i++)
		fth_qmem_free(b->mem, b->columns[i].values, FTH_BATCH * 16);
	fth_qmem_free(b->mem, b->columns, (b->count + 1) * sizeof(*b->columns));
	fth_qmem_free(b->mem, b->vecs, (b->count + 1) * sizeof(*b->vecs));
	fth_qmem_free(b->mem, b, sizeof(*b));
}

static void get_bits(struct wire_in *in, uint64_t *bits, unsigned n)
{
	const unsigned char *from = wire_get(in, (n + 7) / 8);

	memset(bits, 0, FTH_BATCH / 8);
	for (unsigned i = 0; i < n && from; i++)
		if (from[i / 8] >> i % 8 & 1)
			fth_bit_set(bits, i);
}

static void put_int(enum fth_phys type, void *values, unsigned i, fth_i128 x)
{
	switch (type) {
	case FTH_I8:
		((int8_t *)values)[i] = (int8_t)x;
		break;
	case FTH_I16:
		((int16_t *)values)[i] = (int16_t)x;
		break;
	case FTH_I32:
		((int32_t *)values)[i] = (int32_t)x;
		break;
	case FTH_I64:
		((int64_t *)values)[i] = (int64_t)x;
		break;
	default:
		((fth_i128 *)values)[i] = x;
	}
}

/* n integers in [lo, hi] as values of a type; what is null may be any and becomes lo. */
static void get_ints(struct wire_in *in, enum fth_phys type, fth_i128 lo, fth_i128 hi,
		     const uint64_t *nulls, void *values, unsigned n)
{
	uint64_t low = wire_get_u64(in), high = wire_get_u64(in);
	fth_u128 base = (fth_u128)high << 64 | low;
	unsigned width = wire_get_u8(in);
	const unsigned char *from = wire_get(in, (size_t)n * width);

	if (!from || width > 16) {
		in->bad = true;
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		fth_u128 offset = 0;
		fth_i128 x;

		for (unsigned k = 0; k < width; k++)
			offset |= (fth_u128)*from++ << (8 * k);
		x = (fth_i128)(base + offset);
		if (nulls && fth_bit(nulls, i))
			x = lo;
		else if (x < lo || x > hi)
			in->bad = true;
		put_int(type, values, i, x);
	}
}

static void get_texts(struct wire_in *in, const uint64_t *nulls, struct fth_str *values, unsigned n)
{
	uint32_t lengths[FTH_BATCH];

	memset(lengths, 0, sizeof(lengths));
	get_ints(in, FTH_I32, 0, INT32_MAX, nulls, lengths, n);
	for (unsigned i = 0; i < n && !in->bad; i++) {
		const char *bytes = wire_get(in, lengths[i]);

		values[i] = (struct fth_str){bytes ? bytes : "", lengths[i], 0};
	}
}

static void range_of(const struct task_slot *slot, fth_i128 *lo, fth_i128 *hi)
{
	fth_type_range(slot->type, lo, hi);
	if (slot->type.kind == FTH_T_DECIMAL)
		fth_type_range(fth_type_decimal(0, 0), lo, hi);
	if (slot->lo <= slot->hi) {
		*lo = slot->lo;
		*hi = slot->hi;
	}
}

static void get_column(struct batch *b, struct wire_in *in, unsigned i, unsigned n)
{
	const struct task_slot *slot = &b->slots[i];
	struct column *c = &b->columns[i];
	struct fth_vec *v = &b->vecs[i];
	unsigned kind = wire_get_u8(in);
	bool has_nulls = wire_get_u8(in) != 0;
	fth_i128 lo, hi;

	*v = (struct fth_vec){.type = rows_phys(slot), .data = c->values};
	if (kind != kind_of(slot))
		in->bad = true;
	if (has_nulls) {
		get_bits(in, c->nulls, n);
		v->nulls = c->nulls;
	}
	if (kind == KIND_BOOL) {
		get_bits(in, c->values, n);
	} else if (kind == KIND_DOUBLE) {
		const void *from = wire_get(in, (size_t)n * sizeof(double));

		if (from)
			memcpy(c->values, from, (size_t)n * sizeof(double));
	} else if (kind == KIND_TEXT) {
		get_texts(in, v->nulls, c->values, n);
	} else {
		range_of(slot, &lo, &hi);
		get_ints(in, v->type, lo, hi, v->nulls, c->values, n);
	}
}

int batch_get(struct batch *b, struct wire_in *in, const struct fth_vec **columns)
{
	uint32_t n = wire_get_u32(in);

	if (n > FTH_BATCH)
		in->bad = true;
	for (unsigned i = 0; i < b->count && !in->bad; i++)
		get_column(b, in, i, n);
	if (!wire_get_end(in))
		return fth_fail(EBADMSG, "the storage daemon sent damaged rows");
	*columns = b->vecs;
	return (int)n;
}
