/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows are kept in chunks, as a number and a packed record each, until all have come; then the best
 * form is known, and records move to their places. A set over a range that is dense enough needs no
 * chunks: its bits are set at once. Nor does a map whose keys are expected to be dense: each record
 * is written where it stays. If chunks would not fit, a map's keys are counted in a first run over
 * the rows (rank_map.c).
 *
 * Invariants:
 *  1. Rows in chunks have numbers in [from, to], except that rows above a `to` that has just become
 *     smaller stay until their writer's next compaction.
 *  2. `to` only becomes smaller. Every row with a number in [from, to] that was appended is in a
 *     chunk.
 *  3. A writer's chunks are changed under its lock: by its thread, or by one that makes room
 *     (narrow()).
 *  4. Bytes of all chunks are counted in `bytes`, and are at most a half of the room, since the
 *     finished structure takes about as much again.
 */
#include "query/join/index_build_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"
#include "query/keys/bit_rows.h"

#include <errno.h>
#include <stdlib.h>

#define SAMPLE_MAX     1024u
#define RECENT_BITS    10u
#define CHUNK_ROWS_MIN 64u
#define PLACE_ROWS     256u

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
	char *records;			    /* of PLACE_ROWS rows on their way to their places */
	struct rows_writer *list;	    /* of a list; or NULL */
	struct fth_sel listed;
};

/* ---- opening ---- */

uint64_t build_bitmap_bytes(const struct build *b, uint64_t lo, uint64_t hi)
{
	if (!b->index->numbering.exact || hi >= (uint64_t)1 << 62)
		return UINT64_MAX;
	return key_bitmap_bound((int64_t)lo, (int64_t)hi, true);
}

bool build_prefers_bitmap(const struct build *b, uint64_t bytes, double rows)
{
	uint64_t room = b->index->spec.room, small = BUILD_SMALL_BITMAP;

	if (room != UINT64_MAX && room / 8 > small)
		small = room / 8 < BUILD_CACHE_BITMAP ? room / 8 : BUILD_CACHE_BITMAP;
	return bytes != UINT64_MAX &&
	       (bytes <= small || (double)bytes / 2 <= rows * BUILD_HASH_BYTES);
}

int build_init_bitmap(struct build *b, uint64_t lo, uint64_t hi)
{
	struct index *x = b->index;

	x->form = INDEX_BITMAP;
	key_bitmap_release(&x->keys);
	return key_bitmap_init(&x->keys, b->own, (int64_t)lo, (int64_t)hi);
}

/*
 * A set is a bitmap from the start if that is not much more than a table of the keys that are
 * expected. What does not fit is left for the next range.
 */
static void choose_at_once(struct build *b)
{
	const struct index *x = b->index;
	uint64_t last = b->to < x->numbering.last ? b->to : x->numbering.last;
	uint64_t all = build_bitmap_bytes(b, x->from, last);
	/* A set has no ranks: bits are seven eighths of the room. */
	uint64_t most = x->spec.room < UINT64_MAX / 8 ? x->spec.room * 7 : UINT64_MAX;

	if (x->spec.kind != INDEX_SET || !build_prefers_bitmap(b, all, x->spec.rows * 2))
		return;
	if (most < last - x->from)
		last = x->from + most;
	/* If it does not fit, the keys themselves may be few. */
	b->at_once = build_init_bitmap(b, x->from, last) == 0;
	if (b->at_once && last < x->numbering.last)
		b->to = last;
}

/* A map of the numbers [from, to] with a record for each. */
static uint64_t place_bytes(const struct build *b, uint64_t from, uint64_t to)
{
	uint64_t bitmap = build_bitmap_bytes(b, from, to), span = to - from + 1;

	if (bitmap == UINT64_MAX || span == 0 || span >= UINT32_MAX)
		return UINT64_MAX;
	return bitmap + fth_qmem_cost(span * b->pack.stride + PACK_PAD);
}

