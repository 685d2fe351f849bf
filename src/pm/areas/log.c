/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs for CPU threads. The work is done in fathom/detail/pm/hcl.h and conv.h, which GPU threads
 * use as well; here are opening, and what has to be allocated. Siblings: log_create.c makes logs,
 * log_layout.c checks headers.
 */
#include "pm/areas/log_internal.h"
#include "pm/pm_internal.h"

#include "fathom/base/error.h"

#include <stdlib.h>

struct fth_pm_log {
	struct fth_pm_log_view view;
	struct fth_pm_log_header header;
	const struct fth_pm *pm; /* NULL: of a view, in tests */
};

/* ---- opening ---- */

static int allocate_state(struct fth_pm_log *log)
{
	struct fth_pm_log_view *view = &log->view;

	if (view->kind == FTH_PM_LOG_HCL)
		view->counts = calloc(view->parts, sizeof(view->counts[0]));
	else
		view->partitions = calloc(view->parts, sizeof(view->partitions[0]));
	return view->counts || view->partitions ? 0 : -ENOMEM;
}

int pm_log_scan(const struct fth_pm_log_view *view)
{
	for (uint32_t part = 0; part < view->parts; part++) {
		if (view->kind == FTH_PM_LOG_CONV && fth_pm_conv_scan(view, part) < 0)
			return fth_fail(EBADMSG, "log: partition %u is damaged%s", part,
					view->partitions[part].epoch ? "" : " at its epoch");
		if (view->kind == FTH_PM_LOG_HCL && fth_pm_hcl_scan(view, part) < 0)
			return fth_fail(EBADMSG,
					"log: entry %u of thread %u is damaged, but a newer entry "
					"is intact",
					view->counts[part], part);
	}
	return 0;
}

int pm_log_open_view(const struct fth_pm_view *pm, uint64_t offset, struct fth_pm_log **out)
{
	struct fth_pm_log *log = calloc(1, sizeof(*log));
	int rc;

	*out = NULL;
	if (!log)
		return -ENOMEM;
	rc = fth_pm_log_header_read(pm, offset, &log->header);
	if (rc == 0)
		rc = fth_pm_log_view_of(pm, offset, &log->header, &log->view);
	if (rc == 0)
		rc = allocate_state(log);
	if (rc == 0)
		rc = pm_log_scan(&log->view);
	if (rc < 0) {
		fth_pm_log_close(log);
		return rc;
	}
	*out = log;
	return 0;
}

int fth_pm_log_open(struct fth_pm *pm, uint64_t offset, struct fth_pm_log **out)
{
	int rc = pm_log_open_view(&pm->view, offset, out);

	if (rc == 0)
		(*out)->pm = pm;
	return rc;
}

void fth_pm_log_close(struct fth_pm_log *log)
{
	if (!log)
		return;
	free(log->view.counts);
	free(log->view.partitions);
	free(log);
}

/* ---- creating ---- */

static int create_log(struct fth_pm *pm, uint64_t offset, struct fth_pm_log_header *header,
		      struct fth_pm_log **out)
{
	int rc;

	*out = NULL;
	if (header->bytes == 0)
		return fth_fail(EINVAL, "log: invalid shape in the options");
	if (pm->readonly)
		return fth_fail(EROFS, "log: %s is mapped read-only", fth_pm_name(pm));
	rc = pm_log_range_check(&pm->view, offset, header->bytes);
	if (rc == 0)
		rc = pm_process_check(pm);
	if (rc == 0)
		rc = pm_log_make(&pm->view, offset, header);
	return rc < 0 ? rc : fth_pm_log_open(pm, offset, out);
}

static bool same_shape(const struct fth_pm_log_header *a, const struct fth_pm_log_header *b)
{
	return a->kind == b->kind && a->bytes == b->bytes && a->blocks == b->blocks &&
	       a->threads == b->threads && a->entry_bytes == b->entry_bytes &&
	       a->entries == b->entries && a->partitions == b->partitions &&
	       a->partition_bytes == b->partition_bytes;
}

static int open_or_create_log(struct fth_pm *pm, uint64_t offset, struct fth_pm_log_header *header,
			      struct fth_pm_log **out)
{
	int rc = fth_pm_log_open(pm, offset, out);

	if (rc == -ENOENT)
		return create_log(pm, offset, header, out);
	if (rc < 0 || same_shape(&(*out)->header, header))
		return rc;
	fth_pm_log_close(*out);
	*out = NULL;
	return fth_fail(EINVAL, "log: the log at offset %llu has another kind or shape",
			(unsigned long long)offset);
}

