/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/page/sequence.h"

#include "table/page/bits.h"

#include <string.h>

/* ---- choosing ---- */

void sequence_measure(const int64_t *values, uint32_t count, struct sequence_stats *stats)
{
	int64_t min = values[0], max = values[0], low = INT64_MAX, high = INT64_MIN;
	uint32_t runs = 1;
	bool overflow = false;

	for (uint32_t i = 1; i < count; i++) {
		int64_t step;

		min = values[i] < min ? values[i] : min;
		max = values[i] > max ? values[i] : max;
		overflow |= __builtin_sub_overflow(values[i], values[i - 1], &step);
		low = step < low ? step : low;
		high = step > high ? step : high;
		runs += step != 0;
	}
	*stats = (struct sequence_stats){
		.count = count,
		.min = min,
		.max = max,
		.runs = runs,
		.min_step = count > 1 ? low : 0,
		.max_step = count > 1 ? high : 0,
		.steps = !overflow,
	};
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The largest number that divides all distances from `base`; 1 if all are 0. */
static uint64_t find_factor(const int64_t *values, uint32_t count, int64_t base)
{
	uint64_t factor = 0;

	for (uint32_t i = 0; i < count && factor != 1; i++) {
		uint64_t distance = (uint64_t)values[i] - (uint64_t)base;

		if (factor == 0 || distance % factor != 0)
			factor = common_divisor(distance, factor);
	}
	return factor ? factor : 1;
}

static uint64_t plan_bytes(uint32_t count, const struct sequence_plan *plan)
{
	uint64_t blocks = (count + BITS_BLOCK - 1) / BITS_BLOCK;

	return sizeof(struct sequence_header) + (plan->delta ? blocks * sizeof(int64_t) : 0) +
	       bits_bytes(count, plan->width);
}

static void plan_packed(const int64_t *values, const struct sequence_stats *stats,
			struct sequence_plan *plan)
{
	uint64_t range = (uint64_t)stats->max - (uint64_t)stats->min;

	*plan = (struct sequence_plan){.base = stats->min, .factor = 1};
	/* A factor is looked for where it could save a bit. */
	if (range > 1)
		plan->factor = find_factor(values, stats->count, stats->min);
	plan->width = bits_width(range / plan->factor);
	plan->bytes = plan_bytes(stats->count, plan);
}

void sequence_choose(const int64_t *values, const struct sequence_stats *stats,
		     struct sequence_plan *plan)
{
	struct sequence_plan delta = {.delta = true, .base = stats->min_step, .factor = 1};

	plan_packed(values, stats, plan);
	if (!stats->steps)
		return;
	delta.width = bits_width((uint64_t)stats->max_step - (uint64_t)stats->min_step);
	delta.bytes = plan_bytes(stats->count, &delta);
	if (delta.bytes * 3 < plan->bytes * 2)
		*plan = delta;
}

/* ---- writing ---- */

static void fill_packed(const int64_t *values, uint32_t n, const struct sequence_plan *plan,
			uint64_t out[BITS_BLOCK])
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = (uint64_t)values[i] - (uint64_t)plan->base;
	if (plan->factor > 1)
		for (uint32_t i = 0; i < n; i++)
			out[i] /= plan->factor;
}

static void fill_delta(const int64_t *values, uint32_t n, const struct sequence_plan *plan,
		       uint64_t out[BITS_BLOCK])
{
	out[0] = 0;
	for (uint32_t i = 1; i < n; i++)
		out[i] = (uint64_t)values[i] - (uint64_t)values[i - 1] - (uint64_t)plan->base;
}

void sequence_write(const int64_t *values, uint32_t count, const struct sequence_plan *plan,
		    unsigned char *to)
{
	const struct sequence_header header = {
		.count = count,
		.width = (uint8_t)plan->width,
		.delta = plan->delta,
		.base = plan->base,
		.factor = plan->factor,
	};
	uint64_t block[BITS_BLOCK];
	unsigned char *anchor = to + sizeof(header), *packed = anchor;

	memcpy(to, &header, sizeof(header));
	if (plan->delta)
		packed += (size_t)(count + BITS_BLOCK - 1) / BITS_BLOCK * sizeof(int64_t);
	for (uint32_t at = 0; at < count; at += BITS_BLOCK) {
		uint32_t n = count - at < BITS_BLOCK ? count - at : BITS_BLOCK;

		if (plan->delta) {
			memcpy(anchor, &values[at], sizeof(int64_t));
			anchor += sizeof(int64_t);
			fill_delta(values + at, n, plan, block);
		} else {
			fill_packed(values + at, n, plan, block);
		}
		memset(block + n, 0, (BITS_BLOCK - n) * sizeof(*block));
		bits_pack(block, plan->width, packed);
		packed += (size_t)BITS_BLOCK / 8 * plan->width;
	}
}

