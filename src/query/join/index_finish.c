/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From chunks of rows to the structure. All rows are known: their number and the range of their
 * keys' numbers choose the form. Each step visits all chunks, on several threads if there are many.
 */
#include "query/join/index_build_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>

#define THREADS_MAX 64u
#define SHARED_ROWS (32u << 10) /* fewer are not worth another thread */

/* ---- finishing: on all threads ---- */

struct helper {
	struct build *build;
	int (*visit)(struct build *b, const struct chunk *c);
	pthread_t thread;
	int rc;
};

static void *visit_chunks(void *user)
{
	struct helper *h = user;
	struct chunk *c = h->build->next;

	while (h->rc == 0) {
		while (c && !atomic_compare_exchange_weak(&h->build->next, &c, c->next))
			;
		if (!c)
			break;
		h->rc = h->visit(h->build, c);
		c = h->build->next;
	}
	return NULL;
}

static int for_chunks(struct build *b, unsigned threads,
		      int (*visit)(struct build *b, const struct chunk *c))
{
	struct helper helpers[THREADS_MAX];
	unsigned most = (unsigned)(b->index->rows / SHARED_ROWS) + 1, n = 1;
	int rc;

	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	threads = threads > most ? most : threads;
	b->next = b->chunks;
	for (unsigned i = 0; i < threads; i++)
		helpers[i] = (struct helper){.build = b, .visit = visit};
	while (n < threads &&
	       pthread_create(&helpers[n].thread, NULL, visit_chunks, &helpers[n]) == 0)
		n++;
	visit_chunks(&helpers[0]);
	rc = helpers[0].rc;
	for (unsigned i = 1; i < n; i++) {
		pthread_join(helpers[i].thread, NULL);
		rc = rc < 0 ? rc : helpers[i].rc;
	}
	/* The text of another thread's error stayed there. */
	return rc == -EEXIST
		       ? fth_fail(
				 EEXIST,
				 "duplicate key in a column that the table statistics prove unique")
		       : rc;
}

/* ---- slots of a bitmap ---- */

static int mark_numbers(struct build *b, const struct chunk *c)
{
	uint64_t all[FTH_BATCH_WORDS], again[FTH_BATCH_WORDS] = {0}, outside = 0;

	fth_bits_fill(all, c->n);
	key_bitmap_add(&b->index->keys, (const int64_t *)c->numbers, c->n, all, &outside, again);
	return b->index->spec.kind == INDEX_MAP && fth_bits_any(again, c->n) ? -EEXIST : 0;
}

static void slots_by_bitmap(const struct index *x, const struct chunk *c, uint32_t *slots)
{
	uint64_t all[FTH_BATCH_WORDS];

	if (x->direct) {
		for (unsigned i = 0; i < c->n; i++)
			slots[i] = (uint32_t)(c->numbers[i] - (uint64_t)x->keys.min);
		return;
	}
	fth_bits_fill(all, c->n);
	key_bitmap_ranks(&x->keys, (const int64_t *)c->numbers, c->n, all, slots);
}

/* ---- slots of a hash table ---- */

static uint32_t *head_of(struct index *x, uint64_t number)
{
	uint64_t mask = ((uint64_t)1 << x->head_bits) - 1, home = index_home(x, number);

	while (x->heads[home] != INDEX_FREE && x->numbers[x->heads[home]] != number)
		home = (home + 1) & mask;
	return &x->heads[home];
}

/* By one thread. */
static int insert_numbers(struct build *b, const struct chunk *c)
{
	struct index *x = b->index;

	for (unsigned i = 0; i < c->n; i++)
		__builtin_prefetch(&x->heads[index_home(x, c->numbers[i])]);
	for (unsigned i = 0; i < c->n; i++) {
		uint32_t *head = head_of(x, c->numbers[i]);

		if (*head != INDEX_FREE) {
			if (x->spec.kind == INDEX_MAP && x->numbering.exact)
				return -EEXIST;
			continue;
		}
		if (x->filter) {
			uint64_t at = (c->numbers[i] * INDEX_FACTOR) >> (64 - x->filter_bits);

			x->filter[at / 64] |= (uint64_t)1 << at % 64;
		}
		x->numbers[x->slots] = c->numbers[i];
		*head = (uint32_t)x->slots++;
	}
	return 0;
}

