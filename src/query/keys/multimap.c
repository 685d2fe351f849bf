/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps from a key to many values. start[s] first counts the values of slot s, then is where they end, and each
 * put takes one off: when all are there, it is where they begin.
 */
#include "query/keys/multimap.h"
#include "query/keys/bit_rows.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>

uint64_t fth_multimap_bound(enum fth_map_kind kind, const struct fth_map_facts *facts,
			    uint64_t rows)
{
	struct fth_map_choice map = fth_map_cost(kind, facts);

	if (map.bytes == UINT64_MAX || rows >= UINT32_MAX)
		return UINT64_MAX;
	return map.bytes + fth_qmem_cost((map.slots + 1) * sizeof(uint32_t)) +
	       fth_qmem_cost(rows * sizeof(uint32_t));
}

int fth_multimap_init(struct fth_multimap *m, struct fth_qmem *mem, enum fth_map_kind kind,
		      const struct fth_map_facts *facts)
{
	*m = (struct fth_multimap){.mem = mem};
	return fth_map_init(&m->map, mem, kind, facts);
}

void fth_multimap_release(struct fth_multimap *m)
{
	fth_qmem_free(m->mem, m->start, (m->map.slots + 1) * sizeof(*m->start));
	fth_qmem_free(m->mem, m->values, m->rows * sizeof(*m->values));
	m->start = NULL;
	m->values = NULL;
	fth_map_release(&m->map);
}

int fth_multimap_seal_keys(struct fth_multimap *m)
{
	int rc = fth_map_seal(&m->map, false);

	if (rc < 0)
		return rc;
	m->start = fth_qmem_zalloc(m->mem, (m->map.slots + 1) * sizeof(*m->start));
	return m->start ? 0 : -ENOMEM;
}

void fth_multimap_count(struct fth_multimap *m, const int64_t *keys, unsigned n,
			const uint64_t *rows)
{
	uint64_t hits[FTH_BATCH_WORDS];
	uint32_t slots[FTH_BATCH];

	fth_map_find(&m->map, keys, n, rows, hits, slots);
	FTH_FOR_ROWS(hits, n, i)
	fth_add_relaxed_dev32(&m->start[slots[i]], 1);
}

int fth_multimap_seal_counts(struct fth_multimap *m)
{
	uint64_t total = 0;

	for (uint64_t s = 0; s < m->map.slots; s++) {
		total += m->start[s];
		if (total >= UINT32_MAX)
			return fth_fail(ERANGE, "multimap: more than 2^32 - 1 values");
		m->start[s] = (uint32_t)total;
	}
	m->start[m->map.slots] = (uint32_t)total;
	m->values = fth_qmem_alloc(m->mem, total * sizeof(*m->values));
	if (!m->values)
		return -ENOMEM;
	m->rows = total;
	return 0;
}

void fth_multimap_put(struct fth_multimap *m, const int64_t *keys, const uint32_t *values,
		      unsigned n, const uint64_t *rows)
{
	uint64_t hits[FTH_BATCH_WORDS];
	uint32_t slots[FTH_BATCH];

	fth_map_find(&m->map, keys, n, rows, hits, slots);
	/* Relaxed: each place is one row's, and readers look after the threads were joined. */
	FTH_FOR_ROWS(hits, n, i)
	m->values[fth_add_relaxed_dev32(&m->start[slots[i]], (uint32_t)-1) - 1] = values[i];
}
