/* SPDX-License-Identifier: BSD-2-Clause */
/* Random batches of all types are appended and read back, and every fact that is stated holds. */
#include "table/page/decode.h"
#include "table/test/table_fixture.h"

#include <errno.h>

#define MAX_ROWS 20000u
#define COLUMNS	 9u

/* All rows of the table, as they were appended. */
struct model {
	uint32_t rows;
	int64_t *ints[COLUMNS];
	struct fth_table_wide *wides;
	double *doubles;
	uint32_t *offsets[COLUMNS];
	char *bytes[COLUMNS];
	uint8_t *nulls[COLUMNS];
};

static const char columns[] =
	"id bigint, run int, wild bigint, price decimal(15,2), day date, big decimal(38,4), "
	"real double, word char(10), text varchar";

static void model_init(struct model *m)
{
	*m = (struct model){0};
	for (unsigned c = 0; c < COLUMNS; c++) {
		m->ints[c] = calloc(MAX_ROWS, sizeof(int64_t));
		m->offsets[c] = calloc(MAX_ROWS + 1, sizeof(uint32_t));
		m->bytes[c] = malloc((size_t)MAX_ROWS * 100);
		m->nulls[c] = calloc(MAX_ROWS, 1);
	}
	m->wides = calloc(MAX_ROWS, sizeof(*m->wides));
	m->doubles = calloc(MAX_ROWS, sizeof(*m->doubles));
}

static void model_release(struct model *m)
{
	for (unsigned c = 0; c < COLUMNS; c++) {
		free(m->ints[c]);
		free(m->offsets[c]);
		free(m->bytes[c]);
		free(m->nulls[c]);
	}
	free(m->wides);
	free(m->doubles);
}

static void add_string(struct model *m, unsigned c, const char *text, size_t n)
{
	uint32_t at = m->offsets[c][m->rows];

	memcpy(m->bytes[c] + at, text, n);
	m->offsets[c][m->rows + 1] = at + (uint32_t)n;
}

/* One row. style changes what columns look like, from sorted to wild. */
static void add_row(struct model *m, struct fth_rng *rng, unsigned style)
{
	char text[128];
	size_t n = fth_rng_below(rng, style & 2 ? 3 : 90);
	uint32_t i = m->rows;

	m->ints[0][i] = style & 1 ? (int64_t)fth_rng_below(rng, 1000000) : i * 3;
	m->ints[1][i] = (int64_t)(i / 5) + (style & 4 ? (int64_t)fth_rng_below(rng, 3) : 0);
	m->ints[2][i] = (int64_t)fth_rng_next(rng) >> fth_rng_below(rng, 64);
	m->ints[3][i] = (int64_t)fth_rng_below(rng, 100) * 100;
	m->ints[4][i] = 8000 + (int64_t)fth_rng_below(rng, 2500);
	m->wides[i] = (struct fth_table_wide){fth_rng_next(rng), 0};
	if (style & 8)
		m->wides[i].high = (int64_t)fth_rng_below(rng, 1u << 30) - (1 << 29);
	else
		m->wides[i].low >>= 2;
	m->doubles[i] = (double)(int64_t)fth_rng_next(rng) / 1024;
	snprintf(text, sizeof(text), "word%u",
		 (unsigned)fth_rng_below(rng, style & 16 ? 20000 : 5));
	add_string(m, 7, text, strlen(text));
	for (size_t k = 0; k < n; k++)
		text[k] = "abcdefgh "[fth_rng_below(rng, 9)];
	add_string(m, 8, text, n);
	for (unsigned c = 0; c < COLUMNS; c++) {
		m->nulls[c][i] = style & 32 && fth_rng_below(rng, c + 2) == 0;
		if (m->nulls[c][i] && c >= 7)
			m->offsets[c][i + 1] = m->offsets[c][i];
	}
	m->rows++;
}

static struct fth_table_vector vector_of(const struct model *m, unsigned c, uint32_t from,
					 bool nulls)
{
	struct fth_table_vector v = {.nulls = nulls ? m->nulls[c] + from : NULL};

	if (c >= 7) {
		v.offsets = m->offsets[c] + from;
		v.bytes = m->bytes[c];
	} else {
		v.values = c == 5   ? (const void *)(m->wides + from)
			   : c == 6 ? (const void *)(m->doubles + from)
				    : (const void *)(m->ints[c] + from);
	}
	return v;
}

