/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups of clustered keys. */
#include "query/keys/runs.h"
#include "query/keys/bit_rows.h"

unsigned fth_runs_next(struct fth_runs *r, const int64_t *keys, unsigned n, const uint64_t *rows,
		       uint32_t *runs, int64_t *run_keys, bool *continues)
{
	unsigned count = 0;
	bool first = true;

	*continues = false;
	FTH_FOR_ROWS(rows, n, i)
	{
		if (first) {
			*continues = r->open && r->last == keys[i];
			first = false;
			run_keys[count++] = keys[i];
		} else if (keys[i] != r->last) {
			run_keys[count++] = keys[i];
		}
		r->last = keys[i];
		r->open = true;
		runs[i] = count - 1;
	}
	return count;
}
