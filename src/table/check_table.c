/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checking a table. Facts are computed again with means that share nothing with the ones that
 * proved them: values are sorted in memory, one column at a time.
 */
#include "table/page/decode.h"
#include "table/page/dict.h"

#include "fathom/base/error.h"
#include "fathom/table/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checking {
	struct fth_table *table;
	int (*report)(const char *text, void *user);
	int (*progress)(uint64_t done, uint64_t total, void *user);
	void *user;
	int findings;
	uint64_t done, total; /* chunks */
};

/* What is learned about a column, over all groups. */
struct observed {
	int64_t min, max;
	uint64_t nulls, string_bytes, bytes;
	uint32_t max_length;
	bool all_codes;
	bool whole_runs; /* no group begins with the value that the one before ends with */
	bool sorted, strict;
	bool any;
	int64_t *keys; /* of integers in order of rows, while facts need them */
	uint64_t n;
	char *last; /* the last string */
	uint32_t last_length;
	uint64_t runs, run, max_run;
};

static int complain(struct checking *ch, uint32_t column, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int complain(struct checking *ch, uint32_t column, const char *format, ...)
{
	char text[FTH_ERROR_TEXT_MAX];
	int n = snprintf(text, sizeof(text),
			 "column %s: ", fth_table_schema(ch->table)->column[column].name);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + n, sizeof(text) - (size_t)n, format, arguments);
	va_end(arguments);
	ch->findings++;
	if (ch->report && ch->report(text, ch->user) != 0)
		return fth_fail(ECANCELED, "canceled");
	return 0;
}

/* ---- one chunk ---- */

static int64_t clamp_wide(struct fth_table_wide v)
{
	if (v.high == ((int64_t)v.low < 0 ? -1 : 0))
		return (int64_t)v.low;
	return v.high < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t key_of(const struct decoded *d, uint32_t row)
{
	switch (d->kind) {
	case FTH_TABLE_KIND_STRING:
		return fth_table_string_key(d->bytes + d->offsets[row],
					    d->offsets[row + 1] - d->offsets[row]);
	case FTH_TABLE_KIND_WIDE:
		return clamp_wide(d->wides[row]);
	default:
		return d->ints[row];
	}
}

/* Compare the value of a row with the last one of the column; 1, 0 or -1 as memcmp(). */
static int compare_last(const struct observed *o, const struct decoded *d, uint32_t row)
{
	uint32_t n, common;
	int order;

	if (d->kind != FTH_TABLE_KIND_STRING)
		return (d->ints[row] > o->keys[o->n - 1]) - (d->ints[row] < o->keys[o->n - 1]);
	n = d->offsets[row + 1] - d->offsets[row];
	common = n < o->last_length ? n : o->last_length;
	order = common ? memcmp(d->bytes + d->offsets[row], o->last, common) : 0;
	return order ? order : (n > o->last_length) - (n < o->last_length);
}

static int remember(struct observed *o, const struct decoded *d, uint32_t row)
{
	char *copy;

	if (d->kind != FTH_TABLE_KIND_STRING) {
		o->keys[o->n++] = d->ints[row];
		return 0;
	}
	o->last_length = d->offsets[row + 1] - d->offsets[row];
	copy = realloc(o->last, o->last_length + 1);
	if (!copy)
		return -ENOMEM;
	o->last = copy;
	memcpy(copy, d->bytes + d->offsets[row], o->last_length);
	return 0;
}

/* Order and runs of the values of a column that has facts about them. */
static int observe_order(struct observed *o, const struct decoded *d)
{
	int rc = 0;

	for (uint32_t row = 0; rc == 0 && row < d->rows; row++) {
		int order = o->any ? compare_last(o, d, row) : 1;

		o->sorted &= order >= 0;
		o->strict &= order > 0;
		o->whole_runs &= row > 0 || order != 0;
		o->runs += order != 0;
		o->run = order ? 1 : o->run + 1;
		o->max_run = o->run > o->max_run ? o->run : o->max_run;
		o->any = true;
		rc = remember(o, d, row);
	}
	return rc;
}

static int check_chunk(struct checking *ch, uint32_t c, uint32_t g, struct observed *o,
		       bool ordered)
{
	const struct fth_table_chunk *chunk = fth_table_chunk(ch->table, c, g);
	int64_t min = INT64_MAX, max = INT64_MIN;
	struct decoded d;
	int rc = decode_chunk(ch->table, c, g, &d);
	uint32_t nulls = 0;

	for (uint32_t row = 0; rc == 0 && row < d.rows; row++) {
		int64_t key;

		if (decoded_null(&d, row)) {
			nulls++;
			continue;
		}
		key = key_of(&d, row);
		min = key < min ? key : min;
		max = key > max ? key : max;
		if (d.kind == FTH_TABLE_KIND_STRING) {
			uint32_t n = d.offsets[row + 1] - d.offsets[row];

			o->string_bytes += n;
			o->max_length = n > o->max_length ? n : o->max_length;
		}
	}
	if (rc == 0 && ordered)
		rc = observe_order(o, &d);
	decoded_release(&d);
	if (rc == -EBADMSG)
		return complain(ch, c, "%s", fth_error_text(rc));
	if (rc < 0)
		return rc;
	o->min = min < o->min ? min : o->min;
	o->max = max > o->max ? max : o->max;
	o->nulls += nulls;
	o->bytes += chunk->bytes;
	o->all_codes &= chunk->encoding == FTH_TABLE_CODES;
	if (min != chunk->min || max != chunk->max)
		rc = complain(
			ch, c,
			"group %u has values from %lld to %lld, the manifest says %lld to %lld", g,
			(long long)min, (long long)max, (long long)chunk->min,
			(long long)chunk->max);
	return rc;
}

/* ---- facts ---- */

static int compare_keys(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Distinct values: of integers by sorting them all, of sorted strings their runs. */
static uint64_t count_distinct(struct observed *o)
{
	uint64_t n = o->n > 0;

	if (!o->keys)
		return o->runs;
	qsort(o->keys, o->n, sizeof(*o->keys), compare_keys);
	for (uint64_t i = 1; i < o->n; i++)
		n += o->keys[i] != o->keys[i - 1];
	return n;
}

static int check_flag(struct checking *ch, uint32_t c, uint32_t flag, bool holds, const char *what)
{
	if (!(fth_table_facts(ch->table, c)->flags & flag) || holds)
		return 0;
	return complain(ch, c, "the manifest says it is %s, which is wrong", what);
}

static int check_order(struct checking *ch, uint32_t c, struct observed *o)
{
	const struct fth_table_facts *f = fth_table_facts(ch->table, c);
	uint64_t distinct = count_distinct(o);
	int rc = check_flag(ch, c, FTH_TABLE_SORTED, o->sorted, "sorted");

	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_STRICT, o->strict, "strictly sorted");
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_CLUSTERED, distinct == o->runs, "clustered");
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_UNIQUE, distinct == fth_table_rows(ch->table),
				"unique");
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_DENSE,
				o->any && (uint64_t)o->max - (uint64_t)o->min == distinct - 1,
				"dense");
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_WHOLE_RUNS, o->whole_runs, "in whole runs");
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_DISTINCT, distinct == f->distinct,
				"exact in its number of distinct values");
	if (rc == 0 && f->max_run != o->max_run)
		rc = complain(ch, c, "its longest run has %llu rows, the manifest says %llu",
			      (unsigned long long)o->max_run, (unsigned long long)f->max_run);
	return rc;
}

