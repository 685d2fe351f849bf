/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorting. Items have the first eight bytes of the key as a number, so that most comparisons touch
 * the item only.
 *
 * Growing is what fails when memory is short: then the records so far become a run, and the memory
 * is used again. Merging takes as many runs at a time as readers fit; if that is not all, their
 * merge is a new run.
 */
#include "query/spill/sort.h"

#include "scalar/num.h"
#include "scalar/text.h"

#include "fathom/base/error.h"

#include <errno.h>

struct sort_item {
	uint64_t prefix;       /* the key's first 8 bytes, big-endian */
	const uint8_t *record; /* lengths, key, payload */
};

struct sort_run {
	struct spill_stream *stream;
	struct spill_reader *reader;
	const uint8_t *record;
	uint32_t size;
};

#define READERS_MIN 8u
#define HEADER	    8u

/* ---- records ---- */

static uint32_t load32(const uint8_t *p)
{
	uint32_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

static struct sort_record record_at(const uint8_t *p)
{
	uint32_t key = load32(p), payload = load32(p + 4);

	return (struct sort_record){p + HEADER, key, p + HEADER + key, payload};
}

static int compare_keys(const uint8_t *a, uint32_t alen, const uint8_t *b, uint32_t blen)
{
	int rc = memcmp(a, b, alen < blen ? alen : blen);

	return rc ? rc : (alen > blen) - (alen < blen);
}

static int compare_records(const uint8_t *a, const uint8_t *b)
{
	return compare_keys(a + HEADER, load32(a), b + HEADER, load32(b));
}

static bool item_less(const struct sort_item *a, const struct sort_item *b)
{
	return a->prefix != b->prefix ? a->prefix < b->prefix
				      : compare_records(a->record, b->record) < 0;
}

static uint64_t prefix_of(const uint8_t *key, uint32_t len)
{
	uint8_t first[8] = {0};
	uint64_t prefix = 0;

	memcpy(first, key, len < 8 ? len : 8);
	for (unsigned i = 0; i < 8; i++)
		prefix = prefix << 8 | first[i];
	return prefix;
}

/* ---- keys ---- */

static int put_bytes(const uint8_t *bytes, size_t n, bool invert, uint8_t **out, size_t *room)
{
	if (*room < n)
		return -ENOBUFS;
	for (size_t i = 0; i < n; i++)
		(*out)[i] = (uint8_t)(bytes[i] ^ (invert ? 0xff : 0));
	*out += n;
	*room -= n;
	return 0;
}

/* 0 becomes 0 255, and 0 0 ends the text: so a prefix comes before what it begins. */
static int put_text(struct fth_str s, bool invert, uint8_t **out, size_t *room)
{
	static const uint8_t zero[2] = {0, 255}, end[2] = {0, 0};
	int rc = 0;

	for (uint32_t i = 0; i < s.len && rc == 0; i++) {
		uint8_t byte = (uint8_t)s.data[i];

		rc = byte ? put_bytes(&byte, 1, invert, out, room)
			  : put_bytes(zero, 2, invert, out, room);
	}
	return rc < 0 ? rc : put_bytes(end, 2, invert, out, room);
}

/*
 * Big-endian with the sign flipped; 8 bytes, or 16 for wide ones: the same for all rows of a
 * column.
 */
static int put_int(fth_i128 value, unsigned width, bool invert, uint8_t **out, size_t *room)
{
	uint8_t bytes[16];
	fth_u128 x = (fth_u128)value ^ (fth_u128)1 << (8 * width - 1);

	for (unsigned i = 0; i < width; i++)
		bytes[width - 1 - i] = (uint8_t)(x >> 8 * i);
	return put_bytes(bytes, width, invert, out, room);
}

int sort_encode(const struct sort_column *column, const struct fth_vec *v, unsigned i,
		uint8_t **out, size_t *room)
{
	bool null = v->nulls && fth_bit(v->nulls, i);
	uint8_t mark = null ? (column->nulls_first ? 0 : 2) : 1;
	int rc = put_bytes(&mark, 1, false, out, room);

	if (rc < 0 || null)
		return rc;
	if (column->text)
		return put_text(v->dict ? v->dict->entries[fth_vec_int(v, i)]
					: ((const struct fth_str *)v->data)[i],
				column->descending, out, room);
	if (column->is_double)
		return put_int(fth_f64_order(((const double *)v->data)[i]), 8, column->descending,
			       out, room);
	return put_int(fth_vec_int(v, i), v->type == FTH_I128 ? 16 : 8, column->descending, out,
		       room);
}

/* ---- sorting in memory ---- */

static void swap_items(struct sort_item *a, struct sort_item *b)
{
	struct sort_item t = *a;

	*a = *b;
	*b = t;
}

static void sift_down(struct sort_item *a, size_t root, size_t n)
{
	for (;;) {
		size_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n && item_less(&a[child], &a[child + 1]))
			child++;
		if (!item_less(&a[root], &a[child]))
			return;
		swap_items(&a[root], &a[child]);
		root = child;
	}
}

