/* SPDX-License-Identifier: BSD-2-Clause */
/* Row by row: roots, powers and logarithms, parts of dates, text that is made of other text. */
#include "query/vec/prog/prog_row.h"

#include "fathom/base/error.h"

#include <errno.h>

int fth_row_f64_math(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		double b = in->b >= 0 ? f64_at(x, in->b, i) : 0;
		const char *why = fth_f64_math(in->sub, f64_at(x, in->a, i), b, (double *)dst + i);

		if (why)
			return fth_fail(EDOM, "%s", why);
	}
	return 0;
}

int fth_row_dec_sqrt(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	unsigned scales = (unsigned)in->k;

	FOR_ROWS(x, i)
	{
		fth_i128 root = 0;
		const char *why =
			fth_dec_sqrt(int_at(x, in->a, i), scales & 255, scales >> 8, &root);

		if (why)
			return fth_fail(EDOM, "%s", why);
		fth_run_put(dst, in->type, (unsigned)i, root);
	}
	return 0;
}

int fth_row_date_part(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		int64_t part = fth_date_part(in->sub, (int64_t)int_at(x, in->a, i));

		if (part < INT32_MIN || part > INT32_MAX)
			return row_error(in, -ERANGE);
		fth_run_put(dst, in->type, (unsigned)i, part);
	}
	return 0;
}

/* Memory for a result of so many bytes. */
static int make_text(struct fth_prog_run *x, const struct insn *in, uint64_t bytes, char **out)
{
	if (bytes > FTH_STR_MADE_MAX)
		return fth_fail(ERANGE, "%s: the result is longer than %u bytes", in->name,
				FTH_STR_MADE_MAX);
	*out = fth_arena_alloc(&x->arena, bytes + 1, 1);
	return *out ? 0 : -ENOMEM;
}

int fth_row_replace(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i), from = str_at(x, in->b, i);
		struct fth_str to = str_at(x, in->c, i);
		uint64_t bytes = fth_str_replace(s, from, to, NULL);
		char *text = NULL;
		int rc = make_text(x, in, bytes, &text);

		if (rc < 0)
			return rc;
		fth_str_replace(s, from, to, text);
		((struct fth_str *)dst)[i] = (struct fth_str){text, (uint32_t)bytes, 0};
	}
	return 0;
}

int fth_row_fill(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i), fill = str_at(x, in->c, i);
		int64_t chars = (int64_t)int_at(x, in->b, i);
		uint64_t bytes = fth_str_pad(s, chars, fill, in->sub, NULL);
		char *text = NULL;
		int rc = make_text(x, in, bytes, &text);

		if (rc < 0)
			return rc;
		fth_str_pad(s, chars, fill, in->sub, text);
		((struct fth_str *)dst)[i] = (struct fth_str){text, (uint32_t)bytes, 0};
	}
	return 0;
}

int fth_row_repeat(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);
		int64_t count = (int64_t)int_at(x, in->b, i);
		uint64_t bytes = fth_str_repeat(s, count, NULL);
		char *text = NULL;
		int rc = make_text(x, in, bytes, &text);

		if (rc < 0)
			return rc;
		fth_str_repeat(s, count, text);
		((struct fth_str *)dst)[i] = (struct fth_str){text, (uint32_t)bytes, 0};
	}
	return 0;
}

int fth_row_reverse(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);
		char *text = fth_arena_alloc(&x->arena, s.len + 1, 1);

		if (!text)
			return -ENOMEM;
		fth_str_reverse(s, text);
		((struct fth_str *)dst)[i] = (struct fth_str){text, s.len, 0};
	}
	return 0;
}

int fth_row_starts_with(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	memset(dst, 0, fth_bits_words(x->n) * sizeof(uint64_t));
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i), start = str_at(x, in->b, i);

		if (s.len >= start.len && memcmp(s.data, start.data, start.len) == 0)
			fth_bit_set(dst, (unsigned)i);
	}
	return 0;
}
