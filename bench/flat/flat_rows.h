/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `fathom bench flat` share. Each group measures a few rows; a row has ours and
 * up to three peers, and as many runs of each as there are rounds.
 *
 *	bench_flat.c	options, table, JSON
 *	flat_pattern.c	random and sequential accesses with the latencies of FlatFlash's Table 2
 *	flat_stack.c	what the kernel's block path costs here
 *	flat_graph.c	graph_plain.c on a graph in a region
 *	flat_disk.c	a file on the disk, against mmap in the same memory
 *	flat_reads.c	what that disk gives
 *	flat_hot.c	pages in DRAM, against plain memory
 *	flat_persist.c	small changes that are durable one by one, against blocks
 */
#ifndef FTH_BENCH_FLAT_ROWS_H
#define FTH_BENCH_FLAT_ROWS_H

#include "common/median.h"

#include "fathom/flat.h"

#include <stdbool.h>
#include <stdint.h>

#define FLAT_SIDES    4u /* ours is the first */
#define FLAT_ROWS_MAX 32u

/* Reads of single pages. */
struct flat_reads {
	double rate, cpu_us; /* per second; of a read */
};
enum {
	FLAT_SLEPT,
	FLAT_POLLED,
	FLAT_WRITTEN,
	FLAT_WAITS
}; /* the last: polled, some written back */

/* Rows of the disk: what the accesses of a side cost, and how fast they could be. */
struct flat_limit {
	double reads[FLAT_SIDES][FTH_ROUNDS_MAX];  /* pages, of an access */
	double writes[FLAT_SIDES][FTH_ROUNDS_MAX]; /* mmap: pages that became dirty */
	double cpu_us[FLAT_SIDES][FTH_ROUNDS_MAX]; /* of an access */
	struct flat_reads disk[FLAT_WAITS][FTH_ROUNDS_MAX];
	/* of an access, if the pages used most are always in memory; 0: not a row of the disk */
	double least_reads;
};

struct flat_row {
	const char *name, *text;
	const char *side[FLAT_SIDES];		 /* NULL: this row has no such side */
	double rate[FLAT_SIDES][FTH_ROUNDS_MAX]; /* per second, larger is better */
	uint64_t moved[FLAT_SIDES],
		written[FLAT_SIDES]; /* pages to DRAM and to the device, last round */
	double amplification
		[FLAT_SIDES]; /* bytes written for each that had to be, last round; 0: not counted */
	struct flat_limit limit;
};

struct flat_bench {
	uint64_t size, times, ops, rounds, seed; /* of the patterns */
	uint64_t graph_scale, graph_times;
	uint64_t disk_size, disk_ms; /* of a run, in milliseconds */
	const char *folder, *options, *only;
	bool smallest, no_model;
	/* regions of ours have no thread of their own; those that page never have */
	bool foreground;
	uint64_t stack_read_ns, stack_write_ns; /* what flat_stack_measure() found */
	uint64_t sync_ns; /* of the kernel, for a write of 4 KiB and fdatasync */
	struct flat_row rows[FLAT_ROWS_MAX];
	unsigned count;
};

/* A row with these sides; NULL if there are too many. */
struct flat_row *flat_row_add(struct flat_bench *b, const char *name, const char *text,
			      const char *const side[FLAT_SIDES]);
/* Medians. The ratio is ours over that side. */
double flat_row_rate(const struct flat_bench *b, const struct flat_row *row, unsigned side);
double flat_row_ratio(const struct flat_bench *b, const struct flat_row *row, unsigned side);

/* Measure rows. 0; -ENOTSUP with a reason if it is impossible here; or another error. */
bool flat_is_pattern(const char *name); /* one row of these can be measured alone */
int flat_pattern_rows(struct flat_bench *b);
int flat_graph_rows(struct flat_bench *b);
int flat_disk_rows(struct flat_bench *b);
int flat_hot_rows(struct flat_bench *b);
int flat_persist_rows(struct flat_bench *b);

/*
 * Reads of pages at random by so many threads, for half as long as a run on the disk. Polled:
 * threads look for their completion instead of sleeping, and that share of the pages is written
 * back.
 */
struct fth_scratch;
int flat_reads_measure(const struct flat_bench *b, const struct fth_scratch *scratch,
		       unsigned threads, uint64_t seed, bool polled, double write_share,
		       struct flat_reads *out);
/* CPU time of this process so far. */
uint64_t flat_cpu_ns(void);

/*
 * CPU time that the kernel takes for a page fault that reads a page of a file by its block layer,
 * less a fault of a page that is in memory, and for writing a page back. -ENOTSUP if the folder is
 * in memory.
 */
int flat_stack_measure(struct flat_bench *b);

#endif
