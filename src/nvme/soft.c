/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * softnvme(URI): the software controller over any device, behind the host driver. Everything a
 * real drive would see happens: registers, rings, doorbells, PRPs. Bus addresses are the virtual
 * ones, and only mapped memory is granted to the controller.
 */
#include "fathom/nvme/soft.h"

#include "fathom/base/error.h"
#include "fathom/nvme/ctrl.h"

#include <errno.h>
#include <stdlib.h>

struct soft {
	struct fth_nvme_transport transport;
	struct fth_nvme_ctrl *ctrl;
	struct fth_dev *medium; /* owned, or NULL */
};

static struct fth_nvme_ctrl *ctrl_of(struct fth_nvme_transport *t)
{
	return ((struct soft *)t)->ctrl;
}

static uint32_t soft_read32(struct fth_nvme_transport *t, uint32_t offset)
{
	return fth_nvme_ctrl_read32(ctrl_of(t), offset);
}

static uint64_t soft_read64(struct fth_nvme_transport *t, uint32_t offset)
{
	return fth_nvme_ctrl_read64(ctrl_of(t), offset);
}

static void soft_write32(struct fth_nvme_transport *t, uint32_t offset, uint32_t value)
{
	fth_nvme_ctrl_write32(ctrl_of(t), offset, value);
}

static void soft_write64(struct fth_nvme_transport *t, uint32_t offset, uint64_t value)
{
	fth_nvme_ctrl_write64(ctrl_of(t), offset, value);
}

static int soft_map(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t *iova)
{
	*iova = (uintptr_t)addr;
	return fth_nvme_ctrl_grant(ctrl_of(t), addr, len, *iova);
}

static void soft_unmap(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t iova)
{
	(void)addr;
	(void)fth_nvme_ctrl_revoke(ctrl_of(t), iova, len);
}

static void soft_close(struct fth_nvme_transport *t)
{
	struct soft *soft = (struct soft *)t;

	fth_nvme_ctrl_free(soft->ctrl);
	fth_dev_close(soft->medium);
	free(soft);
}

static const struct fth_nvme_transport_ops soft_ops = {
	.read32 = soft_read32,
	.read64 = soft_read64,
	.write32 = soft_write32,
	.write64 = soft_write64,
	.map = soft_map,
	.unmap = soft_unmap,
	.close = soft_close,
};

int fth_nvme_soft_new(struct fth_nvme_ctrl *ctrl, struct fth_nvme_transport **out)
{
	struct soft *soft = calloc(1, sizeof(*soft));

	if (!soft)
		return -ENOMEM;
	soft->transport.ops = &soft_ops;
	soft->transport.doorbells = fth_nvme_ctrl_doorbells(ctrl);
	soft->ctrl = ctrl;
	*out = &soft->transport;
	return 0;
}

/* ---- the scheme ---- */

struct soft_options {
	struct fth_nvme_opts driver;
	struct fth_nvme_ctrl_opts ctrl;
};

static int parse(struct fth_uri *uri, struct soft_options *options)
{
	uint64_t queues = 0, depth = 256, threads = 1, lba = 0, mdts = 8, timeout_ms = 30000;
	int rc = fth_uri_take_u64(uri, "queues", 1, 64, &queues);

	if (rc >= 0)
		rc = fth_uri_take_u64(uri, "depth", 2, 4096, &depth);
	if (rc >= 0)
		rc = fth_uri_take_u64(uri, "threads", 1, 16, &threads);
	if (rc >= 0)
		rc = fth_uri_take_size(uri, "lba", 512, 65536, &lba);
	if (rc >= 0)
		rc = fth_uri_take_u64(uri, "mdts", 0, 16, &mdts);
	if (rc >= 0)
		rc = fth_uri_take_u64(uri, "timeout_ms", 1, 3600000, &timeout_ms);
	if (rc >= 0)
		rc = fth_uri_finish(uri);
	if (rc < 0)
		return rc;
	if (lba & (lba - 1))
		return fth_fail(EINVAL, "lba=%llu is no power of two", (unsigned long long)lba);
	options->driver = (struct fth_nvme_opts)FTH_NVME_OPTS_INIT;
	options->driver.queues = (uint32_t)queues;
	options->driver.entries = (uint32_t)depth;
	options->driver.timeout_ns = timeout_ms * 1000000;
	options->ctrl = (struct fth_nvme_ctrl_opts)FTH_NVME_CTRL_OPTS_INIT;
	options->ctrl.threads = (uint32_t)threads;
	options->ctrl.mdts = (uint32_t)mdts;
	options->ctrl.lba_shift = lba ? (uint32_t)__builtin_ctzll(lba) : 0;
	return 0;
}

static int soft_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct fth_nvme_transport *transport;
	struct soft_options options;
	struct fth_nvme_ctrl *ctrl;
	struct fth_nvme *nvme;
	int rc = parse(uri, &options);

	if (rc < 0)
		return rc;
	rc = fth_nvme_ctrl_new(inner, &options.ctrl, &ctrl);
	if (rc < 0)
		return rc;
	rc = fth_nvme_soft_new(ctrl, &transport);
	if (rc < 0) {
		fth_nvme_ctrl_free(ctrl);
		return rc;
	}
	rc = fth_nvme_open(transport, &options.driver, &nvme);
	if (rc < 0) {
		soft_close(transport);
		return rc;
	}
	rc = fth_nvme_dev_new(nvme, out);
	if (rc < 0) {
		fth_nvme_close(nvme);
		return rc;
	}
	/* From here on the medium goes when the transport goes. */
	((struct soft *)transport)->medium = inner;
	return 0;
}

const struct fth_dev_scheme fth_nvme_scheme_soft = {
	.name = "softnvme", .wrapper = true, .open = soft_open};
