/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_queue NAME put|get [COUNT]: a durable queue of lines, which can be killed at any time.
 *
 *	cc pm_queue.c $(pkg-config --cflags --libs fathom) -o pm_queue
 *	seq 1000 | ./pm_queue file:queue put
 *	./pm_queue file:queue get 10
 *
 * put appends the lines of its input, and says how many of them are safe: it waits for the disk
 * once for each batch, not for each line. get prints the oldest lines and then removes them: a line
 * is delivered at least once, and again if get is killed between the two.
 */
#include <fathom/base.h>
#include <fathom/pm.h>
#include <fathom/pm/wal.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY (1u << 20)
#define BATCH	 64u
#define LINE_MAX 4096u
#define TAG	 0x65756575u /* "ueue" */

static int fail(const char *what, int rc)
{
	fprintf(stderr, "pm_queue: %s: %s\n", what, fth_error_text(rc));
	return 1;
}

/* Wait for the last line of a batch: those before it are safe too. */
static int store_batch(struct fth_pm_wal *wal, uint64_t last, uint64_t lines)
{
	int rc = fth_pm_wal_wait(wal, last);

	if (rc == 0 && (printf("stored %" PRIu64 "\n", lines) < 0 || fflush(stdout)))
		rc = -errno;
	return rc;
}

static int put(struct fth_pm_wal *wal)
{
	uint64_t lines = 0, stored = 0, last = 0;
	char line[LINE_MAX];
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), stdin)) {
		rc = fth_pm_wal_append(wal, line, (uint32_t)strcspn(line, "\n"), &last);
		if (rc == 0 && ++lines % BATCH == 0) {
			rc = store_batch(wal, last, lines);
			stored = lines;
		}
	}
	if (lines > stored && (rc == 0 || rc == -ENOSPC)) {
		int stored_rc = store_batch(wal, last, lines);

		rc = rc == 0 ? stored_rc : rc;
	}
	return rc < 0 ? fail("put", rc) : 0;
}

static int get(struct fth_pm_wal *wal, uint64_t count)
{
	uint64_t cursor = 0, lines = 0;
	char line[LINE_MAX];
	int64_t bytes = 0;
	int rc = 0;

	while (rc == 0 && bytes >= 0 && lines < count) {
		uint64_t batch = 0;

		for (; batch < BATCH && lines < count; batch++, lines++) {
			bytes = fth_pm_wal_read(wal, &cursor, line, sizeof(line));
			if (bytes < 0)
				break;
			printf("%.*s\n", (int)bytes, line);
		}
		/* The lines have left this program before they leave the queue. */
		if (fflush(stdout) || ferror(stdout))
			rc = -EIO;
		else if (batch > 0)
			rc = fth_pm_wal_trim(wal, cursor);
	}
	if (rc == 0 && bytes < 0 && bytes != -ENOENT)
		rc = (int)bytes;
	return rc < 0 ? fail("get", rc) : 0;
}

int main(int argc, char **argv)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm_wal *wal;
	struct fth_pm *pm;
	int rc, status;

	if (argc < 3 || argc > 4 || (strcmp(argv[2], "put") && strcmp(argv[2], "get"))) {
		fprintf(stderr, "usage: pm_queue NAME put|get [COUNT]\n");
		return 2;
	}
	options.flags = FTH_PM_CREATE;
	options.tag = TAG;
	rc = fth_pm_map(argv[1], fth_pm_wal_bytes(CAPACITY), &options, &pm);
	if (rc < 0)
		return fail(argv[1], rc);
	rc = fth_pm_wal_open_or_create(pm, 0, CAPACITY, &wal);
	if (rc < 0)
		return fail(argv[1], rc);
	if (strcmp(argv[2], "put") == 0)
		status = put(wal);
	else
		status = get(wal, argc == 4 ? strtoull(argv[3], NULL, 10) : UINT64_MAX);
	fth_pm_wal_close(wal);
	rc = fth_pm_unmap(pm);
	return rc < 0 ? fail(argv[1], rc) : status;
}
