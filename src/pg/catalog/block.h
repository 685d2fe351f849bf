/* SPDX-License-Identifier: BSD-2-Clause */
/* A query block, between from.c and select.c. */
#ifndef PG_CATALOG_BLOCK_H
#define PG_CATALOG_BLOCK_H

#include "pg/catalog/catalog.h"

#define ITEMS_MAX 64

/* A query block while it is evaluated. */
struct block {
	struct cat *c;
	struct cat_scope scope;
	struct cat_item items[ITEMS_MAX];
	struct cat_tuples tuples;
	unsigned condition_count;
	const PgQuery__Node **conditions; /* of WHERE, joined by AND; NULL: applied */
	/* names of USING, for the join that is being made */
	unsigned using_count;
	PgQuery__Node **using;
};

/* The rows of FROM that WHERE leaves, into b->tuples. */
void cat_from(struct block *b, const PgQuery__SelectStmt *s);
/* The items show these rows. */
void cat_set_rows(struct block *b, unsigned width, const int *rows);
/* A relation with the column names of an alias. */
struct cat_rel *cat_renamed(struct cat *c, struct cat_rel *rel, const PgQuery__Alias *alias);

#endif
