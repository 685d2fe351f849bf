/* SPDX-License-Identifier: BSD-2-Clause */
#include "tpch_rival.h"

#include "common/find_program.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name, *interpreter, *script;
} rivals[] = {
	{"duckdb", "node", "tpch_duckdb.mjs"},
	{"postgres", "python3", "tpch_postgres.py"},
};

#define ARGUMENTS_MAX 12

/* ---- calls ---- */

static int read_figures(FILE *file, struct tpch_figures *took, unsigned runs)
{
	unsigned long long read, written, rss;

	for (unsigned i = 0; i < runs; i++) {
		if (fscanf(file, "%lf %lf %llu %llu %llu", &took[i].cpu, &took[i].wall, &read,
			   &written, &rss) != 5)
			return fth_fail(EBADMSG, "cannot parse the rival's results");
		took[i].read = read;
		took[i].written = written;
		took[i].rss = rss;
	}
	return 0;
}

static int temporary_file(char path[64])
{
	int fd;

	snprintf(path, 64, "/tmp/fathom-tpch-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? fth_fail(errno, "%s: %s", path, strerror(errno)) : close(fd);
}

/* Run the script with arguments, ended by NULL; take `runs` lines of figures, or the first line as text. */
static int call(const struct tpch_rival *rival, const char *const *arguments,
		struct tpch_figures *took, unsigned runs, char *text, size_t size)
{
	char *argv[ARGUMENTS_MAX] = {(char *)rival->interpreter, (char *)rival->script};
	char path[64];
	FILE *file;
	int rc;

	for (unsigned i = 0; arguments[i]; i++)
		argv[i + 2] = (char *)arguments[i];
	rc = temporary_file(path);
	if (rc < 0)
		return rc;
	rc = tpch_run_program(argv, path, NULL);
	file = rc == 0 ? fopen(path, "re") : NULL;
	if (file && runs)
		rc = read_figures(file, took, runs);
	else if (file && !fgets(text, (int)size, file))
		rc = fth_fail(EBADMSG, "%s printed no version", rival->script);
	if (file)
		fclose(file);
	unlink(path);
	return rc;
}

int tpch_rival_find(struct tpch_rival *rival, const char *name)
{
	static const char *const arguments[] = {"version", NULL};
	const char *script = NULL;
	int rc;

	for (unsigned i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++)
		if (strcmp(rivals[i].name, name) == 0) {
			rival->name = rivals[i].name;
			rival->interpreter = rivals[i].interpreter;
			script = rivals[i].script;
		}
	if (!script)
		return fth_fail(EINVAL, "--rival %s: expected duckdb, postgres or none", name);
	if (!bench_find_beside(script, rival->script))
		return fth_fail(ENOENT, "%s is not in the directory of fathom-bench", script);
	rc = call(rival, arguments, NULL, 0, rival->version, sizeof(rival->version));
	rival->version[strcspn(rival->version, "\n")] = '\0';
	return rc;
}

int tpch_rival_load(const struct tpch_rival *rival, const char *database, const char *schema,
		    const char *folder, struct tpch_figures *took)
{
	char threads[24], memory[24];
	const char *const arguments[] = {"load", database, threads, memory, schema, folder, NULL};

	snprintf(threads, sizeof(threads), "%llu", (unsigned long long)rival->threads);
	snprintf(memory, sizeof(memory), "0"); /* queries have the limit */
	return call(rival, arguments, took, 1, NULL, 0);
}

int tpch_rival_run(const struct tpch_rival *rival, const char *database, const char *query,
		   const char *answer, struct tpch_figures took[TPCH_RUNS])
{
	char threads[24], memory[24], runs[24];
	const char *const arguments[] = {"run", database, threads, memory,
					 runs,	query,	  answer,  NULL};

	snprintf(threads, sizeof(threads), "%llu", (unsigned long long)rival->threads);
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)rival->memory);
	snprintf(runs, sizeof(runs), "%d", TPCH_RUNS);
	return call(rival, arguments, took, TPCH_RUNS, NULL, 0);
}
