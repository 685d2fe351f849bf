/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of groups. The columns of a key are integers here, texts by their numbers, so that most keys
 * are packed into 64 bits. Numbers of texts have few bits at first; when there are more texts than
 * those can tell apart, the keys of all groups are packed anew.
 *
 * Keys that come in order need no table: a group ends where the key changes. With the first row
 * that is out of order the groups so far are entered into the table, which is used from then on.
 */
#include "query/group/group_internal.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"
#include "scalar/num.h"

#include <errno.h>

#define WORD_BITS   4u
#define DOMAIN_BITS 28u /* of keys of an array, at most */

struct composite_key_column group_key_column(const struct task_slot *s)
{
	struct composite_key_column c = {.text = fth_type_is_text(s->type),
					 .nullable = s->nullable};

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

struct fth_vec group_as_int(const struct task_slot *slot, const struct fth_vec *v, unsigned n,
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
	key.base = 0;
	key.data = room;
	return key;
}

/* ---- opening ---- */

static int layout_key(const struct group_key *k, struct composite_key *key)
{
	struct composite_key_column columns[FTH_KEY_COLUMNS];

	for (unsigned i = 0; i < k->count; i++) {
		columns[i] = group_key_column(&k->slots[i]);
		if (!k->words[i])
			continue;
		columns[i].text = false;
		columns[i].max = ((int64_t)1 << k->bits[i]) - 1;
	}
	return composite_key_init(key, columns, k->count);
}

static int init_words(struct group_key *k, unsigned column)
{
	struct group_words *w = fth_qmem_zalloc(k->mem, sizeof(*w));
	int rc = w ? group_words_init(w, k->mem) : -ENOMEM;

	k->bits[column] = WORD_BITS;
	if (rc < 0) {
		fth_qmem_free(k->mem, w, sizeof(*w));
		return rc;
	}
	k->words[column] = w;
	return 0;
}

static void *alloc_array(struct group_key *k, size_t count, size_t size)
{
	return fth_qmem_zalloc(k->mem, (count + 1) * size);
}

static size_t out_bytes(const struct task_slot *s)
{
	enum fth_phys type = rows_phys(s);

	return type == FTH_BITS ? FTH_BATCH / 8 : (size_t)FTH_BATCH * fth_phys_width(type);
}

static size_t key_bytes(const struct composite_key *key)
{
	return FTH_BATCH * (key->form == FTH_KEY_64 ? sizeof(uint64_t) : sizeof(fth_u128));
}

static bool is_converted(const struct task_slot *s)
{
	return s->type.kind == FTH_T_DOUBLE || s->type.kind == FTH_T_BOOL;
}

static int alloc_key(struct group_key *k)
{
	k->words = alloc_array(k, k->count, sizeof(struct group_words *));
	k->bits = alloc_array(k, k->count, sizeof(*k->bits));
	k->vecs = alloc_array(k, k->count, sizeof(*k->vecs));
	k->ints = alloc_array(k, k->count, sizeof(int64_t *));
	k->out = alloc_array(k, k->count, sizeof(void *));
	k->nulls = alloc_array(k, k->count, sizeof(*k->nulls));
	if (!k->words || !k->bits || !k->vecs || !k->ints || !k->out || !k->nulls)
		return -ENOMEM;
	for (unsigned i = 0; i < k->count; i++) {
		if (!is_converted(&k->slots[i]))
			continue;
		k->ints[i] = fth_qmem_alloc(k->mem, FTH_BATCH * sizeof(int64_t));
		if (!k->ints[i])
			return -ENOMEM;
	}
	return 0;
}

/* Room for a batch of keys of this form. */
static int grow_keys(struct group_key *k, const struct composite_key *key)
{
	void *larger;

	if (key_bytes(key) <= k->key_bytes)
		return 0;
	larger = fth_qmem_alloc(k->mem, key_bytes(key));
	if (!larger)
		return -ENOMEM;
	fth_qmem_free(k->mem, k->keys, k->key_bytes);
	k->keys = larger;
	k->key_bytes = key_bytes(key);
	return 0;
}

/* Keys are below it. 0: too large, or texts, which get new numbers while rows come. */
static uint32_t domain_of(const struct group_key *k)
{
	const struct composite_key_column *c = &k->key.columns[0];

	if (k->count == 0 || k->key.form != FTH_KEY_64 || k->key.bits > DOMAIN_BITS)
		return 0;
	for (unsigned i = 0; i < k->count; i++)
		if (k->words[i])
			return 0;
	return k->count == 1 ? (uint32_t)(c->max - c->min) + 1 + c->nullable
			     : (uint32_t)1 << k->key.bits;
}

int group_key_init(struct group_key *k, struct fth_qmem *mem, const struct task_slot *slots,
		   unsigned count, bool runs)
{
	int rc;

	*k = (struct group_key){.mem = mem, .count = count, .slots = slots};
	fth_arena_init(&k->encoded, mem, 16u << 10);
	if (count > FTH_KEY_COLUMNS)
		return fth_fail(EOPNOTSUPP, "GROUP BY with more than %d columns is not supported",
				FTH_KEY_COLUMNS);
	rc = alloc_key(k);
	for (unsigned i = 0; i < count && rc == 0; i++)
		if (fth_type_is_text(slots[i].type))
			rc = init_words(k, i);
	if (rc == 0)
		rc = layout_key(k, &k->key);
	if (rc == 0)
		rc = grow_keys(k, &k->key);
	if (rc == 0)
		rc = runs ? group_table_init_hashed(&k->groups, mem, &k->key)
			  : group_table_init(&k->groups, mem, &k->key);
	if (rc < 0)
		return rc;
	k->ordered = runs && count == 1 && !k->words[0] && k->key.form == FTH_KEY_64;
	k->whole = runs ? 0 : domain_of(k);
	k->domain = k->whole;
	return 0;
}

uint32_t group_key_count(const struct group_key *k)
{
	return k->array ? k->domain : k->groups.count;
}

int group_key_open_out(struct group_key *k, struct fth_qmem *mem)
{
	k->out_mem = mem;
	for (unsigned i = 0; i < k->count; i++) {
		if (!k->out[i])
			k->out[i] = fth_qmem_alloc(mem, out_bytes(&k->slots[i]));
		if (!k->out[i])
			return -ENOMEM;
	}
	return 0;
}

void group_key_release(struct group_key *k)
{
	for (unsigned i = 0; i < k->count && k->out; i++)
		fth_qmem_free(k->out_mem, k->out[i], out_bytes(&k->slots[i]));
	for (unsigned i = 0; i < k->count && k->ints; i++)
		fth_qmem_free(k->mem, k->ints[i], FTH_BATCH * sizeof(int64_t));
	for (unsigned i = 0; i < k->count && k->words; i++)
		if (k->words[i]) {
			group_words_release(k->words[i]);
			fth_qmem_free(k->mem, k->words[i], sizeof(struct group_words));
		}
	fth_qmem_free(k->mem, k->words, (k->count + 1) * sizeof(struct group_words *));
	fth_qmem_free(k->mem, k->bits, (k->count + 1) * sizeof(*k->bits));
	fth_qmem_free(k->mem, k->vecs, (k->count + 1) * sizeof(*k->vecs));
	fth_qmem_free(k->mem, k->ints, (k->count + 1) * sizeof(int64_t *));
	fth_qmem_free(k->mem, k->out, (k->count + 1) * sizeof(void *));
	fth_qmem_free(k->mem, k->nulls, (k->count + 1) * sizeof(*k->nulls));
	fth_qmem_free(k->mem, k->keys, k->key_bytes);
	if (k->groups.mem)
		group_table_release(&k->groups);
	fth_arena_release(&k->encoded);
}

void group_key_clear(struct group_key *k, bool runs)
{
	if (k->array)
		return;
	group_table_clear(&k->groups);
	for (unsigned i = 0; i < k->count; i++)
		if (k->words[i])
			group_words_clear(k->words[i]);
	k->ordered = runs && k->count == 1 && !k->words[0] && k->key.form == FTH_KEY_64;
}

/* ---- packing ---- */

static int pack_keys(struct group_key *k, const struct composite_key *key,
		     const struct fth_vec *vecs, unsigned n, const uint64_t *rows)
{
	if (key->form == FTH_KEY_64)
		return composite_key_pack64(key, vecs, n, rows, (uint64_t *)k->keys);
	if (key->form == FTH_KEY_128)
		return composite_key_pack128(key, vecs, n, rows, k->keys);
	fth_arena_reset(&k->encoded);
	return composite_key_encode(key, vecs, n, rows, &k->encoded, (struct fth_str *)k->keys);
}

/* The value of a column; `group` is the place in k->keys if groups are an array. */
static bool key_value(const struct group_key *k, unsigned column, uint32_t group, fth_i128 *x)
{
	struct fth_str none;

	*x = 0;
	if (k->array)
		return composite_key_int(&k->key, ((const uint64_t *)k->keys)[group], column, x);
	if (k->key.form == FTH_KEY_BYTES)
		return composite_key_decode(&k->key, group_table_bytes(&k->groups, group), column,
					    x, &none);
	return composite_key_int(&k->key, group_table_key(&k->groups, group), column, x);
}

/* The values of a column of packed keys as integers of 128 bits. */
static struct fth_vec unpack_column(struct group_key *k, unsigned column, uint32_t first,
				    unsigned n, fth_i128 *out)
{
	memset(k->nulls[column], 0, sizeof(k->nulls[column]));
	for (unsigned i = 0; i < n; i++)
		if (!key_value(k, column, first + i, &out[i]))
			fth_bit_set(k->nulls[column], i);
	return (struct fth_vec){.type = FTH_I128, .data = out, .nulls = k->nulls[column]};
}

/* All groups into another table, by the keys of another layout; their numbers stay. */
static int repack_groups(struct group_key *k, const struct composite_key *key,
			 struct group_table *to)
{
	size_t bytes = ((size_t)k->count + 1) * FTH_BATCH * sizeof(fth_i128);
	fth_i128 *values = fth_qmem_alloc(k->mem, bytes);
	uint64_t rows[FTH_BATCH_WORDS];
	struct fth_vec vecs[FTH_KEY_COLUMNS];
	int rc = values ? 0 : -ENOMEM;

