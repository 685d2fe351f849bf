/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spilled groups in blocks of columns: for keys that are packed into 64 bits and hold no texts, and
 * states of fixed width. Packed keys are the same in all groupers of a task, so that they are
 * written as they are.
 *
 * If arrays over a range of keys fit into memory, at most GROUP_PARTS ranges being needed, the
 * parts of the first level are such ranges, and each is read into arrays. Else parts are by the
 * hash of the key.
 *
 * A grouper that was full with hardly fewer groups than rows would gain nothing from grouping the
 * rest: its rows go to the parts at once, with their arguments in the narrow form that they have in
 * memory.
 */
#include "query/group/group_store_internal.h"
#include "query/spill/result_rows.h"

#include <errno.h>

#define CACHE (1u << 20) /* bytes, of one core */
/* Rows for each group, at least, for which grouping before the parts are read is worth its time. */
#define WORTH 2u
/* Groups after which their number can be guessed. */
#define SAMPLE (1u << 14)
/* A part is read into arrays if it has an item for so many of their places. */
#define SPARSE 32u

/* ---- which groups, and which parts ---- */

static bool has_fixed_width(const struct group_states *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct task_slot *arg = s->states[i].arg;

		if (s->states[i].distinct || s->states[i].kind >= GROUP_MIN_TEXT)
			return false;
		if (arg && (fth_type_is_text(arg->type) || rows_phys(arg) == FTH_BITS))
			return false;
	}
	return true;
}

static bool has_packed_key(const struct group_key *k)
{
	for (unsigned i = 0; i < k->count; i++)
		if (k->words[i])
			return false;
	return k->count > 0 && k->key.form == FTH_KEY_64;
}

static struct group_parting by_hash(unsigned level)
{
	return (struct group_parting){.parts = GROUP_HASHED,
				      .shift = 64 - GROUP_HASH_BITS * (level + 1),
				      .mask = GROUP_HASHED - 1};
}

/*
 * Ranges whose arrays lie in the processor's cache, as far as there are not more than GROUP_PARTS
 * of them.
 */
static struct group_parting by_range(const struct grouper *g)
{
	uint64_t most = g->key.whole - 1, room = CACHE / grouper_array_width(g);
	struct group_parting by = {.ranged = true, .mask = GROUP_PARTS - 1};

	while (most >> by.shift >= GROUP_PARTS || (uint64_t)2 << by.shift <= room)
		by.shift++;
	by.parts = (unsigned)(most >> by.shift) + 1;
	return by;
}

/*
 * The arrays of a part may take a half of the memory: the rest is for buffers, and for sums that
 * grow.
 */
static bool range_fits(const struct grouper *g, const struct group_parting *by)
{
	uint64_t memory = g->spec.memory > 0 ? g->spec.memory : fth_qmem_available(g->parent);

	return (uint64_t)grouper_array_width(g) << by->shift <= memory / 2;
}

static bool fits_blocks(const struct grouper *g)
{
	return !g->spec.runs && has_packed_key(&g->key) && has_fixed_width(&g->states);
}

void group_part_begin(struct group_store *s, const struct grouper *g)
{
	if (s->spilled)
		return;
	s->in_blocks = fits_blocks(g);
	s->by = by_hash(0);
	if (s->in_blocks && g->key.whole > 0) {
		struct group_parting ranges = by_range(g);

		if (range_fits(g, &ranges))
			s->by = ranges;
	}
}

/*
 * How many groups there will be, from the first rows, if these are a random sample: of N keys, n
 * rows hit d = N (1 - e^-x) with x = n / N. d / n = 1 - x / 2 + x^2 / 6 - ... is solved for x. Rows
 * are not more than what is to come at the same rate.
 */
static double expected_groups(const struct grouper *g)
{
	double n = (double)g->states.added, d = g->key.groups.count, missing = 1 - d / n;
	double x = 2 * missing + missing * missing * 4 / 3;
	double rows = n * g->progress_of / g->progress;

	return x * rows > n ? n / x : rows;
}

/* Whether neither a table nor an array will do. */
static bool is_too_large(const struct grouper *g)
{
	uint64_t array = g->key.domain * (uint64_t)grouper_array_width(g);

	return (array == 0 || array > g->spec.memory) &&
	       grouper_table_bytes(g, (uint64_t)expected_groups(g)) > g->spec.memory;
}

