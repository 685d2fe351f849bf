/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/join/record_pack.h"
#include "query/join/key_number.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"

#include <errno.h>

#define NO_NUMBER UINT32_MAX

/* ---- layout ---- */

static unsigned bits_of(uint64_t span)
{
	return span == 0 ? 0 : 64 - (unsigned)__builtin_clzll(span);
}

static void init_field(struct pack_field *f, const struct task_slot *slot, unsigned text_bits)
{
	fth_i128 lo, hi;

	*f = (struct pack_field){
		.kind = PACK_WIDE, .out = rows_phys(slot), .nullable = slot->nullable};
	f->width = 128;
	if (fth_type_is_text(slot->type)) {
		f->kind = PACK_TEXT;
		f->out = FTH_I32;
		f->width = text_bits;
	} else if (slot->type.kind == FTH_T_DOUBLE) {
		f->kind = PACK_DOUBLE;
		f->width = 64;
	} else if (slot->type.kind == FTH_T_BOOL) {
		f->kind = PACK_BOOL;
		f->width = 1;
	} else if (number_range(slot, &lo, &hi) && lo >= INT64_MIN && hi <= INT64_MAX) {
		f->kind = PACK_INT;
		f->lo = (int64_t)lo;
		f->width = bits_of((uint64_t)hi - (uint64_t)lo);
	}
}

void pack_init(struct pack *p, struct pack_field *fields, const struct task_slot *columns,
	       unsigned count, unsigned text_bits)
{
	unsigned bit = 0;

	*p = (struct pack){.count = count, .fields = fields, .text_bits = text_bits};
	/* Fields that begin at a byte come first. */
	for (unsigned i = 0; i < count; i++)
		init_field(&fields[i], &columns[i], text_bits);
	for (unsigned i = 0; i < count; i++)
		if (fields[i].width > 57) {
			fields[i].bit = bit;
			bit += (fields[i].width + 7) / 8 * 8;
		}
	for (unsigned i = 0; i < count; i++) {
		if (fields[i].width <= 57) {
			fields[i].bit = bit;
			bit += fields[i].width;
		}
		if (fields[i].nullable)
			fields[i].null_bit = bit++;
	}
	p->stride = (bit + 7) / 8;
}

/* ---- bits ---- */

static inline uint64_t mask_of(unsigned width)
{
	return width >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
}

static inline uint64_t get_bits(const char *record, unsigned bit, uint64_t mask)
{
	uint64_t x;

	memcpy(&x, record + bit / 8, sizeof(x));
	return x >> bit % 8 & mask;
}

static inline void put_bits(char *record, unsigned bit, uint64_t value)
{
	uint64_t x;

	memcpy(&x, record + bit / 8, sizeof(x));
	x |= value << bit % 8;
	memcpy(record + bit / 8, &x, sizeof(x));
}

void pack_copy(char *to, const char *from, unsigned stride)
{
	if (stride >= 16) {
		memcpy(to, from, stride);
	} else if (stride >= 8) { /* two copies that overlap */
		memcpy(to, from, 8);
		memcpy(to + stride - 8, from + stride - 8, 8);
	} else if (stride >= 4) {
		memcpy(to, from, 4);
		memcpy(to + stride - 4, from + stride - 4, 4);
	} else if (stride >= 2) {
		memcpy(to, from, 2);
		to[stride - 1] = from[stride - 1];
	} else if (stride == 1) {
		*to = *from;
	}
}

/* ---- putting ---- */

void pack_codes_release(struct pack_codes *c, struct fth_qmem *mem)
{
	fth_qmem_free(mem, c->numbers, c->room * sizeof(*c->numbers));
	memset(c, 0, sizeof(*c));
}

static int begin_dict(struct pack_codes *c, const struct fth_dict *dict, struct fth_qmem *mem)
{
	if (c->dict == dict->id)
		return 0;
	if (c->room < dict->count) {
		pack_codes_release(c, mem);
		c->numbers = fth_qmem_alloc(mem, dict->count * sizeof(*c->numbers));
		if (!c->numbers)
			return -ENOMEM;
		c->room = dict->count;
	}
	memset(c->numbers, 0xff, dict->count * sizeof(*c->numbers));
	c->dict = dict->id;
	return 0;
}

