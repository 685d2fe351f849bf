/* SPDX-License-Identifier: BSD-2-Clause */
/* nvme:BDF[/NSID]: a device on the driver on VFIO. */
#include "vfio_internal.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define QUEUES_DEFAULT_MAX 16

struct options {
	char bdf[FTH_NVME_PCI_NAME];
	struct fth_nvme_options driver;
	struct fth_nvme_vfio_options vfio;
};

/* "BDF" or "BDF/NSID" */
static int parse_path(const char *path, struct options *options)
{
	const char *slash = strchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : strlen(path);
	char bdf[64];
	uint64_t nsid;

	if (len >= sizeof(bdf))
		return fth_fail(EINVAL, "\"%s\" is not a PCI address such as 0000:03:00.0", path);
	memcpy(bdf, path, len);
	bdf[len] = '\0';
	if (slash) {
		if (fth_parse_u64(slash + 1, &nsid) < 0 || nsid == 0 || nsid >= FTH_NVME_NSID_ALL)
			return fth_fail(EINVAL, "\"%s\" is not a namespace id", slash + 1);
		options->driver.nsid = (uint32_t)nsid;
	}
	return fth_nvme_pci_bdf(bdf, options->bdf);
}

static int parse(struct fth_uri *uri, struct options *options)
{
	uint64_t queues = 0, depth = 256, timeout_ms = 30000;
	bool irq = false;
	int rc = fth_uri_take_u64(uri, "queues", 1, VFIO_VECTORS_MAX - 1, &queues);

	options->driver = (struct fth_nvme_options)FTH_NVME_OPTIONS_INIT;
	options->vfio = (struct fth_nvme_vfio_options)FTH_NVME_VFIO_OPTIONS_INIT;
	if (rc >= 0)
		rc = fth_uri_take_u64(uri, "depth", 2, 4096, &depth);
	if (rc >= 0)
		rc = fth_uri_take_u64(uri, "timeout_ms", 1, 3600000, &timeout_ms);
	if (rc >= 0)
		rc = fth_uri_take_bool(uri, "irq", &irq);
	if (rc >= 0)
		rc = fth_uri_finish(uri);
	if (rc >= 0)
		rc = parse_path(uri->path, options);
	options->driver.queues = (uint32_t)queues;
	options->driver.entries = (uint32_t)depth;
	options->driver.timeout_ns = timeout_ms * 1000000;
	options->vfio.vectors = 1 + (queues ? (uint32_t)queues : QUEUES_DEFAULT_MAX);
	options->vfio.sleep = irq;
	return rc < 0 ? rc : 0;
}

static int vfio_scheme_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct fth_nvme_transport *transport;
	struct options options;
	struct fth_nvme *nvme;
	int rc = parse(uri, &options);

	(void)inner;
	if (rc < 0)
		return rc;
	rc = fth_nvme_vfio_open(options.bdf, &options.vfio, &transport);
	if (rc < 0)
		return rc;
	rc = fth_nvme_open(transport, &options.driver, &nvme);
	if (rc < 0) {
		transport->ops->close(transport);
		return rc;
	}
	rc = fth_nvme_dev_new(nvme, out);
	if (rc < 0)
		fth_nvme_close(nvme);
	return rc;
}

const struct fth_dev_scheme fth_nvme_scheme_vfio = {.name = "nvme", .open = vfio_scheme_open};
