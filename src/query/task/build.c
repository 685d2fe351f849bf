/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows are kept in chunks, as a number and a packed record each, until all have come; then the best form is
 * known, and records move to their places. A set over a range that is dense enough needs no chunks: its bits
 * are set at once.
 *
 * Invariants:
 *  1. Rows in chunks have numbers in [from, to], except that rows above a `to` that has just become smaller
 *     stay until their writer's next compaction.
 *  2. `to` only becomes smaller. Every row with a number in [from, to] that was appended is in a chunk.
 *  3. A writer's chunks are changed under its lock: by its thread, or by one that makes room (narrow()).
 *  4. Bytes of all chunks are counted in `bytes`, and are at most a half of the room, since the finished
 *     structure takes about as much again.
 */
#include "query/task/build.h"
#include "query/task/index_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"
#include "query/set/rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TEXT_BITS    32u
#define THREADS_MAX  64u
#define SAMPLE_MAX   1024u
#define RECENT_BITS  10u
#define HASH_BYTES   14u /* of a key in a hash table, about */
#define SMALL_BITMAP (256u << 10)
#define SHARED_ROWS  (32u << 10) /* fewer are not worth another thread */

struct chunk {
	struct chunk *next;
	unsigned n;
	char *records;
	uint64_t numbers[FTH_BATCH];
};

struct build {
	struct fth_qmem *mem;
	struct index *index;
	struct pack pack; /* of records in chunks */
	struct pack_field *fields;
	unsigned columns;
	bool at_once; /* a set whose bits are set as rows come */
	pthread_mutex_t lock;
	struct build_writer *writers; /* under lock */
	struct chunk *chunks;	      /* of writers that are closed; under lock */
	_Atomic uint64_t to;
	_Atomic uint64_t bytes;
	_Atomic(struct chunk *) next; /* finishing: to be visited */
};

struct build_writer {
	struct build_writer *next;
	struct build *build;
	pthread_mutex_t lock;
	struct chunk *chunks;	  /* newest first; only the newest has room */
	uint64_t seen_to;	  /* chunks hold nothing above it */
	struct pack_codes *codes; /* by field */
	uint64_t numbers[FTH_BATCH];
	uint64_t none[FTH_BATCH_WORDS];
	int64_t work[FTH_BATCH];
	uint16_t rows[FTH_BATCH + 64];
	uint64_t recent[1u << RECENT_BITS]; /* numbers of a set that are there already */
};

/* ---- opening ---- */

static uint64_t last_number(const struct build *b, uint64_t to)
{
	return to < b->index->numbering.last ? to : b->index->numbering.last;
}

/* The bytes of a bitmap over the range, with its ranks; UINT64_MAX: too many. */
static uint64_t bitmap_bytes(const struct build *b, uint64_t to)
{
	uint64_t last = last_number(b, to);

	if (!b->index->numbering.exact || last >= (uint64_t)1 << 62 || last < b->index->from)
		return UINT64_MAX;
	return fth_keyset_bound((int64_t)b->index->from, (int64_t)last, true);
}

static int init_bitmap(struct build *b, uint64_t to)
{
	struct index *x = b->index;

	x->form = INDEX_BITMAP;
	fth_keyset_release(&x->keys);
	return fth_keyset_init(&x->keys, b->mem, (int64_t)x->from, (int64_t)last_number(b, to));
}

/*
 * A set is a bitmap from the start if that is not much more than a table of the keys that are expected. What
 * does not fit is left for the next range.
 */
static int choose_at_once(struct build *b)
{
	uint64_t all = bitmap_bytes(b, b->to), table = (uint64_t)(b->index->spec.rows * HASH_BYTES);
	uint64_t room = b->index->spec.room / 2;

	if (b->index->spec.kind != INDEX_SET || all == UINT64_MAX)
		return 0;
	if (all > SMALL_BITMAP && all / 4 > table)
		return 0;
	b->at_once = true;
	if (all > room)
		b->to = b->index->from + (room < 4096 ? 4096 : room) * 7;
	b->to = b->to < b->index->spec.to ? b->to : b->index->spec.to;
	if (init_bitmap(b, b->to) == 0)
		return 0;
	b->at_once = false; /* the keys themselves may be few */
	return 0;
}

