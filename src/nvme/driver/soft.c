/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * softnvme(URI): the software controller over any device, behind the host driver. Everything a
 * real drive would see happens: registers, rings, doorbells, PRPs. Bus addresses are the virtual
 * ones, and only mapped memory is granted to the controller.
 */
#include "nvme/soft.h"

#include "driver_internal.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/dev/delay.h"
#include "nvme/ctrl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct soft {
	struct fth_nvme_transport transport;
	struct fth_nvme_ctrl *ctrl;
	struct fth_dev *medium;	 /* owned, or NULL */
	struct fth_dev *pmr_dev; /* owned, or NULL */
	char note[512];
	pthread_mutex_t lock; /* guards vector_fds */
	int *vector_fds;      /* eventfds, made when they are asked for; -1: not yet */
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

static int soft_bar_size(struct fth_nvme_transport *t, unsigned bar, uint64_t *size)
{
	if (!fth_nvme_ctrl_bar(ctrl_of(t), bar, size))
		return fth_fail(ENODEV, "BAR %u is not memory", bar);
	return 0;
}

static int soft_bar(struct fth_nvme_transport *t, unsigned bar, uint64_t offset, uint64_t size,
		    void **out)
{
	uint64_t all;
	char *memory = fth_nvme_ctrl_bar(ctrl_of(t), bar, &all);

	if (!memory)
		return fth_fail(ENODEV, "BAR %u is not memory", bar);
	if (offset > all || size > all - offset)
		return fth_fail(ERANGE, "BAR %u has %llu bytes", bar, (unsigned long long)all);
	*out = memory + offset;
	return 0;
}

static void soft_bar_unmap(struct fth_nvme_transport *t, void *addr, uint64_t size)
{
	/* The memory is the controller's, and stays. */
	(void)t;
	(void)addr;
	(void)size;
}

static uint32_t soft_pmr_barrier(struct fth_nvme_transport *t, uint64_t offset, uint64_t size,
				 uint64_t deadline)
{
	return fth_nvme_ctrl_pmr_barrier(ctrl_of(t), offset, size, deadline);
}

/* Make the eventfd of a vector and have the controller write to it. The lock is held. */
static int open_vector(struct soft *soft, unsigned vector)
{
	int fd = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	int rc;

	if (fd < 0)
		return fth_fail(errno, "eventfd: %s", strerror(errno));
	rc = fth_nvme_ctrl_set_vector(soft->ctrl, vector, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	soft->vector_fds[vector] = fd;
	return fd;
}

static int soft_vector_fd(struct fth_nvme_transport *t, unsigned vector)
{
	struct soft *soft = (struct soft *)t;
	int fd;

	pthread_mutex_lock(&soft->lock);
	fd = soft->vector_fds[vector];
	if (fd < 0)
		fd = open_vector(soft, vector);
	pthread_mutex_unlock(&soft->lock);
	return fd;
}

static void soft_close(struct fth_nvme_transport *t)
{
	struct soft *soft = (struct soft *)t;

	fth_nvme_ctrl_free(soft->ctrl);
	for (uint32_t i = 0; i < t->vectors; i++)
		if (soft->vector_fds[i] >= 0)
			close(soft->vector_fds[i]);
	free(soft->vector_fds);
	pthread_mutex_destroy(&soft->lock);
	fth_dev_close(soft->pmr_dev);
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
	.bar_size = soft_bar_size,
	.bar = soft_bar,
	.bar_unmap = soft_bar_unmap,
	.pmr_barrier = soft_pmr_barrier,
	.vector_fd = soft_vector_fd,
	.close = soft_close,
};

/* What becomes of the region, for the window's report. */
static void write_note(struct soft *soft)
{
	struct fth_dev *dev = fth_nvme_ctrl_pmr_dev(soft->ctrl);

	if (dev)
		snprintf(soft->note, sizeof(soft->note),
			 "This controller is software and keeps the region on %s: what was "
			 "persisted is as safe as what was written there and flushed.",
			 fth_dev_uri(dev));
	else
		snprintf(soft->note, sizeof(soft->note),
			 "This controller is software and keeps the region in memory of this "
			 "process: it survives a simulated power loss, not the end of the "
			 "controller.");
	soft->transport.pmr_note = soft->note;
}

int fth_nvme_soft_new(struct fth_nvme_ctrl *ctrl, struct fth_nvme_transport **out)
{
	struct soft *soft = calloc(1, sizeof(*soft));
	uint32_t vectors = fth_nvme_ctrl_vectors(ctrl);

	if (soft)
		soft->vector_fds = malloc(vectors * sizeof(soft->vector_fds[0]));
	if (!soft || !soft->vector_fds) {
		free(soft);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < vectors; i++)
		soft->vector_fds[i] = -1;
	pthread_mutex_init(&soft->lock, NULL);
	soft->transport.vectors = vectors;
	soft->transport.plain_bars = true;
	soft->transport.ops = &soft_ops;
	soft->transport.doorbells = fth_nvme_ctrl_doorbells(ctrl);
	soft->ctrl = ctrl;
	write_note(soft);
	*out = &soft->transport;
	return 0;
}

struct fth_nvme_ctrl *fth_nvme_soft_ctrl(struct fth_nvme *nvme)
{
	return nvme && nvme->transport->ops == &soft_ops ? ctrl_of(nvme->transport) : NULL;
}

/* ---- the scheme ---- */

struct soft_options {
	struct fth_nvme_options driver;
	struct fth_nvme_ctrl_options ctrl;
	const char *pmr_dev; /* a URI; lives as long as the parsed one */
	const struct fth_dev_window_model *window_model;
};

static int parse_windows(struct fth_uri *uri, struct soft_options *options)
{
	const char *model = NULL;
	int rc = fth_uri_take_size(uri, "pmr", 4096, (uint64_t)1 << 40, &options->ctrl.pmr_size);

	if (rc >= 0)
		rc = fth_uri_take_string(uri, "pmr_dev", &options->pmr_dev);
	if (rc >= 0)
		rc = fth_uri_take_size(uri, "cmb", 4096, (uint64_t)2 << 30,
				       &options->ctrl.cmb_size);
	if (rc >= 0)
		rc = fth_uri_take_string(uri, "window_model", &model);
	if (rc < 0)
		return rc;
	if (options->pmr_dev && !options->ctrl.pmr_size)
		return fth_fail(EINVAL, "pmr_dev needs pmr=SIZE");
	options->window_model = model ? fth_dev_window_model(model) : NULL;
	if (model && !options->window_model)
		return fth_fail(EINVAL, "unknown window_model \"%s\"", model);
	return 0;
}

static int parse_queues(struct fth_uri *uri, struct soft_options *options)
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
	if (rc < 0)
		return rc;
	if (lba & (lba - 1))
		return fth_fail(EINVAL, "lba=%llu is not a power of two", (unsigned long long)lba);
	options->driver.queues = (uint32_t)queues;
	options->driver.entries = (uint32_t)depth;
	options->driver.timeout_ns = timeout_ms * 1000000;
	options->ctrl.threads = (uint32_t)threads;
	options->ctrl.mdts = (uint32_t)mdts;
	options->ctrl.lba_shift = lba ? (uint32_t)__builtin_ctzll(lba) : 0;
	return 0;
}

