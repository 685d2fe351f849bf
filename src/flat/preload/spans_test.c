/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans against an array of bytes that says who owns each page. */
#include "flat/preload/spans.h"
#include "fth_test.h"

#include "fathom/base/rng.h"

#include <stdlib.h>
#include <string.h>

#define PAGES 512u
#define MANY  64u

struct model {
	struct spans spans;
	uint8_t owner[PAGES];		   /* 0: free */
	uint32_t first[MANY], pages[MANY]; /* of owner i + 1; no pages: none */
};

static void check(const struct model *m)
{
	uint32_t used = 0, free_pages = 0;

	for (uint32_t page = 0; page < PAGES; page++) {
		uint32_t first = spans_find(&m->spans, page);

		used += m->owner[page] != 0;
		assert_int_equal(first == SPANS_NONE, m->owner[page] == 0);
		if (m->owner[page])
			assert_int_equal(first, m->first[m->owner[page] - 1]);
	}
	assert_int_equal(m->spans.used_pages, used);
	for (unsigned i = 0; i < MANY; i++)
		if (m->pages[i])
			assert_int_equal(spans_length(&m->spans, m->first[i]), m->pages[i]);
	/* free spans: all pages, and no two neighbours */
	for (unsigned bin = 0; bin < SPANS_BINS; bin++) {
		bool filled = m->spans.filled[bin / 64] >> (bin % 64) & 1;

		assert_int_equal(filled, m->spans.bins[bin] != SPANS_NONE);
		for (uint32_t at = m->spans.bins[bin]; at != SPANS_NONE;
		     at = m->spans.nodes[at].next) {
			uint32_t end = at + m->spans.nodes[at].pages;

			free_pages += m->spans.nodes[at].pages;
			assert_true(at == 0 || m->owner[at - 1]);
			assert_true(end == PAGES || m->owner[end]);
		}
	}
	assert_int_equal(used + free_pages, PAGES);
}

static void own(struct model *m, unsigned i, uint32_t first, uint32_t pages)
{
	for (uint32_t page = first; page < first + pages; page++)
		assert_int_equal(m->owner[page], 0);
	memset(m->owner + first, (int)i + 1, pages);
	m->first[i] = first;
	m->pages[i] = pages;
}

static void allocate(struct model *m, unsigned i, struct fth_rng *rng)
{
	uint32_t align = 1u << fth_rng_below(rng, 5), phase = (uint32_t)fth_rng_below(rng, align);
	uint32_t pages = 1 + (uint32_t)fth_rng_below(rng, fth_rng_below(rng, 4) ? 8 : 100);
	uint32_t first = spans_alloc(&m->spans, pages, align, phase);

	if (first == SPANS_NONE)
		return;
	assert_int_equal((first + phase) % align, 0);
	own(m, i, first, pages);
}

static void cut(struct model *m, unsigned i, unsigned other, uint32_t pages)
{
	uint32_t first = m->first[i], all = m->pages[i];

	if (m->pages[other] || all < 2)
		return;
	pages = 1 + pages % (all - 1);
	spans_cut(&m->spans, first, pages);
	memset(m->owner + first, 0, all);
	own(m, i, first, pages);
	own(m, other, first + pages, all - pages);
}

static void grow(struct model *m, unsigned i, uint32_t more)
{
	uint32_t first = m->first[i], all = m->pages[i], room = 0;

	while (first + all + room < PAGES && !m->owner[first + all + room])
		room++;
	assert_int_equal(spans_grow(&m->spans, first, all + more), room >= more);
	if (room < more)
		return;
	memset(m->owner + first, 0, all);
	own(m, i, first, all + more);
}

static void spans_agree_with_a_model(void **unused)
{
	static struct model m;
	struct fth_rng rng = {7};

	(void)unused;
	assert_ok(spans_open(&m.spans, PAGES));
	for (unsigned round = 0; round < 20000; round++) {
		unsigned i = (unsigned)fth_rng_below(&rng, MANY);

		if (!m.pages[i]) {
			allocate(&m, i, &rng);
		} else if (fth_rng_below(&rng, 3) == 0) {
			cut(&m, i, (unsigned)fth_rng_below(&rng, MANY),
			    (uint32_t)fth_rng_next(&rng));
		} else if (fth_rng_below(&rng, 3) == 0) {
			grow(&m, i, (uint32_t)fth_rng_below(&rng, 12));
		} else {
			spans_free(&m.spans, m.first[i]);
			memset(m.owner + m.first[i], 0, m.pages[i]);
			m.pages[i] = 0;
		}
		check(&m);
	}
	spans_close(&m.spans);
}

static void all_pages_can_be_used(void **unused)
{
	struct spans spans;

	(void)unused;
	assert_ok(spans_open(&spans, PAGES));
	assert_int_equal(spans_alloc(&spans, PAGES + 1, 1, 0), SPANS_NONE);
	assert_int_equal(spans_alloc(&spans, PAGES, 1, 0), 0);
	assert_int_equal(spans_alloc(&spans, 1, 1, 0), SPANS_NONE);
	spans_free(&spans, 0);
	for (uint32_t i = 0; i < PAGES; i++)
		assert_int_not_equal(spans_alloc(&spans, 1, 1, 0), SPANS_NONE);
	assert_int_equal(spans_alloc(&spans, 1, 1, 0), SPANS_NONE);
	spans_close(&spans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_agree_with_a_model),
		cmocka_unit_test(all_pages_can_be_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