static bool any_text(const struct index_spec *s)
{
	for (unsigned i = 0; i < s->column_count; i++)
		if (fth_type_is_text(s->columns[i].type))
			return true;
	return false;
}

static int open_index(struct build *b, const struct index_spec *spec)
{
	struct index *x = fth_qmem_zalloc(b->mem, sizeof(*x));
	unsigned skip;

	b->index = x;
	if (x == NULL)
		return -ENOMEM;
	x->mem = b->mem;
	x->spec = *spec;
	x->from = spec->from;
	x->to = UINT64_MAX;
	numbering_init(&x->numbering, spec->columns, spec->key_count);
	x->first_payload = x->numbering.exact ? 0 : spec->key_count;
	skip = spec->key_count - x->first_payload;
	x->fields = fth_qmem_zalloc(b->mem, spec->column_count * sizeof(*x->fields));
	if (x->fields == NULL)
		return -ENOMEM;
	x->has_text = any_text(spec);
	pack_init(&x->pack, x->fields, spec->columns + skip, spec->column_count - skip, TEXT_BITS);
	pack_init(&b->pack, b->fields, spec->columns + skip, spec->column_count - skip, TEXT_BITS);
	return x->has_text ? pool_init(&x->pool, b->mem) : 0;
}

int build_open(struct fth_qmem *mem, const struct index_spec *spec, struct build **out)
{
	struct build *b = fth_qmem_zalloc(mem, sizeof(*b));
	int rc = -ENOMEM;

	*out = b;
	if (b == NULL)
		return rc;
	b->mem = mem;
	pthread_mutex_init(&b->lock, NULL);
	b->to = spec->to;
	b->columns = spec->column_count;
	b->fields = fth_qmem_zalloc(mem, spec->column_count * sizeof(*b->fields));
	if (b->fields != NULL)
		rc = open_index(b, spec);
	if (rc == 0)
		rc = choose_at_once(b);
	if (rc < 0) {
		build_free(b);
		*out = NULL;
	}
	return rc;
}

static size_t chunk_bytes(const struct build *b)
{
	return sizeof(struct chunk) + (size_t)FTH_BATCH * b->pack.stride + PACK_PAD;
}

static void free_chunks(struct build *b, struct chunk *c)
{
	while (c != NULL) {
		struct chunk *next = c->next;

		fth_qmem_free(b->mem, c, chunk_bytes(b));
		b->bytes -= chunk_bytes(b);
		c = next;
	}
}

void build_free(struct build *b)
{
	if (b == NULL)
		return;
	free_chunks(b, b->chunks);
	index_free(b->index);
	fth_qmem_free(b->mem, b->fields, b->columns * sizeof(*b->fields));
	pthread_mutex_destroy(&b->lock);
	fth_qmem_free(b->mem, b, sizeof(*b));
}

int build_writer_open(struct build *b, struct build_writer **out)
{
	struct build_writer *w = fth_qmem_zalloc(b->mem, sizeof(*w));

	*out = NULL;
	if (w == NULL)
		return -ENOMEM;
	w->codes = fth_qmem_zalloc(b->mem, (b->pack.count + 1) * sizeof(*w->codes));
	if (w->codes == NULL) {
		fth_qmem_free(b->mem, w, sizeof(*w));
		return -ENOMEM;
	}
	w->build = b;
	w->seen_to = UINT64_MAX;
	pthread_mutex_init(&w->lock, NULL);
	memset(w->recent, 0xff, sizeof(w->recent));
	pthread_mutex_lock(&b->lock);
	w->next = b->writers;
	b->writers = w;
	pthread_mutex_unlock(&b->lock);
	*out = w;
	return 0;
}