static void heap_sort(struct sort_item *a, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift_down(a, i, n);
	for (size_t i = n; i-- > 1;) {
		swap_items(&a[0], &a[i]);
		sift_down(a, 0, i);
	}
}

static void insertion_sort(struct sort_item *a, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct sort_item x = a[i];
		size_t j = i;

		for (; j > 0 && item_less(&x, &a[j - 1]); j--)
			a[j] = a[j - 1];
		a[j] = x;
	}
}

/* Hoare's partition around the median of three; heap sort where that goes wrong too often. */
static void quick_sort(struct sort_item *a, size_t n, unsigned depth)
{
	while (n > 24) {
		size_t mid = n / 2, i = 0, j = n - 1;
		struct sort_item pivot;

		if (depth-- == 0) {
			heap_sort(a, n);
			return;
		}
		if (item_less(&a[mid], &a[0]))
			swap_items(&a[mid], &a[0]);
		if (item_less(&a[n - 1], &a[0]))
			swap_items(&a[n - 1], &a[0]);
		if (item_less(&a[n - 1], &a[mid]))
			swap_items(&a[n - 1], &a[mid]);
		pivot = a[mid];
		for (;; i++, j--) {
			while (item_less(&a[i], &pivot))
				i++;
			while (item_less(&pivot, &a[j]))
				j--;
			if (i >= j)
				break;
			swap_items(&a[i], &a[j]);
		}
		/* [0, j] and [j + 1, n): the smaller one first, so that the stack stays small. */
		if (j + 1 < n - j - 1) {
			quick_sort(a, j + 1, depth);
			a += j + 1;
			n -= j + 1;
		} else {
			quick_sort(a + j + 1, n - j - 1, depth);
			n = j + 1;
		}
	}
	insertion_sort(a, n);
}

/* ---- runs ---- */

static int add_run(struct sort *s, struct spill_stream *stream)
{
	if (s->nruns == s->run_room) {
		uint32_t room = s->run_room ? 2 * s->run_room : 16;
		struct sort_run *larger = fth_qmem_realloc(
			s->mem, s->runs, s->run_room * sizeof(*s->runs), room * sizeof(*s->runs));

		if (!larger)
			return -ENOMEM;
		s->runs = larger;
		s->run_room = room;
	}
	s->runs[s->nruns++] = (struct sort_run){.stream = stream};
	return 0;
}

static int spill_items(struct sort *s)
{
	struct spill_stream *stream;
	int rc = spill_stream_open(s->spill, &stream);

	if (rc < 0)
		return rc;
	quick_sort(s->items, s->count, 64);
	for (uint32_t i = 0; i < s->count && rc == 0; i++) {
		const uint8_t *p = s->items[i].record;

		rc = spill_stream_append(stream, p, HEADER + load32(p) + load32(p + 4));
	}
	if (rc == 0)
		rc = spill_stream_finish(stream);
	if (rc == 0) {
		/* Now there is memory for the list of runs to grow. */
		s->count = 0;
		fth_arena_release(&s->bytes);
		fth_qmem_free(s->mem, s->items, s->room * sizeof(*s->items));
		s->items = NULL;
		s->room = 0;
		rc = add_run(s, stream);
	}
	if (rc < 0)
		spill_stream_drop(stream);
	return rc;
}

