/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups that do not fit into memory. A grouper without room writes all its groups with their
 * states so far into the parts of the store by key, each of them a stream, and starts anew. When
 * all rows are there, the streams are read one after the other, and the states of a group, all of
 * which are in one stream, are put together again. A stream whose groups do not fit is parted once
 * more, by other bits of the hash of the key.
 *
 * The values of distinct aggregates go to streams of their own, by the hash of key and value, so
 * that those of one group may be more than fit. Before groups are read, each of these streams is:
 * what it holds of a group is counted and summed up, and that is written as a record of the group.
 * A value is in one stream, so the sum of such records is right.
 *
 * Groups with keys and states of fixed width are written in blocks (group_part.c), all others as
 * records: a record is 4 bytes for its kind (0: a group with its states; i + 1: a value of distinct
 * aggregate i; GROUP_RESOLVED: counts and sums of distinct values; and GROUP_WIDE for sums of 128
 * bits), the length of its key in 4 bytes, and the fields: those of the key, then states or value.
 *
 * Invariants:
 *  1. Streams of the first level stay until the store is closed, so that the result can be read
 *     again. Those of deeper levels, and those of values, are dropped when they have been read.
 *  2. `lock` guards the streams of the first level while rows are added. After finish only one
 *     thread is left.
 *  3. After finish no stream of the first level has values.
 */
#include "query/group/group_store_internal.h"
#include "query/spill/record.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"
#include "scalar/text.h"

#include <errno.h>

#define SLICE_MIN 64u
#define HEADER	  8u

/* The states of a grouper that are written. */
enum {
	WRITE_GROUPS = 1,   /* states that are not of distinct aggregates */
	WRITE_VALUES = 2,   /* of distinct aggregates */
	WRITE_RESOLVED = 4, /* their counts and sums */
};

int group_store_open(struct fth_qmem *mem, struct scratch *scratch, struct group_store **out)
{
	struct group_store *s = fth_qmem_zalloc(mem, sizeof(*s));

	*out = s;
	if (!s)
		return -ENOMEM;
	s->mem = mem;
	s->scratch = scratch;
	pthread_mutex_init(&s->lock, NULL);
	return 0;
}

static void drop_parts(struct group_parts *p)
{
	for (unsigned i = 0; i < GROUP_PARTS; i++) {
		spill_stream_drop(p->streams[i]);
		p->streams[i] = NULL;
		p->items[i] = 0;
	}
}

static void drop_pending(struct group_store *s)
{
	while (s->pending_count > 0) {
		struct group_pending *p = &s->pending[--s->pending_count];

		if (p->own)
			spill_stream_drop(p->stream);
	}
}

void group_store_close(struct group_store *s)
{
	if (!s)
		return;
	drop_pending(s);
	drop_parts(&s->top);
	drop_parts(&s->values);
	grouper_close(s->g);
	fth_qmem_free(s->mem, s->buffer, s->buffer_room);
	group_blocks_free(s->blocks);
	pthread_mutex_destroy(&s->lock);
	fth_qmem_free(s->mem, s, sizeof(*s));
}

void grouper_use(struct grouper *g, struct group_store *s)
{
	g->store = s;
}

bool group_store_spilled(const struct group_store *s)
{
	return s->spilled;
}

/* ---- layouts ---- */

static unsigned key_fields(const struct grouper *g, struct record_field *out)
{
	for (unsigned i = 0; i < g->spec.key_count; i++)
		out[i] = (struct record_field){rows_phys(&g->spec.keys[i]),
					       g->spec.keys[i].nullable};
	return g->spec.key_count;
}

