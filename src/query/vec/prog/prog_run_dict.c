/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expressions over one column of text. Without a dictionary the program runs over the rows. With
 * one it runs over the entries and over one null, once per dictionary and run; then rows look up
 * their codes. Texts in the table are copies in the arena of the outer run's table, so that the
 * dictionary may move.
 */
#include "query/vec/prog/prog_internal.h"

#include <errno.h>

static int make_room(struct fth_prog_run *x, struct dict_table *t, enum fth_phys type,
		     uint32_t count)
{
	size_t width = fth_phys_width(type), words;

	if (count + 1 > t->room) {
		fth_run_free_table(x, t, type);
		words = fth_bits_words(count + 1) * sizeof(uint64_t);
		t->values = fth_qmem_alloc(x->mem, (count + 1) * width);
		t->truth = fth_qmem_alloc(x->mem, words);
		t->nulls = fth_qmem_alloc(x->mem, words);
		t->room = count + 1;
		if (!t->values || !t->truth || !t->nulls) {
			fth_qmem_free(x->mem, t->values, (count + 1) * width);
			fth_qmem_free(x->mem, t->truth, words);
			fth_qmem_free(x->mem, t->nulls, words);
			t->room = 0;
			return -ENOMEM;
		}
	}
	memset(t->truth, 0, fth_bits_words(count + 1) * sizeof(uint64_t));
	memset(t->nulls, 0, fth_bits_words(count + 1) * sizeof(uint64_t));
	fth_arena_release(&t->texts);
	fth_arena_init(&t->texts, x->mem, 4096);
	return 0;
}

static int keep_text(struct dict_table *t, struct fth_str *s)
{
	char *copy = fth_arena_alloc(&t->texts, s->len + 1, 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, s->data, s->len);
	s->data = copy;
	return 0;
}

static int note_result(struct dict_table *t, enum fth_phys type, uint32_t at,
		       const struct fth_vec *v, unsigned i)
{
	size_t width = fth_phys_width(type);

	if (v->nulls && fth_bit(v->nulls, i)) {
		fth_bit_set(t->nulls, at);
		memset((char *)t->values + at * width, 0, width);
		return 0;
	}
	if (type == FTH_BITS) {
		if (fth_bit(v->data, i))
			fth_bit_set(t->truth, at);
		return 0;
	}
	memcpy((char *)t->values + at * width, (const char *)v->data + i * width, width);
	return type == FTH_STR ? keep_text(t, (struct fth_str *)t->values + at) : 0;
}

static int run_entries(struct dict_table *t, enum fth_phys type, const struct fth_str *entries,
		       const uint64_t *nulls, uint32_t first, unsigned n)
{
	struct fth_vec in = {.type = FTH_STR, .data = entries, .nulls = nulls}, out;
	int rc = fth_prog_exec(t->run, &in, n, NULL, &out);

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = note_result(t, type, first + i, &out, i);
	return rc;
}

/* If the codes that are true lie together, rows are compared with the first and the last. */
static void find_run(struct dict_table *t)
{
	uint32_t runs = 0;

	t->first = t->last = -1;
	for (uint32_t i = 0; i < t->count; i++) {
		if (!fth_bit(t->truth, i))
			continue;
		if (t->last != (int64_t)i - 1 || runs == 0) {
			runs++;
			t->first = i;
		}
		t->last = i;
	}
	t->one_run = runs == 1;
}

static int fill_table(struct fth_prog_run *x, struct dict_table *t, enum fth_phys type,
		      const struct fth_dict *dict)
{
	static const struct fth_str empty = {"", 0, 0};
	const uint64_t one_null = 1;
	int rc = make_room(x, t, type, dict->count);

	t->id = 0;
	t->count = dict->count;
	for (uint32_t at = 0; at < dict->count && rc == 0; at += FTH_BATCH) {
		unsigned n = dict->count - at < FTH_BATCH ? dict->count - at : FTH_BATCH;

		rc = run_entries(t, type, dict->entries + at, NULL, at, n);
	}
	if (rc == 0)
		rc = run_entries(t, type, &empty, &one_null, dict->count, 1);
	if (rc < 0)
		return rc;
	t->any_null = false;
	for (uint32_t i = 0; i < dict->count; i++)
		t->any_null |= fth_bit(t->nulls, i);
	find_run(t);
	t->id = dict->id;
	return 0;
}