static struct fth_pm_log_header hcl_header(const struct fth_pm_log_shape *shape)
{
	return (struct fth_pm_log_header){
		.kind = FTH_PM_LOG_HCL,
		.bytes = fth_pm_log_hcl_bytes(shape),
		.blocks = shape->blocks,
		.threads = shape->threads,
		.entry_bytes = shape->entry_bytes,
		.entries = shape->entries,
	};
}

static struct fth_pm_log_header conv_header(uint32_t partitions, uint32_t partition_bytes)
{
	return (struct fth_pm_log_header){
		.kind = FTH_PM_LOG_CONV,
		.bytes = fth_pm_log_conv_bytes(partitions, partition_bytes),
		.partitions = partitions,
		.partition_bytes = partition_bytes,
	};
}

int fth_pm_log_create_hcl(struct fth_pm *pm, uint64_t offset, const struct fth_pm_log_shape *shape,
			  struct fth_pm_log **out)
{
	struct fth_pm_log_header header = hcl_header(shape);

	return create_log(pm, offset, &header, out);
}

int fth_pm_log_create_conv(struct fth_pm *pm, uint64_t offset, uint32_t partitions,
			   uint32_t partition_bytes, struct fth_pm_log **out)
{
	struct fth_pm_log_header header = conv_header(partitions, partition_bytes);

	return create_log(pm, offset, &header, out);
}

int fth_pm_log_open_or_create_hcl(struct fth_pm *pm, uint64_t offset,
				  const struct fth_pm_log_shape *shape, struct fth_pm_log **out)
{
	struct fth_pm_log_header header = hcl_header(shape);

	return open_or_create_log(pm, offset, &header, out);
}

int fth_pm_log_open_or_create_conv(struct fth_pm *pm, uint64_t offset, uint32_t partitions,
				   uint32_t partition_bytes, struct fth_pm_log **out)
{
	struct fth_pm_log_header header = conv_header(partitions, partition_bytes);

	return open_or_create_log(pm, offset, &header, out);
}

/* ---- asking ---- */

void fth_pm_log_info(const struct fth_pm_log *log, struct fth_pm_log_info *info)
{
	const struct fth_pm_log_header *h = &log->header;

	*info = (struct fth_pm_log_info){
		.kind = (enum fth_pm_log_kind)h->kind,
		.shape = {h->blocks, h->threads, h->entry_bytes, h->entries},
		.partition_bytes = (uint32_t)h->partition_bytes,
		.parts = log->view.parts,
		.bytes = h->bytes,
	};
	for (uint32_t part = 0; part < log->view.parts; part++)
		info->entries += fth_pm_log_count(log, part);
}

int fth_pm_log_rescan(struct fth_pm_log *log)
{
	struct fth_pm_log_view fresh;
	uint64_t offset = (uint64_t)(log->view.data - log->view.pm.base) - FTH_PM_LOG_DATA;
	int rc = fth_pm_log_view_of(&log->view.pm, offset, &log->header, &fresh);

	if (rc < 0)
		return rc;
	log->view.epoch = fresh.epoch;
	return pm_log_scan(&log->view);
}

uint32_t fth_pm_log_count(const struct fth_pm_log *log, uint32_t part)
{
	return fth_pm_log_count_hd(&log->view, part);
}

struct fth_pm_log_view fth_pm_log_view(struct fth_pm_log *log)
{
	return log->view;
}

/* ---- entries ---- */

static int check_writable(const struct fth_pm_log *log)
{
	if (!log->pm)
		return 0;
	if (log->pm->readonly)
		return fth_fail(EROFS, "log: the memory is mapped read-only");
	return pm_process_check(log->pm);
}

int fth_pm_log_insert(struct fth_pm_log *log, uint32_t part, const void *data, uint32_t bytes)
{
	int rc = check_writable(log);

	return rc < 0 ? rc : fth_pm_log_insert_hd(&log->view, part, data, bytes);
}

int64_t fth_pm_log_read(const struct fth_pm_log *log, uint32_t part, uint64_t *cursor, void *out,
			uint32_t capacity)
{
	return fth_pm_log_read_hd(&log->view, part, cursor, out, capacity);
}

int fth_pm_log_remove(struct fth_pm_log *log, uint32_t part)
{
	int rc = check_writable(log);

	return rc < 0 ? rc : fth_pm_log_remove_hd(&log->view, part);
}

int fth_pm_log_clear(struct fth_pm_log *log)
{
	int rc = check_writable(log);

	if (rc < 0)
		return rc;
	if (log->view.kind == FTH_PM_LOG_HCL) {
		rc = fth_pm_log_next_epoch(&log->view);
		if (rc == 0)
			memset(log->view.counts, 0, log->view.parts * sizeof(uint32_t));
		return rc;
	}
	for (uint32_t part = 0; rc == 0 && part < log->view.parts; part++)
		rc = fth_pm_conv_clear(&log->view, part);
	return rc;
}