enum fth_phys group_state_type(const struct group_state *s, bool wide)
{
	switch (s->kind) {
	case GROUP_SUM:
		return wide ? FTH_I128 : FTH_I64;
	case GROUP_MIN:
	case GROUP_MAX:
		return s->wide ? FTH_I128 : FTH_I64;
	case GROUP_ANY:
		return s->width == 1	? FTH_I8
		       : s->width == 2	? FTH_I16
		       : s->width == 4	? FTH_I32
		       : s->width == 16 ? FTH_I128
					: FTH_I64; /* doubles as their bits */
	case GROUP_SUM_REAL:
	case GROUP_MIN_REAL:
	case GROUP_MAX_REAL:
		return FTH_F64;
	default:
		return FTH_STR;
	}
}

/* The key, the rows, then for each state its value and how many there were. */
static unsigned group_fields(const struct grouper *g, bool wide, struct record_field *out)
{
	unsigned n = key_fields(g, out);

	if (g->states.keeps_rows)
		out[n++] = (struct record_field){FTH_I64, false};
	for (unsigned i = 0; i < g->states.count; i++) {
		const struct group_state *s = &g->states.states[i];

		if (s->distinct)
			continue;
		if (s->values)
			out[n++] = (struct record_field){group_state_type(s, wide),
							 s->kind >= GROUP_MIN_TEXT};
		if (s->seen.counts)
			out[n++] = (struct record_field){FTH_I64, false};
	}
	return n;
}

/* The key, then for each distinct state its sum and how many values there were. */
static unsigned resolved_fields(const struct grouper *g, bool wide, struct record_field *out)
{
	unsigned n = key_fields(g, out);

	for (unsigned i = 0; i < g->states.count; i++) {
		const struct group_state *s = &g->states.states[i];

		if (!s->distinct)
			continue;
		if (s->values)
			out[n++] = (struct record_field){group_state_type(s, wide), false};
		out[n++] = (struct record_field){FTH_I64, false};
	}
	return n;
}

static unsigned value_fields(const struct grouper *g, unsigned i, struct record_field *out)
{
	unsigned n = key_fields(g, out);
	enum fth_phys type = rows_phys(g->states.states[i].arg);

	/* As group_states_values() gives them. */
	out[n++] = (struct record_field){type < FTH_I64 ? FTH_I64 : type, false};
	return n;
}

bool group_sums_are_wide(const struct grouper *g)
{
	for (unsigned i = 0; i < g->states.count; i++)
		if (g->states.states[i].kind == GROUP_SUM && g->states.states[i].wide)
			return true;
	return false;
}

/* ---- writing ---- */

/* Rows to be written: their fields, the first of which are the key. */
struct outgoing {
	struct group_store *store;
	struct group_parts *parts;
	uint32_t kind;
	unsigned key_count, count;
	bool by_value; /* parted by the hash of the whole record, not of its key */
	struct record_field fields[GROUP_FIELDS];
	struct fth_vec vecs[GROUP_FIELDS];
	const struct fth_vec *columns[GROUP_FIELDS];
	uint64_t text_nulls[FTH_BATCH_WORDS];
	struct group_partial partial;
};

int group_store_room(struct group_store *s, size_t size)
{
	char *larger;

	if (size <= s->buffer_room)
		return 0;
	larger = fth_qmem_alloc(s->mem, 2 * size);
	if (!larger)
		return -ENOMEM;
	fth_qmem_free(s->mem, s->buffer, s->buffer_room);
	s->buffer = larger;
	s->buffer_room = 2 * size;
	return 0;
}

static unsigned part_of(const char *key, size_t size, unsigned level)
{
	uint64_t hash = fth_str_hash((struct fth_str){key, (uint32_t)size, 0});

	return (unsigned)(hash >> (64 - GROUP_HASH_BITS * (level + 1))) % GROUP_HASHED;
}

int group_part_stream(struct group_store *s, struct group_parts *p, unsigned part,
		      struct spill_stream **out)
{
	struct spill_file *spill;
	int rc = 0;

	if (!p->streams[part]) {
		rc = scratch_get(s->scratch, &spill);
		if (rc == 0)
			rc = spill_stream_open(spill, &p->streams[part]);
	}
	*out = p->streams[part];
	return rc;
}