static int open_places(struct build *b, uint64_t from, uint64_t to)
{
	struct index *x = b->index;
	int rc = build_init_bitmap(b, from, to);

	if (rc < 0)
		return rc;
	x->direct = true;
	x->slots = x->record_room = to - from + 1;
	x->records = fth_qmem_alloc(b->own, x->record_room * x->pack.stride + PACK_PAD);
	if (!x->records)
		return -ENOMEM;
	/* Rows without a match are gathered from the first one. */
	memset(x->records, 0, x->pack.stride + PACK_PAD);
	return 0;
}

/*
 * A record for every number must not take much more than chunks and the finished map. If it does
 * not fit, a part is begun only where the keys are surely dense: chunks find out by themselves how
 * many parts they need.
 */
static bool wants_places(const struct build *b, uint64_t last)
{
	const struct index *x = b->index;
	uint64_t all = last < x->from ? UINT64_MAX : place_bytes(b, x->from, last);
	double share = ((double)(last - x->from) + 1) / ((double)x->numbering.last + 1);
	double rows = x->spec.rows * share;

	return x->spec.kind == INDEX_MAP && b->strings <= BUILD_STRINGS_MAX && all != UINT64_MAX &&
	       (double)all / 2 <= rows * (8 + 2 * b->pack.stride) + 4096 &&
	       ((double)all <= (double)x->spec.room || rows * 2 >= (double)(last - x->from));
}

static void choose_in_place(struct build *b)
{
	const struct index *x = b->index;
	uint64_t last = b->to < x->numbering.last ? b->to : x->numbering.last;

	if (!wants_places(b, last))
		return;
	while (place_bytes(b, x->from, last) > x->spec.room && last > x->from)
		last = x->from + (last - x->from) / 16 * 15;
	b->in_place = open_places(b, x->from, last) == 0;
	if (!b->in_place)
		index_forget(b->index);
	else if (last < x->numbering.last)
		b->to = last;
}

/*
 * How many different strings the columns have, the empty one included; 0: no text; UINT64_MAX: not
 * known.
 */
static uint64_t count_strings(const struct index_spec *s)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < s->column_count && count != UINT64_MAX; i++)
		if (fth_type_is_text(s->columns[i].type)) {
			count += s->columns[i].strings + (count == 0);
			if (s->columns[i].strings == 0)
				count = UINT64_MAX;
		}
	return count;
}

static unsigned text_bits(const struct build *b)
{
	if (b->strings > (uint64_t)1 << BUILD_TEXT_BITS)
		return BUILD_TEXT_BITS;
	return b->strings < 2 ? 1 : 64 - (unsigned)__builtin_clzll(b->strings - 1);
}

static size_t chunk_bytes(const struct build *b)
{
	return sizeof(struct chunk) + (size_t)b->chunk_rows * (8 + b->pack.stride) + PACK_PAD;
}

static int open_index(struct build *b, const struct index_spec *spec)
{
	struct index *x = fth_qmem_zalloc(b->mem, sizeof(*x));
	unsigned skip;

	b->index = x;
	if (!x)
		return -ENOMEM;
	x->parent = b->mem;
	x->mem = b->mem;
	x->spec = *spec;
	if (spec->room != UINT64_MAX) {
		x->mem = fth_qmem_child(b->mem, "structure of a join", spec->room);
		x->limited = x->mem;
	}
	b->own = x->mem;
	if (!x->mem)
		return -ENOMEM;
	x->from = spec->from;
	x->to = UINT64_MAX;
	numbering_init(&x->numbering, spec->columns, spec->key_count);
	x->first_payload = x->numbering.exact ? 0 : spec->key_count;
	skip = spec->key_count - x->first_payload;
	x->fields = fth_qmem_zalloc(b->own, spec->column_count * sizeof(*x->fields));
	if (!x->fields)
		return -ENOMEM;
	b->strings = count_strings(spec);
	x->has_text = b->strings > 0;
	b->chunk_rows = FTH_BATCH;
	pack_init(&x->pack, x->fields, spec->columns + skip, spec->column_count - skip,
		  text_bits(b));
	pack_init(&b->pack, b->fields, spec->columns + skip, spec->column_count - skip,
		  text_bits(b));
	while (b->chunk_rows > CHUNK_ROWS_MIN && chunk_bytes(b) > spec->room / 32)
		b->chunk_rows /= 2;
	return x->has_text ? pool_init(&x->pool, b->own) : 0;
}

