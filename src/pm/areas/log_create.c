/* SPDX-License-Identifier: BSD-2-Clause */
/* Making logs. The magic number is stored last: a crash before leaves no log. */
#include "pm/areas/log_internal.h"
#include "pm/pm_internal.h"

#include "fathom/base/error.h"

/* First epoch, and no first entry. */
static int make_partitions(const struct fth_pm_log_view *view)
{
	for (uint32_t part = 0; part < view->parts; part++) {
		uint64_t *word = (uint64_t *)(void *)fth_pm_conv_at(view, part, 0);
		uint64_t *first = (uint64_t *)(void *)fth_pm_conv_at(view, part, FTH_PM_CONV_FIRST);

		fth_pm_put64(&view->pm, word, fth_pm_log_epoch_word(1, view->salt, part));
		fth_pm_put64(&view->pm, first, 0);
		fth_pm_flush_range(&view->pm, word, sizeof(*word));
		fth_pm_flush_range(&view->pm, first, sizeof(*first));
	}
	return fth_pm_fence(&view->pm);
}

/* All but the magic number. */
static int put_header(const struct fth_pm_view *pm, uint64_t offset,
		      const struct fth_pm_log_header *header)
{
	uint8_t *to = pm->base + offset;

	fth_pm_put(pm, to + sizeof(header->magic), &header->version,
		   sizeof(*header) - sizeof(header->magic));
	return fth_pm_persist_range(pm, to, sizeof(*header));
}

/* The view without an epoch, since there is none yet. */
static void blank_view(const struct fth_pm_view *pm, uint64_t offset,
		       const struct fth_pm_log_header *header, struct fth_pm_log_view *view)
{
	(void)fth_pm_log_view_of(pm, offset, header, view); /* fails for want of an epoch */
	fth_error_clear();
}

int pm_log_make(const struct fth_pm_view *pm, uint64_t offset, struct fth_pm_log_header *header)
{
	struct fth_pm_log_view view;
	int rc = pm_area_put_magic(pm, offset, PM_AREA_CREATING);

	header->magic = FTH_PM_LOG_MAGIC;
	header->version = FTH_PM_LOG_VERSION;
	if (header->salt == 0)
		header->salt = pm_area_salt();
	header->check = pm_log_header_sum(header);
	if (rc < 0)
		return rc;
	blank_view(pm, offset, header, &view);
	if (view.kind == FTH_PM_LOG_CONV) {
		rc = make_partitions(&view);
	} else {
		rc = pm_log_wipe_hcl(&view);
		if (rc == 0)
			rc = pm_log_set_epoch(&view, 1);
	}
	if (rc == 0)
		rc = put_header(pm, offset, header);
	return rc < 0 ? rc : pm_area_put_magic(pm, offset, FTH_PM_LOG_MAGIC);
}