static int write_row(struct outgoing *o, unsigned i)
{
	struct group_store *s = o->store;
	size_t size = HEADER + record_size(o->fields, o->count, o->columns, i);
	struct spill_stream *stream;
	uint32_t key_size;
	char *end;
	int rc = group_store_room(s, size);

	if (rc < 0)
		return rc;
	end = record_write(o->fields, o->key_count, o->columns, i, s->buffer + HEADER);
	key_size = (uint32_t)(end - s->buffer - HEADER);
	record_write(o->fields + o->key_count, o->count - o->key_count, o->columns + o->key_count,
		     i, end);
	memcpy(s->buffer, &o->kind, 4);
	memcpy(s->buffer + 4, &key_size, 4);
	rc = group_part_stream(s, o->parts,
			       part_of(s->buffer + HEADER, o->by_value ? size - HEADER : key_size,
				       o->parts->level),
			       &stream);
	return rc < 0 ? rc : spill_stream_append(stream, s->buffer, (uint32_t)size);
}

static void view_column(struct outgoing *o, unsigned at, const void *values)
{
	o->vecs[at] = (struct fth_vec){.type = o->fields[at].type, .data = values};
	if (o->fields[at].nullable)
		o->vecs[at].nulls = o->text_nulls;
}

/*
 * The columns of the next groups, in the order of group_fields() or resolved_fields(). Returns how
 * many.
 */
static unsigned view_groups(struct outgoing *o, struct grouper *g, uint32_t *from)
{
	struct group_partial *view = &o->partial;
	unsigned at = o->key_count, n = grouper_view(g, from, o->vecs, view);

	bool resolved = (o->kind & GROUP_RESOLVED) != 0;

	if (g->states.keeps_rows && !resolved)
		view_column(o, at++, view->rows);
	for (unsigned i = 0; i < g->states.count; i++) {
		if (g->states.states[i].distinct != resolved)
			continue;
		if (view->states[i].values)
			view_column(o, at++, view->states[i].values);
		if (view->states[i].seen)
			view_column(o, at++, view->states[i].seen);
	}
	return n;
}

/* A text that no row had is null. The bitmap is made row by row: each column has its own. */
static void find_text_nulls(struct outgoing *o, unsigned i)
{
	for (unsigned c = o->key_count; c < o->count; c++) {
		const struct fth_str *texts = o->vecs[c].data;
		uint64_t *nulls = o->text_nulls;

		if (!o->fields[c].nullable)
			continue;
		o->vecs[c].nulls = texts[i].data ? NULL : nulls;
	}
}

/* `kind` is 0 or GROUP_RESOLVED. */
static int write_groups(struct outgoing *o, struct grouper *g, uint32_t kind)
{
	bool wide = group_sums_are_wide(g);
	uint32_t at = 0;
	unsigned n;
	int rc = 0;

	o->kind = kind | (wide ? GROUP_WIDE : 0);
	o->key_count = g->spec.key_count;
	o->count =
		kind == 0 ? group_fields(g, wide, o->fields) : resolved_fields(g, wide, o->fields);
	o->by_value = false;
	memset(o->text_nulls, 0xff, sizeof(o->text_nulls));
	while (rc == 0 && (n = view_groups(o, g, &at)) > 0) {
		for (unsigned i = 0; i < n && rc == 0; i++) {
			find_text_nulls(o, i);
			rc = write_row(o, i);
		}
	}
	return rc;
}

/* The key of a value is that of its group. */
static int write_values(struct outgoing *o, struct grouper *g, unsigned i)
{
	struct fth_vec *values = &o->vecs[g->spec.key_count];
	uint32_t groups[FTH_BATCH];
	uint64_t at = 0;
	unsigned n;
	int rc = 0;

	o->kind = i + 1;
	o->key_count = g->spec.key_count;
	o->count = value_fields(g, i, o->fields);
	o->by_value = true;
	while (rc == 0 && (n = group_states_values(&g->states, i, &at, values, groups)) > 0) {
		group_key_gather(&g->key, groups, n, o->vecs);
		for (unsigned k = 0; k < n && rc == 0; k++)
			rc = write_row(o, k);
	}
	return rc;
}

