/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the disk itself gives to threads that each wait for one page at a time, past the page cache,
 * at random. A thread sleeps until its read is complete (pread), or polls for it; or it polls, and
 * some of the pages that it has read are written back, unchanged, without waiting for that: what
 * paging in has to do at least, if such a share of the pages that make room was changed. No way of
 * paging that reads one page per miss is faster, by more than what one way to wait is better than
 * another.
 */
#include "flat_rows.h"

#include "cli.h"
#include "common/scratch.h"

#include "base/team.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE 4096u

#define BUFFERS 8u /* of a thread: one that is read, others that are written */

struct reads {
	struct fth_dev *dev; /* NULL: pread() of fd */
	int fd;
	double write_share; /* of the pages that are read */
	uint64_t pages, seed, end;
	uint64_t done; /* atomic */
};

struct reader {
	struct fth_dev_chan *chan;
	struct fth_dev_req reqs[BUFFERS];
	bool busy[BUFFERS];
	uint8_t *memory;
};

/* Note what has completed. */
static int look(struct reader *reader)
{
	struct fth_dev_req *done[BUFFERS];
	int n = fth_dev_reap(reader->chan, done, BUFFERS, 0, 0), rc = n < 0 ? n : 0;

	for (int i = 0; i < n; i++) {
		reader->busy[done[i] - reader->reqs] = false;
		rc = rc < 0 ? rc : done[i]->result;
	}
	if (n == 0)
		sched_yield();
	return rc;
}

static int start(struct reader *reader, unsigned i, enum fth_dev_op op, uint64_t page)
{
	struct fth_dev_req *req = &reader->reqs[i];
	int sent;

	fth_dev_req_init(req, op, reader->memory + i * PAGE, PAGE, page * PAGE);
	sent = fth_dev_submit(reader->chan, &req, 1);
	reader->busy[i] = sent == 1;
	return sent == 1 ? 0 : sent < 0 ? sent : -EIO;
}

/* 0 once buffer i is free; or any of them, if i is BUFFERS. *found says which. */
static int wait_for(struct reader *reader, unsigned i, unsigned *found)
{
	uint64_t deadline = fth_deadline_ns(30000000000u);

	for (;;) {
		int rc;

		for (unsigned k = 0; k < BUFFERS; k++)
			if (!reader->busy[k] && (i == BUFFERS || k == i)) {
				*found = k;
				return 0;
			}
		rc = look(reader);
		if (rc < 0 || fth_now_ns() >= deadline)
			return rc < 0 ? rc : -ETIMEDOUT;
	}
}

static int read_polled(struct reader *reader, uint64_t page, bool write)
{
	unsigned i;
	int rc = wait_for(reader, BUFFERS, &i);

	if (rc == 0)
		rc = start(reader, i, FTH_DEV_READ, page);
	if (rc == 0)
		rc = wait_for(reader, i, &i);
	return rc == 0 && write ? start(reader, i, FTH_DEV_WRITE, page) : rc;
}

static int read_slept(const struct reads *r, void *buffer, uint64_t page)
{
	return pread(r->fd, buffer, PAGE, (off_t)(page * PAGE)) == PAGE ? 0 : -EIO;
}

static int read_until_end(void *context, unsigned thread)
{
	struct reads *r = context;
	struct fth_rng rng = {r->seed * 1000 + thread};
	struct reader reader = {.memory = aligned_alloc(PAGE, BUFFERS * PAGE)};
	uint64_t done = 0, share = (uint64_t)(r->write_share * 1000);
	int rc = reader.memory ? 0 : -ENOMEM;
	unsigned i;

	if (rc == 0 && r->dev)
		rc = fth_dev_chan_open(r->dev, BUFFERS, &reader.chan);
	for (; rc == 0 && fth_now_ns() < r->end && !fth_cli_stopped(); done++) {
		uint64_t page = fth_rng_below(&rng, r->pages);

		rc = r->dev ? read_polled(&reader, page, fth_rng_below(&rng, 1000) < share)
			    : read_slept(r, reader.memory, page);
	}
	for (unsigned k = 0; k < BUFFERS && rc == 0; k++)
		rc = wait_for(&reader, k, &i);
	__atomic_fetch_add(&r->done, done, __ATOMIC_RELAXED);
	fth_dev_chan_close(reader.chan);
	free(reader.memory);
	return rc == 0 && fth_cli_stopped() ? -EINTR : rc;
}

uint64_t flat_cpu_ns(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000u;
}

static int open_file(struct reads *r, const struct fth_scratch *scratch, bool polled)
{
	if (polled)
		return fth_dev_open(scratch->uri, &r->dev);
	r->fd = open(scratch->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	return r->fd < 0 ? fth_fail(errno, "%s: %s", scratch->path, strerror(errno)) : 0;
}

int flat_reads_measure(const struct flat_bench *b, const struct fth_scratch *scratch,
		       unsigned threads, uint64_t seed, bool polled, double write_share,
		       struct flat_reads *out)
{
	struct reads r = {
		.fd = -1, .pages = b->disk_size / PAGE, .seed = seed, .write_share = write_share};
	int rc = open_file(&r, scratch, polled);
	uint64_t start_ns = fth_now_ns(), cpu = flat_cpu_ns();

	r.end = start_ns + b->disk_ms * 1000000 / 2;
	if (rc == 0)
		rc = fth_team_run(threads, read_until_end, &r);
	if (rc == 0)
		*out = (struct flat_reads){
			.rate = (double)r.done * 1e9 / (double)(fth_now_ns() - start_ns),
			.cpu_us = (double)(flat_cpu_ns() - cpu) / 1000 / (double)r.done};
	fth_dev_close(r.dev);
	if (r.fd >= 0)
		close(r.fd);
	return rc;
}
