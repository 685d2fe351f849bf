/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first k of an order: a heap of the least keys so far, the greatest at its root. A row that is
 * not before the root is dropped, most of them by one comparison over the whole vector.
 */
#include "query/spill/sort.h"

#include "query/vec/kern/kern.h"

#include <errno.h>

struct topk_item {
	uint8_t *bytes; /* key, payload */
	uint32_t key_len, payload_len;
	bool has_first;
	fth_i128 first;
};

uint64_t topk_bound(uint32_t k, uint32_t record)
{
	return fth_qmem_cost(k * sizeof(struct topk_item)) +
	       ((uint64_t)k + 1) * fth_qmem_cost(record);
}

int topk_init(struct topk *t, struct fth_qmem *mem, uint32_t k)
{
	*t = (struct topk){.mem = mem, .k = k};
	t->items = fth_qmem_alloc(mem, k * sizeof(*t->items));
	return t->items ? 0 : -ENOMEM;
}

static void free_item(struct topk *t, struct topk_item *item)
{
	fth_qmem_free(t->mem, item->bytes, (size_t)item->key_len + item->payload_len);
}

void topk_release(struct topk *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free_item(t, &t->items[i]);
	fth_qmem_free(t->mem, t->items, t->k * sizeof(*t->items));
	*t = (struct topk){0};
}

static int compare_bytes(const uint8_t *a, uint32_t alen, const uint8_t *b, uint32_t blen)
{
	int rc = memcmp(a, b, alen < blen ? alen : blen);

	return rc ? rc : (alen > blen) - (alen < blen);
}

static bool less(const struct topk_item *a, const struct topk_item *b)
{
	return compare_bytes(a->bytes, a->key_len, b->bytes, b->key_len) < 0;
}

static void swap_items(struct topk_item *a, struct topk_item *b)
{
	struct topk_item x = *a;

	*a = *b;
	*b = x;
}

static void sink(struct topk_item *a, uint32_t root, uint32_t n)
{
	for (;;) {
		uint32_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n && less(&a[child], &a[child + 1]))
			child++;
		if (!less(&a[root], &a[child]))
			return;
		swap_items(&a[root], &a[child]);
		root = child;
	}
}

static void rise(struct topk_item *a, uint32_t at)
{
	while (at > 0 && less(&a[(at - 1) / 2], &a[at])) {
		swap_items(&a[(at - 1) / 2], &a[at]);
		at = (at - 1) / 2;
	}
}

static void note_root(struct topk *t)
{
	t->has_first = t->count == t->k && t->items[0].has_first;
	t->first = t->items[0].first;
}

bool topk_takes(const struct topk *t, const void *key, uint32_t key_len)
{
	return t->k > 0 && (t->count < t->k || compare_bytes(key, key_len, t->items[0].bytes,
							     t->items[0].key_len) < 0);
}

int topk_add(struct topk *t, const void *key, uint32_t key_len, const void *payload,
	     uint32_t payload_len, const fth_i128 *first)
{
	struct topk_item item = {NULL, key_len, payload_len, first, first ? *first : 0};

	if (!topk_takes(t, key, key_len))
		return 0;
	item.bytes = fth_qmem_alloc(t->mem, (size_t)key_len + payload_len);
	if (!item.bytes)
		return -ENOMEM;
	memcpy(item.bytes, key, key_len);
	memcpy(item.bytes + key_len, payload, payload_len);
	if (t->count < t->k) {
		t->items[t->count] = item;
		rise(t->items, t->count++);
	} else {
		free_item(t, &t->items[0]);
		t->items[0] = item;
		sink(t->items, 0, t->count);
	}
	note_root(t);
	return 0;
}

void topk_filter(const struct topk *t, const struct sort_column *column,
		 const struct fth_vec *first, struct fth_sel *sel)
{
	uint64_t bits[FTH_BATCH_WORDS];
	fth_i128 limit = t->first - first->base, most;

	if (!t->has_first || first->type > FTH_I64)
		return;
	most = (fth_i128)1 << (8 * fth_phys_width(first->type) - 1);
	if (limit < -most || limit >= most)
		return;
	/* Equal ones stay: later columns decide. */
	fth_kern()->cmp_const[first->type][column->descending ? FTH_KERN_LT : FTH_KERN_GT](
		bits, first->data, (int64_t)limit, sel->n, 0);
	for (unsigned i = 0; first->nulls && i < fth_bits_words(sel->n); i++)
		bits[i] &= ~first->nulls[i];
	fth_sel_and_not(sel, bits);
}

void topk_finish(struct topk *t)
{
	for (uint32_t n = t->count; n > 1; n--) {
		swap_items(&t->items[0], &t->items[n - 1]);
		sink(t->items, 0, n - 1);
	}
	t->finished = true;
}

int topk_next(struct topk *t, struct sort_record *out)
{
	const struct topk_item *item;

	if (t->at == t->count)
		return 0;
	item = &t->items[t->at++];
	*out = (struct sort_record){item->bytes, item->key_len, item->bytes + item->key_len,
				    item->payload_len};
	return 1;
}

void topk_rewind(struct topk *t)
{
	t->at = 0;
}