static bool has_distinct(const struct grouper *g)
{
	for (unsigned i = 0; i < g->states.count; i++)
		if (g->states.states[i].distinct)
			return true;
	return false;
}

static int write_parts(struct outgoing *o, struct group_parts *keyed, struct group_parts *values,
		       struct grouper *g, unsigned what)
{
	int rc = 0;

	o->parts = keyed;
	if ((what & WRITE_GROUPS) != 0)
		rc = write_groups(o, g, 0);
	if (rc == 0 && (what & WRITE_RESOLVED) != 0 && has_distinct(g))
		rc = write_groups(o, g, GROUP_RESOLVED);
	o->parts = values;
	for (unsigned i = 0; i < g->states.count && rc == 0; i++)
		if ((what & WRITE_VALUES) != 0 && g->states.states[i].distinct)
			rc = write_values(o, g, i);
	return rc;
}

static int write_records(struct group_store *s, struct group_parts *keyed,
			 struct group_parts *values, struct grouper *g, unsigned what)
{
	struct outgoing *o = fth_qmem_alloc(s->mem, sizeof(*o));
	int rc = 0;

	if (!o)
		return -ENOMEM;
	o->store = s;
	for (unsigned i = 0; i < GROUP_FIELDS; i++)
		o->columns[i] = &o->vecs[i];
	rc = write_parts(o, keyed, values, g, what);
	fth_qmem_free(s->mem, o, sizeof(*o));
	return rc;
}

/* Empty the grouper into parts: groups by their key, distinct values by theirs. */
static int write_all(struct group_store *s, struct group_parts *keyed, struct group_parts *values,
		     struct grouper *g, unsigned what)
{
	int rc = grouper_open_out(g);

	if (rc == 0)
		rc = s->in_blocks ? group_part_write(s, keyed, g)
				  : write_records(s, keyed, values, g, what);
	return rc < 0 ? rc : grouper_renew(g);
}

int group_store_take(struct group_store *s, struct grouper *g)
{
	bool rows;
	int rc;

	pthread_mutex_lock(&s->lock);
	group_part_begin(s, g);
	s->spilled = true;
	s->added += g->states.added;
	rows = group_part_wants_rows(s, g);
	rc = write_all(s, &s->top, &s->values, g, WRITE_GROUPS | WRITE_VALUES);
	pthread_mutex_unlock(&s->lock);
	return rc == 0 && rows ? group_blocks_new(g->parent, &g->blocks) : rc;
}

/* ---- the end of rows ---- */

static int finish_streams(struct group_parts *p)
{
	int rc = 0;

	for (unsigned i = 0; i < GROUP_PARTS && rc == 0; i++)
		if (p->streams[i])
			rc = spill_stream_finish(p->streams[i]);
	return rc;
}

/* Distinct values become counts and sums of their groups. */
static int resolve_values(struct group_store *s);

int group_store_finish(struct group_store *s, struct grouper **groupers, unsigned count, bool one)
{
	int rc = 0;

	s->g = groupers[0];
	for (unsigned i = 1; i < count; i++) {
		if (rc == 0 && !s->spilled)
			rc = grouper_merge(s->g, groupers[i]);
		else if (rc == 0)
			rc = group_store_take(s, groupers[i]);
		grouper_close(groupers[i]);
	}
	if (rc == 0 && s->spilled && !grouper_is_empty(s->g))
		rc = group_store_take(s, s->g);
	if (rc == 0)
		rc = finish_streams(&s->values);
	if (rc == 0)
		rc = resolve_values(s);
	if (rc == 0)
		rc = finish_streams(&s->top);
	if (rc == 0 && one && !s->spilled)
		rc = grouper_one(s->g);
	group_store_rewind(s);
	return rc;
}