void sort_init(struct sort *s, struct fth_qmem *mem, struct spill_file *spill)
{
	*s = (struct sort){.mem = mem, .spill = spill};
	fth_arena_init(&s->bytes, mem, 65536);
}

static int grow_items(struct sort *s)
{
	uint32_t room = s->room ? 2 * s->room : 1024;
	struct sort_item *larger;

	if (s->count < s->room)
		return 0;
	if (room >= (uint32_t)1 << 31)
		return -ENOMEM;
	larger = fth_qmem_realloc(s->mem, s->items, s->room * sizeof(*s->items),
				  room * sizeof(*s->items));
	if (!larger)
		return -ENOMEM;
	s->items = larger;
	s->room = room;
	return 0;
}

static uint8_t *record_room(struct sort *s, size_t size)
{
	return grow_items(s) < 0 ? NULL : fth_arena_alloc(&s->bytes, size, 1);
}

/*
 * A stream needs a buffer when memory is short: it is kept from the start, unless buffers come from
 * another account.
 */
static int keep_reserve(struct sort *s)
{
	if (s->scratch || !s->spill || spill_file_mem(s->spill) != s->mem)
		return 0;
	s->scratch = fth_qmem_alloc(s->mem, spill_file_block(s->spill) + 16384);
	return s->scratch ? 0 : -ENOMEM;
}

static void drop_reserve(struct sort *s)
{
	if (s->scratch)
		fth_qmem_free(s->mem, s->scratch, spill_file_block(s->spill) + 16384);
	s->scratch = NULL;
}

static int spill_and_retry(struct sort *s, size_t size, uint8_t **p)
{
	int rc;

	if (!s->spill || s->count == 0)
		return -ENOMEM;
	drop_reserve(s);
	rc = spill_items(s);
	if (rc == 0)
		rc = keep_reserve(s);
	if (rc == 0)
		*p = record_room(s, size);
	return rc < 0 ? rc : *p ? 0 : -ENOMEM;
}

int sort_add(struct sort *s, const void *key, uint32_t key_len, const void *payload,
	     uint32_t payload_len)
{
	uint64_t size = (uint64_t)HEADER + key_len + payload_len;
	uint8_t *p;
	int rc;

	if (s->spill && size > FTH_SPILL_RECORD)
		return fth_fail(EMSGSIZE, "sort: a record has %llu bytes, the limit is %u",
				(unsigned long long)size, FTH_SPILL_RECORD);
	rc = keep_reserve(s);
	if (rc < 0)
		return rc;
	p = record_room(s, size);
	if (!p) {
		rc = spill_and_retry(s, size, &p);
		if (rc < 0)
			return rc;
	}
	memcpy(p, &key_len, 4);
	memcpy(p + 4, &payload_len, 4);
	memcpy(p + HEADER, key, key_len);
	memcpy(p + HEADER + key_len, payload, payload_len);
	s->items[s->count++] = (struct sort_item){prefix_of(key, key_len), p};
	return 0;
}

/* ---- merging: a heap of runs by their next record, the least first ---- */

static bool run_less(const struct sort_run *a, const struct sort_run *b)
{
	return compare_records(a->record, b->record) < 0;
}

static void sift_runs(struct sort_run *a, uint32_t root, uint32_t n)
{
	for (;;) {
		uint32_t child = 2 * root + 1;
		struct sort_run t;

		if (child >= n)
			return;
		if (child + 1 < n && run_less(&a[child + 1], &a[child]))
			child++;
		if (!run_less(&a[child], &a[root]))
			return;
		t = a[root];
		a[root] = a[child];
		a[child] = t;
		root = child;
	}
}

static int advance_run(struct sort_run *run)
{
	const void *record;
	int rc = spill_reader_next(run->reader, &record, &run->size);

	run->record = record;
	return rc;
}

static void close_run(struct sort_run *run)
{
	spill_reader_close(run->reader);
	spill_stream_drop(run->stream);
	*run = (struct sort_run){0};
}

/* Readers for runs[0..n), as a heap. */
static int open_runs(struct sort *s, uint32_t n)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && rc >= 0; i++) {
		rc = spill_reader_open(s->runs[i].stream, &s->runs[i].reader);
		if (rc == 0)
			rc = advance_run(&s->runs[i]);
	}
	if (rc < 0)
		return rc;
	s->live = n;
	for (uint32_t i = n / 2; i-- > 0;)
		sift_runs(s->runs, i, n);
	return 0;
}

