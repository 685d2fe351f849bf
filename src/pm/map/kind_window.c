/* SPDX-License-Identifier: BSD-2-Clause */
/* window(URI): the byte-addressable window of a device. The window says what survives. */
#include "pm/pm_internal.h"
#include "dev/lock.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const enum fth_pm_guarantee of_window[] = {
	[FTH_DEV_WINDOW_VOLATILE] = FTH_PM_VOLATILE,
	[FTH_DEV_WINDOW_EXIT] = FTH_PM_EXIT,
	[FTH_DEV_WINDOW_POWER] = FTH_PM_POWER,
};

static int window_map(struct fth_pm *pm, const struct pm_request *request)
{
	const struct fth_dev_window_info *info;
	int rc = fth_dev_window_open(pm->dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE,
				     &pm->window);

	if (rc < 0)
		return rc;
	info = fth_dev_window_info(pm->window);
	if ((info->flags & FTH_DEV_WINDOW_READ_ONLY) && !request->readonly)
		return fth_fail(EROFS, "the window is read-only");
	pm->memory = info->base;
	pm->length = info->size & ~(uint64_t)(FTH_PM_PAGE - 1);
	pm->guarantee = of_window[info->guarantee];
	pm->view.mode = FTH_PM_MODE_WINDOW;
	snprintf(pm->text, sizeof(pm->text), "%s", fth_dev_window_text(pm->window));
	return 0;
}

static int window_open(struct fth_pm *pm, const struct pm_request *request)
{
	int rc = fth_uri_finish(request->uri);

	if (rc == 0)
		rc = fth_dev_lock_uri(request->uri->inner, !request->readonly, &pm->lock_fd);
	if (rc == 0)
		rc = fth_dev_open_flags(request->uri->inner,
					request->readonly ? FTH_DEV_READONLY : 0, &pm->dev);
	return rc < 0 ? rc : window_map(pm, request);
}

static int window_close(struct fth_pm *pm)
{
	fth_dev_window_close(pm->window);
	fth_dev_close(pm->dev);
	fth_dev_unlock(pm->lock_fd);
	return 0;
}

static int zero_range(struct fth_pm *pm, uint64_t from, uint64_t to)
{
	static const uint8_t zeroes[FTH_PM_PAGE];

	for (uint64_t at = from; at < to; at += FTH_PM_PAGE) {
		int rc = fth_dev_window_store(pm->window, at, zeroes, FTH_PM_PAGE);

		if (rc < 0)
			return rc;
	}
	return fth_dev_window_persist(pm->window, from, to - from, FTH_DEV_TIMEOUT);
}

/* The header last: until then the memory is there, and can be removed again. */
static int window_remove(const char *name, struct fth_uri *uri, int looked)
{
	struct fth_pm *pm;
	int rc = pm_map_unfinished(name, &pm);

	(void)uri;
	(void)looked;
	if (rc < 0)
		return rc;
	rc = zero_range(pm, FTH_PM_HEADER, FTH_PM_HEADER + pm->view.size);
	if (rc == 0)
		rc = zero_range(pm, 0, FTH_PM_HEADER);
	fth_pm_unmap(pm);
	return rc;
}

const struct pm_kind pm_kind_window = {.id = FTH_PM_KIND_WINDOW,
				       .open = window_open,
				       .close = window_close,
				       .remove = window_remove};
