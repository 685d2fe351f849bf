/* SPDX-License-Identifier: BSD-2-Clause */
/* The aggregates of groups, as arrays by the number of the group. */
#include "query/group/group_internal.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"
#include "query/keys/bit_rows.h"
#include "query/vec/kern/kern.h"
#include "scalar/num.h"
#include "scalar/text.h"

#include <errno.h>
#include <math.h>

#define TEXT_CHUNK (16u << 10)
#define MOST_128   ((fth_u128)1 << 127)

/* ---- opening ---- */

static bool is_real(const struct group_state *s)
{
	return s->arg && s->arg->type.kind == FTH_T_DOUBLE;
}

static bool is_text(const struct group_state *s)
{
	return s->arg && fth_type_is_text(s->arg->type);
}

static enum group_state_kind kind_of(const struct group_state *s)
{
	switch (s->aggregate->op) {
	case TASK_SUM:
	case TASK_AVG:
		return is_real(s) ? GROUP_SUM_REAL : GROUP_SUM;
	case TASK_MIN:
		return is_text(s) ? GROUP_MIN_TEXT : is_real(s) ? GROUP_MIN_REAL : GROUP_MIN;
	case TASK_MAX:
		return is_text(s) ? GROUP_MAX_TEXT : is_real(s) ? GROUP_MAX_REAL : GROUP_MAX;
	case TASK_ANY:
		return is_text(s) ? GROUP_ANY_TEXT : GROUP_ANY;
	default:
		return GROUP_COUNT;
	}
}

/* The range of a slot's values, as far as it is known. */
static void slot_range(const struct task_slot *slot, fth_i128 *lo, fth_i128 *hi)
{
	if (slot->type.kind == FTH_T_BOOL) {
		*lo = 0;
		*hi = 1;
	} else if (slot->lo <= slot->hi) {
		*lo = slot->lo;
		*hi = slot->hi;
	} else {
		fth_type_range(slot->type, lo, hi);
	}
}

static unsigned width_of(const struct group_state *s)
{
	switch (s->kind) {
	case GROUP_COUNT:
		return 0;
	case GROUP_SUM:
	case GROUP_MIN:
	case GROUP_MAX:
		return s->wide ? 16 : 8;
	case GROUP_ANY:
		return rows_phys(&s->aggregate->result) == FTH_BITS
			       ? 1
			       : fth_phys_width(rows_phys(&s->aggregate->result));
	case GROUP_SUM_REAL:
	case GROUP_MIN_REAL:
	case GROUP_MAX_REAL:
		return 8;
	default:
		return sizeof(struct fth_str);
	}
}

/* Bits of numbers up to `most`. */
static unsigned bits_of(fth_u128 most)
{
	unsigned bits = 0;

	for (; most; most >>= 1)
		bits++;
	return bits;
}

static int init_pairs(struct group_states *g, struct group_state *s)
{
	struct composite_key_column c = group_key_column(s->arg);

	/* Values of more than 64 bits are numbered as texts are. */
	if (c.text || c.min < INT64_MIN || c.max > INT64_MAX) {
		s->words = fth_qmem_zalloc(g->mem, sizeof(*s->words));
		if (!s->words || group_words_init(s->words, g->mem) < 0)
			return -ENOMEM;
		c.min = 0;
		c.max = UINT32_MAX;
	}
	s->value_min = c.min;
	s->value_bits = bits_of((fth_u128)c.max - (fth_u128)c.min);
	return distinct_set_init(&s->pairs, g->mem, s->value_bits);
}

static int init_state(struct group_states *g, struct group_state *s)
{
	fth_i128 lo = 0, hi = 0;

	s->kind = kind_of(s);
	s->distinct = s->aggregate->distinct &&
		      (s->kind == GROUP_COUNT || s->kind == GROUP_SUM || s->kind == GROUP_SUM_REAL);
	if (s->arg && !is_text(s) && !is_real(s))
		slot_range(s->arg, &lo, &hi);
	s->most = lo < 0 && -(fth_u128)lo > (fth_u128)hi ? -(fth_u128)lo : (fth_u128)hi;
	s->wide = (s->kind == GROUP_MIN || s->kind == GROUP_MAX) &&
		  (lo < INT64_MIN || hi > INT64_MAX);
	s->width = width_of(s);
	s->out_width = s->distinct ? 16 : fth_phys_width(rows_phys(&s->aggregate->result));
	if (s->out_width == 0)
		s->out_width = 1;
	return s->distinct ? init_pairs(g, s) : 0;
}

