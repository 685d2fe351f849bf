/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest_flat run CUT DEVICE: make records durable one by one in a region whose log is in the
 * persistent memory region of a drive, and say how many are. At the CUTth the host is asked to cut
 * the power; the program goes on until that happens.
 *
 * guest_flat check ACKNOWLEDGED DEVICE: after that: all records up to ACKNOWLEDGED are there, and
 * every record is whole.
 */
#include <fathom/base.h>
#include <fathom/base/rng.h>
#include <fathom/flat.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD 96u
#define STRIDE 1000u /* some lie in two pages */
#define SLOTS  3000u
#define BUDGET (2u << 20)

static void make_record(uint64_t words[RECORD / 8], uint64_t k)
{
	words[0] = k;
	for (unsigned i = 1; i < RECORD / 8; i++)
		words[i] = fth_mix64(k * 64 + i);
}

static char *slot(struct fth_flat *flat, uint64_t k)
{
	return (char *)fth_flat_base(flat) + k % SLOTS * STRIDE;
}

/* By plain pointers: the stores are executed on cold pages. */
static int put_record(struct fth_flat *flat, uint64_t k)
{
	uint64_t words[RECORD / 8];
	int rc;

	make_record(words, k);
	memcpy(slot(flat, k), words, RECORD);
	rc = fth_flat_persist(slot(flat, k), RECORD);
	if (rc >= 0 && rc != FTH_FLAT_SURVIVES_WINDOW)
		return fth_fail(EILSEQ, "persist guarantees \"%s\"",
				fth_flat_guarantee_name((enum fth_flat_guarantee)rc));
	return rc < 0 ? rc : 0;
}

static int run(struct fth_flat *flat, uint64_t cut)
{
	int rc = 0;

	for (uint64_t k = 1; rc == 0; k++) {
		rc = put_record(flat, k);
		if (rc == 0 && (k % 100 == 0 || k >= cut))
			printf("acked %llu\n", (unsigned long long)k);
		if (k == cut)
			printf("GUEST-CUT\n");
		fflush(stdout);
	}
	return rc;
}

/* A slot holds its newest record up to `last`, or a newer one. */
static int check(struct fth_flat *flat, uint64_t last)
{
	for (uint64_t k = last - SLOTS + 1; k <= last; k++) {
		uint64_t found[RECORD / 8], wanted[RECORD / 8];

		memcpy(found, slot(flat, k), RECORD);
		make_record(wanted, found[0]);
		if (memcmp(found, wanted, RECORD) != 0 || found[0] < k ||
		    found[0] % SLOTS != k % SLOTS)
			return fth_fail(EILSEQ, "record %llu is not there, but %llu",
					(unsigned long long)k, (unsigned long long)found[0]);
	}
	printf("all records up to %llu are there; pages written by now: %llu\n",
	       (unsigned long long)last,
	       (unsigned long long)fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS));
	return 0;
}

int main(int argc, char **argv)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	uint64_t number = argc == 4 ? strtoull(argv[2], NULL, 0) : 0;
	struct fth_flat *flat;
	int rc;

	if (argc != 4 || number < SLOTS) {
		fprintf(stderr, "usage: guest_flat run|check NUMBER DEVICE\n");
		return 2;
	}
	options.length = 4 << 20;
	options.window = FTH_FLAT_WINDOW_ON;
	rc = fth_flat_open(argv[3], BUDGET, &options, &flat);
	if (rc == 0) {
		rc = fth_flat_persistent(flat, fth_flat_base(flat), fth_flat_size(flat));
		if (rc >= 0)
			rc = strcmp(argv[1], "run") == 0 ? run(flat, number) : check(flat, number);
		fth_flat_discard(flat);
	}
	if (rc < 0)
		fprintf(stderr, "guest_flat: %s\n", fth_error_text(rc));
	return rc < 0;
}
