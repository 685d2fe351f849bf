/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flat_table URI UPDATES: a table of counters on a device, used by a plain pointer with a few MiB
 * of memory.
 *
 *	cc flat_table.c $(pkg-config --cflags --libs fathom) -o flat_table
 *	./flat_table 'file:/tmp/table?create=on&size=64M' 100000
 *
 * Shows that a program needs nothing but the pointer: half of the updates go to a hundredth of the
 * table, which moves to DRAM; the others are made where the pages are.
 */
#include <fathom/base.h>
#include <fathom/flat.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BUDGET (4u << 20)

static uint64_t pick(uint64_t *state, uint64_t n)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % n;
}

int main(int argc, char **argv)
{
	uint64_t state = 1, sum = 0, updates, n;
	struct fth_flat *flat;
	uint64_t *table;
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: flat_table URI UPDATES\n");
		return 2;
	}
	updates = strtoull(argv[2], NULL, 10);
	rc = fth_flat_open(argv[1], BUDGET, NULL, &flat);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], fth_error_text(rc));
		return 1;
	}
	table = fth_flat_base(flat);
	n = fth_flat_size(flat) / sizeof(*table);
	for (uint64_t i = 0; i < updates; i++)
		table[pick(&state, i % 2 ? n : n / 100)]++;
	for (uint64_t i = 0; i < n; i++)
		sum += table[i];
	for (int i = 0; i < FTH_FLAT_STAT_COUNT; i++)
		printf("%s %" PRIu64 "\n", fth_flat_stat_name((enum fth_flat_stat)i),
		       fth_flat_stat(flat, (enum fth_flat_stat)i));
	printf("sum %" PRIu64 "\n", sum);
	rc = fth_flat_close(flat);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], fth_error_text(rc));
		fth_flat_discard(flat);
		return 1;
	}
	return 0;
}
