/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts as numbers. The codes of a dictionary are translated once, not row by row. */
#include "query/group/group_internal.h"
#include "query/keys/bit_rows.h"
#include "query/spill/result_rows.h"
#include "query/vec/kern/kern.h"

#include <errno.h>

int group_words_init(struct group_words *w, struct fth_qmem *mem)
{
	static const struct composite_key key = {.form = FTH_KEY_BYTES, .count = 1, .bits = 1000};
	int rc;

	*w = (struct group_words){.mem = mem};
	rc = group_table_init(&w->texts, mem, &key);
	w->numbers = fth_qmem_alloc(mem, FTH_BATCH * sizeof(*w->numbers));
	if (rc == 0 && w->numbers)
		return 0;
	group_words_release(w);
	return -ENOMEM;
}

void group_words_release(struct group_words *w)
{
	if (!w->mem)
		return;
	group_table_release(&w->texts);
	fth_qmem_free(w->mem, w->codes, w->code_room * sizeof(*w->codes));
	fth_qmem_free(w->mem, w->numbers, FTH_BATCH * sizeof(*w->numbers));
	*w = (struct group_words){0};
}

void group_words_clear(struct group_words *w)
{
	group_table_clear(&w->texts);
	w->dict = 0;
}

static int number_plain(struct group_words *w, const struct fth_str *texts, unsigned n,
			const uint64_t *rows)
{
	return group_table_find(&w->texts, texts, n, rows, (uint32_t *)w->numbers, NULL);
}

/* An empty translation for another dictionary. */
static int begin_dict(struct group_words *w, const struct fth_dict *dict)
{
	if (w->dict == dict->id)
		return 0;
	if (w->code_room < dict->count) {
		uint32_t room = 64, *larger;

		while (room < dict->count)
			room *= 2;
		larger = fth_qmem_alloc(w->mem, room * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		fth_qmem_free(w->mem, w->codes, w->code_room * sizeof(*w->codes));
		w->codes = larger;
		w->code_room = room;
	}
	memset(w->codes, 0, w->code_room * sizeof(*w->codes));
	w->dict = dict->id;
	return 0;
}

static int number_code(struct group_words *w, struct fth_str text, uint32_t *code)
{
	uint64_t one = 1;
	uint32_t number;
	int rc = group_table_find(&w->texts, &text, 1, &one, &number, NULL);

	if (rc == 0)
		*code = number + 1;
	return rc;
}

/*
 * Numbers of all rows, as far as their codes have one; rows that are not selected may have any
 * code, which the mask keeps inside the table. Returns whether all selected rows have one.
 */
static bool translate_codes(struct group_words *w, const int32_t *codes, unsigned n,
			    const uint64_t *rows)
{
	uint32_t mask = w->code_room - 1;
	uint64_t missing = 0;

	for (unsigned k = 0; k < n; k += 64) {
		unsigned end = n - k < 64 ? n - k : 64;
		uint64_t none = 0;

		for (unsigned j = 0; j < end; j++) {
			uint32_t number = w->codes[(uint32_t)codes[k + j] & mask];

			none |= (uint64_t)(number == 0) << j;
			w->numbers[k + j] = (int32_t)(number - 1);
		}
		missing |= none & rows[k / 64];
	}
	return missing == 0;
}

static int number_codes(struct group_words *w, const struct fth_vec *v, unsigned n,
			const uint64_t *rows)
{
	int32_t codes[FTH_BATCH];
	int rc = begin_dict(w, v->dict);

	if (rc < 0)
		return rc;
	if (v->type < FTH_I64)
		fth_kern()->convert[FTH_I32][v->type](codes, v->data, v->base, n);
	else
		for (unsigned i = 0; i < n; i++)
			codes[i] = (int32_t)fth_vec_int(v, i);
	if (translate_codes(w, codes, n, rows))
		return 0;
	FTH_FOR_ROWS(rows, n, i)
	{
		uint32_t *code = &w->codes[codes[i]];

		if (*code == 0 && number_code(w, v->dict->entries[codes[i]], code) < 0)
			return -ENOMEM;
		w->numbers[i] = (int32_t)(*code - 1);
	}
	return 0;
}

int group_words_number(struct group_words *w, const struct fth_vec *v, unsigned n,
		       const uint64_t *rows, struct fth_vec *out)
{
	uint64_t live[FTH_BATCH_WORDS];

	for (unsigned i = 0; i < fth_bits_words(n) && v->nulls; i++)
		live[i] = rows[i] & ~v->nulls[i];
	if (v->nulls)
		rows = live;
	*out = (struct fth_vec){.type = FTH_I32, .data = w->numbers, .nulls = v->nulls};
	return v->dict ? number_codes(w, v, n, rows) : number_plain(w, v->data, n, rows);
}