static int parse(struct fth_uri *uri, struct soft_options *options)
{
	int rc;

	*options = (struct soft_options){.driver = FTH_NVME_OPTIONS_INIT,
					 .ctrl = FTH_NVME_CTRL_OPTIONS_INIT};
	rc = parse_queues(uri, options);
	if (rc >= 0)
		rc = parse_windows(uri, options);
	return rc < 0 ? rc : fth_uri_finish(uri);
}

/* A transport to a new controller; it owns the controller. */
static int open_transport(struct fth_dev *inner, const struct soft_options *options,
			  struct fth_nvme_transport **out)
{
	struct fth_nvme_ctrl *ctrl;
	int rc = fth_nvme_ctrl_new(inner, &options->ctrl, &ctrl);

	if (rc < 0)
		return rc;
	rc = fth_nvme_soft_new(ctrl, out);
	if (rc < 0) {
		fth_nvme_ctrl_free(ctrl);
		return rc;
	}
	(*out)->window_model = options->window_model;
	return 0;
}

static int open_device(struct fth_dev *inner, const struct soft_options *options,
		       struct fth_dev **out)
{
	struct fth_nvme_transport *transport;
	struct fth_nvme *nvme;
	int rc = open_transport(inner, options, &transport);

	if (rc < 0)
		return rc;
	rc = fth_nvme_open(transport, &options->driver, &nvme);
	if (rc < 0) {
		soft_close(transport);
		return rc;
	}
	rc = fth_nvme_dev_new(nvme, out);
	if (rc < 0) {
		fth_nvme_close(nvme);
		return rc;
	}
	(*out)->info.keeps = fth_dev_info(inner)->keeps;
	/* From here on what the controller stands on goes when the transport goes. */
	((struct soft *)transport)->medium = inner;
	((struct soft *)transport)->pmr_dev = options->ctrl.pmr_dev;
	return 0;
}

static int soft_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct soft_options options;
	int rc = parse(uri, &options);

	if (rc == 0 && options.pmr_dev)
		rc = fth_dev_open(options.pmr_dev, &options.ctrl.pmr_dev);
	if (rc < 0)
		return rc;
	rc = open_device(inner, &options, out);
	if (rc < 0)
		fth_dev_close(options.ctrl.pmr_dev);
	return rc;
}

const struct fth_dev_scheme fth_nvme_scheme_soft = {
	.name = "softnvme", .wrapper = true, .open = soft_open};
