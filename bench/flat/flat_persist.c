/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small changes that are durable one by one (FlatFlash, section 5.5): records of 96 bytes, and a
 * journal of names. The same code runs on
 *
 *	window	a region whose log is in the window of a drive, with the latencies of FlatFlash's
 *		Table 2
 *	log	a region on the disk with a log and group commit
 *	block	blocks of 4 KiB on a drive that writes one in 20 us (FlatFlash, figure 14), each
 *		with the time that the kernel takes here for a write and fdatasync
 *	disk	blocks of 4 KiB on the disk, each with fdatasync
 *
 * After a run all of it is opened again and checked.
 */
#include "cli.h"
#include "flat_rows.h"
#include "common/scratch.h"

#include "base/team.h"
#include "workloads/names/names.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE	    (32u << 20)
#define BUDGET	    (16u << 20)
#define LOG	    (8u << 20)
#define RECORD	    96u
#define SLOT	    128u  /* bytes apart */
#define SLOTS	    4096u /* records of a thread */
#define WINDOW_URI  "softnvme(mem:32M)?pmr=8M&window_model=flatflash"
#define BLOCK_URI   "mem:32M"
#define BLOCK_NS    20000u /* of a write */
#define THREADS_MAX 16u
#define MODEL_MS    400u

enum medium { WINDOW, LOG_ON_DISK, BLOCK, DISK };
static const char *const medium_names[] = {"ours", "ours", "block", "disk"};

enum work { RECORDS, NAMES };

static const struct task {
	const char *name, *text;
	enum work work;
	enum medium ours;
	unsigned threads;
	bool emulated; /* also against blocks of the emulated drive */
} tasks[] = {
	{"persist_window", "96 bytes durable, window", RECORDS, WINDOW, 1, true},
	{"journal_window", "create, rename, remove; window", NAMES, WINDOW, 1, true},
	{"persist_log", "96 bytes durable, log on the disk", RECORDS, LOG_ON_DISK, 1, false},
	{"persist_log16", "the same, 16 threads", RECORDS, LOG_ON_DISK, 16, false},
	{"journal_log", "create, rename, remove; 16 threads, log", NAMES, LOG_ON_DISK, 16, false},
};
#define TASKS (sizeof(tasks) / sizeof(tasks[0]))

/* ---- a medium ---- */

struct rig {
	enum medium medium;
	struct fth_scratch scratch;
	struct fth_dev *dev;
	struct fth_flat *flat;
	struct fth_durable *durable;
	uint64_t asked, written; /* when counting began */
};

static int open_flat(struct rig *rig)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	int rc;

	options.log = rig->medium == LOG_ON_DISK ? LOG : 0;
	options.window = rig->medium == WINDOW ? FTH_FLAT_WINDOW_ON : FTH_FLAT_WINDOW_OFF;
	rc = fth_flat_open_dev(rig->dev, BUDGET, &options, &rig->flat);
	return rc < 0 ? rc : fth_durable_open_flat(rig->flat, &rig->durable);
}

static int open_durable(struct rig *rig)
{
	return rig->medium == WINDOW || rig->medium == LOG_ON_DISK
		       ? open_flat(rig)
		       : fth_durable_open_blocks(rig->dev, &rig->durable);
}

static void close_durable(struct rig *rig)
{
	fth_durable_close(rig->durable);
	fth_flat_discard(rig->flat);
	rig->durable = NULL;
	rig->flat = NULL;
}

static int open_rig(const struct flat_bench *b, struct rig *rig)
{
	bool emulated = rig->medium == WINDOW || rig->medium == BLOCK;
	int rc;

	if (emulated) {
		rc = fth_dev_open(rig->medium == WINDOW ? WINDOW_URI : BLOCK_URI, &rig->dev);
	} else {
		rc = fth_scratch_open(&rig->scratch, b->folder, "persist", SIZE, b->options);
		rig->dev = rig->scratch.dev;
	}
	return rc < 0 ? rc : open_durable(rig);
}

static void close_rig(struct rig *rig)
{
	close_durable(rig);
	if (rig->medium == WINDOW || rig->medium == BLOCK)
		fth_dev_close(rig->dev);
	else
		fth_scratch_remove(&rig->scratch);
}

