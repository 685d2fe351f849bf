/* SPDX-License-Identifier: BSD-2-Clause */
/* The windows of the drive (window.c) as windows of the device (fathom/dev/window.h). */
#include "dev_nvme.h"

#include "fathom/base/error.h"
#include "nvme/window.h"

#include <errno.h>
#include <stdlib.h>

struct dev_window {
	struct fth_dev_window base;
	struct fth_nvme_window *window;
};

static struct fth_nvme_window *window_of(const struct fth_dev_window *base)
{
	return ((const struct dev_window *)base)->window;
}

static void window_close(struct fth_dev_window *base)
{
	fth_nvme_window_close(window_of(base));
	free(base);
}

static void window_load(const struct fth_dev_window *base, uint64_t offset, void *to,
			uint64_t length)
{
	(void)fth_nvme_window_load(window_of(base), offset, to, length);
}

static void window_store(struct fth_dev_window *base, uint64_t offset, const void *from,
			 uint64_t length)
{
	(void)fth_nvme_window_store(window_of(base), offset, from, length);
}

static int window_persist(struct fth_dev_window *base, uint64_t offset, uint64_t length,
			  uint64_t deadline)
{
	return fth_nvme_window_persist(window_of(base), offset, length, deadline);
}

static int window_check(const struct fth_dev_window *base)
{
	return fth_nvme_window_check(window_of(base));
}

static uint32_t flags_of(const struct fth_nvme_window_info *info, bool plain)
{
	uint32_t flags = plain ? 0 : FTH_DEV_WINDOW_IO_MEMORY;

	if (plain || info->flags & FTH_NVME_WINDOW_EMULATED)
		flags |= FTH_DEV_WINDOW_EMULATED;
	if (info->flags & FTH_NVME_WINDOW_READ_ONLY)
		flags |= FTH_DEV_WINDOW_READ_ONLY;
	if (info->flags & FTH_NVME_WINDOW_RESTORE_ERROR)
		flags |= FTH_DEV_WINDOW_RESTORE_ERROR;
	return flags;
}

static void describe(struct dev_window *self, bool plain)
{
	const uint32_t barriers = FTH_NVME_WINDOW_BARRIER_READ | FTH_NVME_WINDOW_BARRIER_STATUS;
	static const struct fth_dev_window_ops keeping = {
		.close = window_close,
		.load = window_load,
		.store = window_store,
		.persist = window_persist,
		.check = window_check,
	};
	static const struct fth_dev_window_ops forgetting = {
		.close = window_close,
		.load = window_load,
		.store = window_store,
		.check = window_check,
	};
	const struct fth_nvme_window_info *info = fth_nvme_window_info(self->window);
	bool pmr = info->kind == FTH_NVME_WINDOW_PMR;
	/* A region that names no write barrier can give no guarantee. */
	bool keeps = pmr && info->flags & barriers;

	self->base.ops = keeps ? &keeping : &forgetting;
	self->base.info = (struct fth_dev_window_info){
		.kind = pmr ? FTH_DEV_WINDOW_PMR : FTH_DEV_WINDOW_CMB,
		.guarantee = keeps ? FTH_DEV_WINDOW_POWER : FTH_DEV_WINDOW_VOLATILE,
		.flags = flags_of(info, plain),
		.base = info->base,
		.size = info->size,
	};
	fth_nvme_window_report(self->window, self->base.text, sizeof(self->base.text));
}

static int open_kind(struct fth_nvme *nvme, enum fth_dev_window_kind kind,
		     struct fth_nvme_window **out)
{
	int rc = -EOPNOTSUPP;

	if (kind == FTH_DEV_WINDOW_ANY || kind == FTH_DEV_WINDOW_PMR)
		rc = fth_nvme_window_open(nvme, FTH_NVME_WINDOW_PMR, out);
	if ((kind == FTH_DEV_WINDOW_ANY && rc == -EOPNOTSUPP) || kind == FTH_DEV_WINDOW_CMB)
		rc = fth_nvme_window_open(nvme, FTH_NVME_WINDOW_CMB, out);
	if (kind == FTH_DEV_WINDOW_ANY && rc == -EOPNOTSUPP)
		return fth_fail(EOPNOTSUPP, "the drive has no window, neither PMR nor CMB");
	if (kind == FTH_DEV_WINDOW_MEMORY || kind == FTH_DEV_WINDOW_FILE)
		return fth_fail(EOPNOTSUPP, "an NVMe drive has no window of kind %s",
				fth_dev_window_kind_name(kind));
	return rc;
}

int nvme_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
		     struct fth_dev_window **out)
{
	struct fth_nvme *nvme = ((struct dev_nvme *)dev)->nvme;
	struct dev_window *self = calloc(1, sizeof(*self));
	int rc;

	if (!self)
		return -ENOMEM;
	rc = open_kind(nvme, kind, &self->window);
	if (rc < 0) {
		free(self);
		return rc;
	}
	describe(self, nvme->transport->plain_bars);
	*out = &self->base;
	return 0;
}