static void slots_by_hash(struct index *x, const struct chunk *c, uint32_t *slots)
{
	for (unsigned i = 0; i < c->n; i++)
		slots[i] = *head_of(x, c->numbers[i]);
}

static void slots_of(struct index *x, const struct chunk *c, uint32_t *slots)
{
	if (x->form == INDEX_BITMAP)
		slots_by_bitmap(x, c, slots);
	else
		slots_by_hash(x, c, slots);
}

/* ---- records ---- */

static int count_rows(struct build *b, const struct chunk *c)
{
	uint32_t slots[FTH_BATCH];

	slots_of(b->index, c, slots);
	for (unsigned i = 0; i < c->n; i++)
		fth_add_relaxed_dev32(&b->index->start[slots[i]], 1);
	return 0;
}

/* From counts to the first record of each slot. */
static void sum_counts(struct index *x)
{
	uint32_t sum = 0;

	for (uint64_t s = 0; s <= x->slots; s++) {
		uint32_t count = s == x->slots ? 0 : x->start[s];

		x->start[s] = sum;
		sum += count;
	}
}

static int place_records(struct build *b, const struct chunk *c)
{
	struct index *x = b->index;
	bool same = x->pack.text_bits == b->pack.text_bits;
	char changed[256 * 17 + 2 * PACK_PAD];
	uint32_t slots[FTH_BATCH];

	slots_of(x, c, slots);
	for (unsigned i = 0; i < c->n; i++) {
		const char *from = c->records + (size_t)i * b->pack.stride;
		uint64_t at = slots[i];

		/* Relaxed: each thread needs a place of its own, and nothing else. */
		if (x->start)
			at = fth_add_relaxed_dev32(&x->start[slots[i]], 1);
		if (!same) {
			memset(changed, 0, x->pack.stride + PACK_PAD);
			pack_convert(&b->pack, from, &x->pack, changed);
			from = changed;
		}
		pack_copy(x->records + at * x->pack.stride, from, x->pack.stride);
	}
	return 0;
}

/* Placing moved the start of each slot to its end, which is where the next one begins. */
static void restore_starts(struct index *x)
{
	memmove(x->start + 1, x->start, x->slots * sizeof(*x->start));
	x->start[0] = 0;
}

/* ---- the form ---- */

static int make_bitmap(struct build *b, unsigned threads)
{
	struct index *x = b->index;
	uint64_t span = b->most - b->least + 1;
	int rc = build_init_bitmap(b, b->least, b->most);

	if (rc == 0)
		rc = for_chunks(b, threads, mark_numbers);
	if (rc < 0)
		return rc;
	/* A slot for every number: no ranks, and at most four times the records. */
	x->direct = span / 4 <= x->rows && span < UINT32_MAX;
	if (x->spec.kind == INDEX_SET) {
		x->rows = key_bitmap_count(&x->keys);
		return 0;
	}
	if (!x->direct)
		rc = key_bitmap_seal(&x->keys);
	x->slots = x->direct ? span : x->keys.count;
	return rc;
}

/*
 * Sixteen bits for each row, so that a number that is not there has one clear in 94 of 100 cases.
 */
static void make_filter(struct build *b)
{
	struct index *x = b->index;

	x->filter_bits = 10;
	while ((uint64_t)1 << x->filter_bits < x->rows * 16)
		x->filter_bits++;
	x->filter = fth_qmem_zalloc(b->own, ((size_t)1 << x->filter_bits) / 8);
}

static int make_hash(struct build *b)
{
	struct index *x = b->index;
	size_t heads;

	x->form = INDEX_HASH;
	x->head_bits = 4;
	while ((uint64_t)1 << x->head_bits < x->rows + x->rows / 2)
		x->head_bits++;
	heads = ((size_t)1 << x->head_bits) * sizeof(*x->heads);
	x->heads = fth_qmem_alloc(b->own, heads);
	x->numbers = fth_qmem_alloc(b->own, x->rows * sizeof(*x->numbers));
	if (x->numbers)
		x->number_room = x->rows;
	if (!x->heads || !x->numbers)
		return -ENOMEM;
	memset(x->heads, 0xff, heads);
	if (!b->without_filter)
		make_filter(b);
	return for_chunks(b, 1, insert_numbers);
}

