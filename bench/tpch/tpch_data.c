/* SPDX-License-Identifier: BSD-2-Clause */
#define _XOPEN_SOURCE 700
#include "tpch_data.h"

#include "common/scratch.h"
#include "tpch_shuffle.h"

#include "workloads/tpch/tpch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FOLDERS 16 /* of a walk through a tree */

/* ---- files ---- */

static int make_path(char path[PATH_MAX], const char *folder, const char *name, const char *end)
{
	return snprintf(path, PATH_MAX, "%s/%s%s", folder, name, end) < PATH_MAX ? 0
										 : -ENAMETOOLONG;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static int make_folder(const char *path)
{
	return mkdir(path, 0777) < 0 && errno != EEXIST
		       ? fth_fail(errno, "%s: %s", path, strerror(errno))
		       : 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path) < 0 ? -errno : 0;
}

static void remove_tree(const char *path)
{
	nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

static uint64_t summed_bytes; /* of add_bytes(), since nftw() has no context */

static int add_bytes(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)path;
	(void)where;
	if (kind == FTW_F)
		summed_bytes += (uint64_t)st->st_size;
	return 0;
}

static uint64_t bytes_of(const char *path)
{
	summed_bytes = 0;
	nftw(path, add_bytes, OPEN_FOLDERS, FTW_PHYS);
	return summed_bytes;
}

static int drop_file(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	int fd = kind == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	(void)st;
	(void)where;
	if (fd >= 0) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return 0;
}

void tpch_data_drop(const struct tpch_data *data)
{
	nftw(data->ours.path, drop_file, OPEN_FOLDERS, FTW_PHYS);
	if (data->rival)
		nftw(data->peer.path, drop_file, OPEN_FOLDERS, FTW_PHYS);
}

/* ---- text ---- */

static int make_text(const struct tpch_data *data, const char *folder)
{
	char scale[32], last[PATH_MAX];
	char *argv[] = {(char *)data->fathom, "tpch",	      "gen",	 "--sf", scale,
			"--output",	      (char *)folder, "--force", NULL};
	int rc = make_path(last, folder, fth_tpch_table_name(FTH_TPCH_LINEITEM), ".tbl");

	if (rc < 0 || exists(last))
		return rc;
	snprintf(scale, sizeof(scale), "%g", data->scale);
	return tpch_run_program(argv, NULL, NULL);
}

/* What the names of files end with. */
static const char *order_name(enum tpch_order order)
{
	static const char *const names[] = {[TPCH_GENERATED] = "",
					    [TPCH_SHUFFLED_LINEITEM] = "-shuffled-lineitem",
					    [TPCH_SHUFFLED_BOTH] = "-shuffled"};

	return names[order];
}

static bool is_shuffled(enum tpch_order order, unsigned table)
{
	return table == FTH_TPCH_LINEITEM ||
	       (table == FTH_TPCH_ORDERS && order == TPCH_SHUFFLED_BOTH);
}

static int shuffle_text(const char *from, const char *to, enum tpch_order order)
{
	int rc = make_folder(to);

	for (unsigned t = 0; t < FTH_TPCH_TABLES && rc == 0; t++) {
		char source[PATH_MAX], target[PATH_MAX];

		rc = make_path(source, from, fth_tpch_table_name(t), ".tbl");
		if (rc == 0)
			rc = make_path(target, to, fth_tpch_table_name(t), ".tbl");
		if (rc < 0 || exists(target))
			continue;
		if (is_shuffled(order, t))
			rc = tpch_shuffle_lines(source, target, t);
		else if (link(source, target) < 0)
			rc = fth_fail(errno, "%s: %s", target, strerror(errno));
	}
	return rc;
}

static int open_text(const struct tpch_data *data, char folder[PATH_MAX])
{
	char plain[PATH_MAX];
	int rc = make_path(plain, data->root, "text", "");

	if (rc == 0)
		rc = make_path(folder, data->root, "text", order_name(data->order));
	if (rc == 0)
		rc = make_text(data, plain);
	if (rc == 0 && data->order != TPCH_GENERATED)
		rc = shuffle_text(plain, folder, data->order);
	return rc;
}

static int open_schema(const struct tpch_data *data, char path[PATH_MAX])
{
	char *argv[] = {(char *)data->fathom, "tpch", "schema", NULL};
	int rc = make_path(path, data->root, "schema.sql", "");

	return rc < 0 ? rc : tpch_run_program(argv, path, NULL);
}

/* ---- tables ---- */