static bool counts_values(const struct group_state *s)
{
	if (s->distinct)
		return true;
	return s->arg && s->arg->nullable && s->kind < GROUP_MIN_TEXT;
}

static bool needs_rows(const struct group_state *s)
{
	return s->kind == GROUP_COUNT || s->aggregate->op == TASK_AVG;
}

/* Which of the arrays there are shows in their first elements. */
static int alloc_first(struct group_states *g, bool keyed)
{
	int rc = 0;

	g->keeps_rows = !keyed;
	g->room = 1;
	for (unsigned i = 0; i < g->count && rc == 0; i++) {
		struct group_state *s = &g->states[i];

		if (counts_values(s))
			rc = group_counts_init(&s->seen, g->mem);
		else
			g->keeps_rows |= needs_rows(s);
		if (rc < 0 || s->width == 0)
			continue;
		s->values = fth_qmem_alloc(g->mem, s->width);
		s->value_room = !!s->values;
		rc = s->values ? 0 : -ENOMEM;
	}
	return rc < 0 || !g->keeps_rows ? rc : group_counts_init(&g->rows, g->mem);
}

static bool any_distinct(const struct group_states *g)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->states[i].distinct)
			return true;
	return false;
}

/* Whether values of 128 bits have to be numbered. */
static bool any_wide_distinct(const struct group_states *g)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->states[i].words && !is_text(&g->states[i]))
			return true;
	return false;
}

/* All that a batch needs is there before it is taken: invariant 1. */
static int alloc_buffers(struct group_states *g)
{
	g->ints = fth_qmem_alloc(g->out_mem, FTH_BATCH * sizeof(*g->ints));
	g->sums = fth_qmem_alloc(g->out_mem, (FTH_BATCH + 1) * sizeof(*g->sums));
	if (!g->ints || !g->sums)
		return -ENOMEM;
	if (!any_distinct(g))
		return 0;
	g->pairs = fth_qmem_alloc(g->out_mem, FTH_BATCH * sizeof(*g->pairs));
	if (!g->pairs)
		return -ENOMEM;
	if (!any_wide_distinct(g))
		return 0;
	g->wide = fth_qmem_alloc(g->out_mem, sizeof(*g->wide));
	return g->wide ? 0 : -ENOMEM;
}

int group_states_init(struct group_states *g, struct fth_qmem *mem, struct fth_qmem *out_mem,
		      const struct task_aggregate *aggregates, unsigned count,
		      const struct task_slot *slots, bool keyed)
{
	int rc;

	*g = (struct group_states){.mem = mem, .out_mem = out_mem, .count = count};
	fth_arena_init(&g->text, mem, TEXT_CHUNK);
	g->states = fth_qmem_zalloc(mem, (count + 1) * sizeof(*g->states));
	if (!g->states)
		return -ENOMEM;
	rc = 0;
	for (unsigned i = 0; i < count && rc == 0; i++) {
		g->states[i].aggregate = &aggregates[i];
		g->states[i].arg =
			aggregates[i].slot == TASK_NONE ? NULL : &slots[aggregates[i].slot];
		rc = init_state(g, &g->states[i]);
	}
	if (rc == 0)
		rc = alloc_first(g, keyed);
	return rc < 0 ? rc : alloc_buffers(g);
}

/* A buffer of so many bytes in place of a smaller one. */
static int make_buffer(struct group_states *g, void *buffer_at, size_t *has, size_t bytes)
{
	void **buffer = buffer_at;

	if (*has >= bytes)
		return 0;
	fth_qmem_free(g->out_mem, *buffer, *has);
	*buffer = fth_qmem_alloc(g->out_mem, bytes);
	*has = *buffer ? bytes : 0;
	return *buffer ? 0 : -ENOMEM;
}

static int open_state_out(struct group_states *g, struct group_state *s, bool array)
{
	size_t has = s->out ? FTH_BATCH * s->out_width : 0;
	size_t has_seen = s->seen_out ? FTH_BATCH * sizeof(*s->seen_out) : 0;
	int rc = make_buffer(g, &s->out, &has, FTH_BATCH * s->out_width);

	if (rc == 0 && s->seen.counts)
		rc = make_buffer(g, &s->seen_out, &has_seen, FTH_BATCH * sizeof(*s->seen_out));
	if (rc == 0 && array)
		rc = make_buffer(g, &s->values_out, &s->values_out_bytes, FTH_BATCH * s->width);
	return rc;
}

