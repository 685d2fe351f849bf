/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file on the disk: a region, and the file mapped with MADV_RANDOM and without. Every run is a
 * child in a memory cgroup of the same size, and begins with nothing of the file in memory.
 *
 * A word holds 48 bits that follow from its number, and the updates that it got in the other 16.
 * Every load checks the former; at the end of a row the latter must sum up to the updates of all
 * runs. A thread updates words of its own.
 */
#include "flat_rows.h"

#include "common/cgroup.h"
#include "cli.h"
#include "kv_load_internal.h"
#include "common/scratch.h"

#include "base/team.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	       4096u
#define WORDS_PER_PAGE (PAGE / sizeof(uint64_t))
#define THREADS	       8u
#define GATHER	       512u	   /* words of a gather */
#define PROCESS_MEMORY (12u << 20) /* beside the data: stacks, heap, page tables, rings */
#define COUNTER_BITS   16u

static const struct disk_task {
	const char *name, *text;
	unsigned threads;
	double zipf;
	unsigned updates; /* of 100 accesses */
	bool gather;
} tasks[] = {
	{"disk_random", "8 threads, uniform, 1 in 4 an update", THREADS, 0, 25, false},
	{"disk_zipf", "8 threads, zipf of 0.99, 1 in 4 an update", THREADS, 0.99, 25, false},
	{"disk_gather", "loads of 512 words at once, uniform", 1, 0, 0, true},
};
#define TASKS (sizeof(tasks) / sizeof(tasks[0]))

enum side { OURS, MMAP_RANDOM, MMAP_DEFAULT, SIDES };

/* ---- words ---- */

static uint64_t word_of(uint64_t i)
{
	return fth_mix64(i + 1) << COUNTER_BITS;
}

static bool is_right(uint64_t i, uint64_t word)
{
	return word >> COUNTER_BITS == word_of(i) >> COUNTER_BITS;
}

/* ---- a run, in a child ---- */

struct outcome {
	uint64_t ops, ns, updates, written;
	uint64_t bytes_read, bytes_written, cpu_ns; /* while ops were counted */
};

struct run {
	const struct flat_bench *b;
	const struct fth_scratch *scratch;
	const struct disk_task *task;
	enum side side;
	uint64_t seed;
	/* of the child */
	struct fth_flat *flat;
	uint64_t *words, pages;
	struct kv_zipf zipf;
	uint64_t start, end;	      /* of what is counted */
	uint64_t ops, updates, wrong; /* atomic */
	/* noted by the first thread: when counting began, and then since */
	uint64_t bytes_read, bytes_written, cpu_ns;
};