int group_store_recycle(struct group_store *s, struct grouper **out)
{
	drop_pending(s);
	drop_parts(&s->top);
	drop_parts(&s->values);
	s->spilled = false;
	s->added = 0;
	s->at = 0;
	group_blocks_free(s->g->blocks);
	s->g->blocks = NULL;
	*out = s->g;
	s->g = NULL;
	return grouper_renew(*out);
}

/* ---- reading ---- */

struct incoming {
	struct group_store *store;
	struct record_batch batch;
	struct record_field fields[GROUP_FIELDS];
	unsigned slice; /* rows that are added at a time */
	bool values;	/* a stream of distinct values, not of groups */
	uint32_t kind;
	bool open; /* the batch is for records of this kind */
	struct group_partial partial;
	uint32_t numbers[FTH_BATCH];
	struct group_block block;
};

void group_store_rewind(struct group_store *s)
{
	drop_pending(s);
	s->at = 0;
	for (unsigned i = GROUP_PARTS; i-- > 0 && s->spilled;)
		if (s->top.streams[i])
			s->pending[s->pending_count++] =
				(struct group_pending){s->top.streams[i], 0, false, i};
	if (s->spilled)
		grouper_reset(s->g);
}

/* Rows [first, first + n) of a column; first is a multiple of 64. */
static struct fth_vec slice_of(const struct record_batch *b, unsigned column, unsigned first)
{
	struct fth_vec v = b->columns[column];

	v.data = (const char *)v.data +
		 (v.type == FTH_BITS ? first / 8 : first * fth_phys_width(v.type));
	if (v.nulls)
		v.nulls += first / 64;
	return v;
}

/* A null text is none. */
static const void *texts_of(struct record_batch *b, unsigned column, unsigned first, unsigned n)
{
	struct fth_str *texts = (struct fth_str *)b->values[column] + first;

	for (unsigned k = 0; k < n; k++)
		if (fth_bit(b->nulls[column], first + k))
			texts[k].data = NULL;
	return texts;
}

static void partial_of(struct incoming *in, const struct grouper *g, unsigned first, unsigned n)
{
	struct group_partial *p = &in->partial;
	unsigned at = g->spec.key_count;

	p->n = n;
	p->added = 0;
	p->distinct = (in->kind & GROUP_RESOLVED) != 0;
	p->rows = NULL;
	if (g->states.keeps_rows && !p->distinct)
		p->rows = slice_of(&in->batch, at++, first).data;
	for (unsigned i = 0; i < g->states.count; i++) {
		const struct group_state *s = &g->states.states[i];

		if (s->distinct != p->distinct)
			continue;
		p->states[i].wide = (in->kind & GROUP_WIDE) != 0;
		p->states[i].values = NULL;
		if (s->kind >= GROUP_MIN_TEXT)
			p->states[i].values = texts_of(&in->batch, at++, first, n);
		else if (s->values)
			p->states[i].values = slice_of(&in->batch, at++, first).data;
		p->states[i].seen = NULL;
		if (s->seen.counts)
			p->states[i].seen = slice_of(&in->batch, at++, first).data;
	}
}

static bool is_value(uint32_t kind)
{
	return (kind & ~(GROUP_WIDE | GROUP_RESOLVED)) != 0;
}

static int add_slice(struct incoming *in, struct grouper *g, unsigned first, unsigned n)
{
	struct fth_vec vecs[FTH_KEY_COLUMNS], *keys[FTH_KEY_COLUMNS], values;
	unsigned key_count = g->spec.key_count;

	for (unsigned i = 0; i < key_count; i++) {
		vecs[i] = slice_of(&in->batch, i, first);
		keys[i] = &vecs[i];
	}
	if (is_value(in->kind)) {
		values = slice_of(&in->batch, key_count, first);
		return grouper_merge_values(g, keys, in->kind - 1, &values, n);
	}
	partial_of(in, g, first, n);
	return grouper_merge_batch(g, keys, &in->partial, in->numbers);
}