static bool is_null(const struct fth_vec *v, unsigned row)
{
	return v->nulls && fth_bit(v->nulls, row);
}

static int number_of(struct pool *pool, struct pack_codes *codes, const struct fth_vec *v,
		     unsigned row, uint32_t *number)
{
	uint32_t *known;

	if (!v->dict)
		return pool_add(pool, ((const struct fth_str *)v->data)[row], number);
	known = &codes->numbers[(size_t)fth_vec_int(v, row)];
	if (*known == NO_NUMBER) {
		int rc = pool_add(pool, rows_text(v, row), known);

		if (rc < 0)
			return rc;
	}
	*number = *known;
	return 0;
}

static int put_text(const struct pack *p, const struct pack_field *f, const struct fth_vec *v,
		    const uint16_t *rows, unsigned count, char *records, struct pool *pool,
		    struct pack_codes *codes)
{
	int rc = v->dict ? begin_dict(codes, v->dict, pool->mem) : 0;

	for (unsigned i = 0; i < count && rc == 0; i++) {
		uint32_t number = 0;

		if (is_null(v, rows[i]))
			continue;
		rc = number_of(pool, codes, v, rows[i], &number);
		if (rc == 0 && (uint64_t)number >> f->width != 0)
			rc = fth_fail(EINVAL,
				      "a column has more distinct strings than its dictionary");
		put_bits(records + (size_t)i * p->stride, f->bit, number);
	}
	return rc;
}

static void put_ints(const struct pack *p, const struct pack_field *f, const struct fth_vec *v,
		     unsigned n, const uint16_t *rows, unsigned count, char *records, int64_t *work)
{
	uint64_t mask = mask_of(f->width), lo = (uint64_t)f->lo;

	fth_vec_to_i64(work, v, n);
	/* A null may hold any value: the mask keeps it within its field. */
	for (unsigned i = 0; i < count; i++)
		put_bits(records + (size_t)i * p->stride, f->bit,
			 ((uint64_t)work[rows[i]] - lo) & mask);
}

static void put_others(const struct pack *p, const struct pack_field *f, const struct fth_vec *v,
		       const uint16_t *rows, unsigned count, char *records)
{
	for (unsigned i = 0; i < count; i++) {
		char *record = records + (size_t)i * p->stride;
		fth_i128 x;

		if (f->kind == PACK_BOOL) {
			put_bits(record, f->bit, fth_bit(v->data, rows[i]));
		} else if (f->kind == PACK_DOUBLE) {
			memcpy(record + f->bit / 8, (const double *)v->data + rows[i], 8);
		} else {
			x = fth_vec_int(v, rows[i]);
			memcpy(record + f->bit / 8, &x, sizeof(x));
		}
	}
}

int pack_put(const struct pack *p, unsigned field, const struct fth_vec *v, unsigned n,
	     const uint16_t *rows, unsigned count, char *records, struct pool *pool,
	     struct pack_codes *codes, int64_t *work)
{
	const struct pack_field *f = &p->fields[field];
	int rc = 0;

	if (f->kind == PACK_TEXT)
		rc = put_text(p, f, v, rows, count, records, pool, codes);
	else if (f->kind == PACK_INT && f->width > 0)
		put_ints(p, f, v, n, rows, count, records, work);
	else if (f->kind != PACK_INT)
		put_others(p, f, v, rows, count, records);
	for (unsigned i = 0; i < count && f->nullable && v->nulls; i++)
		put_bits(records + (size_t)i * p->stride, f->null_bit, fth_bit(v->nulls, rows[i]));
	return rc;
}

void pack_convert(const struct pack *from, const char *record, const struct pack *to, char *out)
{
	memset(out, 0, to->stride);
	for (unsigned i = 0; i < from->count; i++) {
		const struct pack_field *a = &from->fields[i], *b = &to->fields[i];

		if (a->kind == PACK_WIDE)
			memcpy(out + b->bit / 8, record + a->bit / 8, 16);
		else
			put_bits(out, b->bit, get_bits(record, a->bit, mask_of(a->width)));
		if (a->nullable)
			put_bits(out, b->null_bit, get_bits(record, a->null_bit, 1));
	}
}

/* ---- getting ---- */

