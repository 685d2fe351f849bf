/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/pm/job.h"

#include "base/team.h"
#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STAGING (64u << 20) /* bytes that are copied and written at once */

double pmw_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int pmw_take(struct pmw_job *job, uint64_t bytes, void *memory)
{
	void *taken;
	int rc;

	if (job->memory_count == PMW_MEMORIES)
		return fth_fail(ENOBUFS, "more than %u memory allocations", PMW_MEMORIES);
	rc = job->machine->ops->allocate(job->machine, bytes ? bytes : 1, &taken);
	if (rc < 0)
		return rc;
	job->memories[job->memory_count++] = taken;
	memcpy(memory, &taken, sizeof(taken));
	return 0;
}

int pmw_area(struct pmw_job *job, uint64_t bytes, struct pmw_area *area)
{
	area->offset = job->taken;
	area->bytes = bytes;
	job->taken += (bytes + PMW_ALIGN - 1) / PMW_ALIGN * PMW_ALIGN;
	if (job->taken > fth_pm_size(job->pm))
		return fth_fail(ENOSPC, "the persistent memory has %llu bytes, %llu are needed",
				(unsigned long long)fth_pm_size(job->pm),
				(unsigned long long)job->taken);
	if (job->options->style != FTH_PMW_DIRECT)
		return pmw_take(job, bytes, &area->kernel);
	area->kernel = job->view.base + area->offset;
	return 0;
}

/* ---- persistence by the CPU ---- */

struct flush_job {
	struct pmw_job *job;
	uint8_t *at;
	uint64_t bytes;
	unsigned threads;
};

/*
 * Cache lines are written back even where the guarantee does not need it, as they would be for
 * persistent memory.
 */
static int flush_part(void *context, unsigned thread)
{
	struct flush_job *flush = context;
	struct fth_pm_view view = flush->job->host_view;
	uint64_t first, end;

	if (view.mode == FTH_PM_MODE_FENCE)
		view.mode = FTH_PM_MODE_FLUSH;
	fth_team_part(flush->bytes, PMW_ALIGN, flush->threads, thread, &first, &end);
	return end > first ? fth_pm_persist_range(&view, flush->at + first, end - first) : 0;
}

static unsigned flush_threads(const struct pmw_job *job, uint64_t bytes)
{
	unsigned threads = job->options->threads ? job->options->threads
						 : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);

	return bytes < (1u << 20) ? 1 : threads;
}

static int persist_mapped(struct pmw_job *job, uint64_t offset, const uint8_t *from, uint64_t bytes)
{
	struct flush_job flush = {job, (uint8_t *)fth_pm_base(job->pm) + offset, bytes,
				  flush_threads(job, bytes)};
	int rc = job->machine->ops->download(job->machine, flush.at, from, bytes);

	return rc ? rc : fth_team_run(flush.threads, flush_part, &flush);
}

static int write_all(int fd, const uint8_t *from, uint64_t bytes, uint64_t offset)
{
	while (bytes > 0) {
		ssize_t written = pwrite(fd, from, bytes, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return fth_fail(written < 0 ? errno : EIO, "writing the file: %s",
					strerror(errno));
		from += written;
		bytes -= (uint64_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

static int persist_file(struct pmw_job *job, uint64_t offset, const uint8_t *from, uint64_t bytes)
{
	int rc = 0;

	for (uint64_t done = 0; rc == 0 && done < bytes; done += STAGING) {
		uint64_t now = bytes - done < STAGING ? bytes - done : STAGING;

		rc = job->machine->ops->download(job->machine, job->staging, from + done, now);
		if (rc == 0)
			rc = write_all(job->file, job->staging, now, offset + done);
	}
	if (rc == 0 && fdatasync(job->file) < 0)
		rc = fth_fail(errno, "fdatasync: %s", strerror(errno));
	return rc;
}

int pmw_persist_area(struct pmw_job *job, const struct pmw_area *area, uint64_t offset,
		     uint64_t bytes, uint64_t direct_bytes)
{
	double begin = pmw_seconds();
	int rc;

	if (job->options->style == FTH_PMW_DIRECT) {
		job->result->persisted += direct_bytes;
		return 0;
	}
	job->result->persisted += bytes;
	if (job->options->style == FTH_PMW_ASSISTED_MAP)
		rc = persist_mapped(job, area->offset + offset, area->kernel + offset, bytes);
	else
		rc = persist_file(job, area->offset + offset, area->kernel + offset, bytes);
	job->result->persist_seconds += pmw_seconds() - begin;
	return rc;
}

int pmw_set_state(struct pmw_job *job, uint64_t *word, uint64_t value)
{
	fth_pm_put64(&job->host_view, word, value);
	return fth_pm_persist_range(&job->host_view, word, sizeof(*word));
}

int pmw_launch(struct pmw_job *job, enum pmw_kernel kernel, const void *parameters, uint64_t items)
{
	return job->machine->ops->launch(job->machine, kernel, parameters, items);
}

int pmw_download(struct pmw_job *job, void *to, const void *from, uint64_t bytes)
{
	return job->machine->ops->download(job->machine, to, from, bytes);
}

int pmw_digest(struct pmw_job *job, const void *memory, uint64_t bytes)
{
	uint8_t *piece = malloc(1 << 20);
	int rc = piece ? 0 : fth_fail(ENOMEM, "no memory for a digest");

	for (uint64_t done = 0; rc == 0 && done < bytes; done += 1 << 20) {
		uint64_t now = bytes - done < 1 << 20 ? bytes - done : 1 << 20;

		rc = pmw_download(job, piece, (const uint8_t *)memory + done, now);
		if (rc == 0)
			job->result->digest =
				fth_mix64(job->result->digest ^ fth_checksum(piece, now, 0));
	}
	free(piece);
	return rc;
}