/* Groups or values that did not fit, to parts that are read later. */
static int write_deeper(struct incoming *in, struct group_parts *parts)
{
	struct group_store *s = in->store;
	int rc = in->values ? write_all(s, NULL, parts, s->g, WRITE_VALUES)
			    : write_all(s, parts, NULL, s->g, WRITE_GROUPS | WRITE_RESOLVED);

	s->g->states.added = s->added;
	return rc;
}

/*
 * Room for more: groups go to the parts. If there are none, or if the rows did not fit after that
 * either (`again`: some of them were added before memory ran out, which must not go on for ever),
 * less is added at a time.
 */
static int make_way(struct incoming *in, struct group_parts *parts, bool again, bool *parted)
{
	struct grouper *g = in->store->g;
	bool empty = grouper_is_empty(g);
	int rc;

	if (empty || again) {
		in->slice /= 2;
		if (in->slice < SLICE_MIN)
			return -ENOMEM;
	}
	if (empty) {
		rc = grouper_renew(g);
		g->states.added = in->store->added;
		return rc;
	}
	if (parts->level >= GROUP_LEVELS)
		return -ENOMEM;
	*parted = true;
	return write_deeper(in, parts);
}

/* The records gathered so far into the grouper. */
static int flush_batch(struct incoming *in, struct group_parts *parts, bool *parted)
{
	bool again = false, failed;
	unsigned first = 0;
	int rc = 0;

	if (!in->open)
		return 0;
	while (first < in->batch.n && rc == 0) {
		unsigned left = in->batch.n - first, n = left < in->slice ? left : in->slice;

		rc = add_slice(in, in->store->g, first, n);
		failed = rc == -ENOMEM;
		if (rc == 0)
			first += n;
		else if (failed)
			rc = make_way(in, parts, again, parted);
		again = failed;
	}
	record_batch_reset(&in->batch);
	return rc;
}

static int add_block(struct incoming *in, struct group_parts *parts, bool *parted,
		     const char *record, uint32_t size)
{
	struct group_store *s = in->store;
	bool again = false, failed;
	unsigned first = 0;
	int rc = group_store_room(s, size);

	if (rc < 0)
		return rc;
	memcpy(s->buffer, record, size); /* aligned */
	rc = group_part_parse(s->g, s->buffer, size, &in->block);
	while (rc == 0 && first < in->block.n) {
		unsigned left = in->block.n - first, n = left < in->slice ? left : in->slice;

		rc = group_part_add(s->g, &in->block, first, n, &in->partial);
		failed = rc == -ENOMEM;
		if (rc == 0)
			first += n;
		else if (failed)
			rc = make_way(in, parts, again, parted);
		again = failed;
	}
	return rc;
}

static int begin_kind(struct incoming *in, uint32_t kind)
{
	const struct grouper *g = in->store->g;
	unsigned count;

	record_batch_release(&in->batch);
	in->kind = kind;
	count = is_value(kind) ? value_fields(g, kind - 1, in->fields)
		: (kind & GROUP_RESOLVED) != 0
			? resolved_fields(g, (kind & GROUP_WIDE) != 0, in->fields)
			: group_fields(g, (kind & GROUP_WIDE) != 0, in->fields);
	in->open = true;
	return record_batch_init(&in->batch, in->store->mem, in->fields, count);
}