/* Bytes to the medium: to blocks, and to the window. */
static uint64_t written(const struct rig *rig)
{
	uint64_t bytes = fth_dev_stat(rig->dev, FTH_DEV_STAT_BYTES_WRITTEN);

	if (rig->medium == WINDOW)
		bytes += fth_flat_stat(rig->flat, FTH_FLAT_STAT_LOG_BYTES);
	return bytes;
}

/* ---- work ---- */

struct run {
	const struct task *task;
	struct rig rig;
	struct fth_names *names;
	uint64_t end, kernel_ns;
	uint64_t done[THREADS_MAX];
};

static void fill_record(uint8_t record[RECORD], unsigned thread, uint64_t k)
{
	for (unsigned i = 0; i < RECORD / 8; i++) {
		uint64_t word = fth_mix64((uint64_t)thread << 48 ^ k << 8 ^ i);

		memcpy(record + 8 * i, &word, 8);
	}
}

static uint64_t slot_at(unsigned thread, uint64_t k)
{
	return ((uint64_t)thread * SLOTS + k % SLOTS) * SLOT;
}

static int write_record(struct run *r, unsigned thread, uint64_t k)
{
	uint64_t at = slot_at(thread, k);
	uint8_t record[RECORD];
	int rc;

	fill_record(record, thread, k);
	rc = fth_durable_store(r->rig.durable, at, record, RECORD);
	return rc < 0 ? rc : fth_durable_persist(r->rig.durable, at, RECORD);
}

static void name_of(char name[64], unsigned thread, uint64_t k, bool renamed)
{
	snprintf(name, 64, "mail/%u/message-%llu%s", thread, (unsigned long long)(k / 3),
		 renamed ? ".read" : "");
}

/* Of each name, in turn: create, rename, remove. */
static int change_names(struct run *r, unsigned thread, uint64_t k)
{
	char name[64], to[64];

	name_of(name, thread, k, false);
	name_of(to, thread, k, true);
	switch (k % 3) {
	case 0:
		return fth_names_create(r->names, name, NULL);
	case 1:
		return fth_names_rename(r->names, name, to);
	default:
		return fth_names_remove(r->names, to);
	}
}

static int work_once(struct run *r, unsigned thread, uint64_t k)
{
	return r->task->work == RECORDS ? write_record(r, thread, k) : change_names(r, thread, k);
}

/* The time of the kernel, in which this thread computes, and of the drive, in which others can. */
static void emulate_block(uint64_t start, uint64_t kernel_ns)
{
	uint64_t computing = fth_now_ns() + kernel_ns, end = start + kernel_ns + BLOCK_NS;

	while (fth_now_ns() < computing)
		fth_cpu_relax();
	while (fth_now_ns() < end)
		sched_yield();
}

static int work(void *context, unsigned thread)
{
	struct run *r = context;
	int rc = 0;

	while (rc == 0 && fth_now_ns() < r->end) {
		uint64_t start = fth_now_ns();

		rc = work_once(r, thread, r->done[thread]);
		r->done[thread] += rc == 0;
		if (r->kernel_ns)
			emulate_block(start, r->kernel_ns);
		if (fth_cli_stopped())
			rc = -EINTR;
	}
	return rc;
}

/* ---- checks ---- */

static int open_work(struct run *r)
{
	return r->task->work == NAMES ? fth_names_open(r->rig.durable, &r->names) : 0;
}

static void close_work(struct run *r)
{
	fth_names_close(r->names);
	r->names = NULL;
}

static uint64_t total(const struct run *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < r->task->threads; i++)
		sum += r->done[i];
	return sum;
}

static uint64_t wrong_records(struct run *r)
{
	uint8_t found[RECORD], wanted[RECORD];
	uint64_t wrong = 0;

	for (unsigned t = 0; t < r->task->threads; t++)
		for (uint64_t k = r->done[t] > SLOTS ? r->done[t] - SLOTS : 0; k < r->done[t];
		     k++) {
			uint64_t at = slot_at(t, k);

			fill_record(wanted, t, k);
			wrong += fth_durable_load(r->rig.durable, at, found, RECORD) < 0 ||
				 memcmp(found, wanted, RECORD) != 0;
		}
	return wrong;
}

static bool is_right(struct run *r)
{
	uint64_t names = 0;

	if (r->task->work == RECORDS)
		return wrong_records(r) == 0;
	for (unsigned t = 0; t < r->task->threads; t++)
		names += r->done[t] % 3 != 0;
	return fth_names_count(r->names) == names && fth_names_operations(r->names) == total(r);
}

