/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that decode pages share. */
#ifndef TABLE_PAGE_H
#define TABLE_PAGE_H

#include "fathom/table/read.h"

/* -EBADMSG with a text that names table, column and group. */
int page_bad(const struct fth_table_page *page, const char *what);

/* 0, or -ERANGE if [from, to) is no range of its rows. */
int page_range(const struct fth_table_page *page, uint32_t from, uint32_t to);

static inline enum fth_table_kind page_kind(const struct fth_table_page *page)
{
	return fth_table_kind(&fth_table_schema(page->table)->column[page->column]);
}

#endif
