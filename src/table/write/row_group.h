/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of one group, column by column, on their way to be encoded. */
#ifndef TABLE_ROW_GROUP_H
#define TABLE_ROW_GROUP_H

#include "fathom/table/schema.h"
#include "fathom/table/write.h"

#include <stdbool.h>
#include <stdint.h>

#define GROUP_TEXT_MAX (48u << 20) /* bytes of one column's strings; a group is cut before */

struct group_column {
	enum fth_table_kind kind;
	bool trim; /* strings: without trailing blanks */
	union {
		int64_t *ints; /* also keys of doubles */
		struct fth_table_wide *wides;
		uint32_t *offsets; /* rows + 1 */
	};
	char *bytes;
	uint32_t room; /* of bytes */
	uint32_t nulls;
	uint8_t *null; /* a byte for each row; valid if nulls */
};

struct group {
	struct group *next;
	uint32_t number, rows;
	uint32_t row_max;  /* rows, at most */
	uint64_t text_max; /* bytes of all strings; a single row may have more */
	uint32_t columns;
	struct group_column column[];
};

struct group *group_new(const struct fth_table_schema *schema, uint32_t rows, uint64_t text);
void group_free(struct group *group);
void group_clear(struct group *group);

/* How many of `rows` rows from `from` on fit; 0: the group is full. */
uint32_t group_room(const struct group *group, const struct fth_table_vector *columns,
		    uint32_t from, uint32_t rows);

/* Copy n rows that fit. -ENOMEM. */
int group_append(struct group *group, const struct fth_table_vector *columns, uint32_t from,
		 uint32_t n);

/* Move the rows from `at` on to another group, which is empty. -ENOMEM. */
int group_split(struct group *group, uint32_t at, struct group *rest);

/* Whether row i of a column without nulls equals the one before. i > 0. */
bool group_equal_before(const struct group_column *column, uint32_t i);

#endif