static double need_of_chunks(const struct build *b, double rows, unsigned threads);

static void choose_ranked(struct build *b)
{
	const struct index *x = b->index;
	uint64_t last = b->to < x->numbering.last ? b->to : x->numbering.last;
	double share = last < x->from
			       ? 0
			       : ((double)(last - x->from) + 1) / ((double)x->numbering.last + 1);
	double rows = x->spec.rows * share;

	if (!b->at_once && rank_chosen(b, x->from, last, rows, need_of_chunks(b, rows, 1)))
		rank_open(b, last);
}

int build_open(struct fth_qmem *mem, const struct index_spec *spec, struct build **out)
{
	struct build *b = fth_qmem_zalloc(mem, sizeof(*b));
	int rc = -ENOMEM;

	*out = b;
	if (!b)
		return rc;
	b->mem = mem;
	pthread_mutex_init(&b->lock, NULL);
	b->to = spec->to;
	b->columns = spec->column_count;
	b->fields = fth_qmem_zalloc(mem, spec->column_count * sizeof(*b->fields));
	if (b->fields)
		rc = open_index(b, spec);
	if (rc == 0 && spec->list)
		rc = rows_new(mem, spec->columns, spec->column_count, spec->scratch, spec->room / 2,
			      &b->index->list);
	if (rc == 0 && !spec->list)
		choose_at_once(b);
	if (rc == 0 && !spec->list)
		choose_in_place(b);
	if (rc == 0 && !spec->list && !b->in_place)
		choose_ranked(b);
	if (rc < 0) {
		build_free(b);
		*out = NULL;
	}
	return rc;
}

/* Rows in chunks and, at the end, the structure beside them. */
static double need_of_chunks(const struct build *b, double rows, unsigned threads)
{
	const struct index *x = b->index;
	double row = 8 + b->pack.stride, unfilled = threads < 8 ? threads / 16.0 : 0.5;
	uint64_t bitmap = build_bitmap_bytes(b, 0, x->numbering.last);
	double table = rows * (BUILD_HASH_BYTES + 12.0) + 4096;
	double all = rows * row + rows * (b->pack.stride + 4.0) +
		     ((double)bitmap < table ? (double)bitmap : table);
	double waiting = 2 * rows * row / (1 - unfilled);

	if (b->strings == UINT64_MAX)
		all += rows * 64;
	return 65536 + (waiting > all ? waiting : all);
}

/* The room that a structure needs, and whether its rows are appended twice. */
static double need_of(const struct index_spec *spec, double rows, unsigned threads, bool *twice)
{
	struct index x = {.spec = *spec, .to = UINT64_MAX};
	struct build b = {.index = &x, .to = UINT64_MAX};
	struct pack_field *fields = calloc(spec->column_count + 1, sizeof(*fields));
	uint64_t bitmap;
	unsigned skip;
	double need;

	*twice = false;
	if (!fields)
		return (double)UINT64_MAX;
	numbering_init(&x.numbering, spec->columns, spec->key_count);
	x.first_payload = x.numbering.exact ? 0 : spec->key_count;
	skip = spec->key_count - x.first_payload;
	b.strings = count_strings(spec);
	pack_init(&b.pack, fields, spec->columns + skip, spec->column_count - skip, text_bits(&b));
	bitmap = build_bitmap_bytes(&b, 0, x.numbering.last);
	if (spec->kind == INDEX_SET && build_prefers_bitmap(&b, bitmap, spec->rows * 2)) {
		need = (double)bitmap / 7 * 8 + 4096;
	} else if (wants_places(&b, x.numbering.last)) {
		need = (double)place_bytes(&b, 0, x.numbering.last) + 65536;
	} else {
		need = need_of_chunks(&b, rows, threads);
		*twice = rank_chosen(&b, 0, x.numbering.last, rows, need);
		need = *twice ? rank_need(&b, rows) : need;
	}
	free(fields);
	return need;
}