/*
 * Past the least record. A run that ended goes behind the live ones; its stream stays, to be read
 * again.
 */
static int pass_least(struct sort *s)
{
	int rc = advance_run(&s->runs[0]);

	if (rc < 0)
		return rc;
	if (rc == 0) {
		struct sort_run ended = {.stream = s->runs[0].stream};

		spill_reader_close(s->runs[0].reader);
		s->runs[0] = s->runs[--s->live];
		s->runs[s->live] = ended;
	}
	sift_runs(s->runs, 0, s->live);
	return 0;
}

static int merge_some(struct sort *s, uint32_t n)
{
	struct spill_stream *stream;
	int rc = spill_stream_open(s->spill, &stream);

	if (rc < 0)
		return rc;
	rc = open_runs(s, n);
	while (rc == 0 && s->live > 0) {
		rc = spill_stream_append(stream, s->runs[0].record, s->runs[0].size);
		if (rc == 0)
			rc = pass_least(s);
	}
	if (rc == 0)
		rc = spill_stream_finish(stream);
	if (rc < 0) {
		spill_stream_drop(stream);
		return rc;
	}
	for (uint32_t i = 0; i < n; i++)
		close_run(&s->runs[i]);
	memmove(s->runs, s->runs + n, (s->nruns - n) * sizeof(*s->runs));
	s->nruns -= n;
	return add_run(s, stream); /* there is room: n >= 2 runs went */
}

/* Half of the memory is for others: the sorts of other threads are read at the same time. */
static uint32_t readers_that_fit(struct sort *s)
{
	uint64_t fit = fth_qmem_available(spill_file_mem(s->spill)) / spill_reader_bound(s->spill);
	uint64_t half = fit / 2 < READERS_MIN ? READERS_MIN : fit / 2;

	fit = half < fit ? half : fit;
	return fit > 1000 ? 1000 : (uint32_t)fit;
}

int sort_finish(struct sort *s)
{
	int rc = 0;

	s->finished = true;
	if (s->nruns == 0) {
		quick_sort(s->items, s->count, 64);
		return 0;
	}
	drop_reserve(s);
	if (s->count > 0)
		rc = spill_items(s);
	while (rc == 0 && s->nruns > readers_that_fit(s)) {
		uint32_t n = readers_that_fit(s);

		if (n < 3) /* two and the stream that they go to */
			return fth_fail(ENOMEM, "sort: no memory to merge %u runs", s->nruns);
		rc = merge_some(s, n - 2 < 2 ? 2 : n - 2);
	}
	if (rc == 0)
		rc = open_runs(s, s->nruns);
	s->merging = true;
	return rc;
}

int sort_next(struct sort *s, struct sort_record *out)
{
	if (!s->merging) {
		if (s->at == s->count)
			return 0;
		*out = record_at(s->items[s->at++].record);
		return 1;
	}
	if (s->at > 0) { /* the caller is done with the record before */
		int rc = pass_least(s);

		if (rc < 0)
			return rc;
	}
	if (s->live == 0)
		return s->at = 0;
	s->at = 1;
	*out = record_at(s->runs[0].record);
	return 1;
}

int sort_rewind(struct sort *s)
{
	s->at = 0;
	if (!s->merging)
		return 0;
	for (uint32_t i = 0; i < s->nruns; i++) {
		spill_reader_close(s->runs[i].reader);
		s->runs[i] = (struct sort_run){.stream = s->runs[i].stream};
	}
	return open_runs(s, s->nruns);
}

void sort_release(struct sort *s)
{
	if (!s->mem)
		return;
	for (uint32_t i = 0; i < s->nruns; i++)
		close_run(&s->runs[i]);
	fth_qmem_free(s->mem, s->runs, s->run_room * sizeof(*s->runs));
	fth_qmem_free(s->mem, s->items, s->room * sizeof(*s->items));
	fth_arena_release(&s->bytes);
	drop_reserve(s);
	*s = (struct sort){0};
}