int group_states_open_out(struct group_states *g, bool array)
{
	size_t has = g->rows_out ? FTH_BATCH * sizeof(*g->rows_out) : 0;
	int rc = 0;

	if (g->rows.counts)
		rc = make_buffer(g, &g->rows_out, &has, FTH_BATCH * sizeof(*g->rows_out));
	for (unsigned i = 0; i < g->count && rc == 0; i++)
		rc = open_state_out(g, &g->states[i], array);
	return rc;
}

static void release_state(struct group_states *g, struct group_state *s)
{
	fth_qmem_free(g->mem, s->values, (size_t)s->value_room * s->width);
	group_counts_release(&s->seen, g->mem);
	fth_qmem_free(g->out_mem, s->out, FTH_BATCH * s->out_width);
	fth_qmem_free(g->out_mem, s->seen_out, FTH_BATCH * sizeof(*s->seen_out));
	fth_qmem_free(g->out_mem, s->values_out, s->values_out_bytes);
	distinct_set_release(&s->pairs);
	if (s->words) {
		group_words_release(s->words);
		fth_qmem_free(g->mem, s->words, sizeof(*s->words));
	}
}

void group_states_release(struct group_states *g)
{
	for (unsigned i = 0; i < g->count && g->states; i++)
		release_state(g, &g->states[i]);
	fth_qmem_free(g->mem, g->states, (g->count + 1) * sizeof(*g->states));
	group_counts_release(&g->rows, g->mem);
	fth_qmem_free(g->out_mem, g->rows_out, FTH_BATCH * sizeof(*g->rows_out));
	fth_qmem_free(g->out_mem, g->ints, FTH_BATCH * sizeof(*g->ints));
	fth_qmem_free(g->out_mem, g->sums, (FTH_BATCH + 1) * sizeof(*g->sums));
	fth_qmem_free(g->out_mem, g->pairs, FTH_BATCH * sizeof(*g->pairs));
	fth_qmem_free(g->out_mem, g->wide, sizeof(*g->wide));
	fth_arena_release(&g->text);
}

void group_states_clear(struct group_states *g)
{
	g->started = 0;
	group_forget_texts(g);
	for (unsigned i = 0; i < g->count; i++) {
		if (g->states[i].distinct)
			distinct_set_clear(&g->states[i].pairs);
		if (g->states[i].words)
			group_words_clear(g->states[i].words);
	}
}

/* ---- room ---- */

static int grow_array(struct group_states *g, void *array_at, size_t width, size_t old, size_t room)
{
	void **array = array_at;
	void *larger;

	larger = fth_qmem_realloc(g->mem, *array, old * width, room * width);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	return 0;
}

static int grow_state(struct group_states *g, struct group_state *s, uint32_t room)
{
	if (s->value_room < room && s->width > 0) {
		if (grow_array(g, &s->values, s->width, s->value_room, room) < 0)
			return -ENOMEM;
		s->value_room = room;
	}
	return group_counts_grow(&s->seen, g->mem, room);
}

int group_states_reserve(struct group_states *g, uint64_t groups)
{
	uint64_t room = g->room;

	while (room < groups)
		room *= 2;
	if (room > (uint64_t)1 << 31)
		return -ENOMEM;
	if (room == g->room)
		return 0;
	for (unsigned i = 0; i < g->count; i++)
		if (grow_state(g, &g->states[i], (uint32_t)room) < 0)
			return -ENOMEM;
	if (group_counts_grow(&g->rows, g->mem, (uint32_t)room) < 0)
		return -ENOMEM;
	g->room = (uint32_t)room;
	return 0;
}

#define FILL(T, start)                               \
	do {                                         \
		T *values = s->values;               \
		for (uint32_t i = from; i < to; i++) \
			values[i] = (start);         \
	} while (0)