void build_writer_close(struct build_writer *w)
{
	struct build_writer **at;
	struct build *b;

	if (w == NULL)
		return;
	b = w->build;
	pthread_mutex_lock(&b->lock);
	for (at = &b->writers; *at != w;)
		at = &(*at)->next;
	*at = w->next;
	while (w->chunks != NULL) {
		struct chunk *c = w->chunks;

		w->chunks = c->next;
		c->next = b->chunks;
		b->chunks = c;
	}
	pthread_mutex_unlock(&b->lock);
	for (unsigned i = 0; i < b->pack.count; i++)
		pack_codes_release(&w->codes[i], b->mem);
	fth_qmem_free(b->mem, w->codes, (b->pack.count + 1) * sizeof(*w->codes));
	pthread_mutex_destroy(&w->lock);
	fth_qmem_free(b->mem, w, sizeof(*w));
}

uint64_t build_to(const struct build *b)
{
	return b->to;
}

/* ---- making room ---- */

static void move_row(struct build *b, struct chunk *to, struct chunk *from, unsigned i)
{
	to->numbers[to->n] = from->numbers[i];
	if (to != from || to->n != i)
		memmove(to->records + (size_t)to->n * b->pack.stride,
			from->records + (size_t)i * b->pack.stride, b->pack.stride);
	to->n++;
}

/* Drop the rows of a list of chunks whose number is above `to`; the first chunk has room then, if any has. */
static struct chunk *compact(struct build *b, struct chunk *list, uint64_t to)
{
	struct chunk *full = NULL, *out = list, *at = list;
	unsigned n = list == NULL ? 0 : list->n;