/* ---- verifying ---- */

bool sequence_find(const unsigned char *head, uint64_t length, uint64_t *at, uint32_t count,
		   struct fth_table_sequence *out)
{
	struct sequence_header header;
	uint64_t blocks = ((uint64_t)count + BITS_BLOCK - 1) / BITS_BLOCK, need;

	if (*at > length || length - *at < sizeof(header))
		return false;
	memcpy(&header, head + *at, sizeof(header));
	if (header.count != count || header.width > 64 || header.delta > 1 || header.factor == 0 ||
	    (header.delta && header.factor != 1))
		return false;
	need = sizeof(header) + (header.delta ? blocks * sizeof(int64_t) : 0) +
	       bits_bytes(count, header.width);
	if (length - *at < need)
		return false;
	*out = (struct fth_table_sequence){
		.anchors = header.delta ? head + *at + sizeof(header) : NULL,
		.packed =
			head + *at + sizeof(header) + (header.delta ? blocks * sizeof(int64_t) : 0),
		.count = count,
		.width = header.width,
		.base = header.base,
		.factor = header.factor,
	};
	*at += need;
	return true;
}

/* ---- decoding ---- */

static const unsigned char *block_at(const struct fth_table_sequence *s, uint32_t block)
{
	return s->packed + (size_t)block * (BITS_BLOCK / 8) * s->width;
}

/*
 * n packed numbers of FROM into TO, scaled. Arithmetic modulo 2^64 is exact after the truncation.
 */
#define DEFINE_SCALE(FROM, TO, ISA, attributes)                                         \
	attributes static void scale_##FROM##_##TO##_##ISA(                             \
		const void *from, uint32_t n, uint64_t base, uint64_t factor, void *to) \
	{                                                                               \
		const FROM *in = from;                                                  \
		TO *out = to;                                                           \
		__typeof__((TO)1 + 0u) b = (TO)base,                                    \
				       f = (TO)factor; /* no int: it would overflow */  \
		if (factor == 1)                                                        \
			for (uint32_t i = 0; i < n; i++)                                \
				out[i] = (TO)((TO)in[i] + b);                           \
		else                                                                    \
			for (uint32_t i = 0; i < n; i++)                                \
				out[i] = (TO)((TO)in[i] * f + b);                       \
	}
#define DEFINE_SCALES_OF(FROM, ISA, attributes)       \
	DEFINE_SCALE(FROM, uint8_t, ISA, attributes)  \
	DEFINE_SCALE(FROM, uint16_t, ISA, attributes) \
	DEFINE_SCALE(FROM, uint32_t, ISA, attributes) \
	DEFINE_SCALE(FROM, uint64_t, ISA, attributes)
#define DEFINE_SCALES(ISA, attributes)              \
	DEFINE_SCALES_OF(uint8_t, ISA, attributes)  \
	DEFINE_SCALES_OF(uint16_t, ISA, attributes) \
	DEFINE_SCALES_OF(uint32_t, ISA, attributes) \
	DEFINE_SCALES_OF(uint64_t, ISA, attributes)

typedef void scale_function(const void *from, uint32_t n, uint64_t base, uint64_t factor, void *to);

#define SCALES_OF(FROM, ISA)                                                         \
	{                                                                            \
		scale_##FROM##_uint8_t_##ISA, scale_##FROM##_uint16_t_##ISA,         \
			scale_##FROM##_uint32_t_##ISA, scale_##FROM##_uint64_t_##ISA \
	}
#define SCALES(ISA)                                                                          \
	{                                                                                    \
		SCALES_OF(uint8_t, ISA), SCALES_OF(uint16_t, ISA), SCALES_OF(uint32_t, ISA), \
			SCALES_OF(uint64_t, ISA)                                             \
	}

/* By the logarithms of both sizes. */
DEFINE_SCALES(portable, )
static scale_function *const scales_portable[4][4] = SCALES(portable);
#if defined(__x86_64__)
DEFINE_SCALES(avx2, __attribute__((target("avx2"))))
static scale_function *const scales_avx2[4][4] = SCALES(avx2);
#endif