bool group_part_is_due(const struct grouper *g, unsigned more)
{
	const struct group_table *groups = &g->key.groups;

	return groups->count >= SAMPLE && (uint64_t)groups->count + more > groups->room &&
	       g->store && g->progress > 0 && g->spec.memory > 0 &&
	       g->states.added < (uint64_t)WORTH * groups->count && fits_blocks(g) &&
	       is_too_large(g);
}

/* ---- writing ---- */

/* Into the streams of a level; of the first one under the lock. */
static int append_blocks(struct group_store *s, struct group_parts *parts,
			 const struct group_blocks *b, unsigned count)
{
	int rc = 0;

	for (unsigned p = 0; p < count && rc == 0; p++) {
		size_t size = b->ends[p + 1] - b->ends[p];
		struct spill_stream *stream;

		if (size == 0)
			continue;
		rc = group_part_stream(s, parts, p, &stream);
		if (rc == 0)
			rc = spill_stream_append(stream, b->bytes + b->ends[p], (uint32_t)size);
		parts->items[p] += b->counts[p];
	}
	return rc;
}

static struct fth_vec counts_column(const uint64_t *counts)
{
	return (struct fth_vec){.type = FTH_I64, .data = counts};
}

/* The columns of groups: rows, then for each state its values and how many there were. */
static unsigned group_columns(const struct grouper *g, const struct group_partial *from,
			      struct fth_vec *out)
{
	unsigned n = 0;

	if (g->states.keeps_rows)
		out[n++] = counts_column(from->rows);
	for (unsigned i = 0; i < g->states.count; i++) {
		const struct group_state *s = &g->states.states[i];

		if (from->states[i].values)
			out[n++] = (struct fth_vec){.type = group_state_type(s, s->wide),
						    .data = from->states[i].values};
		if (from->states[i].seen)
			out[n++] = counts_column(from->states[i].seen);
	}
	return n;
}

/* The state of writing a part. */
struct part_writer {
	struct fth_vec keys[FTH_KEY_COLUMNS], columns[GROUP_BLOCK_COLUMNS];
	struct group_partial partial;
};

static int write_batches(struct group_store *s, struct group_parts *parts, struct grouper *g,
			 struct part_writer *w)
{
	struct group_parting by = parts->level == 0 ? s->by : by_hash(parts->level);
	uint32_t kind = GROUP_BLOCK | (group_sums_are_wide(g) ? GROUP_WIDE : 0), at = 0;
	unsigned n;
	int rc = 0;

	while (rc == 0 && (n = grouper_view(g, &at, w->keys, &w->partial)) > 0) {
		const uint64_t *keys = g->key.array
					       ? (const uint64_t *)g->key.keys
					       : (const uint64_t *)g->key.groups.keys + (at - n);
		unsigned count = group_columns(g, &w->partial, w->columns);

		rc = group_blocks_make(s->blocks, &by, kind, keys, g->key.key.bits > 32, NULL, n,
				       w->columns, count);
		if (rc == 0)
			rc = append_blocks(s, parts, s->blocks, by.parts);
	}
	return rc;
}

int group_part_write(struct group_store *s, struct group_parts *parts, struct grouper *g)
{
	struct part_writer *w = fth_qmem_alloc(s->mem, sizeof(*w));
	int rc = w ? 0 : -ENOMEM;

	if (rc == 0 && !s->blocks)
		rc = group_blocks_new(s->mem, &s->blocks);
	if (rc == 0)
		rc = write_batches(s, parts, g, w);
	fth_qmem_free(s->mem, w, sizeof(*w));
	return rc;
}

/* ---- rows ---- */

bool group_part_wants_rows(const struct group_store *s, const struct grouper *g)
{
	return s->in_blocks && !g->blocks && !g->key.array &&
	       g->states.added < (uint64_t)WORTH * g->key.groups.count;
}

/* The first aggregate with the same argument, which has the column. */
static unsigned first_with(const struct grouper *g, unsigned i)
{
	unsigned same = 0;

	while (g->spec.aggregates[same].slot != g->spec.aggregates[i].slot)
		same++;
	return same;
}

int group_store_add_rows(struct group_store *s, struct grouper *g, struct fth_vec *const *keys,
			 struct fth_vec *const *args, const struct fth_sel *sel)
{
	struct fth_vec columns[GROUP_STATES];
	unsigned count = 0, n = fth_bits_rows(sel->bits, sel->n, g->list);
	int rc = group_key_pack(&g->key, keys, sel->n, sel->bits);

