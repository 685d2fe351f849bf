/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Databases. Siblings: place_dir.c and place_vol.c keep tables in a directory or a volume,
 * manifest.c says what a table consists of, table.c opens snapshots, writer.c appends.
 */
#include "table/place/db.h"

#include "table/place/manifest.h"
#include "table/place/names.h"

#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int db_name(const char *name, char out[FTH_TABLE_NAME_MAX + 1])
{
	size_t n = strnlen(name, FTH_TABLE_NAME_MAX + 1);

	if (!table_name_valid(name))
		return fth_fail(EINVAL,
				"\"%.80s\" is not a table name: expected a letter or _, then up to "
				"62 letters, digits and _",
				name);
	for (size_t i = 0; i <= n; i++)
		out[i] = (char)tolower((unsigned char)name[i]);
	return 0;
}

/* "vol(URI,...)" is a volume, anything else a directory. */
static int open_place(const char *where, unsigned flags, struct place **out)
{
	size_t n = strlen(where);
	char *uris;
	int rc;

	if (strncmp(where, "vol(", 4) != 0 || where[n - 1] != ')')
		return place_dir_open(where, flags, out);
	uris = strndup(where + 4, n - 5);
	if (!uris)
		return -ENOMEM;
	rc = place_vol_open(uris, flags, out);
	free(uris);
	return rc;
}

int fth_table_db_open(const char *where, unsigned flags, struct fth_table_db **out)
{
	struct fth_table_db *db = calloc(1, sizeof(*db));
	int rc;

	*out = NULL;
	if (!db)
		return -ENOMEM;
	rc = open_place(where, flags, &db->place);
	if (rc < 0) {
		free(db);
		return rc;
	}
	*out = db;
	return 0;
}

void fth_table_db_close(struct fth_table_db *db)
{
	if (!db)
		return;
	db->place->ops->close(db->place);
	free(db);
}

static int refuse_readonly(const struct fth_table_db *db)
{
	return db->place->readonly ? fth_fail(EROFS, "the database is open read-only") : 0;
}

int fth_table_create(struct fth_table_db *db, const char *name,
		     const struct fth_table_schema *schema)
{
	char lower[FTH_TABLE_NAME_MAX + 1];
	struct manifest m = {0};
	struct blob blob = {0};
	uint64_t id;
	int rc = refuse_readonly(db);

	if (rc == 0)
		rc = db_name(name, lower);
	if (rc == 0)
		rc = fth_table_schema_check(schema);
	if (rc == 0 && getrandom(&id, sizeof(id), 0) != sizeof(id))
		rc = -EIO;
	if (rc == 0)
		rc = manifest_init(&m, schema, id, &table_malloc);
	if (rc == 0)
		rc = manifest_write(&m, &blob.bytes, &blob.length);
	if (rc == 0)
		rc = db->place->ops->create(db->place, lower, &blob);
	free(blob.bytes);
	manifest_release(&m);
	return rc;
}

int fth_table_remove(struct fth_table_db *db, const char *name)
{
	char lower[FTH_TABLE_NAME_MAX + 1];
	int rc = refuse_readonly(db);

	if (rc == 0)
		rc = db_name(name, lower);
	return rc < 0 ? rc : db->place->ops->remove(db->place, lower);
}

int fth_table_list(struct fth_table_db *db, int (*visit)(const char *name, void *user), void *user)
{
	return db->place->ops->list(db->place, visit, user);
}
