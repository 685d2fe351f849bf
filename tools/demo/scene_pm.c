/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scene: persistent memory. Threads append entries of 64 bytes, each of which survives when its call has returned. What a killed
 * process leaves: a log in shared memory, against write(). What a power loss leaves: a log drained to a file, against write() and
 * fdatasync(). All entries are read back and compared.
 */
#include "demo.h"

#include "cli.h"

#include "base/team.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"
#include "fathom/pm/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_BYTES    64u
#define SLOT_BYTES     128u /* of an entry in a conventional log, at most */
#define THREADS	       8u
#define MEMORY_ENTRIES 200000u
#define DISK_ENTRIES   600u /* of each thread */

/* One run. */
struct append {
	unsigned threads, entries; /* of each thread */
	struct fth_pm_log *log;	   /* NULL: into fd */
	int fd;
	bool sync;
	uint64_t ns, wrong, checked;
};

struct entry {
	uint64_t word[ENTRY_BYTES / 8];
};

static struct entry entry_of(unsigned thread, unsigned number)
{
	struct entry e;

	for (unsigned i = 0; i < ENTRY_BYTES / 8; i++)
		e.word[i] = fth_mix64((uint64_t)thread << 40 | (uint64_t)number << 8 | i);
	return e;
}

/* ---- appending ---- */

static int append_one(struct append *a, unsigned thread, unsigned number)
{
	struct entry e = entry_of(thread, number);
	off_t at = (off_t)((uint64_t)thread * a->entries + number) * ENTRY_BYTES;

	if (a->log)
		return fth_pm_log_insert(a->log, thread, &e, sizeof(e));
	if (pwrite(a->fd, &e, sizeof(e), at) != sizeof(e) || (a->sync && fdatasync(a->fd) < 0))
		return fth_fail(errno, "cannot write: %s", strerror(errno));
	return 0;
}

static int append_all(void *context, unsigned thread)
{
	struct append *a = context;
	int rc = 0;

	for (unsigned i = 0; i < a->entries && rc == 0; i++)
		rc = fth_cli_stopped() ? -EINTR : append_one(a, thread, i);
	return rc;
}

static int run_append(struct append *a)
{
	uint64_t start = fth_now_ns();
	int rc = fth_team_run(a->threads, append_all, a);

	a->ns = fth_now_ns() - start;
	return rc;
}

/* ---- Fathom ---- */

static int check_log(struct append *a)
{
	for (unsigned t = 0; t < a->threads; t++) {
		uint64_t cursor = 0;

		for (unsigned i = 0; i < a->entries; i++, a->checked++) {
			struct entry e, expected = entry_of(t, i);
			int64_t n = fth_pm_log_read(a->log, t, &cursor, &e, sizeof(e));

			a->wrong += n != sizeof(e) || memcmp(&e, &expected, sizeof(e)) != 0;
		}
	}
	return 0;
}

/* Opened again, as after a restart. */
static int check_again(struct append *a, const char *name)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;
	int rc;

	options.flags = FTH_PM_READ_ONLY;
	rc = fth_pm_map(name, 0, &options, &pm);
	if (rc < 0)
		return rc;
	rc = fth_pm_log_open(pm, 0, &a->log);
	if (rc == 0)
		rc = check_log(a);
	fth_pm_log_close(a->log);
	fth_pm_unmap(pm);
	return rc;
}

static int append_to_log(struct append *a, const char *name)
{
	uint32_t part = (a->entries * SLOT_BYTES + 4095) / 4096 * 4096;
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;
	int rc;

	options.flags = FTH_PM_CREATE | FTH_PM_EXCLUSIVE;
	rc = fth_pm_map(name, fth_pm_log_conv_bytes(a->threads, part), &options, &pm);
	if (rc < 0)
		return rc;
	rc = fth_pm_log_create_conv(pm, 0, a->threads, part, &a->log);
	if (rc == 0)
		rc = run_append(a);
	fth_pm_log_close(a->log);
	fth_pm_unmap(pm);
	if (rc == 0)
		rc = check_again(a, name);
	(void)fth_pm_remove(name);
	return rc;
}

/* ---- write() ---- */