	if (list == NULL)
		return NULL;
	out->n = 0;
	while (at != NULL) {
		struct chunk *next = at->next;
		unsigned next_n = next == NULL ? 0 : next->n;

		for (unsigned i = 0; i < n; i++) {
			if (at->numbers[i] > to)
				continue;
			if (out->n ==
			    FTH_BATCH) { /* the next one was read as far as this row at least */
				struct chunk *done = out;

				out = out->next;
				out->n = 0;
				done->next = full;
				full = done;
			}
			move_row(b, out, at, i);
		}
		at = next;
		n = next_n;
	}
	free_chunks(b, out->next);
	out->next = full;
	return out;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static unsigned sample_chunks(const struct chunk *c, uint64_t to, uint64_t *sample, unsigned n)
{
	unsigned step = 61;

	for (; c != NULL; c = c->next)
		for (unsigned i = 0; i < c->n && n < SAMPLE_MAX; i += step)
			if (c->numbers[i] <= to)
				sample[n++] = c->numbers[i];
	return n;
}

/* The median of a sample, or less: something below the largest. False if all are equal. */
static bool choose_middle(uint64_t *sample, unsigned n, uint64_t *middle)
{
	unsigned at = n / 2;

	if (n == 0)
		return false;
	qsort(sample, n, sizeof(*sample), compare_numbers);
	while (at > 0 && sample[at] == sample[n - 1])
		at--;
	*middle = sample[at];
	return sample[at] != sample[n - 1];
}

/* Hold a smaller range than up to `seen`, unless another thread has done so. */
static int narrow_range(struct build *b, uint64_t seen)
{
	uint64_t sample[SAMPLE_MAX], middle;
	unsigned n;

	if (b->to != seen)
		return 0;
	n = sample_chunks(b->chunks, seen, sample, 0);
	for (struct build_writer *w = b->writers; w != NULL; w = w->next) {
		pthread_mutex_lock(&w->lock);
		n = sample_chunks(w->chunks, seen, sample, n);
		pthread_mutex_unlock(&w->lock);
	}
	if (!choose_middle(sample, n, &middle))
		return fth_fail(ENOMEM, "the rows of one key of a join do not fit into the memory "
					"budget");
	b->to = middle;
	return 0;
}

static void compact_writer(struct build_writer *w)
{
	uint64_t to = w->build->to;

	if (w->seen_to > to)
		w->chunks = compact(w->build, w->chunks, to);
	w->seen_to = to;
}

/* Make room: hold less than up to `seen`. No lock is held. */
static int narrow(struct build *b, uint64_t seen)
{
	int rc;

	pthread_mutex_lock(&b->lock);
	rc = narrow_range(b, seen);
	if (rc == 0)
		b->chunks = compact(b, b->chunks, b->to);
	for (struct build_writer *w = b->writers; w != NULL && rc == 0; w = w->next) {
		pthread_mutex_lock(&w->lock);
		compact_writer(w);
		pthread_mutex_unlock(&w->lock);
	}
	pthread_mutex_unlock(&b->lock);
	return rc;
}

/* ---- appending ---- */

static bool is_plain_set(const struct build *b)
{
	return b->index->spec.kind == INDEX_SET && b->index->numbering.exact;
}

static uint64_t *recent_of(struct build_writer *w, uint64_t number)
{
	return &w->recent[(number * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - RECENT_BITS)];
}

/* The rows to keep, as a list; returns how many. */
static unsigned choose_rows(struct build_writer *w, const struct fth_sel *sel, uint64_t to)
{
	uint64_t from = w->build->index->from;
	bool set = is_plain_set(w->build);
	unsigned n = 0;

	FTH_FOR_ROWS(sel->bits, sel->n, i)
	{
		uint64_t x = w->numbers[i];

		if (fth_bit(w->none, (unsigned)i) || x < from || x > to ||
		    (set && *recent_of(w, x) == x && x != UINT64_MAX))
			continue;
		w->rows[n++] = (uint16_t)i;
	}
	return n;
}

static void note_recent(struct build_writer *w, unsigned count)
{
	for (unsigned i = 0; i < count && is_plain_set(w->build); i++)
		*recent_of(w, w->numbers[w->rows[i]]) = w->numbers[w->rows[i]];
}

/* Room for n rows in the newest chunk and the one before it. Under the writer's lock. */
static int reserve_rows(struct build_writer *w, unsigned n)
{
	struct build *b = w->build;
	struct chunk *c = w->chunks;

	if (c != NULL && FTH_BATCH - c->n >= n)
		return 0;
	if (b->bytes + chunk_bytes(b) > b->index->spec.room / 2)
		return -ENOMEM;
	c = fth_qmem_alloc(b->mem, chunk_bytes(b));
	if (c == NULL)
		return -ENOMEM;
	b->bytes += chunk_bytes(b);
	c->n = 0;
	c->records = (char *)(c + 1);
	c->next = w->chunks;
	w->chunks = c;
	return 0;
}

static int put_rows(struct build_writer *w, struct chunk *c, struct fth_vec *const *columns,
		    unsigned n, const uint16_t *rows, unsigned count)
{
	struct build *b = w->build;
	char *records = c->records + (size_t)c->n * b->pack.stride;
	unsigned skip = b->index->spec.key_count - b->index->first_payload;
	int rc = 0;

	memset(records, 0, (size_t)count * b->pack.stride + PACK_PAD);
	for (unsigned f = 0; f < b->pack.count && rc == 0; f++)
		rc = pack_put(&b->pack, f, columns[skip + f], n, rows, count, records,
			      &b->index->pool, &w->codes[f], w->work);
	for (unsigned i = 0; i < count; i++)
		c->numbers[c->n + i] = w->numbers[rows[i]];
	c->n += rc == 0 ? count : 0;
	return rc;
}

/* Into the chunk before the newest as many as it has room for, the others into the newest. */
static int put_all(struct build_writer *w, struct fth_vec *const *columns, unsigned n,
		   unsigned count)
{
	struct chunk *newest = w->chunks, *before = newest->next;
	unsigned part = 0;
	int rc = 0;

	if (newest->n == 0 && before != NULL && before->n < FTH_BATCH) {
		part = FTH_BATCH - before->n < count ? FTH_BATCH - before->n : count;
		rc = put_rows(w, before, columns, n, w->rows, part);
	}
	if (rc == 0 && count > part)
		rc = put_rows(w, newest, columns, n, w->rows + part, count - part);
	if (rc == 0)
		note_recent(w, count);
	return rc;
}

int build_append(struct build_writer *w, struct fth_vec *const *columns, struct fth_sel *sel)
{
	struct build *b = w->build;
	uint64_t outside = 0, to = b->to;
	int rc;

	numbering_run(&b->index->numbering, columns, sel, w->numbers, w->none, w->work);
	if (b->at_once) {
		for (unsigned i = 0; i < fth_bits_words(sel->n); i++)
			w->none[i] = sel->bits[i] & ~w->none[i];
		fth_keyset_add(&b->index->keys, (const int64_t *)w->numbers, sel->n, w->none,
			       &outside, NULL);
		return 0;
	}
	for (;;) {
		unsigned count = choose_rows(w, sel, to);

		pthread_mutex_lock(&w->lock);
		if (count == 0 || reserve_rows(w, count) == 0) {
			rc = count == 0 ? 0 : put_all(w, columns, sel->n, count);
			pthread_mutex_unlock(&w->lock);
			break;
		}
		pthread_mutex_unlock(&w->lock);
		rc = narrow(b, to);
		if (rc < 0)
			return rc;
		to = b->to;
	}
	if (rc == 0 && b->index->has_text && b->index->pool.total > b->index->spec.room / 2)
		rc = -ENOMEM;
	if (rc == -ENOMEM) { /* of text */
		rc = narrow(b, to);
		return rc < 0 ? rc : -EAGAIN;
	}
	return rc;
}

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
		while (c != NULL && !atomic_compare_exchange_weak(&h->build->next, &c, c->next))
			;
		if (c == NULL)
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
	return rc == -EEXIST ? fth_fail(EEXIST, "a key that was proved unique occurs twice") : rc;
}