/* ---- rows ---- */

static void look_up_bits(const struct fth_vec *v, unsigned n, const uint64_t *set, uint32_t count,
			 uint64_t *out)
{
	if (v->type <= FTH_I32) {
		fth_kern()->member[v->type](out, v->data, v->base, set, count, n);
		return;
	}
	memset(out, 0, fth_bits_words(n) * sizeof(*out));
	for (unsigned i = 0; i < n; i++) {
		fth_i128 code = fth_vec_int(v, i);

		if (code >= 0 && code < count && fth_bit(set, (unsigned)code))
			fth_bit_set(out, i);
	}
}

static bool in_reach(const struct fth_vec *v, int64_t code)
{
	int64_t most = (int64_t)1 << (8 * fth_phys_width(v->type) - 1);

	return code - v->base >= -most && code - v->base < most;
}

static void look_up_truth(const struct fth_vec *v, unsigned n, const struct dict_table *t,
			  uint64_t *out)
{
	if (t->one_run && v->type <= FTH_I32 && in_reach(v, t->first) && in_reach(v, t->last))
		fth_kern()->between[v->type](out, v->data, t->first - v->base, t->last - v->base,
					     n);
	else
		look_up_bits(v, n, t->truth, t->count, out);
}

static void look_up_values(const struct fth_vec *v, unsigned n, const struct dict_table *t,
			   enum fth_phys type, char *out)
{
	size_t width = fth_phys_width(type);

	for (unsigned i = 0; i < n; i++) {
		bool null = v->nulls && fth_bit(v->nulls, i);
		fth_i128 code = null ? t->count : fth_vec_int(v, i);

		memcpy(out + i * width, (const char *)t->values + (size_t)code * width, width);
	}
}

/* Null rows have the result of the last entry. */
static void settle_nulls(const struct fth_vec *v, unsigned n, const struct dict_table *t,
			 uint64_t *truth, uint64_t *nulls)
{
	bool null_is_null = fth_bit(t->nulls, t->count), null_is_true = fth_bit(t->truth, t->count);

	for (unsigned i = 0; v->nulls && i < fth_bits_words(n); i++) {
		nulls[i] = (nulls[i] & ~v->nulls[i]) | (null_is_null ? v->nulls[i] : 0);
		if (truth)
			truth[i] = (truth[i] & ~v->nulls[i]) | (null_is_true ? v->nulls[i] : 0);
	}
}

int fth_run_dict(struct fth_prog_run *x, const struct insn *in)
{
	struct dict_table *t = &x->dicts[in - x->prog->insns];
	const struct fth_vec *v = &x->columns[in->column];
	uint64_t *nulls = fth_run_nulls(x, in);
	void *dst = fth_run_data(x, in);
	struct fth_vec out;
	int rc = 0;

	if (!v->dict) {
		rc = fth_prog_exec(t->run, v, x->n, x->selected, &out);
		x->vals[in->dst] = (struct val){out.data, out.nulls};
		return rc;
	}
	if (t->id != v->dict->id)
		rc = fill_table(x, t, in->type, v->dict);
	if (rc < 0)
		return rc;
	if (t->any_null)
		look_up_bits(v, x->n, t->nulls, t->count, nulls);
	else
		memset(nulls, 0, fth_bits_words(x->n) * sizeof(*nulls));
	if (in->type == FTH_BITS)
		look_up_truth(v, x->n, t, dst);
	else
		look_up_values(v, x->n, t, in->type, dst);
	settle_nulls(v, x->n, t, in->type == FTH_BITS ? dst : NULL, nulls);
	x->vals[in->dst] = (struct val){dst, t->any_null || v->nulls ? nulls : NULL};
	return 0;
}
