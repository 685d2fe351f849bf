/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window of the device: where it is persistent, the log of persistent ranges is at its
 * beginning; where it is ordinary memory, the rest of it is the SSD-cache.
 */
#include "flat/flat_internal.h"
#include "flat/durable/persist_log.h"

#include "fathom/base/error.h"

#include <errno.h>

#define WINDOW_MIN     (32u << 10) /* less is not used */
#define WINDOW_LOG_MAX (16u << 20)

static bool nothing_there(int rc)
{
	return rc == -EOPNOTSUPP || rc == -EBUSY;
}

/* May the log in the window be replaced, or used? 1 yes, 0 no. */
static int judge_log(struct fth_flat *flat, struct flat_log *log, enum log_found found)
{
	bool forced = flat->options.window == FTH_FLAT_WINDOW_ON, has = false;
	int rc;

	if (found == LOG_NOTHING)
		return 1;
	if (found == LOG_FOREIGN)
		return forced;
	if (log->header.region_at == flat->options.offset && log->header.region_size == flat->size)
		return 1;
	rc = recover_has_records(log, &has);
	if (rc < 0)
		return rc;
	if (has && forced)
		return fth_fail(EBUSY,
				"flat: the window has unapplied changes of a region of %llu bytes "
				"at offset %llu: open that region first",
				(unsigned long long)log->header.region_size,
				(unsigned long long)log->header.region_at);
	if (has)
		return 0;
	/* empty: forget it, so that it is formatted for this region */
	return log_format(log, flat->options.offset, flat->size) < 0 ? 0 : 1;
}

/* The log at the beginning of a PMR. Returns 1 if the window may be used. */
static int look_for_log(struct fth_flat *flat)
{
	const struct fth_dev_window_info *info = fth_dev_window_info(flat->window);
	uint64_t size = info->size / 4 < WINDOW_LOG_MAX ? info->size / 4 : WINDOW_LOG_MAX;
	bool off = flat->options.window == FTH_FLAT_WINDOW_OFF || flat->options.readonly;
	enum log_found found;
	struct flat_log log;
	int rc = log_find(&log, flat->dev, flat->window, 0, size, &found);

	if (rc == 0 && off) {
		bool has = false;

		if (found == LOG_OURS && log.header.region_at == flat->options.offset)
			rc = recover_has_records(&log, &has);
		if (rc == 0 && has)
			rc = fth_fail(
				EROFS,
				"flat: the window has changes of this region that are not applied "
				"yet; open the region once for writing, with the window");
		return rc;
	}
	if (rc == 0 && (info->flags & FTH_DEV_WINDOW_RESTORE_ERROR))
		rc = fth_fail(EIO, "flat: the drive may have lost the contents of its window; open "
				   "the region without the window to accept the loss");
	if (rc == 0)
		rc = judge_log(flat, &log, found);
	if (rc == 1)
		flat->window_log = 2 * log.slot + log.size;
	return rc;
}

static void give_slots(struct fth_flat *flat)
{
	const struct fth_dev_window_info *info = fth_dev_window_info(flat->window);
	uint64_t page = flat->options.page, from = (flat->window_log + page - 1) / page * page,
		 slots;

	if ((info->flags & FTH_DEV_WINDOW_IO_MEMORY) || info->size < from)
		return;
	slots = (info->size - from) / page;
	flat->window_slots = slots - slots % FLAT_WAYS;
}

static int open_any(struct fth_flat *flat)
{
	int rc = fth_dev_window_open(flat->dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_VOLATILE,
				     &flat->window);

	if (nothing_there(rc))
		rc = fth_dev_window_open(flat->dev, FTH_DEV_WINDOW_CMB, FTH_DEV_WINDOW_VOLATILE,
					 &flat->window);
	return rc;
}

int window_open(struct fth_flat *flat)
{
	bool forced = flat->options.window == FTH_FLAT_WINDOW_ON;
	const struct fth_dev_window_info *info;
	int rc = open_any(flat);

	if (rc < 0)
		return nothing_there(rc) && !forced ? 0 : rc;
	info = fth_dev_window_info(flat->window);
	if (info->size < WINDOW_MIN || (info->flags & FTH_DEV_WINDOW_READ_ONLY))
		rc = forced ? fth_fail(EOPNOTSUPP,
				       "flat: the window of %llu bytes is read-only or too small "
				       "to use",
				       (unsigned long long)info->size)
			    : 0;
	else if (info->guarantee == FTH_DEV_WINDOW_POWER)
		rc = look_for_log(flat);
	else
		rc = flat->options.window != FTH_FLAT_WINDOW_OFF && !flat->options.readonly;
	if (rc == 1)
		give_slots(flat);
	else
		window_close(flat);
	return rc < 0 ? rc : 0;
}

void window_close(struct fth_flat *flat)
{
	fth_dev_window_close(flat->window);
	flat->window = NULL;
	flat->window_log = flat->window_slots = 0;
}

uint8_t *window_frames(const struct fth_flat *flat)
{
	uint64_t page = flat->options.page;

	if (!flat->window_slots)
		return NULL;
	return (uint8_t *)fth_dev_window_info(flat->window)->base +
	       (flat->window_log + page - 1) / page * page;
}
