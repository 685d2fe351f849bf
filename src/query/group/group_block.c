/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/group/group_block.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>

#define BLOCK_ALIGN 16u

struct block_header {
	uint32_t kind, n, count, unused;
};
_Static_assert(sizeof(struct block_header) == BLOCK_ALIGN, "layout");

struct column_header {
	uint8_t type, nulls, unused[6];
	int64_t base;
};
_Static_assert(sizeof(struct column_header) == BLOCK_ALIGN, "layout");

int group_blocks_new(struct fth_qmem *mem, struct group_blocks **out)
{
	struct group_blocks *b = fth_qmem_zalloc(mem, sizeof(*b));

	*out = b;
	if (!b)
		return -ENOMEM;
	b->mem = mem;
	return 0;
}

void group_blocks_free(struct group_blocks *b)
{
	if (!b)
		return;
	fth_qmem_free(b->mem, b->bytes, b->room);
	fth_qmem_free(b->mem, b, sizeof(*b));
}

/* ---- writing ---- */

static size_t aligned(size_t size)
{
	return (size + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
}

static size_t null_bytes(unsigned n)
{
	return aligned(fth_bits_words(n) * sizeof(uint64_t));
}

static size_t column_size(size_t width, bool nulls, unsigned n)
{
	return sizeof(struct column_header) + aligned(n * width) + (nulls ? null_bytes(n) : 0);
}

static size_t block_size(bool wide_keys, const struct fth_vec *columns, unsigned count, unsigned n)
{
	size_t size = sizeof(struct block_header) + column_size(wide_keys ? 8 : 4, false, n);

	for (unsigned i = 0; i < count; i++)
		size += column_size(fth_phys_width(columns[i].type), columns[i].nulls, n);
	return n == 0 ? 0 : size;
}

static unsigned part_of(const struct group_parting *by, uint64_t key)
{
	return (unsigned)((by->ranged ? key : fth_mix64(key)) >> by->shift) & by->mask;
}

/* Count the rows of each part, then put their numbers side by side. */
static void order_rows(struct group_blocks *b, const struct group_parting *by, const uint64_t *keys,
		       const uint16_t *list, unsigned n)
{
	uint32_t at[GROUP_PARTS], sum = 0;

	memset(b->counts, 0, sizeof(b->counts));
	for (unsigned i = 0; i < n; i++) {
		unsigned part = part_of(by, keys[list ? list[i] : i]);

		b->parts[i] = (uint8_t)part;
		b->counts[part]++;
	}
	for (unsigned p = 0; p < by->parts; p++) {
		at[p] = sum;
		sum += b->counts[p];
	}
	for (unsigned i = 0; i < n; i++)
		b->order[at[b->parts[i]]++] = list ? list[i] : (uint16_t)i;
}

static int reserve_bytes(struct group_blocks *b, size_t bytes)
{
	char *larger;

	if (bytes <= b->room)
		return 0;
	larger = fth_qmem_alloc(b->mem, bytes);
	if (!larger)
		return -ENOMEM;
	fth_qmem_free(b->mem, b->bytes, b->room);
	b->bytes = larger;
	b->room = bytes;
	return 0;
}

static char *put_header(char *out, enum fth_phys type, bool nulls, int64_t base)
{
	struct column_header h = {.type = (uint8_t)type, .nulls = nulls, .base = base};

	memcpy(out, &h, sizeof(h));
	return out + sizeof(h);
}

static char *put_keys(char *out, const uint64_t *keys, bool wide, const uint16_t *order, unsigned n)
{
	uint32_t *narrow;
	uint64_t *to;

	out = put_header(out, wide ? FTH_I64 : FTH_I32, false, 0);
	to = (uint64_t *)out;
	narrow = (uint32_t *)out;
	for (unsigned i = 0; i < n && wide; i++)
		to[i] = keys[order[i]];
	for (unsigned i = 0; i < n && !wide; i++)
		narrow[i] = (uint32_t)keys[order[i]];
	return out + aligned(n * (wide ? sizeof(*to) : sizeof(*narrow)));
}

static char *put_column(char *out, const struct fth_vec *v, const uint16_t *order, unsigned n)
{
	out = put_header(out, v->type, v->nulls, v->base);
	fth_vec_gather(v->type, out, v->data, order, n);
	out += aligned(n * fth_phys_width(v->type));
	if (!v->nulls)
		return out;
	fth_bits_gather((uint64_t *)out, v->nulls, order, n);
	return out + null_bytes(n);
}

int group_blocks_make(struct group_blocks *b, const struct group_parting *by, uint32_t kind,
		      const uint64_t *keys, bool wide_keys, const uint16_t *list, unsigned n,
		      const struct fth_vec *columns, unsigned count)
{
	const uint16_t *order = b->order;
	int rc;

	order_rows(b, by, keys, list, n);
	b->ends[0] = 0;
	for (unsigned p = 0; p < by->parts; p++)
		b->ends[p + 1] = b->ends[p] + block_size(wide_keys, columns, count, b->counts[p]);
	rc = reserve_bytes(b, b->ends[by->parts]);
	for (unsigned p = 0; p < by->parts && rc == 0; p++) {
		struct block_header h = {.kind = kind, .n = b->counts[p], .count = count};
		char *out = b->bytes + b->ends[p];

		if (h.n == 0)
			continue;
		memcpy(out, &h, sizeof(h));
		out = put_keys(out + sizeof(h), keys, wide_keys, order, h.n);
		for (unsigned c = 0; c < count; c++)
			out = put_column(out, &columns[c], order, h.n);
		order += h.n;
	}
	return rc;
}

/* ---- reading ---- */

static const char *get_column(const char *at, const char *end, unsigned n, struct fth_vec *out)
{
	struct column_header h;

	if (!at || (size_t)(end - at) < sizeof(h))
		return NULL;
	memcpy(&h, at, sizeof(h));
	if (h.type >= FTH_STR ||
	    (size_t)(end - at) < column_size(fth_phys_width(h.type), h.nulls, n))
		return NULL;
	at += sizeof(h);
	*out = (struct fth_vec){.type = h.type, .data = at, .base = h.base};
	at += aligned(n * fth_phys_width(h.type));
	if (h.nulls == 0)
		return at;
	out->nulls = (const uint64_t *)at;
	return at + null_bytes(n);
}

int group_block_read(const char *bytes, size_t size, unsigned count, struct group_block *out)
{
	const char *at = bytes + sizeof(struct block_header), *end = bytes + size;
	struct block_header h = {0};

	if (size >= sizeof(h))
		memcpy(&h, bytes, sizeof(h));
	if (h.n == 0 || h.n > FTH_BATCH || h.count != count)
		return fth_fail(EILSEQ, "a spilled block has an invalid header");
	out->kind = h.kind;
	out->n = h.n;
	out->count = count;
	at = get_column(at, end, h.n, &out->keys);
	for (unsigned c = 0; c < count; c++)
		at = get_column(at, end, h.n, &out->columns[c]);
	if (at != end || (out->keys.type != FTH_I32 && out->keys.type != FTH_I64))
		return fth_fail(EILSEQ, "a spilled block of %zu bytes has invalid columns", size);
	return 0;
}
