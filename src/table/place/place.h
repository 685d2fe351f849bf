/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where tables are kept: what a directory (place_dir.c) and a volume (place_vol.c) have in common.
 * Names are valid, in lower case. All functions return 0 or a negative errno with a text.
 */
#ifndef TABLE_PLACE_H
#define TABLE_PLACE_H

#include "fathom/dev.h"
#include "fathom/table/read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* First member of an implementation's own struct. */
struct place {
	const struct place_ops *ops;
	bool readonly;
};

/* A table that is open for writing. First member of an implementation's own struct. */
struct output {
	const struct output_ops *ops;
};

struct blob {
	void *bytes;
	size_t length;
};

struct place_ops {
	void (*close)(struct place *place);
	int (*list)(struct place *place, int (*visit)(const char *name, void *user), void *user);
	/* Create a table with this manifest and no files. -EEXIST. */
	int (*create)(struct place *place, const char *name, const struct blob *manifest);
	int (*remove)(struct place *place, const char *name);
	/* The manifest of a table, into memory of `memory`. -ENOENT. */
	int (*read)(struct place *place, const char *name, const struct fth_table_memory *memory,
		    struct blob *manifest);
	/* One of its files, of at least `bytes` bytes, for reading. */
	int (*open_file)(struct place *place, const char *name, uint64_t id, uint32_t file,
			 uint64_t bytes, struct fth_dev **out);
	/* Lock a table for writing. -EBUSY. */
	int (*open_output)(struct place *place, const char *name, struct output **out);
};

struct output_ops {
	/* The manifest as it is under the lock, from malloc(). */
	int (*read)(struct output *output, struct blob *manifest);
	/*
	 * Begin a batch behind what the manifest says, and remove what is beyond: the table has
	 * this id and `files` files, the last one used up to `end`.
	 */
	int (*begin)(struct output *output, uint64_t id, uint32_t files, uint64_t end);
	/* Room for `bytes`, a multiple of BATCH_ALIGN. One thread at a time. */
	int (*reserve)(struct output *output, uint64_t bytes, uint32_t *file, uint64_t *offset);
	/* Write into such room. Any thread. */
	int (*write)(struct output *output, uint32_t file, const void *data, uint64_t bytes,
		     uint64_t offset);
	/* The number of files, and the bytes of each; 0: as before. */
	uint32_t (*files)(struct output *output);
	uint64_t (*file_bytes)(struct output *output, uint32_t file);
	/* Make what was written durable, and then this manifest the table's. */
	int (*commit)(struct output *output, const struct blob *manifest);
	/* Unlock. What was not committed goes. */
	void (*close)(struct output *output);
};

int place_dir_open(const char *path, unsigned flags, struct place **out);

/* uris: of the devices, separated by commas. */
int place_vol_open(const char *uris, unsigned flags, struct place **out);

#endif