static int append_to_file(struct append *a, const char *path)
{
	int rc;

	a->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (a->fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	/* of its full size, so that no write has to change metadata as well */
	rc = -posix_fallocate(a->fd, 0, (off_t)a->threads * a->entries * ENTRY_BYTES);
	if (rc == 0 && fsync(a->fd) < 0)
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	if (rc == 0)
		rc = run_append(a);
	for (unsigned t = 0; t < a->threads && rc == 0; t++) {
		for (unsigned i = 0; i < a->entries; i++, a->checked++) {
			struct entry e, expected = entry_of(t, i);
			off_t at = (off_t)((uint64_t)t * a->entries + i) * ENTRY_BYTES;

			a->wrong += pread(a->fd, &e, sizeof(e), at) != sizeof(e) ||
				    memcmp(&e, &expected, sizeof(e)) != 0;
		}
	}
	close(a->fd);
	unlink(path);
	return rc;
}

/* ---- the scene ---- */

#define CASES  4u
#define ROUNDS 3u

static const struct pm_case {
	const char *name;
	bool ours, disk;
} cases[CASES] = {
	{"Fathom, log in shared memory", true, false},
	{"write() into a file", false, false},
	{"Fathom, log on a disk, 8 threads", true, true},
	{"write() + fdatasync(), 8 threads", false, true},
};

static int run_case(struct demo *demo, const struct pm_case *c, const char *folder,
		    struct append *a)
{
	char path[DEMO_PATH_MAX + 16], name[3 * DEMO_PATH_MAX + 32];
	int rc;

	*a = (struct append){.threads = c->disk ? THREADS : 1,
			     .entries = c->disk ? DISK_ENTRIES : MEMORY_ENTRIES,
			     .sync = c->disk};
	if (demo->smallest)
		a->entries /= 50;
	snprintf(path, sizeof(path), "%s/log", folder);
	if (!c->ours)
		return append_to_file(a, path);
	if (!c->disk) {
		snprintf(name, sizeof(name), "shm:fathom-demo-%d", (int)getpid());
		return append_to_log(a, name);
	}
	rc = demo_uri(path, name, sizeof(name) - 16);
	strcat(name, "?inline=on");
	return rc < 0 ? rc : append_to_log(a, name);
}

/* The better of rounds in turns: single ones differ with what else the disk does. */
static int run_rounds(struct demo *demo, const char *folder, struct demo_row rows[CASES],
		      uint64_t *checked, uint64_t *wrong)
{
	int rc = 0;

	for (unsigned i = 0; i < CASES * ROUNDS && rc == 0; i++) {
		struct demo_row *row = &rows[i % CASES];
		struct append a;
		double rate;

		fth_cli_progress("persistent memory", i, CASES * ROUNDS);
		rc = run_case(demo, &cases[i % CASES], folder, &a);
		rate = rc == 0 ? (double)a.threads * (double)a.entries * 1e9 / (double)a.ns : 0;
		row->value = rate > row->value ? rate : row->value;
		*checked += a.checked;
		*wrong += a.wrong;
	}
	return rc;
}

static int run_cases(struct demo *demo, const char *folder)
{
	struct demo_row rows[CASES] = {{0}};
	uint64_t checked = 0, wrong = 0;
	int rc;

	for (unsigned i = 0; i < CASES; i++)
		rows[i] = (struct demo_row){.name = cases[i].name, .ours = cases[i].ours};
	demo_begin(demo, "pm", "Persistent memory: data that survives",
		   "   Entries of %u bytes; each is durable when the call that appends it returns.",
		   ENTRY_BYTES);
	rc = run_rounds(demo, folder, rows, &checked, &wrong);
	if (rc == 0) {
		demo_say(demo, "\n   Entries that survive the end of the process:");
		demo_bars(demo, "entries", DEMO_PER_SECOND, rows, 2);
		demo_say(demo, "\n   Entries that survive a power loss:");
		demo_bars(demo, "entries", DEMO_PER_SECOND, rows + 2, 2);
	}
	demo_end(demo, checked, "entries", wrong);
	return rc < 0 ? rc : wrong > 0;
}

int demo_scene_pm(struct demo *demo)
{
	char folder[DEMO_PATH_MAX];
	int rc = demo_make_folder(folder);

	if (rc < 0)
		return rc;
	rc = run_cases(demo, folder);
	demo_remove_folder(folder);
	return rc;
}
