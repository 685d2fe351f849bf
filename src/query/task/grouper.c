/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants:
 *  - State arrays have room for the groups of the table (`room`); the first `count` are in use.
 *  - `seen[g]` counts values that are not null; min, max and any are valid where it is not 0.
 *  - Text in states is copied into the arena.
 */
#include "query/task/grouper.h"
#include "query/task/rows.h"

#include "fathom/base/error.h"
#include "query/set/group.h"
#include "query/vec/num.h"

#include <errno.h>

#define TEXT_CHUNK (16u << 10)

struct state {
	uint64_t *seen;
	fth_i128 *ints; /* or */
	double *reals;	/* or */
	struct fth_str *texts;
	struct fth_groups values; /* distinct: (group, value) pairs that have come */
	struct fth_key value_key;
	void *out; /* values of a batch of results, 16 bytes each */
	uint64_t out_nulls[FTH_BATCH_WORDS];
};

struct grouper {
	struct fth_qmem *mem;
	const struct grouper_spec *spec;
	struct fth_key key;
	struct fth_groups groups;
	uint32_t room;
	struct state *states;
	struct fth_arena text, encoded;
	/* of a batch */
	uint32_t numbers[FTH_BATCH];
	uint64_t left[FTH_BATCH_WORDS];
	fth_u128 keys[FTH_BATCH]; /* or uint64_t or struct fth_str: all fit */
	struct fth_vec *vecs;	  /* of keys */
	int64_t *orders;	  /* of doubles among the keys */
	void **key_out;		  /* values of a batch of keys */
	uint64_t (*key_nulls)[FTH_BATCH_WORDS];
};

/* ---- opening ---- */

static struct fth_key_column key_column(const struct task_slot *s)
{
	struct fth_key_column c = {.text = fth_type_is_text(s->type), .nullable = s->nullable};

	if (c.text)
		return c;
	if (s->type.kind == FTH_T_BOOL) {
		c.max = 1;
	} else if (s->type.kind == FTH_T_DOUBLE) {
		c.min = INT64_MIN;
		c.max = INT64_MAX;
	} else if (s->lo <= s->hi) {
		c.min = s->lo;
		c.max = s->hi;
	} else {
		fth_type_range(s->type, &c.min, &c.max);
	}
	return c;
}

static int init_keys(struct grouper *g)
{
	struct fth_key_column columns[FTH_KEY_COLUMNS];
	unsigned n = g->spec->key_count;

	if (n > FTH_KEY_COLUMNS)
		return fth_fail(EOPNOTSUPP, "more than %d columns in GROUP BY are not supported",
				FTH_KEY_COLUMNS);
	for (unsigned i = 0; i < n; i++)
		columns[i] = key_column(&g->spec->keys[i]);
	return fth_key_init(&g->key, columns, n);
}

static int init_distinct(struct grouper *g, unsigned i)
{
	const struct task_aggregate *a = &g->spec->aggregates[i];
	struct fth_key_column columns[2] = {{.max = UINT32_MAX}};
	int rc;

	if (!a->distinct)
		return 0;
	columns[1] = key_column(&g->spec->slots[a->slot]);
	columns[1].nullable = false;
	rc = fth_key_init(&g->states[i].value_key, columns, 2);
	return rc < 0 ? rc : fth_groups_init(&g->states[i].values, g->mem, &g->states[i].value_key);
}

static void *alloc_array(struct grouper *g, size_t count, size_t size)
{
	return fth_qmem_zalloc(g->mem, (count + 1) * size);
}

static int alloc_buffers(struct grouper *g)
{
	unsigned n = g->spec->key_count;

	g->states = alloc_array(g, g->spec->aggregate_count, sizeof(*g->states));
	g->vecs = alloc_array(g, n, sizeof(*g->vecs));
	g->orders = alloc_array(g, (size_t)n * FTH_BATCH, sizeof(*g->orders));
	g->key_out = alloc_array(g, n, sizeof(*g->key_out));
	g->key_nulls = alloc_array(g, n, sizeof(*g->key_nulls));
	if (g->states == NULL || g->vecs == NULL || g->orders == NULL || g->key_out == NULL ||
	    g->key_nulls == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		g->key_out[i] = fth_qmem_alloc(g->mem, FTH_BATCH * 16);
		if (g->key_out[i] == NULL)
			return -ENOMEM;
	}
	for (unsigned i = 0; i < g->spec->aggregate_count; i++) {
		g->states[i].out = fth_qmem_alloc(g->mem, FTH_BATCH * 16);
		if (g->states[i].out == NULL)
			return -ENOMEM;
	}
	return 0;
}