	for (uint32_t first = 0; first < k->groups.count && rc == 0; first += FTH_BATCH) {
		unsigned n =
			k->groups.count - first < FTH_BATCH ? k->groups.count - first : FTH_BATCH;

		fth_bits_fill(rows, n);
		for (unsigned c = 0; c < k->count; c++)
			vecs[c] =
				unpack_column(k, c, first, n, values + (size_t)(c + 1) * FTH_BATCH);
		rc = pack_keys(k, key, vecs, n, rows);
		if (rc == 0)
			rc = group_table_find(to, k->keys, n, rows, (uint32_t *)values, NULL);
	}
	fth_qmem_free(k->mem, values, bytes);
	return rc;
}

/* As the layout in use has them. */
static void restore_bits(struct group_key *k)
{
	for (unsigned i = 0; i < k->count; i++)
		while (k->words[i] && ((int64_t)1 << k->bits[i]) - 1 > k->key.columns[i].max)
			k->bits[i] -= WORD_BITS;
}

/* More bits for the numbers of texts, where there are more texts than fit. */
static int widen_words(struct group_key *k)
{
	struct group_table groups;
	struct composite_key key;
	bool full = false;
	int rc;

	for (unsigned i = 0; i < k->count; i++)
		while (k->words[i] && k->words[i]->texts.count > (uint64_t)1 << k->bits[i]) {
			k->bits[i] += WORD_BITS;
			full = true;
		}
	if (!full)
		return 0;
	rc = layout_key(k, &key);
	if (rc == 0)
		rc = grow_keys(k, &key);
	if (rc == 0)
		rc = group_table_init(&groups, k->mem, &key);
	if (rc < 0) {
		restore_bits(k);
		return rc;
	}
	rc = repack_groups(k, &key, &groups);
	if (rc < 0) {
		group_table_release(&groups);
		restore_bits(k);
		return rc;
	}
	group_table_release(&k->groups);
	k->groups = groups;
	k->key = key;
	return 0;
}

/* ---- numbers ---- */

static int convert_columns(struct group_key *k, struct fth_vec *const *vecs, unsigned n,
			   const uint64_t *rows)
{
	int rc = 0;

	for (unsigned i = 0; i < k->count && rc == 0; i++)
		if (k->words[i])
			rc = group_words_number(k->words[i], vecs[i], n, rows, &k->vecs[i]);
		else
			k->vecs[i] = group_as_int(&k->slots[i], vecs[i], n, k->ints[i]);
	return rc;
}

static bool is_ascending(const uint64_t *keys, unsigned n)
{
	bool descends = false;

	for (unsigned i = 1; i < n; i++)
		descends |= keys[i] < keys[i - 1];
	return !descends;
}

/* Rows in order: where the key changes a new group begins. */
static void number_runs(struct group_key *k, unsigned n, uint32_t *numbers, struct group_runs *runs)
{
	const uint64_t *keys = (const uint64_t *)k->keys;
	bool goes_on = k->groups.count > 0 && keys[0] == k->last;
	unsigned count = 0;
	uint32_t number;

	runs->first = goes_on ? k->groups.count - 1 : k->groups.count;
	number = runs->first;
	numbers[0] = number;
	runs->starts[count++] = 0;
	for (unsigned i = 1; i < n; i++) {
		unsigned change = keys[i] != keys[i - 1];

		runs->starts[count] = (uint16_t)i;
		count += change;
		number += change;
		numbers[i] = number;
	}
	runs->starts[count] = (uint16_t)n;
	runs->count = count;
	for (unsigned r = goes_on; r < count; r++)
		group_table_append(&k->groups, &keys[runs->starts[r]], 1);
	k->last = keys[n - 1];
}

int group_key_pack(struct group_key *k, struct fth_vec *const *vecs, unsigned n,
		   const uint64_t *rows)
{
	int rc = convert_columns(k, vecs, n, rows);

	if (rc == 0)
		rc = widen_words(k);
	return rc < 0 ? rc : pack_keys(k, &k->key, k->vecs, n, rows);
}

/* Places in an array. Keys of rows that are not selected may be anything. */
static void number_places(struct group_key *k, unsigned n, uint32_t *numbers)
{
	const uint64_t *keys = (const uint64_t *)k->keys;

	for (unsigned i = 0; i < n; i++)
		numbers[i] = (uint32_t)(keys[i] - k->base);
}

int group_key_number_packed(struct group_key *k, const struct fth_vec *keys, unsigned n,
			    const uint64_t *rows, uint32_t *numbers)
{
	uint64_t *packed = (uint64_t *)k->keys;
	bool outside = false;
	int rc;

	for (unsigned i = 0; i < n && keys->type == FTH_I32; i++)
		packed[i] = ((const uint32_t *)keys->data)[i];
	if (keys->type == FTH_I64)
		memcpy(packed, keys->data, n * sizeof(*packed));
	if (!k->array) {
		rc = group_table_reserve(&k->groups, n);
		return rc < 0 ? rc : group_table_find(&k->groups, packed, n, rows, numbers, NULL);
	}
	for (unsigned i = 0; i < n; i++)
		outside |= packed[i] - k->base >= k->domain;
	number_places(k, n, numbers);
	return outside ? fth_fail(EILSEQ,
				  "a spilled group is outside the key range of its partition")
		       : 0;
}

int group_key_number(struct group_key *k, struct fth_vec *const *vecs, unsigned n,
		     const uint64_t *rows, unsigned count, uint32_t *numbers,
		     struct group_runs *runs)
{
	const uint64_t *keys = (const uint64_t *)k->keys;
	int rc = group_key_pack(k, vecs, n, rows);