static void start_state(struct group_state *s, uint32_t from, uint32_t to)
{
	fth_i128 beyond = fth_dec_max() + 1;

	group_counts_start(&s->seen, from, to);
	switch (s->kind) {
	case GROUP_MIN:
		if (s->wide)
			FILL(fth_i128, beyond);
		else
			FILL(int64_t, INT64_MAX);
		break;
	case GROUP_MAX:
		if (s->wide)
			FILL(fth_i128, -beyond);
		else
			FILL(int64_t, INT64_MIN);
		break;
	case GROUP_MIN_REAL:
		FILL(double, NAN);
		break;
	case GROUP_MAX_REAL:
		FILL(double, -INFINITY);
		break;
	default:
		if (s->width > 0)
			memset((char *)s->values + (size_t)from * s->width, 0,
			       (size_t)(to - from) * s->width);
	}
}

void group_states_start(struct group_states *g, uint32_t count)
{
	if (count <= g->started)
		return;
	for (unsigned i = 0; i < g->count; i++)
		start_state(&g->states[i], g->started, count);
	group_counts_start(&g->rows, g->started, count);
	g->started = count;
}

/* ---- what may need memory ---- */

static bool is_narrow_sum(const struct group_state *s)
{
	return s->kind == GROUP_SUM && !s->wide;
}

static void widen_sum(struct group_states *g, struct group_state *s, fth_i128 *wide)
{
	const int64_t *narrow = s->values;

	for (uint32_t i = 0; i < g->started; i++)
		wide[i] = narrow[i];
	fth_qmem_free(g->mem, s->values, (size_t)s->value_room * s->width);
	s->values = wide;
	s->wide = true;
	s->width = sizeof(*wide);
}

/* All of them or, without the memory, none. */
static int widen_all(struct group_states *g)
{
	fth_i128 *wide[GROUP_STATES] = {0};
	int rc = 0;

	for (unsigned i = 0; i < g->count && rc == 0; i++) {
		if (!is_narrow_sum(&g->states[i]))
			continue;
		wide[i] = fth_qmem_alloc(g->mem, (size_t)g->states[i].value_room * sizeof(**wide));
		rc = wide[i] ? 0 : -ENOMEM;
	}
	for (unsigned i = 0; i < g->count; i++) {
		struct group_state *s = &g->states[i];

		if (wide[i] && rc == 0)
			widen_sum(g, s, wide[i]);
		else
			fth_qmem_free(g->mem, wide[i], (size_t)s->value_room * sizeof(**wide));
	}
	return rc;
}

/* Whether the sum of so many rows may not fit. */
static bool exceeds(fth_u128 most, uint64_t rows, fth_u128 limit)
{
	return most > 0 && rows > (limit - 1) / most;
}

int group_widen_sums(struct group_states *g, uint64_t rows)
{
	bool widen = false;

	for (unsigned i = 0; i < g->count; i++)
		widen |= is_narrow_sum(&g->states[i]) &&
			 exceeds(g->states[i].most, rows, (fth_u128)1 << 63);
	return widen ? widen_all(g) : 0;
}