int grouper_open(struct fth_qmem *mem, const struct grouper_spec *spec, struct grouper **out)
{
	struct grouper *g = fth_qmem_zalloc(mem, sizeof(*g));
	int rc;

	*out = NULL;
	if (g == NULL)
		return -ENOMEM;
	g->mem = mem;
	g->spec = spec;
	fth_arena_init(&g->text, mem, TEXT_CHUNK);
	fth_arena_init(&g->encoded, mem, TEXT_CHUNK);
	rc = alloc_buffers(g);
	if (rc == 0)
		rc = init_keys(g);
	if (rc == 0)
		rc = fth_groups_init(&g->groups, mem, &g->key);
	for (unsigned i = 0; i < spec->aggregate_count && rc == 0; i++)
		rc = init_distinct(g, i);
	if (rc < 0) {
		grouper_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

static void free_state(struct grouper *g, struct state *s)
{
	fth_qmem_free(g->mem, s->seen, g->room * sizeof(*s->seen));
	fth_qmem_free(g->mem, s->ints, g->room * sizeof(*s->ints));
	fth_qmem_free(g->mem, s->reals, g->room * sizeof(*s->reals));
	fth_qmem_free(g->mem, s->texts, g->room * sizeof(*s->texts));
	fth_qmem_free(g->mem, s->out, FTH_BATCH * 16);
	fth_groups_release(&s->values);
}

void grouper_close(struct grouper *g)
{
	unsigned n;

	if (g == NULL)
		return;
	n = g->spec->key_count;
	for (unsigned i = 0; i < g->spec->aggregate_count && g->states != NULL; i++)
		free_state(g, &g->states[i]);
	for (unsigned i = 0; i < n && g->key_out != NULL; i++)
		fth_qmem_free(g->mem, g->key_out[i], FTH_BATCH * 16);
	fth_qmem_free(g->mem, g->states, (g->spec->aggregate_count + 1) * sizeof(*g->states));
	fth_qmem_free(g->mem, g->vecs, (n + 1) * sizeof(*g->vecs));
	fth_qmem_free(g->mem, g->orders, ((size_t)n * FTH_BATCH + 1) * sizeof(*g->orders));
	fth_qmem_free(g->mem, g->key_out, (n + 1) * sizeof(*g->key_out));
	fth_qmem_free(g->mem, g->key_nulls, (n + 1) * sizeof(*g->key_nulls));
	fth_groups_release(&g->groups);
	fth_arena_release(&g->text);
	fth_arena_release(&g->encoded);
	fth_qmem_free(g->mem, g, sizeof(*g));
}

void grouper_reset(struct grouper *g)
{
	fth_groups_release(&g->groups);
	fth_groups_init(&g->groups, g->mem, &g->key);
	fth_arena_reset(&g->text);
	for (unsigned i = 0; i < g->spec->aggregate_count; i++) {
		struct state *s = &g->states[i];

		if (s->seen != NULL)
			memset(s->seen, 0, g->room * sizeof(*s->seen));
		if (s->ints != NULL)
			memset(s->ints, 0, g->room * sizeof(*s->ints));
		if (s->reals != NULL)
			memset(s->reals, 0, g->room * sizeof(*s->reals));
	}
}

uint32_t grouper_count(const struct grouper *g)
{
	return g->groups.count;
}

/* ---- group numbers ---- */

/* A char without its blanks, a double by its order, a bool as a byte: as the key wants them. */
static struct fth_vec as_key(const struct task_slot *slot, const struct fth_vec *v, unsigned n,
			     int64_t *room)
{
	struct fth_vec key = *v;

	if (slot->type.kind == FTH_T_DOUBLE)
		for (unsigned i = 0; i < n; i++)
			room[i] = fth_f64_order(((const double *)v->data)[i]);
	else if (slot->type.kind == FTH_T_BOOL)
		for (unsigned i = 0; i < n; i++)
			room[i] = fth_bit(v->data, i);
	else
		return key;
	key.type = FTH_I64;
	key.data = room;
	return key;
}

static int number_rows(struct grouper *g, struct fth_vec *const *keys, const struct fth_sel *sel)
{
	int rc;

	for (unsigned i = 0; i < g->spec->key_count; i++)
		g->vecs[i] = as_key(&g->spec->keys[i], keys[i], sel->n,
				    g->orders + (size_t)i * FTH_BATCH);
	if (g->key.form == FTH_KEY_64) {
		rc = fth_key_pack64(&g->key, g->vecs, sel->n, sel->bits, (uint64_t *)g->keys);
	} else if (g->key.form == FTH_KEY_128) {
		rc = fth_key_pack128(&g->key, g->vecs, sel->n, sel->bits, g->keys);
	} else {
		fth_arena_reset(&g->encoded);
		rc = fth_key_encode(&g->key, g->vecs, sel->n, sel->bits, &g->encoded,
				    (struct fth_str *)g->keys);
	}
	return rc < 0 ? rc
		      : fth_groups_find(&g->groups, g->keys, sel->n, sel->bits, g->numbers,
					g->left);
}

/* ---- states ---- */

enum state_kind { STATE_NONE, STATE_INT, STATE_REAL, STATE_TEXT };

static enum state_kind kind_of(const struct grouper *g, const struct task_aggregate *a)
{
	struct fth_type type;

	if (a->op == TASK_COUNT || a->op == TASK_COUNT_ROWS)
		return STATE_NONE;
	type = g->spec->slots[a->slot].type;
	if (type.kind == FTH_T_DOUBLE)
		return STATE_REAL;
	return fth_type_is_text(type) ? STATE_TEXT : STATE_INT;
}

static int grow_array(struct grouper *g, void **array, size_t size, uint32_t room)
{
	char *larger = fth_qmem_realloc(g->mem, *array, g->room * size, room * size);

	if (larger == NULL)
		return -ENOMEM;
	memset(larger + g->room * size, 0, (room - g->room) * size);
	*array = larger;
	return 0;
}

static int grow_state(struct grouper *g, unsigned i, uint32_t room)
{
	struct state *s = &g->states[i];
	enum state_kind kind = kind_of(g, &g->spec->aggregates[i]);
	int rc = grow_array(g, (void **)&s->seen, sizeof(*s->seen), room);

	if (rc == 0 && kind == STATE_INT)
		rc = grow_array(g, (void **)&s->ints, sizeof(*s->ints), room);
	if (rc == 0 && kind == STATE_REAL)
		rc = grow_array(g, (void **)&s->reals, sizeof(*s->reals), room);
	if (rc == 0 && kind == STATE_TEXT)
		rc = grow_array(g, (void **)&s->texts, sizeof(*s->texts), room);
	return rc;
}

static int grow_states(struct grouper *g)
{
	uint32_t room = g->room == 0 ? 64 : g->room;

	while (room < g->groups.count)
		room *= 2;
	if (room == g->room)
		return 0;
	for (unsigned i = 0; i < g->spec->aggregate_count; i++)
		if (grow_state(g, i, room) < 0)
			return -ENOMEM;
	g->room = room;
	return 0;
}

static int keep_text(struct grouper *g, struct fth_str *to, struct fth_str s)
{
	char *copy = fth_arena_alloc(&g->text, s.len + 1, 1);

	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	*to = (struct fth_str){copy, s.len, 0};
	return 0;
}

static int compare_text(struct fth_str a, struct fth_str b)
{
	int c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return c != 0 ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int sum_overflow(void)
{
	return fth_fail(ERANGE, "numeric value out of range");
}

/* One value of a row into the state of its group. */
static int add_int(const struct task_aggregate *a, struct state *s, uint32_t g, fth_i128 x)
{
	switch (a->op) {
	case TASK_SUM:
	case TASK_AVG:
		if (__builtin_add_overflow(s->ints[g], x, &s->ints[g]))
			return sum_overflow();
		break;
	case TASK_MIN:
		if (s->seen[g] == 0 || x < s->ints[g])
			s->ints[g] = x;
		break;
	case TASK_MAX:
		if (s->seen[g] == 0 || x > s->ints[g])
			s->ints[g] = x;
		break;
	default:
		s->ints[g] = x;
	}
	return 0;
}

static void add_real(const struct task_aggregate *a, struct state *s, uint32_t g, double x)
{
	bool first = s->seen[g] == 0;

	if (a->op == TASK_SUM || a->op == TASK_AVG)
		s->reals[g] += x;
	else if (first || a->op == TASK_ANY ||
		 (a->op == TASK_MIN ? fth_f64_order(x) < fth_f64_order(s->reals[g])
				    : fth_f64_order(x) > fth_f64_order(s->reals[g])))
		s->reals[g] = x;
}

static int add_text(struct grouper *g, const struct task_aggregate *a, struct state *s,
		    uint32_t group, struct fth_str x)
{
	int c;

	if (s->seen[group] == 0)
		return keep_text(g, &s->texts[group], x);
	if (a->op == TASK_ANY)
		return 0;
	c = compare_text(x, s->texts[group]);
	if (a->op == TASK_MIN ? c < 0 : c > 0)
		return keep_text(g, &s->texts[group], x);
	return 0;
}

static int add_value(struct grouper *g, unsigned i, const struct fth_vec *v, unsigned row)
{
	const struct task_aggregate *a = &g->spec->aggregates[i];
	struct state *s = &g->states[i];
	uint32_t group = g->numbers[row];
	int rc = 0;

	switch (kind_of(g, a)) {
	case STATE_INT:
		rc = add_int(a, s, group,
			     v->type == FTH_BITS ? (fth_i128)fth_bit(v->data, row)
						 : fth_vec_int(v, row));
		break;
	case STATE_REAL:
		add_real(a, s, group, ((const double *)v->data)[row]);
		break;
	case STATE_TEXT:
		rc = add_text(g, a, s, group, rows_text(v, row));
		break;
	case STATE_NONE:
		break;
	}
	s->seen[group]++;
	return rc;
}

/* Keep in rows[] only rows whose value comes to its group for the first time. */
static int first_times(struct grouper *g, unsigned i, const struct fth_vec *v, unsigned n,
		       uint64_t *rows)
{
	struct state *s = &g->states[i];
	struct fth_vec vecs[2] = {{.type = FTH_I64}, {0}};
	int64_t *group = fth_qmem_alloc(g->mem, 2 * FTH_BATCH * sizeof(*group));
	uint32_t *numbers = fth_qmem_alloc(g->mem, FTH_BATCH * sizeof(*numbers));
	uint64_t left[FTH_BATCH_WORDS];
	fth_u128 *keys = fth_qmem_alloc(g->mem, FTH_BATCH * sizeof(*keys));
	uint32_t next = s->values.count;
	int rc = -ENOMEM;

	if (group != NULL && numbers != NULL && keys != NULL) {
		for (unsigned r = 0; r < n; r++)
			group[r] = fth_bit(rows, r) ? g->numbers[r] : 0;
		vecs[0].data = group;
		vecs[1] = as_key(&g->spec->slots[g->spec->aggregates[i].slot], v, n,
				 group + FTH_BATCH);
		vecs[1].nulls = NULL;
		if (s->value_key.form == FTH_KEY_64)
			rc = fth_key_pack64(&s->value_key, vecs, n, rows, (uint64_t *)keys);
		else if (s->value_key.form == FTH_KEY_128)
			rc = fth_key_pack128(&s->value_key, vecs, n, rows, keys);
		else {
			fth_arena_reset(&g->encoded);
			rc = fth_key_encode(&s->value_key, vecs, n, rows, &g->encoded,
					    (struct fth_str *)keys);
		}
		if (rc == 0)
			rc = fth_groups_find(&s->values, keys, n, rows, numbers, left);
	}
	for (unsigned r = 0; r < n && rc == 0; r++) {
		if (!fth_bit(rows, r))
			continue;
		if (numbers[r] == next)
			next++;
		else
			rows[r / 64] &= ~((uint64_t)1 << r % 64);
	}
	fth_qmem_free(g->mem, group, 2 * FTH_BATCH * sizeof(*group));
	fth_qmem_free(g->mem, numbers, FTH_BATCH * sizeof(*numbers));
	fth_qmem_free(g->mem, keys, FTH_BATCH * sizeof(*keys));
	return rc;
}

static int add_column(struct grouper *g, unsigned i, const struct fth_vec *v,
		      const struct fth_sel *sel)
{
	uint64_t rows[FTH_BATCH_WORDS];
	int rc = 0;

	memcpy(rows, sel->bits, fth_bits_words(sel->n) * sizeof(*rows));
	for (unsigned w = 0; w < fth_bits_words(sel->n) && v != NULL && v->nulls != NULL; w++)
		rows[w] &= ~v->nulls[w];
	if (g->spec->aggregates[i].distinct)
		rc = first_times(g, i, v, sel->n, rows);
	for (unsigned r = 0; r < sel->n && rc == 0; r++) {
		if (!fth_bit(rows, r))
			continue;
		if (v == NULL)
			g->states[i].seen[g->numbers[r]]++;
		else
			rc = add_value(g, i, v, r);
	}
	return rc;
}

int grouper_add(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		const struct fth_sel *sel)
{
	int rc = sel->count == 0 ? 0 : number_rows(g, keys, sel);

	if (rc == 0)
		rc = grow_states(g);
	for (unsigned i = 0; i < g->spec->aggregate_count && rc == 0 && sel->count > 0; i++)
		rc = add_column(g, i, args[i], sel);
	return rc;
}

int grouper_one(struct grouper *g)
{
	uint64_t one = 1;
	fth_u128 key = 0;
	int rc;

	if (g->groups.count > 0)
		return 0;
	rc = fth_groups_find(&g->groups, &key, 1, &one, g->numbers, g->left);
	return rc < 0 ? rc : grow_states(g);
}

/* ---- merging ---- */

static int merge_state(struct grouper *g, unsigned i, const struct state *from, uint32_t group,
		       uint32_t to)
{
	const struct task_aggregate *a = &g->spec->aggregates[i];
	struct state *s = &g->states[i];
	int rc = 0;

	if (from->seen[group] == 0)
		return 0;
	switch (kind_of(g, a)) {
	case STATE_INT:
		rc = add_int(a, s, to, from->ints[group]);
		break;
	case STATE_REAL:
		add_real(a, s, to, from->reals[group]);
		break;
	case STATE_TEXT:
		rc = add_text(g, a, s, to, from->texts[group]);
		break;
	case STATE_NONE:
		break;
	}
	s->seen[to] += from->seen[group];
	return rc;
}

int grouper_merge(struct grouper *g, const struct grouper *other)
{
	uint32_t n = other->groups.count;
	uint32_t *numbers = fth_qmem_alloc(g->mem, ((size_t)n + 1) * sizeof(*numbers));
	int rc = numbers == NULL ? -ENOMEM : fth_groups_merge(&g->groups, &other->groups, numbers);

	if (rc == 0)
		rc = grow_states(g);
	for (unsigned i = 0; i < g->spec->aggregate_count && rc == 0; i++)
		for (uint32_t k = 0; k < n && rc == 0; k++)
			rc = merge_state(g, i, &other->states[i], k, numbers[k]);
	fth_qmem_free(g->mem, numbers, ((size_t)n + 1) * sizeof(*numbers));
	return rc;
}

/* ---- results ---- */

static int put_value(const struct task_slot *slot, enum fth_phys type, void *out, unsigned at,
		     fth_i128 x)
{
	fth_i128 lo, hi;

	fth_type_range(slot->type, &lo, &hi);
	if (x < lo || x > hi)
		return sum_overflow();
	switch (type) {
	case FTH_I8:
		((int8_t *)out)[at] = (int8_t)x;
		break;
	case FTH_I16:
		((int16_t *)out)[at] = (int16_t)x;
		break;
	case FTH_I32:
		((int32_t *)out)[at] = (int32_t)x;
		break;
	case FTH_I64:
		((int64_t *)out)[at] = (int64_t)x;
		break;
	case FTH_BITS:
		if (x != 0)
			fth_bit_set(out, at);
		break;
	default:
		((fth_i128 *)out)[at] = x;
	}
	return 0;
}

static int average(struct grouper *g, const struct task_aggregate *a, fth_i128 sum, uint64_t n,
		   fth_i128 *out)
{
	struct fth_type type = g->spec->slots[a->slot].type;
	unsigned scale = type.kind == FTH_T_DECIMAL ? type.scale : 0;
	int rc = fth_dec_div(sum, scale, (fth_i128)n, 0, a->result.type.scale, out);

	return rc == -ERANGE ? sum_overflow() : rc;
}

static int result_at(struct grouper *g, unsigned i, enum fth_phys type, uint32_t group, unsigned at)
{
	const struct task_aggregate *a = &g->spec->aggregates[i];
	struct state *s = &g->states[i];
	fth_i128 x;
	int rc;

	if (a->op == TASK_COUNT || a->op == TASK_COUNT_ROWS)
		return put_value(&a->result, type, s->out, at, s->seen[group]);
	if (s->seen[group] == 0) {
		fth_bit_set(s->out_nulls, at);
		if (type == FTH_STR)
			((struct fth_str *)s->out)[at] = (struct fth_str){"", 0, 0};
		return 0;
	}
	switch (kind_of(g, a)) {
	case STATE_REAL:
		((double *)s->out)[at] = a->op == TASK_AVG
						 ? s->reals[group] / (double)s->seen[group]
						 : s->reals[group];
		return 0;
	case STATE_TEXT:
		((struct fth_str *)s->out)[at] = s->texts[group];
		return 0;
	default:
		x = s->ints[group];
		rc = a->op == TASK_AVG ? average(g, a, x, s->seen[group], &x) : 0;
		return rc < 0 ? rc : put_value(&a->result, type, s->out, at, x);
	}
}

static void key_at(struct grouper *g, unsigned k, enum fth_phys type, uint32_t group, unsigned at)
{
	struct fth_str text = {"", 0, 0};
	fth_i128 x = 0;
	bool valid;

	if (g->key.form == FTH_KEY_BYTES)
		valid = fth_key_decode(&g->key, fth_groups_bytes(&g->groups, group), k, &x, &text);
	else
		valid = fth_key_int(&g->key, fth_groups_key(&g->groups, group), k, &x);
	if (!valid) {
		fth_bit_set(g->key_nulls[k], at);
		x = 0;
		text = (struct fth_str){"", 0, 0};
	}
	if (type == FTH_STR)
		((struct fth_str *)g->key_out[k])[at] = text;
	else if (type == FTH_F64)
		((double *)g->key_out[k])[at] = fth_table_double_of_key((int64_t)x);
	else if (type == FTH_BITS) {
		if (x != 0)
			fth_bit_set(g->key_out[k], at);
	} else
		put_value(&g->spec->keys[k], type, g->key_out[k], at, x);
}

int grouper_batch(struct grouper *g, uint32_t first, struct fth_vec *columns)
{
	unsigned n = g->groups.count - first < FTH_BATCH ? g->groups.count - first : FTH_BATCH;
	unsigned keys = g->spec->key_count;
	int rc = 0;

	for (unsigned k = 0; k < keys; k++) {
		enum fth_phys type = rows_phys(&g->spec->keys[k]);

		memset(g->key_nulls[k], 0, sizeof(g->key_nulls[k]));
		if (type == FTH_BITS)
			memset(g->key_out[k], 0, FTH_BATCH / 8);
		for (unsigned i = 0; i < n; i++)
			key_at(g, k, type, first + i, i);
		columns[k] = (struct fth_vec){
			.type = type, .data = g->key_out[k], .nulls = g->key_nulls[k]};
	}
	for (unsigned a = 0; a < g->spec->aggregate_count && rc == 0; a++) {
		struct state *s = &g->states[a];
		enum fth_phys type = rows_phys(&g->spec->aggregates[a].result);

		memset(s->out_nulls, 0, sizeof(s->out_nulls));
		if (type == FTH_BITS)
			memset(s->out, 0, FTH_BATCH / 8);
		for (unsigned i = 0; i < n && rc == 0; i++)
			rc = result_at(g, a, type, first + i, i);
		columns[keys + a] =
			(struct fth_vec){.type = type, .data = s->out, .nulls = s->out_nulls};
	}
	return rc < 0 ? rc : (int)n;
}