	runs->count = 0;
	if (rc == 0 && k->array) {
		number_places(k, n, numbers);
		return 0;
	}
	if (rc == 0 && k->ordered) {
		rc = group_table_reserve_append(&k->groups, count);
		if (rc < 0)
			return rc;
		if (is_ascending(keys, n) && (k->groups.count == 0 || keys[0] >= k->last)) {
			number_runs(k, n, numbers, runs);
			return 0;
		}
		rc = group_table_enter(&k->groups);
		k->ordered = rc < 0;
	}
	if (rc == 0)
		rc = group_table_reserve(&k->groups, count);
	return rc < 0 ? rc : group_table_find(&k->groups, k->keys, n, rows, numbers, NULL);
}

/* ---- results ---- */

#define PUT(T, value)                            \
	do {                                     \
		T *to = out;                     \
		for (unsigned i = 0; i < n; i++) \
			to[i] = (T)(value);      \
	} while (0)

/* A column of keys of 64 bits, without a branch. */
static void put_codes(const uint64_t *keys, unsigned n, const struct composite_key_column *c,
		      enum fth_phys type, void *out)
{
	uint64_t mask = c->bits == 64 ? UINT64_MAX : ((uint64_t)1 << c->bits) - 1;
	uint64_t add = (uint64_t)c->min - c->nullable;
	unsigned shift = c->bits == 0 ? 0 : c->shift;