/* ---- one run ---- */

static int work_and_check(const struct flat_bench *b, struct run *r, double *rate,
			  double *amplification)
{
	bool emulated = r->rig.medium == WINDOW || r->rig.medium == BLOCK;
	uint64_t ms = emulated && b->disk_ms > MODEL_MS ? MODEL_MS : b->disk_ms, start;
	int rc = open_work(r);

	if (rc < 0)
		return rc;
	r->rig.asked = fth_durable_asked(r->rig.durable);
	r->rig.written = written(&r->rig);
	start = fth_now_ns();
	r->end = start + ms * 1000000;
	rc = fth_team_run(r->task->threads, work, r);
	*rate = (double)total(r) * 1e9 / (double)(fth_now_ns() - start);
	if (rc == 0 && r->rig.flat) /* what is in the log alone comes in place, and counts */
		rc = fth_flat_sync(r->rig.flat, FTH_DEV_TIMEOUT);
	*amplification = (double)(written(&r->rig) - r->rig.written) /
			 (double)(fth_durable_asked(r->rig.durable) - r->rig.asked);
	close_work(r);
	close_durable(&r->rig);
	if (rc == 0)
		rc = open_durable(&r->rig);
	if (rc == 0)
		rc = open_work(r);
	if (rc == 0 && !is_right(r))
		rc = fth_fail(EIO, "%s: wrong data after reopening", r->task->name);
	return rc;
}

static int measure(const struct flat_bench *b, const struct task *task, enum medium medium,
		   uint64_t kernel_ns, double *rate, double *amplification)
{
	struct run r = {.task = task, .rig = {.medium = medium}};
	int rc;

	r.kernel_ns = medium == BLOCK ? kernel_ns : 0;
	rc = open_rig(b, &r.rig);
	if (rc == 0)
		rc = work_and_check(b, &r, rate, amplification);
	close_work(&r);
	close_rig(&r.rig);
	return rc;
}

/* CPU time of the kernel for writing a block of 4 KiB to a file and fdatasync. */
static int measure_kernel(const struct flat_bench *b, uint64_t *ns)
{
	unsigned n = b->smallest ? 20 : 300;
	struct fth_scratch scratch = {0};
	struct timespec from, to;
	void *block = aligned_alloc(4096, 4096);
	int rc = fth_scratch_open(&scratch, b->folder, "kernel", SIZE, b->options), fd;

	if (rc < 0 || !block) {
		free(block);
		return rc < 0 ? rc : -ENOMEM;
	}
	memset(block, 1, 4096);
	fd = open(scratch.path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0) /* a file system in memory */
		fd = open(scratch.path, O_WRONLY | O_CLOEXEC);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (unsigned i = 0; i < n && rc == 0; i++)
		if (pwrite(fd, block, 4096, (off_t)i * 4096) != 4096 || fdatasync(fd) < 0)
			rc = fth_fail(errno, "%s: %s", scratch.path, strerror(errno));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	*ns = ((uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec) /
	      n;
	if (fd >= 0)
		close(fd);
	free(block);
	fth_scratch_remove(&scratch);
	return rc;
}

static int measure_row(struct flat_bench *b, const struct task *task, uint64_t kernel_ns)
{
	const enum medium media[] = {task->ours, task->emulated ? BLOCK : DISK, DISK};
	unsigned n = task->emulated ? 3 : 2;
	const char *sides[FLAT_SIDES] = {NULL};
	struct flat_row *row;
	int rc = 0;

	for (unsigned s = 0; s < n; s++)
		sides[s] = medium_names[media[s]];
	row = flat_row_add(b, task->name, task->text, sides);
	if (!row)
		return -ENOMEM;
	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (unsigned s = 0; s < n && rc == 0; s++) {
			fth_cli_progress("flat persist", round * n + s, b->rounds * n);
			rc = measure(b, task, media[s], kernel_ns, &row->rate[s][round],
				     &row->amplification[s]);
		}
	return rc;
}

int flat_persist_rows(struct flat_bench *b)
{
	uint64_t kernel_ns = 0;
	int rc = measure_kernel(b, &kernel_ns);

	for (unsigned i = 0; i < TASKS && rc == 0; i++)
		rc = measure_row(b, &tasks[i], kernel_ns);
	fth_cli_progress_end();
	b->sync_ns = kernel_ns;
	return rc;
}
