/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The manifest of a table: its schema, groups, chunks, facts and dictionaries. It is stored as one
 * blob with a checksum, and replaced as a whole by every batch.
 */
#ifndef TABLE_MANIFEST_H
#define TABLE_MANIFEST_H

#include "table/format.h"

#include "fathom/table/read.h"

#include <stddef.h>
#include <stdint.h>

/* A column: its facts, and what an append needs to keep them. */
struct column_state {
	struct fth_table_facts facts;
	uint64_t runs;		/* a clustered column: of equal values */
	uint64_t last_run;	/* rows of the last of them */
	uint64_t text_last;	/* strings: bytes of `last` */
	int64_t last;		/* integers: the last value */
	char *last_string;	/* sorted strings: the last one; NULL otherwise */
	uint8_t *sketch;	/* SKETCH_REGISTERS */
	uint32_t *dict_offsets; /* facts.dictionary + 1 */
	char *dict_bytes;
};

/* Where its memory comes from, and how much it has. */
struct manifest {
	const struct fth_table_memory *memory;
	size_t used;

	uint64_t id;	  /* of the table, random: a chunk of another table does not verify */
	uint64_t version; /* grows with every batch */
	uint64_t rows;
	uint64_t end; /* of the last file: bytes that are in use */
	struct fth_table_schema schema;
	uint32_t cut_by; /* the column at whose runs groups are cut, or FTH_TABLE_NO_COLUMN */
	uint32_t files;
	uint64_t *file_bytes;
	uint32_t groups;
	struct fth_table_group *group;
	struct fth_table_chunk *chunk; /* of column c and group g: [c * groups + g] */
	struct column_state *column;
};

/* An empty one for a schema, which is copied. 0, -ENOMEM. */
int manifest_init(struct manifest *m, const struct fth_table_schema *schema, uint64_t id,
		  const struct fth_table_memory *memory);

/* Accepts a zeroed one. */
void manifest_release(struct manifest *m);

/*
 * Into a blob from malloc(), and from one. manifest_read() verifies everything that others rely on:
 * 0, -EBADMSG with a text, -ENOMEM. sketches says whether those are wanted: only writers need them.
 */
int manifest_write(const struct manifest *m, void **blob, size_t *bytes);
int manifest_read(struct manifest *m, const void *blob, size_t bytes, bool sketches,
		  const struct fth_table_memory *memory);

/* Memory of a manifest, counted. */
void *manifest_alloc(struct manifest *m, size_t bytes);
void manifest_free(struct manifest *m, void *memory, size_t bytes);

extern const struct fth_table_memory table_malloc;

#endif