/* Append rows [from, m->rows) in pieces, in one batch. */
static void append(struct table_fixture *f, const struct model *m, uint32_t from,
		   struct fth_rng *rng)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	struct fth_table_vector vectors[COLUMNS];
	struct fth_table_writer *writer;

	options.threads = 1 + (unsigned)fth_rng_below(rng, 3);
	options.group_rows = 1 + (unsigned)fth_rng_below(rng, 4000);
	options.compression = 1 + (unsigned)fth_rng_below(rng, 5);
	options.fact_memory = fth_rng_below(rng, 2) ? 0 : 10000;
	assert_ok(fth_table_writer_open(f->db, "t", &options, &writer));
	while (from < m->rows) {
		uint32_t n = 1 + (uint32_t)fth_rng_below(rng, m->rows - from);

		for (unsigned c = 0; c < COLUMNS; c++)
			vectors[c] = vector_of(m, c, from, true);
		assert_ok(fth_table_writer_append(writer, vectors, n));
		from += n;
	}
	assert_ok(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
}

static void compare_value(const struct model *m, unsigned c, uint32_t row, const struct decoded *d,
			  uint32_t i)
{
	uint32_t at = m->offsets[c][row];

	assert_int_equal(decoded_null(d, i), m->nulls[c][row]);
	if (m->nulls[c][row])
		return;
	if (c >= 7) {
		assert_int_equal(d->offsets[i + 1] - d->offsets[i], m->offsets[c][row + 1] - at);
		assert_memory_equal(d->bytes + d->offsets[i], m->bytes[c] + at,
				    m->offsets[c][row + 1] - at);
	} else if (c == 5) {
		assert_memory_equal(&d->wides[i], &m->wides[row], sizeof(*m->wides));
	} else if (c == 6) {
		assert_true(fth_table_double_of_key(d->ints[i]) == m->doubles[row]);
	} else {
		assert_int_equal(d->ints[i], m->ints[c][row]);
	}
}

/* The ranges and single values that pages give are those of the whole chunk. */
static void compare_ranges(struct fth_table *table, unsigned c, uint32_t g, const struct decoded *d,
			   struct fth_rng *rng)
{
	uint32_t from = (uint32_t)fth_rng_below(rng, d->rows + 1), to;
	struct fth_table_page page;
	int64_t *values = calloc(d->rows + 1, sizeof(*values));
	uint64_t *bits = calloc(d->rows / 64 + 1, sizeof(*bits));
	void *image;

	to = from + (uint32_t)fth_rng_below(rng, d->rows - from + 1);
	assert_ok(fth_table_page_read(&page, table, c, g, &image));
	assert_ok(fth_table_page_nulls(&page, from, to, bits));
	for (uint32_t i = from; i < to; i++)
		assert_int_equal(bits[(i - from) / 64] >> (i - from) % 64 & 1, decoded_null(d, i));
	if (d->ints) {
		assert_ok(fth_table_page_ints(&page, from, to, values, 8));
		assert_memory_equal(values, d->ints + from, (to - from) * sizeof(*values));
		for (uint32_t i = from; i < to; i += 97)
			assert_int_equal(fth_table_page_int_at(&page, i), d->ints[i]);
	}
	assert_int_equal(fth_table_page_nulls(&page, 0, d->rows + 1, bits), -ERANGE);
	fth_table_page_free(table, c, g, image);
	free(values);
	free(bits);
}

static void compare(struct table_fixture *f, const struct model *m, struct fth_rng *rng)
{
	struct fth_table *table;
	uint32_t row;

	assert_ok(fth_table_open(f->db, "t", NULL, &table));
	assert_int_equal(fth_table_rows(table), m->rows);
	for (unsigned c = 0; c < COLUMNS; c++) {
		row = 0;
		for (uint32_t g = 0; g < fth_table_groups(table); g++) {
			struct decoded d;

			assert_ok(decode_chunk(table, c, g, &d));
			for (uint32_t i = 0; i < d.rows; i++)
				compare_value(m, c, row++, &d, i);
			compare_ranges(table, c, g, &d, rng);
			decoded_release(&d);
		}
		assert_int_equal(row, m->rows);
	}
	assert_int_equal(fth_table_check(table, fixture_say, NULL, NULL), 0);
	fth_table_close(table);
}

static void batches_come_back(void **state)
{
	unsigned rounds = getenv("FTH_LONG_TESTS") ? 200 : 8;
	struct fth_rng rng = {7};

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		struct table_fixture f;
		struct model m;

		fixture_open(&f);
		model_init(&m);
		fixture_create(&f, "t", columns);
		for (unsigned batch = 0; batch < 3; batch++) {
			unsigned style = (unsigned)fth_rng_next(&rng);
			uint32_t from = m.rows, n = (uint32_t)fth_rng_below(&rng, MAX_ROWS / 3);

			for (uint32_t i = 0; i < n; i++)
				add_row(&m, &rng, style);
			append(&f, &m, from, &rng);
			compare(&f, &m, &rng);
		}
		model_release(&m);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(batches_come_back)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
