/* SPDX-License-Identifier: BSD-2-Clause */
/* Merging sorted runs of edges, from memory and from a file. For sort.c. */
#ifndef FTH_GRAPH_MERGE_H
#define FTH_GRAPH_MERGE_H

#include <stddef.h>
#include <stdint.h>

/* A sorted run of records of `words` 64-bit words: the key, then perhaps the weight. */
struct fth_edge_run {
	uint64_t *memory; /* or NULL: in the file */
	uint64_t at;	  /* bytes into the file */
	uint64_t records;
};

struct fth_edge_cursor; /* where the merge is in one run */

/* The runs by the key that each stands at: a heap, smallest first. */
struct fth_edge_place {
	uint64_t key;
	uint32_t cursor;
};

struct fth_edge_merge {
	int fd;
	unsigned words;
	unsigned count; /* cursors */
	struct fth_edge_cursor *cursors;
	struct fth_edge_place *heap;
	unsigned heap_count;
};

/* buffer_bytes: of each run that is in the file. The runs are copied. 0 or a negative errno. */
int fth_edge_merge_open(struct fth_edge_merge *merge, int fd, unsigned words,
			const struct fth_edge_run *runs, unsigned count, size_t buffer_bytes);
/* Accepts a zeroed one. */
void fth_edge_merge_close(struct fth_edge_merge *merge);

/* The next edge, without duplicates: 1, or 0 at the end, or a negative errno. */
int fth_edge_merge_next(struct fth_edge_merge *merge, uint64_t *key, uint32_t *weight);

/* A temporary file without a name; directory NULL: TMPDIR or /tmp. Its descriptor, or -errno. */
int fth_edge_file_open(const char *directory);
/* All of it, or fail. */
int fth_edge_file_read(int fd, void *buf, size_t length, uint64_t at);
int fth_edge_file_write(int fd, const void *buf, size_t length, uint64_t at);

#endif