	switch (type) {
	case FTH_I8:
		PUT(int8_t, (keys[i] >> shift & mask) + add);
		break;
	case FTH_I16:
		PUT(int16_t, (keys[i] >> shift & mask) + add);
		break;
	case FTH_I32:
		PUT(int32_t, (keys[i] >> shift & mask) + add);
		break;
	default:
		PUT(int64_t, (keys[i] >> shift & mask) + add);
	}
}

static void put_code_nulls(const uint64_t *keys, unsigned n, const struct composite_key_column *c,
			   uint64_t *nulls)
{
	uint64_t mask = c->bits == 64 ? UINT64_MAX : ((uint64_t)1 << c->bits) - 1;

	for (unsigned i = 0; i < n && c->nullable; i++)
		if (c->bits == 0 || (keys[i] >> c->shift & mask) == 0)
			fth_bit_set(nulls, i);
}

static void put_key(struct group_key *k, unsigned column, enum fth_phys type, unsigned at,
		    fth_i128 x, bool valid)
{
	void *out = k->out[column];

	switch (type) {
	case FTH_STR:
		((struct fth_str *)out)[at] =
			valid ? group_table_bytes(&k->words[column]->texts, (uint32_t)x)
			      : (struct fth_str){"", 0, 0};
		break;
	case FTH_F64:
		((double *)out)[at] = fth_table_double_of_key((int64_t)x);
		break;
	case FTH_BITS:
		if (x != 0)
			fth_bit_set(out, at);
		break;
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
	default:
		((fth_i128 *)out)[at] = x;
	}
}

/* Columns of any form, row by row; groups[] or those from `first` on. */
static void put_any(struct group_key *k, unsigned column, const uint32_t *groups, uint32_t first,
		    unsigned n, enum fth_phys type)
{
	memset(k->nulls[column], 0, sizeof(k->nulls[column]));
	if (type == FTH_BITS)
		memset(k->out[column], 0, FTH_BATCH / 8);
	for (unsigned i = 0; i < n; i++) {
		fth_i128 x;
		bool valid = key_value(k, column, groups ? groups[i] : first + i, &x);

		if (!valid)
			fth_bit_set(k->nulls[column], i);
		put_key(k, column, type, i, valid ? x : 0, valid);
	}
}

static void put_column(struct group_key *k, unsigned column, uint32_t first, unsigned n,
		       enum fth_phys type)
{
	const uint64_t *keys =
		(const uint64_t *)(k->array ? (void *)k->keys : k->groups.keys) + first;