static void scale(const void *from, unsigned from_size, uint32_t n, uint64_t base, uint64_t factor,
		  void *to, unsigned to_size)
{
	unsigned i = (unsigned)__builtin_ctz(from_size), k = (unsigned)__builtin_ctz(to_size);

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2")) {
		scales_avx2[i][k](from, n, base, factor, to);
		return;
	}
#endif
	scales_portable[i][k](from, n, base, factor, to);
}

/*
 * Sums of the differences in[1] to in[to - 1], the first of which is `sum`; those from `from` on go
 * to out.
 */
#define DEFINE_SUMS(FROM, TO)                                                                      \
	static void sums_##FROM##_##TO(const void *raw, uint32_t from, uint32_t to, uint64_t base, \
				       uint64_t sum, void *values)                                 \
	{                                                                                          \
		const FROM *in = raw;                                                              \
		TO *out = values;                                                                  \
		uint32_t i = 1;                                                                    \
		for (; i <= from; i++)                                                             \
			sum += in[i] + base;                                                       \
		*out++ = (TO)sum;                                                                  \
		for (; i < to; i++)                                                                \
			*out++ = (TO)(sum += in[i] + base);                                        \
	}
#define DEFINE_SUMS_OF(FROM)        \
	DEFINE_SUMS(FROM, uint8_t)  \
	DEFINE_SUMS(FROM, uint16_t) \
	DEFINE_SUMS(FROM, uint32_t) \
	DEFINE_SUMS(FROM, uint64_t)
DEFINE_SUMS_OF(uint8_t)
DEFINE_SUMS_OF(uint16_t)
DEFINE_SUMS_OF(uint32_t)
DEFINE_SUMS_OF(uint64_t)

#define SUMS_OF(FROM)                                                                  \
	{                                                                              \
		sums_##FROM##_uint8_t, sums_##FROM##_uint16_t, sums_##FROM##_uint32_t, \
			sums_##FROM##_uint64_t                                         \
	}

/* Rows [from, to) of one block of differences, which begin at its anchor. */
static void get_delta(const struct fth_table_sequence *s, uint32_t block, uint32_t from,
		      uint32_t to, void *values, unsigned size)
{
	static void (*const sums[4][4])(const void *, uint32_t, uint32_t, uint64_t, uint64_t,
					void *) = {SUMS_OF(uint8_t), SUMS_OF(uint16_t),
						   SUMS_OF(uint32_t), SUMS_OF(uint64_t)};
	unsigned char raw[BITS_BLOCK * 8];
	uint64_t anchor;

	memcpy(&anchor, s->anchors + (size_t)block * sizeof(anchor), sizeof(anchor));
	bits_unpack(block_at(s, block), s->width, 0, raw);
	sums[__builtin_ctz(bits_size(s->width))][__builtin_ctz(size)](
		raw, from, to, (uint64_t)s->base, anchor, values);
}

static void get_block(const struct fth_table_sequence *s, uint32_t block, uint32_t from,
		      uint32_t to, void *values, unsigned size)
{
	unsigned char raw[BITS_BLOCK * 8];
	unsigned raw_size = bits_size(s->width);

	if (s->anchors) {
		get_delta(s, block, from, to, values, size);
		return;
	}
	if (from == 0 && to == BITS_BLOCK && raw_size == size && s->factor == 1) {
		bits_unpack(block_at(s, block), s->width, (uint64_t)s->base, values);
		return;
	}
	bits_unpack(block_at(s, block), s->width, 0, raw);
	scale(raw + (size_t)from * raw_size, raw_size, to - from, (uint64_t)s->base, s->factor,
	      values, size);
}

void sequence_get(const struct fth_table_sequence *s, uint32_t from, uint32_t to, void *values,
		  unsigned size)
{
	unsigned char *out = values;

	while (from < to) {
		uint32_t block = from / BITS_BLOCK, first = from % BITS_BLOCK;
		uint32_t n = to - from < BITS_BLOCK - first ? to - from : BITS_BLOCK - first;

		get_block(s, block, first, first + n, out, size);
		out += (size_t)n * size;
		from += n;
	}
}

int64_t sequence_at(const struct fth_table_sequence *s, uint32_t i)
{
	uint32_t block = i / BITS_BLOCK;
	int64_t value;

	if (s->anchors) {
		sequence_get(s, i, i + 1, &value, sizeof(value));
		return value;
	}
	return (int64_t)(bits_at(block_at(s, block), s->width, i % BITS_BLOCK) * s->factor +
			 (uint64_t)s->base);
}