static int check_sums(struct checking *ch, uint32_t c, const struct observed *o)
{
	const struct fth_table_facts *f = fth_table_facts(ch->table, c);
	struct fth_table_strings dictionary;
	int rc = 0;

	fth_table_dictionary(ch->table, c, &dictionary);
	if (o->min != f->min || o->max != f->max)
		rc = complain(ch, c, "the manifest has a wrong minimum or maximum");
	if (rc == 0 && o->nulls != f->nulls)
		rc = complain(ch, c, "it has %llu nulls, the manifest says %llu",
			      (unsigned long long)o->nulls, (unsigned long long)f->nulls);
	if (rc == 0 && (o->string_bytes != f->string_bytes || o->max_length != f->max_length))
		rc = complain(ch, c, "the manifest has wrong string lengths");
	if (rc == 0 && o->bytes != f->bytes)
		rc = complain(ch, c, "its chunks have %llu bytes, the manifest says %llu",
			      (unsigned long long)o->bytes, (unsigned long long)f->bytes);
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_NO_NULLS, o->nulls == 0, "without nulls");
	if (rc == 0)
		rc = check_flag(ch, c, FTH_TABLE_ALL_CODES, o->all_codes,
				"in codes of its dictionary");
	if (rc == 0)
		rc = check_flag(
			ch, c, FTH_TABLE_ORDERED_CODES,
			dict_ordered(dictionary.offsets, dictionary.bytes, dictionary.count),
			"ordered by its dictionary");
	return rc;
}

static int check_column(struct checking *ch, uint32_t c)
{
	const struct fth_table_facts *f = fth_table_facts(ch->table, c);
	enum fth_table_kind kind = fth_table_kind(&fth_table_schema(ch->table)->column[c]);
	bool ordered = f->flags & FTH_TABLE_CLUSTERED;
	int before = ch->findings, rc = 0;
	struct observed o = {
		.min = INT64_MAX,
		.max = INT64_MIN,
		.all_codes = true,
		.whole_runs = true,
		.sorted = true,
		.strict = true,
	};

	if (ordered && kind != FTH_TABLE_KIND_STRING) {
		o.keys = malloc(fth_table_rows(ch->table) * sizeof(*o.keys) + 1);
		if (!o.keys)
			return -ENOMEM;
	}
	for (uint32_t g = 0; rc == 0 && g < fth_table_groups(ch->table); g++) {
		rc = check_chunk(ch, c, g, &o, ordered);
		ch->done++;
		if (rc == 0 && ch->progress && ch->progress(ch->done, ch->total, ch->user) != 0)
			rc = fth_fail(ECANCELED, "canceled");
	}
	/* Facts about values that cannot be read say nothing. */
	if (rc == 0 && ch->findings == before && fth_table_rows(ch->table))
		rc = check_sums(ch, c, &o);
	if (rc == 0 && ch->findings == before && ordered)
		rc = check_order(ch, c, &o);
	free(o.keys);
	free(o.last);
	return rc;
}

int fth_table_check(struct fth_table *table, int (*report)(const char *text, void *user),
		    int (*progress)(uint64_t done, uint64_t total, void *user), void *user)
{
	struct checking ch = {.table = table, .report = report, .progress = progress, .user = user};
	uint32_t columns = fth_table_schema(table)->columns;
	int rc = 0;

	ch.total = (uint64_t)columns * fth_table_groups(table);
	for (uint32_t c = 0; rc == 0 && c < columns; c++)
		rc = check_column(&ch, c);
	return rc < 0 ? rc : ch.findings;
}