	for (unsigned i = 0; i < g->spec.aggregate_count; i++)
		if (args[i] && first_with(g, i) == i)
			columns[count++] = *args[i];
	if (rc == 0)
		rc = group_blocks_make(g->blocks, &s->by, GROUP_BLOCK | GROUP_ROWS,
				       (const uint64_t *)g->key.keys, g->key.key.bits > 32, g->list,
				       n, columns, count);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&s->lock);
	s->added += n;
	rc = append_blocks(s, &s->top, g->blocks, s->by.parts);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* ---- reading ---- */

/* Whether the part is a range of keys, of which enough have come. */
static bool is_dense_range(const struct group_store *s, const struct group_pending *from)
{
	return from->level == 0 && s->by.ranged &&
	       s->top.items[from->part] >= ((uint64_t)1 << s->by.shift) / SPARSE;
}

int group_part_prepare(struct group_store *s, const struct group_pending *from)
{
	struct grouper *g = s->g;

	if (is_dense_range(s, from))
		return grouper_take_range(g, (uint64_t)from->part << s->by.shift,
					  (uint32_t)1 << s->by.shift);
	if (g->key.array && g->key.domain != g->key.whole)
		return grouper_renew(g);
	grouper_reset(g);
	return 0;
}

static unsigned row_columns(const struct grouper *g)
{
	unsigned count = 0;

	for (unsigned i = 0; i < g->spec.aggregate_count; i++)
		count += g->spec.aggregates[i].slot != TASK_NONE && first_with(g, i) == i;
	return count;
}

static unsigned state_columns(const struct grouper *g)
{
	unsigned count = g->states.keeps_rows;

	for (unsigned i = 0; i < g->states.count; i++)
		count += !!g->states.states[i].values + !!g->states.states[i].seen.counts;
	return count;
}

int group_part_parse(const struct grouper *g, const char *bytes, size_t size,
		     struct group_block *out)
{
	uint32_t kind = 0;

	if (size >= sizeof(kind))
		memcpy(&kind, bytes, sizeof(kind));
	return group_block_read(bytes, size, kind & GROUP_ROWS ? row_columns(g) : state_columns(g),
				out);
}

/* A column from row `first` on. */
static struct fth_vec slice_of(const struct fth_vec *v, unsigned first)
{
	struct fth_vec slice = *v;

	slice.data = (const char *)v->data + (size_t)first * fth_phys_width(v->type);
	if (v->nulls)
		slice.nulls = v->nulls + first / 64;
	return slice;
}

static int add_rows(struct grouper *g, const struct group_block *b, const struct fth_vec *keys,
		    unsigned first, unsigned n)
{
	struct fth_vec columns[GROUP_STATES], *args[GROUP_STATES];
	unsigned count = 0;

	for (unsigned i = 0; i < g->spec.aggregate_count; i++) {
		unsigned same = first_with(g, i);

		args[i] = NULL;
		if (g->spec.aggregates[i].slot == TASK_NONE)
			continue;
		if (same == i) {
			columns[count] = slice_of(&b->columns[count], first);
			args[i] = &columns[count++];
		} else {
			args[i] = args[same];
		}
	}
	return grouper_add_packed(g, keys, args, n);
}

static int merge_groups(struct grouper *g, const struct group_block *b, const struct fth_vec *keys,
			unsigned first, unsigned n, struct group_partial *p)
{
	const struct fth_vec *column = b->columns;

	p->n = n;
	p->added = 0;
	p->rows = g->states.keeps_rows ? slice_of(column++, first).data : NULL;
	for (unsigned i = 0; i < g->states.count; i++) {
		const struct group_state *s = &g->states.states[i];

		p->states[i].wide = (b->kind & GROUP_WIDE) != 0;
		p->states[i].values = s->values ? slice_of(column++, first).data : NULL;
		p->states[i].seen = s->seen.counts ? slice_of(column++, first).data : NULL;
	}
	return grouper_merge_packed(g, keys, p);
}

int group_part_add(struct grouper *g, const struct group_block *b, unsigned first, unsigned n,
		   struct group_partial *partial)
{
	struct fth_vec keys = slice_of(&b->keys, first);

	return b->kind & GROUP_ROWS ? add_rows(g, b, &keys, first, n)
				    : merge_groups(g, b, &keys, first, n, partial);
}