static int keep_texts(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		      const struct group_batch *b)
{
	struct fth_str *texts = s->values;

	FTH_FOR_ROWS(b->rows, b->n, i)
	{
		struct fth_str *kept = &texts[b->numbers[i]], text;

		if (kept->data && s->kind == GROUP_ANY_TEXT)
			continue;
		if (v->nulls && fth_bit(v->nulls, (unsigned)i))
			continue;
		text = rows_text(v, (unsigned)i);
		if (kept->data) {
			int c = fth_str_cmp(text, *kept);

			if (s->kind == GROUP_MIN_TEXT ? c >= 0 : c <= 0)
				continue;
		}
		if (group_keep_text(g, kept, text) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Values of 128 bits as texts of 16 bytes. Values that were numbered before need no memory. */
static int number_wide(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		       unsigned n, const uint64_t *rows, struct fth_vec *out)
{
	struct fth_vec as_text = {.type = FTH_STR, .data = g->wide->texts, .nulls = v->nulls};

	for (unsigned i = 0; i < n; i++) {
		g->wide->values[i] = fth_vec_int(v, i);
		g->wide->texts[i] = (struct fth_str){(const char *)&g->wide->values[i], 16, 0};
	}
	return group_words_number(s->words, &as_text, n, rows, out);
}

static int number_values(struct group_states *g, struct group_state *s, const struct fth_vec *v,
			 const struct group_batch *b, struct fth_vec *out)
{
	if (!s->words) {
		*out = group_as_int(s->arg, v, b->n, g->ints);
		return 0;
	}
	return is_text(s) ? group_words_number(s->words, v, b->n, b->rows, out)
			  : number_wide(g, s, v, b->n, b->rows, out);
}

static int reserve_pairs(struct group_states *g, struct group_state *s, unsigned more)
{
	return distinct_set_reserve(
		&s->pairs, s->value_bits + bits_of(g->started == 0 ? 0 : g->started - 1), more);
}

static int widen_counts(struct group_states *g, unsigned more)
{
	int rc = group_counts_widen(&g->rows, g->mem, g->started, more);

	for (unsigned i = 0; i < g->count && rc == 0; i++)
		rc = group_counts_widen(&g->states[i].seen, g->mem, g->started, more);
	return rc;
}

int group_states_prepare(struct group_states *g, struct fth_vec *const *args,
			 const struct group_batch *b)
{
	int rc = group_widen_sums(g, g->added + b->count);

	if (rc == 0)
		rc = widen_counts(g, b->count);
	for (unsigned i = 0; i < g->count && rc == 0; i++) {
		struct group_state *s = &g->states[i];
		struct fth_vec values;

		if (s->distinct) {
			rc = number_values(g, s, args[i], b, &values);
			if (rc == 0)
				rc = reserve_pairs(g, s, b->count);
		} else if (s->kind >= GROUP_MIN_TEXT) {
			rc = keep_texts(g, s, args[i], b);
		}
	}
	return rc;
}

/* ---- adding ---- */

static int sum_overflow(void)
{
	return fth_fail(ERANGE, "numeric value out of range");
}

/* Sums of runs are differences of running sums, which need no branch where a run ends. */
static void sum_runs(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		     const struct group_batch *b)
{
	const struct group_runs *runs = b->runs;
	int64_t *sums = g->sums, total = 0;
	const int64_t *x = g->ints;

	if (v->type == FTH_I64 && v->base == 0)
		x = v->data;
	else
		fth_vec_to_i64(g->ints, v, b->n);
	for (unsigned i = 0; i < b->n; i++) {
		sums[i] = total;
		total += x[i];
	}
	sums[b->n] = total;
	for (unsigned r = 0; r < runs->count; r++) {
		int64_t sum = sums[runs->starts[r + 1]] - sums[runs->starts[r]];

		if (s->wide)
			((fth_i128 *)s->values)[runs->first + r] += sum;
		else
			((int64_t *)s->values)[runs->first + r] += sum;
	}
}

static int sum_checked(struct group_state *s, const struct fth_vec *v, const struct group_batch *b)
{
	fth_i128 *sums = s->values;

	FTH_FOR_ROWS(b->rows, b->n, i)
	{
		fth_i128 *sum = &sums[b->numbers[i]];

		if (v->nulls && fth_bit(v->nulls, (unsigned)i))
			continue;
		if (__builtin_add_overflow(*sum, fth_vec_int(v, (unsigned)i), sum))
			return sum_overflow();
	}
	return 0;
}

static int add_sum(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		   const struct group_batch *b)
{
	bool in_64 = !exceeds(s->most, FTH_BATCH, (fth_u128)1 << 63);

	if (v->type == FTH_I128 && exceeds(s->most, g->added, MOST_128))
		return sum_checked(s, v, b);
	if (b->runs && !v->nulls && in_64 && v->type <= FTH_I64)
		sum_runs(g, s, v, b);
	else if (s->wide)
		fth_agg_group_sum_i128(&b->groups, v, in_64, s->values);
	else
		fth_agg_group_sum_i64(&b->groups, v, s->values);
	return 0;
}

static struct fth_vec as_int(struct group_states *g, const struct fth_vec *v, unsigned n)
{
	if (v->type != FTH_BITS)
		return *v;
	for (unsigned i = 0; i < n; i++)
		g->ints[i] = fth_bit(v->data, i);
	return (struct fth_vec){.type = FTH_I64, .data = g->ints, .nulls = v->nulls};
}

#define SCATTER(T, value)                           \
	do {                                        \
		T *values = s->values;              \
		FTH_FOR_ROWS(rows, b->n, i)         \
		values[b->numbers[i]] = (T)(value); \
	} while (0)

static void scatter_any(struct group_states *g, struct group_state *s, const struct fth_vec *v,
			const struct group_batch *b, const uint64_t *rows)
{
	const int64_t *x = g->ints;

	if (s->width == 16) {
		SCATTER(fth_i128, fth_vec_int(v, (unsigned)i));
		return;
	}
	if (v->type == FTH_F64) {
		SCATTER(double, ((const double *)v->data)[i]);
		return;
	}
	if (v->type != FTH_BITS)
		fth_vec_to_i64(g->ints, v, b->n);
	else
		as_int(g, v, b->n);
	if (s->width == 1)
		SCATTER(int8_t, x[i]);
	else if (s->width == 2)
		SCATTER(int16_t, x[i]);
	else if (s->width == 4)
		SCATTER(int32_t, x[i]);
	else
		SCATTER(int64_t, x[i]);
}

static void add_any(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		    const struct group_batch *b)
{
	uint64_t live[FTH_BATCH_WORDS];

	for (unsigned w = 0; w < fth_bits_words(b->n); w++)
		live[w] = b->rows[w] & ~(v->nulls ? v->nulls[w] : 0);
	scatter_any(g, s, v, b, live);
}

static void add_extreme(struct group_states *g, struct group_state *s, const struct fth_vec *v,
			const struct group_batch *b)
{
	struct fth_vec x = as_int(g, v, b->n);
	bool min = s->kind == GROUP_MIN;

	if (s->wide && min)
		fth_agg_group_min_i128(&b->groups, &x, s->values);
	else if (s->wide)
		fth_agg_group_max_i128(&b->groups, &x, s->values);
	else if (min)
		fth_agg_group_min_i64(&b->groups, &x, s->values);
	else
		fth_agg_group_max_i64(&b->groups, &x, s->values);
}

static int add_values(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		      const struct group_batch *b)
{
	if (s->seen.counts)
		group_counts_add(&s->seen, b, v);
	switch (s->kind) {
	case GROUP_SUM:
		return add_sum(g, s, v, b);
	case GROUP_MIN:
	case GROUP_MAX:
		add_extreme(g, s, v, b);
		break;
	case GROUP_ANY:
		add_any(g, s, v, b);
		break;
	case GROUP_SUM_REAL:
		fth_agg_group_sum_f64(&b->groups, v, s->values);
		break;
	case GROUP_MIN_REAL:
		fth_agg_group_min_f64(&b->groups, v, s->values);
		break;
	case GROUP_MAX_REAL:
		fth_agg_group_max_f64(&b->groups, v, s->values);
		break;
	default:
		break;
	}
	return 0;
}

/* Groups and values of rows as numbers. */
static int make_pairs(struct group_states *g, const struct group_state *s, const struct fth_vec *v,
		      const struct group_batch *b, const uint64_t *rows)
{
	uint64_t outside = 0;

	FTH_FOR_ROWS(rows, b->n, i)
	{
		fth_u128 value = (fth_u128)(fth_vec_int(v, (unsigned)i) - s->value_min);

		outside |= s->value_bits < 64 ? (uint64_t)(value >> s->value_bits)
					      : (uint64_t)(value >> 64);
		g->pairs[i] = (fth_u128)b->numbers[i] << s->value_bits | value;
	}
	return outside == 0 ? 0
			    : fth_fail(ERANGE, "a value of a DISTINCT aggregate is outside the "
					       "range in the table statistics");
}

/* Rows whose value comes to its group for the first time. There is room for their pairs. */
static int first_times(struct group_states *g, struct group_state *s, const struct fth_vec *v,
		       const struct group_batch *b)
{
	struct fth_vec values;
	int rc = number_values(g, s, v, b, &values);

	for (unsigned w = 0; w < fth_bits_words(b->n); w++)
		g->fresh[w] = b->rows[w] & ~(v->nulls ? v->nulls[w] : 0);
	if (rc == 0)
		rc = make_pairs(g, s, &values, b, g->fresh);
	if (rc == 0)
		distinct_set_add(&s->pairs, g->pairs, b->n, g->fresh, g->fresh);
	return rc;
}

static int add_distinct(struct group_states *g, struct group_state *s, const struct fth_vec *v,
			const struct group_batch *b)
{
	struct group_batch fresh = {.n = b->n, .rows = g->fresh, .numbers = b->numbers};
	int rc = first_times(g, s, v, b);

	if (rc < 0)
		return rc;
	fth_agg_groups(&fresh.groups, b->n, g->fresh, b->numbers, g->started);
	return add_values(g, s, v, &fresh);
}

int group_states_add(struct group_states *g, struct fth_vec *const *args,
		     const struct group_batch *b)
{
	int rc = 0;

	g->added += b->count;
	if (g->rows.counts)
		group_counts_add(&g->rows, b, NULL);
	for (unsigned i = 0; i < g->count && rc == 0; i++)
		rc = g->states[i].distinct ? add_distinct(g, &g->states[i], args[i], b)
					   : add_values(g, &g->states[i], args[i], b);
	return rc;
}

/* ---- reading ---- */

static const void *view_values(struct group_state *s, uint32_t first, unsigned n,
			       const uint16_t *list)
{
	const char *values = (const char *)s->values + (size_t)first * s->width;

	if (!s->values || !list)
		return s->values ? values : NULL;
	fth_kern()->gather[__builtin_ctz(s->width)](s->values_out, values, list, n);
	return s->values_out;
}

void group_states_view(struct group_states *g, uint32_t first, unsigned n, const uint16_t *list,
		       struct group_partial *out)
{
	out->n = n;
	out->rows = g->rows.counts ? g->rows_out : NULL;
	if (out->rows)
		group_counts_get(&g->rows, first, n, list, g->rows_out);
	for (unsigned i = 0; i < g->count; i++) {
		struct group_state *s = &g->states[i];

		out->states[i].values = view_values(s, first, n, list);
		out->states[i].wide = s->wide;
		out->states[i].seen = s->seen.counts ? s->seen_out : NULL;
		if (s->seen.counts)
			group_counts_get(&s->seen, first, n, list, s->seen_out);
	}
}

/* ---- pairs of groups and distinct values ---- */

int group_states_merge_values(struct group_states *g, unsigned i, const struct fth_vec *values,
			      unsigned n, const uint32_t *numbers)
{
	uint64_t rows[FTH_BATCH_WORDS];
	struct group_batch b = {.n = n, .count = n, .rows = rows, .numbers = numbers};
	struct group_state *s = &g->states[i];
	struct fth_vec ints;
	int rc;

	fth_bits_fill(rows, n);
	/* `added` stands for all rows of the values that may come. */
	rc = group_widen_sums(g, g->added + n);
	if (rc == 0)
		rc = number_values(g, s, values, &b, &ints);
	if (rc == 0)
		rc = reserve_pairs(g, s, n);
	if (rc == 0)
		rc = group_counts_widen(&s->seen, g->mem, g->started, n);
	return rc < 0 ? rc : add_distinct(g, s, values, &b);
}

static void put_value(struct group_state *s, enum fth_phys type, unsigned k, fth_i128 x)
{
	if (type == FTH_STR)
		((struct fth_str *)s->out)[k] = group_table_bytes(&s->words->texts, (uint32_t)x);
	else if (s->words)
		memcpy((fth_i128 *)s->out + k,
		       group_table_bytes(&s->words->texts, (uint32_t)x).data, 16);
	else if (type == FTH_F64)
		((double *)s->out)[k] = fth_table_double_of_key((int64_t)x);
	else if (type == FTH_BITS)
		((uint64_t *)s->out)[k / 64] |= (uint64_t)(x != 0) << k % 64;
	else
		((int64_t *)s->out)[k] = (int64_t)x;
}

unsigned group_states_values(struct group_states *g, unsigned i, uint64_t *at,
			     struct fth_vec *values, uint32_t *groups)
{
	struct group_state *s = &g->states[i];
	enum fth_phys type = rows_phys(s->arg);
	unsigned n = distinct_set_next(&s->pairs, at, g->pairs, FTH_BATCH);

	*values = (struct fth_vec){.type = type, .data = s->out};
	if (type == FTH_BITS)
		memset(s->out, 0, FTH_BATCH / 8);
	for (unsigned k = 0; k < n; k++) {
		fth_u128 value = g->pairs[k] & (((fth_u128)1 << s->value_bits) - 1);

		groups[k] = (uint32_t)(g->pairs[k] >> s->value_bits);
		put_value(s, type, k, (fth_i128)value + s->value_min);
	}
	if (type < FTH_I64 || (type == FTH_I128 && !s->words))
		values->type = FTH_I64;
	return n;
}