	if (k->key.form != FTH_KEY_64 || type > FTH_I64) {
		put_any(k, column, NULL, first, n, type);
		return;
	}
	memset(k->nulls[column], 0, sizeof(k->nulls[column]));
	put_codes(keys, n, &k->key.columns[column], type, k->out[column]);
	put_code_nulls(keys, n, &k->key.columns[column], k->nulls[column]);
}

static struct fth_vec column_vec(struct group_key *k, unsigned column, enum fth_phys type)
{
	struct fth_vec v = {.type = type, .data = k->out[column]};

	if (k->slots[column].nullable)
		v.nulls = k->nulls[column];
	return v;
}

void group_key_batch(struct group_key *k, uint32_t first, unsigned n, const uint16_t *list,
		     struct fth_vec *out)
{
	for (unsigned i = 0; i < n && k->array; i++)
		((uint64_t *)k->keys)[i] = k->base + first + (list ? list[i] : i);
	if (k->array)
		first = 0;
	for (unsigned c = 0; c < k->count; c++) {
		enum fth_phys type = rows_phys(&k->slots[c]);

		put_column(k, c, first, n, type);
		out[c] = column_vec(k, c, type);
	}
}

void group_key_gather(struct group_key *k, const uint32_t *groups, unsigned n, struct fth_vec *out)
{
	for (unsigned c = 0; c < k->count; c++) {
		enum fth_phys type = rows_phys(&k->slots[c]);

		put_any(k, c, groups, 0, n, type);
		out[c] = column_vec(k, c, type);
	}
}