struct gather {
	const struct pack_field *f;
	const char *records;
	size_t stride;
	const uint32_t *places;
	unsigned n, count;
	const uint16_t *rows;
};

#define GATHER(type, get)                                                                 \
	do {                                                                              \
		type *out_ = values;                                                      \
		if (!g->rows)                                                             \
			for (unsigned i = 0; i < g->n; i++)                               \
				out_[i] = (type)(get);                                    \
		else                                                                      \
			for (unsigned j = 0, i; j < g->count && (i = g->rows[j], 1); j++) \
				out_[i] = (type)(get);                                    \
	} while (0)

#define RECORD	  (g->records + g->stride * g->places[i])
#define INT_VALUE (get_bits(RECORD, bit, mask) + lo)

static void gather_ints(const struct gather *g, void *values)
{
	uint64_t mask = mask_of(g->f->width), lo = (uint64_t)g->f->lo;
	unsigned bit = g->f->bit;

	switch (g->f->out) {
	case FTH_I8:
		GATHER(int8_t, INT_VALUE);
		break;
	case FTH_I16:
		GATHER(int16_t, INT_VALUE);
		break;
	case FTH_I32:
		GATHER(int32_t, INT_VALUE);
		break;
	case FTH_I64:
		GATHER(int64_t, INT_VALUE);
		break;
	default:
		GATHER(fth_i128, (int64_t)INT_VALUE);
	}
}

static fth_i128 load_wide(const char *at)
{
	fth_i128 x;

	memcpy(&x, at, sizeof(x));
	return x;
}

static void gather_bits(const struct gather *g, unsigned bit, uint64_t *out)
{
	memset(out, 0, fth_bits_words(g->n) * sizeof(*out));
	if (!g->rows)
		for (unsigned i = 0; i < g->n; i++)
			out[i / 64] |= get_bits(RECORD, bit, 1) << i % 64;
	else
		for (unsigned j = 0, i; j < g->count && (i = g->rows[j], 1); j++)
			out[i / 64] |= get_bits(RECORD, bit, 1) << i % 64;
}

void pack_gather(const struct pack *p, unsigned field, const char *records, const uint32_t *places,
		 unsigned n, const uint16_t *rows, unsigned count, void *values, uint64_t *nulls)
{
	const struct pack_field *f = &p->fields[field];
	struct gather all = {f, records, p->stride, places, n, count, rows}, *g = &all;

	/* Programs look up every row's string. */
	if (f->kind == PACK_TEXT && rows)
		memset(values, 0, n * sizeof(int32_t));
	switch (f->kind) {
	case PACK_INT:
	case PACK_TEXT:
		gather_ints(g, values);
		break;
	case PACK_DOUBLE:
		GATHER(uint64_t, get_bits(RECORD, f->bit, ~(uint64_t)0));
		break;
	case PACK_BOOL:
		gather_bits(g, f->bit, values);
		break;
	case PACK_WIDE:
		GATHER(fth_i128, load_wide(RECORD + f->bit / 8));
		break;
	}
	if (f->nullable)
		gather_bits(g, f->null_bit, nulls);
}

bool pack_equals(const struct pack *p, unsigned field, const struct task_slot *slot,
		 const char *record, const struct fth_dict *dict, const struct fth_vec *v,
		 unsigned i)
{
	const struct pack_field *f = &p->fields[field];
	uint64_t x = get_bits(record, f->bit, mask_of(f->width));
	struct fth_vec one = {.type = FTH_STR};
	struct fth_str a, b;
	double d;

	switch (f->kind) {
	case PACK_TEXT:
		one.data = &dict->entries[x];
		a = number_text(slot, &one, 0);
		b = number_text(slot, v, i);
		return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
	case PACK_BOOL:
		return x == fth_bit(v->data, i);
	case PACK_DOUBLE:
		memcpy(&d, record + f->bit / 8, sizeof(d));
		return number_double(d) == number_double(((const double *)v->data)[i]);
	case PACK_INT:
		return (fth_i128)(int64_t)(x + (uint64_t)f->lo) == fth_vec_int(v, i);
	case PACK_WIDE:
		return load_wide(record + f->bit / 8) == fth_vec_int(v, i);
	}
	return false;
}