double build_need(const struct index_spec *spec, double rows, unsigned threads)
{
	bool twice;

	return need_of(spec, rows, threads, &twice);
}

bool build_runs_twice(const struct index_spec *spec, double rows, unsigned threads)
{
	bool twice;

	need_of(spec, rows, threads, &twice);
	return twice;
}

void build_free_chunks(struct build *b, struct chunk *c)
{
	while (c) {
		struct chunk *next = c->next;

		fth_qmem_free(b->own, c, chunk_bytes(b));
		b->bytes -= chunk_bytes(b);
		c = next;
	}
}

void build_free(struct build *b)
{
	if (!b)
		return;
	build_free_chunks(b, b->chunks);
	index_free(b->index);
	fth_qmem_free(b->mem, b->fields, b->columns * sizeof(*b->fields));
	pthread_mutex_destroy(&b->lock);
	fth_qmem_free(b->mem, b, sizeof(*b));
}

static size_t places_bytes(const struct build *b)
{
	return (b->in_place || b->ranked ? PLACE_ROWS * b->pack.stride : 0) + PACK_PAD;
}

int build_writer_open(struct build *b, struct build_writer **out)
{
	struct build_writer *w = fth_qmem_zalloc(b->mem, sizeof(*w));

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->codes = fth_qmem_zalloc(b->mem, (b->pack.count + 1) * sizeof(*w->codes));
	w->records = fth_qmem_alloc(b->mem, places_bytes(b));
	if (!w->codes || !w->records ||
	    (b->index->list && rows_writer_open(b->index->list, &w->list) < 0)) {
		fth_qmem_free(b->mem, w->codes, (b->pack.count + 1) * sizeof(*w->codes));
		fth_qmem_free(b->mem, w->records, places_bytes(b));
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

	if (!w)
		return;
	b = w->build;
	rows_writer_close(w->list);
	pthread_mutex_lock(&b->lock);
	for (at = &b->writers; *at != w;)
		at = &(*at)->next;
	*at = w->next;
	while (w->chunks) {
		struct chunk *c = w->chunks;

		w->chunks = c->next;
		c->next = b->chunks;
		b->chunks = c;
	}
	pthread_mutex_unlock(&b->lock);
	for (unsigned i = 0; i < b->pack.count; i++)
		pack_codes_release(&w->codes[i], b->own);
	fth_qmem_free(b->mem, w->codes, (b->pack.count + 1) * sizeof(*w->codes));
	fth_qmem_free(b->mem, w->records, places_bytes(b));
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

/* Whether row i is the same key of a set as the last one that was kept. */
static bool is_repeated(const struct build *b, const struct chunk *to, const struct chunk *from,
			unsigned i)
{
	return b->index->spec.kind == INDEX_SET && to->n > 0 &&
	       to->numbers[to->n - 1] == from->numbers[i] &&
	       memcmp(to->records + (size_t)(to->n - 1) * b->pack.stride,
		      from->records + (size_t)i * b->pack.stride, b->pack.stride) == 0;
}

/*
 * Drop the rows of a list of chunks whose number is above `to`, and those that repeat a key of a
 * set; the first chunk has room then, if any has.
 */
struct chunk *build_compact(struct build *b, struct chunk *list, uint64_t to)
{
	struct chunk *full = NULL, *out = list, *at = list;
	unsigned n = list ? list->n : 0;

	if (!list)
		return NULL;
	out->n = 0;
	while (at) {
		struct chunk *next = at->next;
		unsigned next_n = next ? next->n : 0;

		for (unsigned i = 0; i < n; i++) {
			if (at->numbers[i] > to || is_repeated(b, out, at, i))
				continue;
			if (out->n == b->chunk_rows) { /* what it goes on in was read */
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
	build_free_chunks(b, out->next);
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

	for (; c; c = c->next)
		for (unsigned i = 0; i < c->n && n < SAMPLE_MAX; i += step)
			if (c->numbers[i] <= to)
				sample[n++] = c->numbers[i];
	return n;
}

/*
 * The median of a sample, or less: something below the largest. If all are equal, what is below
 * them.
 */
static uint64_t choose_middle(uint64_t *sample, unsigned n)
{
	unsigned at = n / 2;

	qsort(sample, n, sizeof(*sample), compare_numbers);
	while (at > 0 && sample[at] == sample[n - 1])
		at--;
	return sample[at] == sample[n - 1] ? sample[at] - 1 : sample[at];
}

/* Hold a smaller range than up to `seen`, unless another thread has done so. */
static int narrow_range(struct build *b, uint64_t seen)
{
	uint64_t sample[SAMPLE_MAX], middle;
	unsigned n;

	if (b->to != seen)
		return 0;
	n = sample_chunks(b->chunks, seen, sample, 0);
	for (struct build_writer *w = b->writers; w; w = w->next) {
		pthread_mutex_lock(&w->lock);
		n = sample_chunks(w->chunks, seen, sample, n);
		pthread_mutex_unlock(&w->lock);
	}
	if (n == 0)
		return -ENOMEM;
	middle = choose_middle(sample, n);
	if (middle + 1 > b->index->from) { /* not below the range: there are other numbers */
		b->to = middle;
		return 0;
	}
	if (b->index->spec.kind == INDEX_SET) /* repeated keys are dropped */
		return 0;
	return b->index->spec.kind == INDEX_MULTIMAP && b->index->spec.scratch ? -EOVERFLOW
									       : -ENOMEM;
}

static void compact_writer(struct build_writer *w)
{
	uint64_t to = w->build->to;

	if (w->seen_to > to || w->build->index->spec.kind == INDEX_SET)
		w->chunks = build_compact(w->build, w->chunks, to);
	w->seen_to = to;
}

/* Make room: hold less than up to `seen`. No lock is held. */
int build_narrow(struct build *b, uint64_t seen)
{
	uint64_t bytes;
	int rc;

	/* Nobody looks for further parts of a structure whose room is not limited. */
	if (b->index->spec.room == UINT64_MAX)
		return -ENOMEM;
	pthread_mutex_lock(&b->lock);
	bytes = b->bytes;
	rc = narrow_range(b, seen);
	if (rc == 0)
		b->chunks = build_compact(b, b->chunks, b->to);
	for (struct build_writer *w = b->writers; w && rc == 0; w = w->next) {
		pthread_mutex_lock(&w->lock);
		compact_writer(w);
		pthread_mutex_unlock(&w->lock);
	}
	if (rc == 0 && b->to == seen && b->bytes >= bytes) /* a set without repeated keys */
		rc = -ENOMEM;
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

static void note_recent(struct build_writer *w, unsigned from, unsigned count)
{
	for (unsigned i = from; i < from + count && is_plain_set(w->build); i++)
		*recent_of(w, w->numbers[w->rows[i]]) = w->numbers[w->rows[i]];
}

/* Room for a row in the newest chunk. Under the writer's lock. */
static int reserve_row(struct build_writer *w)
{
	struct build *b = w->build;
	struct chunk *c = w->chunks;

	if (c && c->n < b->chunk_rows)
		return 0;
	if (b->bytes + chunk_bytes(b) > b->index->spec.room / 2)
		return -ENOMEM;
	c = fth_qmem_alloc(b->own, chunk_bytes(b));
	if (!c)
		return -ENOMEM;
	b->bytes += chunk_bytes(b);
	c->n = 0;
	c->numbers = (uint64_t *)(c + 1);
	c->records = (char *)(c->numbers + b->chunk_rows);
	c->next = w->chunks;
	w->chunks = c;
	return 0;
}

static int pack_rows(struct build_writer *w, struct fth_vec *const *columns, unsigned n,
		     const uint16_t *rows, unsigned count, char *records)
{
	struct build *b = w->build;
	unsigned skip = b->index->spec.key_count - b->index->first_payload;
	int rc = 0;

	memset(records, 0, (size_t)count * b->pack.stride + PACK_PAD);
	for (unsigned f = 0; f < b->pack.count && rc == 0; f++)
		rc = pack_put(&b->pack, f, columns[skip + f], n, rows, count, records,
			      &b->index->pool, &w->codes[f], w->work);
	return rc;
}

static int put_rows(struct build_writer *w, struct chunk *c, struct fth_vec *const *columns,
		    unsigned n, const uint16_t *rows, unsigned count)
{
	struct build *b = w->build;
	char *records = c->records + (size_t)c->n * b->pack.stride;
	int rc = pack_rows(w, columns, n, rows, count, records);

	for (unsigned i = 0; i < count; i++)
		c->numbers[c->n + i] = w->numbers[rows[i]];
	c->n += rc == 0 ? count : 0;
	return rc;
}

/*
 * Put as many of w->rows[from..count) as the newest chunk holds; returns how many, or a negative
 * errno.
 */
static int put_some(struct build_writer *w, struct fth_vec *const *columns, unsigned n,
		    unsigned from, unsigned count)
{
	unsigned part = count - from;
	int rc;

	pthread_mutex_lock(&w->lock);
	rc = reserve_row(w);
	if (rc == 0 && part > w->build->chunk_rows - w->chunks->n)
		part = w->build->chunk_rows - w->chunks->n;
	if (rc == 0)
		rc = put_rows(w, w->chunks, columns, n, w->rows + from, part);
	else
		rc = -ENOSPC;
	pthread_mutex_unlock(&w->lock);
	if (rc == 0)
		note_recent(w, from, part);
	return rc < 0 ? rc : (int)part;
}

/* Of w->rows[from..count), keep those whose number is not above `to`; returns the new count. */
static unsigned keep_rows(struct build_writer *w, unsigned from, unsigned count, uint64_t to)
{
	unsigned n = from;

	for (unsigned i = from; i < count; i++)
		if (w->numbers[w->rows[i]] <= to)
			w->rows[n++] = w->rows[i];
	return n;
}

static int put_all(struct build_writer *w, struct fth_vec *const *columns,
		   const struct fth_sel *sel)
{
	struct build *b = w->build;
	uint64_t to = b->to;
	unsigned count = choose_rows(w, sel, to), done = 0;

	while (done < count) {
		int rc = put_some(w, columns, sel->n, done, count);

		if (rc > 0) {
			done += (unsigned)rc;
			continue;
		}
		if (rc != -ENOSPC)
			return rc;
		rc = build_narrow(b, to);
		if (rc < 0)
			return rc;
		to = b->to;
		count = keep_rows(w, done, count, to);
	}
	return 0;
}

static int duplicate_key(void)
{
	return fth_fail(EEXIST, "duplicate key in a column that the table statistics prove unique");
}

/* Set the bits of the rows' numbers that are in the range. */
static int put_bits(struct build_writer *w, const struct fth_sel *sel)
{
	struct build *b = w->build;
	uint64_t outside = 0, again[FTH_BATCH_WORDS] = {0};

	for (unsigned i = 0; i < fth_bits_words(sel->n); i++)
		w->none[i] = sel->bits[i] & ~w->none[i];
	key_bitmap_add(&b->index->keys, (const int64_t *)w->numbers, sel->n, w->none, &outside,
		       b->counting ? again : NULL);
	return b->counting && fth_bits_any(again, sel->n) ? duplicate_key() : 0;
}

/* Whether the number's bit was set already. */
static bool take_place(struct build *b, uint64_t at)
{
	uint64_t *word = &b->index->keys.bits[at / 64], bit = (uint64_t)1 << at % 64, old;

	/* Relaxed: who sets the bit has the record to itself, and readers come after a join. */
	if (!b->index->spec.alone)
		return fth_or_relaxed_dev64(word, bit) & bit;
	old = *word;
	*word = old | bit;
	return old & bit;
}

/* Where the record of a number stays. */
static int find_place(struct build *b, uint64_t number, uint64_t *at)
{
	const struct index *x = b->index;

	if (b->ranked) {
		*at = key_bitmap_rank(&x->keys, (int64_t)number);
		return key_bitmap_has(&x->keys, (int64_t)number)
			       ? 0
			       : fth_fail(EIO, "a structure's second run found a new key");
	}
	*at = number - x->from;
	return take_place(b, *at) ? duplicate_key() : 0;
}

static int put_in_place(struct build_writer *w, struct fth_vec *const *columns,
			const struct fth_sel *sel)
{
	struct build *b = w->build;
	struct index *x = b->index;
	uint64_t last = b->ranked && b->to < (uint64_t)x->keys.max ? b->to : (uint64_t)x->keys.max;
	unsigned stride = b->pack.stride, count = choose_rows(w, sel, last);
	int rc = 0;

	for (unsigned from = 0; from < count && rc == 0; from += PLACE_ROWS) {
		unsigned part = count - from < PLACE_ROWS ? count - from : PLACE_ROWS;

		rc = pack_rows(w, columns, sel->n, w->rows + from, part, w->records);
		for (unsigned i = 0; i < part && rc == 0; i++) {
			uint64_t at;

			rc = find_place(b, w->numbers[w->rows[from + i]], &at);
			if (rc == 0)
				pack_copy(x->records + at * stride, w->records + (size_t)i * stride,
					  stride);
		}
	}
	return rc;
}

/*
 * Text found no memory beside records that took all they could: half of the range leaves some.
 * -EAGAIN, or -ENOMEM.
 */
static int halve_range(struct build *b, uint64_t seen)
{
	const struct index *x = b->index;
	uint64_t last = seen < x->numbering.last ? seen : x->numbering.last;

	if (x->spec.room == UINT64_MAX || last <= x->from)
		return -ENOMEM;
	pthread_mutex_lock(&b->lock);
	if (b->to == seen)
		b->to = x->from + (last - x->from) / 2;
	pthread_mutex_unlock(&b->lock);
	return -EAGAIN;
}

static int append_to_list(struct build_writer *w, struct fth_vec *const *columns,
			  const struct fth_sel *sel)
{
	uint64_t rows[FTH_BATCH_WORDS] = {0};

	FTH_FOR_ROWS(sel->bits, sel->n, i)
	{
		if (w->numbers[i] == w->build->index->from && !fth_bit(w->none, (unsigned)i))
			fth_bit_set(rows, (unsigned)i);
	}
	fth_sel_all(&w->listed, sel->n);
	fth_sel_and(&w->listed, rows);
	return w->listed.count == 0 ? 0 : rows_append(w->list, columns, &w->listed);
}

/* Note rows and null keys, which null-aware look-ups ask for. Rows of all parts count. */
static void note_nulls(struct build *b, struct fth_vec *const *columns, const struct fth_sel *sel)
{
	uint64_t nulls = 0;

	/* Relaxed: they are read after the threads were joined. */
	if (sel->count > 0 && !atomic_load_explicit(&b->any, memory_order_relaxed))
		atomic_store_explicit(&b->any, true, memory_order_relaxed);
	for (unsigned k = 0; k < b->index->spec.key_count; k++)
		for (unsigned i = 0; i < fth_bits_words(sel->n) && columns[k]->nulls; i++)
			nulls |= columns[k]->nulls[i] & sel->bits[i];
	if (nulls != 0 && !atomic_load_explicit(&b->nulls, memory_order_relaxed))
		atomic_store_explicit(&b->nulls, true, memory_order_relaxed);
}

int build_append(struct build_writer *w, struct fth_vec *const *columns, struct fth_sel *sel)
{
	struct build *b = w->build;
	uint64_t to = b->to;
	int rc;

	numbering_run(&b->index->numbering, columns, sel, w->numbers, w->none, w->work);
	note_nulls(b, columns, sel);
	if (b->at_once || b->counting)
		return put_bits(w, sel);
	if (w->list)
		return append_to_list(w, columns, sel);
	if (b->in_place || b->ranked) {
		rc = put_in_place(w, columns, sel);
		return rc == -ENOMEM ? halve_range(b, to) : rc;
	}
	rc = put_all(w, columns, sel);
	/* -ENOMEM here comes from text, which narrowing does not free. */
	if (rc == 0 && b->index->has_text && b->index->pool.total > b->index->spec.room / 2)
		rc = -ENOMEM;
	if (rc == -ENOMEM && b->index->has_text) {
		rc = build_narrow(b, to);
		return rc < 0 ? rc : -EAGAIN;
	}
	return rc;
}
