/* SPDX-License-Identifier: BSD-2-Clause */
#include "table_source.h"

#include "cli.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

int fth_table_complain(const char *what, int rc)
{
	fth_cli_error("%s: %s", what, fth_error_text(rc));
	return rc == -ECANCELED && fth_cli_stopped() ? FTH_EXIT_INTERRUPTED : FTH_EXIT_FAILED;
}

bool fth_table_layout_text(const struct fth_table_layout *layout, struct fth_table_text *text)
{
	static const struct fth_table_text csv = FTH_TABLE_TEXT_CSV, bar = FTH_TABLE_TEXT_BAR;

	*text = layout->csv ? csv : bar;
	if (layout->header && layout->skip_header) {
		fth_cli_error("--header and --skip-header exclude each other");
		return false;
	}
	text->header = layout->header	     ? FTH_TABLE_HEADER_NAMES
		       : layout->skip_header ? FTH_TABLE_HEADER_SKIP
					     : FTH_TABLE_HEADER_NONE;
	text->trailing = layout->trailing;
	if (layout->null)
		text->null = layout->null;
	if (!layout->delimiter)
		return true;
	if (strcmp(layout->delimiter, "\\t") == 0) {
		text->delimiter = '\t';
	} else if (strlen(layout->delimiter) == 1) {
		text->delimiter = layout->delimiter[0];
	} else {
		fth_cli_error("--delimiter %s: expected one character or \\t", layout->delimiter);
		return false;
	}
	return true;
}

int fth_table_source_open(const char *db_name, const char *name, struct fth_table_db **db,
			  struct fth_table **table)
{
	int rc = fth_table_db_open(db_name, FTH_TABLE_DB_READONLY, db);

	if (rc < 0)
		return fth_table_complain(db_name, rc);
	rc = fth_table_open(*db, name, NULL, table);
	if (rc == 0)
		return FTH_CLI_GO_ON;
	fth_table_db_close(*db);
	return fth_table_complain(name, rc);
}