static int make_slots(struct build *b, unsigned threads)
{
	uint64_t bytes = build_bitmap_bytes(b, b->least, b->most);
	int rc = -ENOMEM;

	if (build_prefers_bitmap(b, bytes, (double)b->index->rows))
		rc = make_bitmap(b, threads);
	if (rc == -ENOMEM) {
		index_forget(b->index);
		rc = make_hash(b);
	}
	return rc;
}

static int make_records(struct build *b, unsigned threads)
{
	struct index *x = b->index;
	/* Records with equal hashes may have different keys. */
	bool several = x->spec.kind == INDEX_MULTIMAP || !x->numbering.exact;
	int rc = 0;

	x->record_room = several ? x->rows : x->slots;
	x->record_room += x->record_room == 0;
	x->records = fth_qmem_zalloc(b->own, x->record_room * x->pack.stride + PACK_PAD);
	if (!x->records)
		return -ENOMEM;
	if (several) {
		x->slot_room = x->slots;
		x->start = fth_qmem_zalloc(b->own, (x->slots + 1) * sizeof(*x->start));
		if (!x->start)
			return -ENOMEM;
		rc = for_chunks(b, threads, count_rows);
		sum_counts(x);
	}
	if (rc == 0)
		rc = for_chunks(b, threads, place_records);
	if (rc == 0 && several)
		restore_starts(x);
	return rc;
}

static unsigned text_bits(uint32_t count)
{
	return count < 2 ? 1 : 32 - (unsigned)__builtin_clz(count - 1);
}

/* Text has as many strings as it has; records get their final layout. */
static void seal_text(struct build *b)
{
	struct index *x = b->index;
	unsigned skip = x->spec.key_count - x->first_payload;

	if (!x->has_text || x->dict)
		return;
	x->dict = pool_seal(&x->pool);
	if (b->in_place || b->ranked)
		return;
	pack_init(&x->pack, x->fields, x->spec.columns + skip, x->spec.column_count - skip,
		  text_bits(x->dict->count));
}

/* How many rows there are, and the range of their numbers. */
static void measure(struct build *b)
{
	uint64_t least = UINT64_MAX, most = 0, rows = 0;

	for (const struct chunk *c = b->chunks; c; c = c->next) {
		rows += c->n;
		for (unsigned i = 0; i < c->n; i++) {
			least = c->numbers[i] < least ? c->numbers[i] : least;
			most = c->numbers[i] > most ? c->numbers[i] : most;
		}
	}
	b->index->rows = rows;
	b->least = rows == 0 ? 0 : least;
	b->most = most;
}

static int make_structure(struct build *b, unsigned threads)
{
	struct index *x = b->index;
	int rc;

	measure(b);
	if (x->rows >= INDEX_FREE)
		return -ENOMEM;
	rc = make_slots(b, threads);
	if (rc == 0 && (x->spec.kind != INDEX_SET || !x->numbering.exact))
		rc = make_records(b, threads);
	return rc;
}

int build_finish(struct build *b, unsigned threads, struct index **out)
{
	struct index *x = b->index;
	int rc = 0;

	*out = NULL;
	if (x->list) {
		rc = rows_finish(x->list);
		x->rows = rows_count(x->list);
	} else if (!b->at_once && !b->in_place && !b->ranked) {
		seal_text(b);
		b->chunks = build_compact(b, b->chunks, b->to);
		rc = make_structure(b, threads);
		while (rc == -ENOMEM) {
			/*
			 * The filter only makes misses faster, so it is given up before rows are.
			 */
			bool narrow = b->without_filter || !x->filter;

			b->without_filter = true;
			index_forget(x);
			rc = narrow ? build_narrow(b, b->to) : 0;
			if (rc < 0)
				break;
			rc = make_structure(b, threads);
		}
	} else {
		seal_text(b);
		x->rows = key_bitmap_count(&x->keys);
	}
	build_free_chunks(b, b->chunks);
	b->chunks = NULL;
	if (rc < 0)
		return rc;
	/* Nothing lies beyond the last number. */
	x->any = b->any;
	x->nulls = b->nulls;
	x->to = b->to >= x->numbering.last ? UINT64_MAX : b->to;
	b->index = NULL;
	*out = x;
	return 0;
}