static int add_record(struct incoming *in, struct group_parts *parts, bool *parted,
		      const char *record, uint32_t size)
{
	uint32_t kind;
	int rc = 0;

	if (size < HEADER)
		return fth_fail(EILSEQ, "a spilled record is truncated");
	memcpy(&kind, record, 4);
	if (kind & GROUP_BLOCK && in->store->in_blocks)
		return add_block(in, parts, parted, record, size);
	if (is_value(kind) != in->values ||
	    (in->values && (kind > in->store->g->states.count ||
			    !in->store->g->states.states[kind - 1].distinct)))
		return fth_fail(EILSEQ, "a spilled record has an unknown kind");
	if (!in->open || kind != in->kind || in->batch.n == FTH_BATCH)
		rc = flush_batch(in, parts, parted);
	if (rc == 0 && (!in->open || kind != in->kind))
		rc = begin_kind(in, kind);
	return rc < 0 ? rc : record_batch_add(&in->batch, record + HEADER, size - HEADER);
}

static int read_stream(struct incoming *in, struct spill_stream *stream, struct group_parts *parts,
		       bool *parted)
{
	struct spill_reader *reader;
	const void *record;
	uint32_t size;
	int rc = spill_reader_open(stream, &reader);

	if (rc < 0)
		return rc;
	while ((rc = spill_reader_next(reader, &record, &size)) > 0) {
		rc = add_record(in, parts, parted, record, size);
		if (rc < 0)
			break;
	}
	spill_reader_close(reader);
	return rc < 0 ? rc : flush_batch(in, parts, parted);
}

/* A part that did not fit is read again, in smaller parts. */
static int push_parts(struct incoming *in, struct group_parts *parts)
{
	struct group_store *s = in->store;
	int rc = write_deeper(in, parts);

	if (rc == 0)
		rc = finish_streams(parts);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < GROUP_PARTS; i++)
		if (parts->streams[i]) {
			s->pending[s->pending_count++] =
				(struct group_pending){parts->streams[i], parts->level, true, i};
			parts->streams[i] = NULL;
		}
	return 0;
}

static int prepare_grouper(struct group_store *s, const struct group_pending *from)
{
	if (s->in_blocks)
		return group_part_prepare(s, from);
	grouper_reset(s->g);
	return 0;
}

/*
 * Read a stream into the grouper, or, if that does not hold it, into streams that are pending then.
 */
static int load_part(struct group_store *s, const struct group_pending *from, bool values)
{
	struct incoming *in = fth_qmem_zalloc(s->mem, sizeof(*in));
	struct group_parts parts = {.level = from->level + 1};
	bool parted = false;
	int rc;

	if (!in)
		return -ENOMEM;
	in->store = s;
	in->values = values;
	in->slice = FTH_BATCH;
	rc = prepare_grouper(s, from);
	s->g->states.added = s->added;
	if (rc == 0)
		rc = read_stream(in, from->stream, &parts, &parted);
	if (rc == 0 && parted)
		rc = push_parts(in, &parts);
	else if (rc == 0 && values)
		rc = write_all(s, &s->top, NULL, s->g, WRITE_RESOLVED);
	drop_parts(&parts);
	record_batch_release(&in->batch);
	fth_qmem_free(s->mem, in, sizeof(*in));
	return rc;
}

static int resolve_values(struct group_store *s)
{
	int rc = 0;

	for (unsigned i = 0; i < GROUP_PARTS; i++) {
		if (s->values.streams[i])
			s->pending[s->pending_count++] =
				(struct group_pending){s->values.streams[i], 0, true, i};
		s->values.streams[i] = NULL;
	}
	while (rc == 0 && s->pending_count > 0) {
		struct group_pending next = s->pending[--s->pending_count];

		rc = load_part(s, &next, true);
		spill_stream_drop(next.stream);
	}
	return rc;
}

int group_store_next(struct group_store *s, struct fth_vec *columns)
{
	int n;

	while ((n = grouper_batch(s->g, &s->at, columns)) == 0) {
		struct group_pending next;
		int rc;

		if (s->pending_count == 0)
			return 0;
		next = s->pending[--s->pending_count];
		s->at = 0;
		rc = load_part(s, &next, false);
		if (next.own)
			spill_stream_drop(next.stream);
		if (rc < 0)
			return rc;
	}
	return n;
}