/* A script in SQL: the schema, then a COPY for each table. */
static int write_script(const char *path, const char *schema, const char *text)
{
	FILE *in = fopen(schema, "re"), *out = fopen(path, "we");
	char line[256];

	while (in && out && fgets(line, sizeof(line), in))
		fputs(line, out);
	for (unsigned t = 0; t < FTH_TPCH_TABLES && out; t++)
		fprintf(out, "copy %s from '%s/%s.tbl' with (delimiter '|');\n",
			fth_tpch_table_name(t), text, fth_tpch_table_name(t));
	if (in)
		fclose(in);
	return in && out && fclose(out) == 0 ? 0 : fth_fail(EIO, "cannot write %s", path);
}

static int load_ours(const struct tpch_data *data, const char *partial, const char *schema,
		     const char *text, struct tpch_figures *took)
{
	char script[PATH_MAX], threads[24];
	char *argv[] = {(char *)data->fathom, "sql",  "--create", "--threads", threads,
			(char *)partial,      script, NULL};
	int rc = make_path(script, data->root, "load.sql", "");

	snprintf(threads, sizeof(threads), "%llu", (unsigned long long)data->threads);
	if (rc == 0)
		rc = write_script(script, schema, text);
	return rc == 0 ? tpch_run_program(argv, NULL, took) : rc;
}

static void note_load(const char *path, const struct tpch_figures *took)
{
	FILE *file = fopen(path, "we");

	if (file) {
		fprintf(file, "%.3f %.3f\n", took->cpu, took->wall);
		fclose(file);
	}
}

static void recall_load(const char *path, double *cpu, double *wall)
{
	FILE *file = fopen(path, "re");

	if (file && fscanf(file, "%lf %lf", cpu, wall) != 2)
		*cpu = *wall = 0;
	if (file)
		fclose(file);
}

/* Make the tables of one engine; rival NULL is ours. */
static int load_tables(const struct tpch_data *data, const struct tpch_rival *rival,
		       const char *path, const char *note)
{
	char partial[PATH_MAX], schema[PATH_MAX], text[PATH_MAX];
	struct tpch_figures took = {0};
	int rc = snprintf(partial, sizeof(partial), "%s.partial", path) < PATH_MAX ? 0
										   : -ENAMETOOLONG;

	if (rc == 0)
		rc = open_text(data, text);
	if (rc == 0)
		rc = open_schema(data, schema);
	if (rc < 0)
		return rc;
	remove_tree(partial);
	rc = rival ? tpch_rival_load(rival, partial, schema, text, &took)
		   : load_ours(data, partial, schema, text, &took);
	if (rc == 0 && rename(partial, path) < 0)
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	if (rc == 0)
		note_load(note, &took);
	return rc;
}

static int open_tables(const struct tpch_data *data, const struct tpch_rival *rival, char *path,
		       uint64_t *bytes, double *cpu, double *wall)
{
	char note[PATH_MAX];
	int rc = make_path(path, data->root, rival ? rival->name : "ours", order_name(data->order));

	if (rc == 0 && snprintf(note, sizeof(note), "%s.load", path) >= PATH_MAX)
		rc = -ENAMETOOLONG;
	if (rc == 0 && !exists(path))
		rc = load_tables(data, rival, path, note);
	if (rc < 0)
		return rc;
	*bytes = bytes_of(path);
	recall_load(note, cpu, wall);
	return 0;
}

/* ---- all of it ---- */

static int open_root(struct tpch_data *data)
{
	int n, rc = 0;

	if (!data->folder) {
		n = snprintf(data->root, sizeof(data->root), "%s/fathom-tpch-XXXXXX",
			     fth_scratch_folder(NULL));
		if (n >= PATH_MAX || !mkdtemp(data->root))
			return fth_fail(errno, "%s: %s", data->root, strerror(errno));
		data->temporary = true;
		/* A rival may run as another user. */
		return chmod(data->root, 0755) < 0 ? -errno : 0;
	}
	rc = make_folder(data->folder);
	n = snprintf(data->root, sizeof(data->root), "%s/sf%g", data->folder, data->scale);
	if (rc == 0)
		rc = n < PATH_MAX ? make_folder(data->root) : -ENAMETOOLONG;
	return rc;
}

int tpch_data_open(struct tpch_data *data)
{
	int rc = open_root(data);

	if (rc == 0)
		rc = open_tables(data, NULL, data->ours.path, &data->ours.bytes,
				 &data->ours.load_cpu, &data->ours.load_wall);
	if (rc == 0 && data->rival)
		rc = open_tables(data, data->rival, data->peer.path, &data->peer.bytes,
				 &data->peer.load_cpu, &data->peer.load_wall);
	return rc;
}

void tpch_data_close(struct tpch_data *data)
{
	if (data->temporary)
		remove_tree(data->root);
}