/* A line of /proc/self/io: of this process so far, page faults included. */
static uint64_t io_bytes(const char *name)
{
	char text[512] = "";
	FILE *file = fopen("/proc/self/io", "re");
	const char *at;

	if (file) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void note_use(struct run *r)
{
	r->bytes_read = io_bytes("\nread_bytes: ") - r->bytes_read;
	r->bytes_written = io_bytes("\nwrite_bytes: ") - r->bytes_written;
	r->cpu_ns = flat_cpu_ns() - r->cpu_ns;
}

static uint64_t pick_page(const struct run *r, struct fth_rng *rng)
{
	return r->task->zipf > 0 ? kv_zipf_pick(&r->zipf, rng) : fth_rng_below(rng, r->pages);
}

/* A word of this thread in a random page. */
static uint64_t pick_word(const struct run *r, unsigned thread, struct fth_rng *rng)
{
	uint64_t slot = fth_rng_below(rng, WORDS_PER_PAGE / THREADS) * THREADS + thread;

	return pick_page(r, rng) * WORDS_PER_PAGE + slot;
}

static uint64_t access_some(struct run *r, unsigned thread, struct fth_rng *rng, uint64_t *updates)
{
	uint64_t wrong = 0;

	for (unsigned i = 0; i < 16; i++) {
		uint64_t at = pick_word(r, thread, rng);
		volatile uint64_t *word = r->words + at;

		if (fth_rng_below(rng, 100) < r->task->updates) {
			*word += 1;
			++*updates;
		} else {
			wrong += !is_right(at, *word);
		}
	}
	__atomic_fetch_add(&r->wrong, wrong, __ATOMIC_RELAXED);
	return 16;
}

static int gather_some(struct run *r, struct fth_rng *rng)
{
	const void *at[GATHER];
	uint64_t number[GATHER], word[GATHER];
	int rc = 0;

	for (unsigned i = 0; i < GATHER; i++) {
		number[i] = pick_word(r, 0, rng);
		at[i] = r->words + number[i];
	}
	if (r->side == OURS)
		rc = fth_flat_gather(r->flat, at, GATHER, sizeof(uint64_t), word);
	else
		for (unsigned i = 0; i < GATHER; i++)
			word[i] = *(const volatile uint64_t *)at[i];
	for (unsigned i = 0; i < GATHER && rc == 0; i++)
		r->wrong += !is_right(number[i], word[i]);
	return rc < 0 ? rc : (int)GATHER;
}

static int access_until_end(void *context, unsigned thread)
{
	struct run *r = context;
	struct fth_rng rng = {r->seed * 1000 + thread};
	uint64_t ops = 0, updates = 0, now;
	bool noted = false;

	do {
		int done = r->task->gather ? gather_some(r, &rng)
					   : (int)access_some(r, thread, &rng, &updates);

		if (done < 0)
			return done;
		now = fth_now_ns();
		if (now >= r->start && now < r->end)
			ops += (uint64_t)done;
		if (thread == 0 && !noted && now >= r->start) {
			noted = true;
			note_use(r);
		}
	} while (now < r->end && !fth_cli_stopped());
	if (thread == 0)
		note_use(r);
	__atomic_fetch_add(&r->ops, ops, __ATOMIC_RELAXED);
	__atomic_fetch_add(&r->updates, updates, __ATOMIC_RELAXED);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int access_all(struct run *r, struct outcome *out)
{
	uint64_t length = r->b->disk_ms * 1000000;
	int rc;

	r->pages = r->b->disk_size / PAGE;
	if (r->task->zipf > 0)
		kv_zipf_init(&r->zipf, r->pages, r->task->zipf);
	r->start = fth_now_ns() + length / 2; /* until then memory fills */
	r->end = r->start + length;
	rc = fth_team_run(r->task->threads, access_until_end, r);
	*out = (struct outcome){.ops = r->ops,
				.ns = length,
				.updates = r->updates,
				.bytes_read = r->bytes_read,
				.bytes_written = r->bytes_written,
				.cpu_ns = r->cpu_ns};
	return rc == 0 && r->wrong ? fth_fail(EILSEQ, "%s: %llu wrong words", r->task->name,
					      (unsigned long long)r->wrong)
				   : rc;
}

static int run_ours(struct run *r, struct outcome *out)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	int rc;

	options.foreground = r->b->foreground;
	rc = fth_flat_open(r->scratch->uri, r->b->disk_size / r->b->times, &options, &r->flat);
	if (rc < 0)
		return rc;
	r->words = fth_flat_base(r->flat);
	rc = access_all(r, out);
	out->written = fth_flat_stat(r->flat, FTH_FLAT_STAT_WRITE_BACKS);
	if (rc < 0) {
		fth_flat_discard(r->flat);
		return rc;
	}
	return fth_flat_close(r->flat);
}

static int run_mapped(struct run *r, struct outcome *out)
{
	int fd = open(r->scratch->path, O_RDWR | O_CLOEXEC), rc = fd < 0 ? -errno : 0;

	if (rc == 0)
		r->words = mmap(NULL, r->b->disk_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rc == 0 && r->words == MAP_FAILED)
		rc = -errno;
	if (rc == 0 && r->side == MMAP_RANDOM &&
	    madvise(r->words, r->b->disk_size, MADV_RANDOM) < 0)
		rc = -errno;
	if (rc == 0)
		rc = access_all(r, out);
	if (rc == 0 && msync(r->words, r->b->disk_size, MS_SYNC) < 0)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

static int in_child(void *context, void *result)
{
	struct run *r = context;

	return r->side == OURS ? run_ours(r, result) : run_mapped(r, result);
}

/* ---- in the parent ---- */

static int measure(struct run *r, struct flat_row *row, uint64_t round, uint64_t *updates)
{
	struct outcome out = {0};
	struct fth_cgroup_usage usage;
	struct fth_cgroup_job job = {
		.memory = r->b->disk_size / r->b->times + PROCESS_MEMORY,
		.fn = in_child,
		.context = r,
		.result = &out,
		.result_size = sizeof(out),
		.stopped = fth_cli_stopped,
	};
	int rc = fth_cgroup_drop_pages(r->scratch->path);

	if (rc == 0)
		rc = fth_cgroup_run(&job, &usage);
	if (rc < 0)
		return rc;
	row->rate[r->side][round] = (double)out.ops * 1e9 / (double)out.ns;
	row->written[r->side] = r->side == OURS ? out.written : usage.bytes_written / PAGE;
	row->limit.reads[r->side][round] = (double)out.bytes_read / PAGE / (double)out.ops;
	row->limit.writes[r->side][round] = (double)out.bytes_written / PAGE / (double)out.ops;
	row->limit.cpu_us[r->side][round] = (double)out.cpu_ns / 1000 / (double)out.ops;
	*updates += out.updates;
	return 0;
}

/* What the disk gives in the same round. */
static int measure_reads(const struct flat_bench *b, const struct fth_scratch *scratch,
			 const struct disk_task *task, struct flat_row *row, uint64_t round)
{
	double reads = row->limit.reads[OURS][round];
	double writes = reads > 0 ? row->limit.writes[OURS][round] / reads : 0;
	int rc = 0;

	for (unsigned wait = 0; wait < FLAT_WAITS && rc == 0 && !task->gather; wait++)
		rc = flat_reads_measure(b, scratch, task->threads, b->seed + round,
					wait != FLAT_SLEPT, wait == FLAT_WRITTEN ? writes : 0,
					&row->limit.disk[wait][round]);
	return rc;
}

/* The share of accesses that miss if those pages are in memory that are used most. */
static double least_reads(const struct flat_bench *b, const struct disk_task *task)
{
	uint64_t pages = b->disk_size / PAGE, in_memory = pages / b->times;
	double all = 0, hits = 0;

	if (task->gather)
		return 0;
	for (uint64_t i = 1; i <= pages; i++) {
		double use = pow((double)i, -task->zipf);

		all += use;
		hits += i <= in_memory ? use : 0;
	}
	return 1 - hits / all;
}

/* Every word, and the updates of all. */
static int check_file(const struct flat_bench *b, const struct fth_scratch *scratch,
		      uint64_t *counted)
{
	uint64_t buffer[WORDS_PER_PAGE * 64];
	int fd = open(scratch->path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -errno : 0;

	*counted = 0;
	for (uint64_t at = 0; at < b->disk_size && rc == 0; at += sizeof(buffer)) {
		if (pread(fd, buffer, sizeof(buffer), (off_t)at) != (ssize_t)sizeof(buffer))
			rc = fth_fail(EIO, "cannot read %s", scratch->path);
		for (unsigned i = 0; i < WORDS_PER_PAGE * 64 && rc == 0; i++) {
			if (!is_right(at / 8 + i, buffer[i]))
				rc = fth_fail(EILSEQ, "word %llu is wrong",
					      (unsigned long long)(at / 8 + i));
			*counted += buffer[i] & ((1u << COUNTER_BITS) - 1);
		}
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int fill(const struct flat_bench *b, const struct fth_scratch *scratch)
{
	uint64_t buffer[WORDS_PER_PAGE * 64];
	int fd = open(scratch->path, O_WRONLY | O_CLOEXEC), rc = fd < 0 ? -errno : 0;

	for (uint64_t at = 0; at < b->disk_size && rc == 0; at += sizeof(buffer)) {
		for (unsigned i = 0; i < WORDS_PER_PAGE * 64; i++)
			buffer[i] = word_of(at / 8 + i);
		if (pwrite(fd, buffer, sizeof(buffer), (off_t)at) != (ssize_t)sizeof(buffer))
			rc = fth_fail(EIO, "cannot write %s", scratch->path);
		if (fth_cli_stopped())
			rc = -EINTR;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int measure_all(struct flat_bench *b, const struct fth_scratch *scratch)
{
	static const char *const sides[FLAT_SIDES] = {"ours", "mmap_random", "mmap_default"};
	uint64_t updates = 0, counted;
	int rc = 0;

	for (unsigned t = 0; t < TASKS && rc == 0; t++) {
		struct flat_row *row = flat_row_add(b, tasks[t].name, tasks[t].text, sides);

		rc = row ? 0 : -ENOMEM;
		if (row)
			row->limit.least_reads = least_reads(b, &tasks[t]);
		for (uint64_t i = 0; i < b->rounds * SIDES && rc == 0; i++) {
			struct run r = {.b = b,
					.scratch = scratch,
					.task = &tasks[t],
					.side = (enum side)(i % SIDES),
					.seed = b->seed + i / SIDES};

			fth_cli_progress(tasks[t].name, i, b->rounds * SIDES);
			rc = measure(&r, row, i / SIDES, &updates);
			if (rc == 0 && r.side == MMAP_DEFAULT)
				rc = measure_reads(b, scratch, &tasks[t], row, i / SIDES);
		}
		fth_cli_progress_end();
		if (rc == 0)
			rc = check_file(b, scratch, &counted);
		if (rc == 0 && counted != updates)
			rc = fth_fail(EILSEQ, "%s: only %llu of %llu updates were found",
				      tasks[t].name, (unsigned long long)counted,
				      (unsigned long long)updates);
	}
	return rc;
}

int flat_disk_rows(struct flat_bench *b)
{
	struct fth_scratch scratch;
	int rc = fth_cgroup_available();

	if (rc == 0 && fth_scratch_in_memory(fth_scratch_folder(b->folder)))
		rc = fth_fail(ENOTSUP, "%s is on tmpfs: specify a directory on a disk with --dir",
			      fth_scratch_folder(b->folder));
	if (rc == 0)
		rc = fth_scratch_open(&scratch, b->folder, "flat", b->disk_size, b->options);
	if (rc < 0)
		return rc;
	fth_scratch_shut(&scratch);
	rc = fill(b, &scratch);
	if (rc == 0)
		rc = measure_all(b, &scratch);
	fth_scratch_remove(&scratch);
	return rc;
}