/* ---- slots of a bitmap ---- */

static int mark_numbers(struct build *b, const struct chunk *c)
{
	uint64_t all[FTH_BATCH_WORDS], again[FTH_BATCH_WORDS] = {0}, outside = 0;

	fth_bits_fill(all, c->n);
	fth_keyset_add(&b->index->keys, (const int64_t *)c->numbers, c->n, all, &outside, again);
	return b->index->spec.kind == INDEX_MAP && fth_bits_any(again, c->n) ? -EEXIST : 0;
}

static void slots_by_bitmap(const struct index *x, const struct chunk *c, uint32_t *slots)
{
	uint64_t all[FTH_BATCH_WORDS];

	if (x->direct) {
		for (unsigned i = 0; i < c->n; i++)
			slots[i] = (uint32_t)(c->numbers[i] - x->from);
		return;
	}
	fth_bits_fill(all, c->n);
	fth_keyset_ranks(&x->keys, (const int64_t *)c->numbers, c->n, all, slots);
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
	bool same = x->pack.stride == b->pack.stride;
	char changed[256 * 17 + 2 * PACK_PAD];
	uint32_t slots[FTH_BATCH];

	slots_of(x, c, slots);
	for (unsigned i = 0; i < c->n; i++) {
		const char *from = c->records + (size_t)i * b->pack.stride;
		uint64_t at = slots[i];

		/* Relaxed: each thread needs a place of its own, and nothing else. */
		if (x->start != NULL)
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

static uint64_t table_bytes(uint64_t rows)
{
	return rows * HASH_BYTES;
}

static void forget_form(struct index *x)
{
	fth_keyset_release(&x->keys);
	if (x->heads != NULL)
		fth_qmem_free(x->mem, x->heads, ((size_t)1 << x->head_bits) * sizeof(*x->heads));
	fth_qmem_free(x->mem, x->numbers, x->number_room * sizeof(*x->numbers));
	if (x->start != NULL)
		fth_qmem_free(x->mem, x->start, (x->slot_room + 1) * sizeof(*x->start));
	if (x->records != NULL)
		fth_qmem_free(x->mem, x->records, x->record_room * x->pack.stride + PACK_PAD);
	x->heads = NULL;
	x->numbers = NULL;
	x->number_room = 0;
	x->start = NULL;
	x->records = NULL;
	x->slots = 0;
}

static int make_bitmap(struct build *b, unsigned threads)
{
	struct index *x = b->index;
	uint64_t span = last_number(b, b->to) - x->from + 1;
	int rc = init_bitmap(b, b->to);

	if (rc == 0)
		rc = for_chunks(b, threads, mark_numbers);
	if (rc < 0)
		return rc;
	/* A slot for every number: no ranks, and at most four times the records. */
	x->direct = span / 4 <= x->rows && span < UINT32_MAX;
	if (x->spec.kind == INDEX_SET) {
		x->rows = fth_keyset_count(&x->keys);
		return 0;
	}
	if (!x->direct)
		rc = fth_keyset_seal(&x->keys);
	x->slots = x->direct ? span : x->keys.count;
	return rc;
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
	x->heads = fth_qmem_alloc(b->mem, heads);
	x->numbers = fth_qmem_alloc(b->mem, x->rows * sizeof(*x->numbers));
	if (x->numbers != NULL)
		x->number_room = x->rows;
	if (x->heads == NULL || x->numbers == NULL)
		return -ENOMEM;
	memset(x->heads, 0xff, heads);
	return for_chunks(b, 1, insert_numbers);
}

static int make_slots(struct build *b, unsigned threads)
{
	uint64_t bitmap = bitmap_bytes(b, b->to), table = table_bytes(b->index->rows);
	int rc = -ENOMEM;

	if (b->index->numbering.exact &&
	    (bitmap <= SMALL_BITMAP || bitmap / 2 <= table || b->index->rows == 0))
		rc = make_bitmap(b, threads);
	if (rc == -ENOMEM) {
		forget_form(b->index);
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
	x->records = fth_qmem_zalloc(b->mem, x->record_room * x->pack.stride + PACK_PAD);
	if (x->records == NULL)
		return -ENOMEM;
	if (several) {
		x->slot_room = x->slots;
		x->start = fth_qmem_zalloc(b->mem, (x->slots + 1) * sizeof(*x->start));
		if (x->start == NULL)
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

	if (!x->has_text || x->dict != NULL)
		return;
	x->dict = pool_seal(&x->pool);
	pack_init(&x->pack, x->fields, x->spec.columns + skip, x->spec.column_count - skip,
		  text_bits(x->dict->count));
}

static int make_structure(struct build *b, unsigned threads)
{
	struct index *x = b->index;
	int rc;

	x->rows = 0;
	for (const struct chunk *c = b->chunks; c != NULL; c = c->next)
		x->rows += c->n;
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
	if (!b->at_once) {
		seal_text(b);
		b->chunks = compact(b, b->chunks, b->to);
		rc = make_structure(b, threads);
		while (rc == -ENOMEM) {
			forget_form(x);
			rc = narrow(b, b->to);
			if (rc == 0)
				rc = make_structure(b, threads);
			else
				break;
		}
	} else {
		x->rows = fth_keyset_count(&x->keys);
	}
	free_chunks(b, b->chunks);
	b->chunks = NULL;
	if (rc < 0)
		return rc;
	/* Nothing lies beyond the last number. */
	x->to = b->to >= x->numbering.last ? UINT64_MAX : b->to;
	b->index = NULL;
	*out = x;
	return 0;
}
