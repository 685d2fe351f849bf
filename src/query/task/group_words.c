/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts as numbers. The codes of a dictionary are translated once, not row by row. */
#include "query/task/group_internal.h"
#include "query/set/rows.h"
#include "query/task/rows.h"

#include <errno.h>

int group_words_init(struct group_words *w, struct fth_qmem *mem)
{
	static const struct fth_key key = {.form = FTH_KEY_BYTES, .count = 1, .bits = 1000};
	int rc;

	*w = (struct group_words){.mem = mem};
	rc = fth_groups_init(&w->texts, mem, &key);
	w->numbers = fth_qmem_alloc(mem, FTH_BATCH * sizeof(*w->numbers));
	if (rc == 0 && w->numbers != NULL)
		return 0;
	group_words_release(w);
	return -ENOMEM;
}

void group_words_release(struct group_words *w)
{
	if (w->mem == NULL)
		return;
	fth_groups_release(&w->texts);
	fth_qmem_free(w->mem, w->codes, w->code_room * sizeof(*w->codes));
	fth_qmem_free(w->mem, w->numbers, FTH_BATCH * sizeof(*w->numbers));
	*w = (struct group_words){0};
}

void group_words_clear(struct group_words *w)
{
	fth_groups_clear(&w->texts);
	w->dict = 0;
}

static int number_plain(struct group_words *w, const struct fth_str *texts, unsigned n,
			const uint64_t *rows)
{
	return fth_groups_find(&w->texts, texts, n, rows, (uint32_t *)w->numbers, NULL);
}

/* An empty translation for another dictionary. */
static int begin_dict(struct group_words *w, const struct fth_dict *dict)
{
	if (w->dict == dict->id)
		return 0;
	if (w->code_room < dict->count) {
		uint32_t *larger = fth_qmem_alloc(w->mem, dict->count * sizeof(*larger));

		if (larger == NULL)
			return -ENOMEM;
		fth_qmem_free(w->mem, w->codes, w->code_room * sizeof(*w->codes));
		w->codes = larger;
		w->code_room = dict->count;
	}
	memset(w->codes, 0, dict->count * sizeof(*w->codes));
	w->dict = dict->id;
	return 0;
}

static int number_code(struct group_words *w, struct fth_str text, uint32_t *code)
{
	uint64_t one = 1;
	uint32_t number;
	int rc = fth_groups_find(&w->texts, &text, 1, &one, &number, NULL);

	if (rc == 0)
		*code = number + 1;
	return rc;
}

static int number_codes(struct group_words *w, const struct fth_vec *v, unsigned n,
			const uint64_t *rows)
{
	int64_t codes[FTH_BATCH];
	int rc = begin_dict(w, v->dict);

	if (rc < 0)
		return rc;
	fth_vec_to_i64(codes, v, n);
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

	for (unsigned i = 0; i < fth_bits_words(n) && v->nulls != NULL; i++)
		live[i] = rows[i] & ~v->nulls[i];
	if (v->nulls != NULL)
		rows = live;
	*out = (struct fth_vec){.type = FTH_I32, .data = w->numbers, .nulls = v->nulls};
	return v->dict != NULL ? number_codes(w, v, n, rows) : number_plain(w, v->data, n, rows);
}
