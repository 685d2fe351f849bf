/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport to a real drive. vfio/vfio_internal.h names the siblings.
 *
 * Registers are reached by 32-bit accesses of the mapped BAR; atomic ones, so that the compiler
 * does each of them once and in order. A 64-bit register is two of them, low half first: not every
 * function takes 8 bytes at once, and the specification lets the host do this.
 */
#include "vfio_internal.h"
#include "base/options.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

/* Doorbells of 64 queue pairs at the widest usual stride: what is mapped of a larger BAR 0. */
#define BAR0_MAX ((uint64_t)1 << 20)

struct vfio {
	struct fth_nvme_transport transport;
	struct vfio_dma dma;
	struct vfio_irqs irqs;
	char *bar0;
	uint64_t bar0_size;   /* mapped */
	pthread_mutex_t lock; /* guards dma.space, and irqs when a vector is turned on */
};

static struct vfio *vfio_of(struct fth_nvme_transport *t)
{
	return (struct vfio *)t;
}

/* ---- registers ---- */

static uint32_t *reg(struct fth_nvme_transport *t, uint32_t offset)
{
	return (uint32_t *)(void *)(vfio_of(t)->bar0 + offset);
}

static uint32_t vfio_read32(struct fth_nvme_transport *t, uint32_t offset)
{
	/* Stops what a register vouches for from being read before it. */
	return fth_nvme_mmio_read32(reg(t, offset));
}

static uint64_t vfio_read64(struct fth_nvme_transport *t, uint32_t offset)
{
	uint32_t low = vfio_read32(t, offset);

	return (uint64_t)vfio_read32(t, offset + 4) << 32 | low;
}

static void vfio_write32(struct fth_nvme_transport *t, uint32_t offset, uint32_t value)
{
	/* Stops memory that the register tells of (the rings) from being written late. */
	fth_nvme_mmio_write32(reg(t, offset), value);
}

static void vfio_write64(struct fth_nvme_transport *t, uint32_t offset, uint64_t value)
{
	vfio_write32(t, offset, (uint32_t)value);
	vfio_write32(t, offset + 4, (uint32_t)(value >> 32));
}

/* ---- memory ---- */

static int vfio_map(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t *iova)
{
	struct vfio *vfio = vfio_of(t);
	/* Large memory where the IOMMU can use large pages for it. */
	uint64_t align = len >= HUGE_PAGE ? HUGE_PAGE : FTH_NVME_PAGE_SIZE;
	int rc;

	pthread_mutex_lock(&vfio->lock);
	rc = iova_alloc(&vfio->dma.space, len, align, iova);
	pthread_mutex_unlock(&vfio->lock);
	if (rc < 0)
		return rc;
	/* Without the lock: this pins every page, which takes its time. */
	rc = vfio_group_map(&vfio->dma, addr, len, *iova);
	if (rc == 0)
		return 0;
	pthread_mutex_lock(&vfio->lock);
	iova_free(&vfio->dma.space, *iova, len);
	pthread_mutex_unlock(&vfio->lock);
	return rc;
}

static void vfio_unmap(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t iova)
{
	struct vfio *vfio = vfio_of(t);

	(void)addr;
	/* An address the IOMMU may still translate is not handed out again. */
	if (vfio_group_unmap(&vfio->dma, iova, len) < 0)
		return;
	pthread_mutex_lock(&vfio->lock);
	iova_free(&vfio->dma.space, iova, len);
	pthread_mutex_unlock(&vfio->lock);
}

/* ---- BARs ---- */

static int vfio_get_bar_size(struct fth_nvme_transport *t, unsigned bar, uint64_t *size)
{
	return vfio_bar_size(vfio_of(t)->dma.device, bar, size);
}

static int vfio_get_bar(struct fth_nvme_transport *t, unsigned bar, uint64_t offset, uint64_t size,
			void **out)
{
	return vfio_bar_map(vfio_of(t)->dma.device, bar, offset, size, out);
}

static void vfio_put_bar(struct fth_nvme_transport *t, void *addr, uint64_t size)
{
	(void)t;
	munmap(addr, size);
}

/* ---- life ---- */

static int vfio_alive(struct fth_nvme_transport *t)
{
	struct pollfd request = {.fd = vfio_of(t)->irqs.request, .events = POLLIN};

	/* Never read, so that the answer stays. */
	if (request.fd >= 0 && poll(&request, 1, 0) > 0)
		return fth_fail(ENODEV, "the drive is being removed or unbound");
	/* Reads of a BAR that nobody decodes are all ones on most machines, but not on all. */
	if (!vfio_device_answers(vfio_of(t)->dma.device))
		return fth_fail(ENODEV, "the drive was removed");
	return 0;
}

static int vfio_reset(struct fth_nvme_transport *t)
{
	int rc = vfio_device_reset(vfio_of(t)->dma.device);

	return rc < 0 ? rc : vfio_device_enable(vfio_of(t)->dma.device);
}

static int vfio_vector_fd(struct fth_nvme_transport *t, unsigned vector)
{
	struct vfio *vfio = vfio_of(t);
	int fd;

	pthread_mutex_lock(&vfio->lock);
	fd = vfio_irqs_vector(&vfio->irqs, vector);
	pthread_mutex_unlock(&vfio->lock);
	return fd;
}

/* All vectors are on: fth_nvme_vfio_open() saw to that, where waits sleep. */
static int vfio_wait(struct fth_nvme_transport *t, unsigned vector, uint64_t deadline)
{
	struct pollfd event = {.fd = vfio_of(t)->irqs.vector[vector], .events = POLLIN};
	uint64_t now = fth_now_ns(), count;
	uint64_t left = now >= deadline ? 0 : deadline - now;
	struct timespec limit = {(time_t)(left / 1000000000), (long)(left % 1000000000)};

	if (ppoll(&event, 1, deadline == FTH_NEVER ? NULL : &limit, NULL) <= 0)
		return -ETIME;
	/* Another waiter may have read it before us: an interrupt has come all the same. */
	if (read(event.fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}

static void vfio_close(struct fth_nvme_transport *t)
{
	struct vfio *vfio = vfio_of(t);

	if (vfio->bar0)
		munmap(vfio->bar0, vfio->bar0_size);
	if (vfio->dma.device >= 0)
		vfio_group_close(&vfio->dma);
	vfio_irqs_close(&vfio->irqs);
	pthread_mutex_destroy(&vfio->lock);
	free(vfio);
}

static const struct fth_nvme_transport_ops vfio_ops = {
	.read32 = vfio_read32,
	.read64 = vfio_read64,
	.write32 = vfio_write32,
	.write64 = vfio_write64,
	.map = vfio_map,
	.unmap = vfio_unmap,
	.bar_size = vfio_get_bar_size,
	.bar = vfio_get_bar,
	.bar_unmap = vfio_put_bar,
	.alive = vfio_alive,
	.reset = vfio_reset,
	.vector_fd = vfio_vector_fd,
	.wait = vfio_wait,
	.close = vfio_close,
};

/* ---- opening ---- */

static int map_registers(struct vfio *vfio)
{
	uint64_t size;
	void *bar0;
	int rc = vfio_bar_size(vfio->dma.device, 0, &size);

	if (rc < 0)
		return rc;
	if (size < FTH_NVME_REG_DOORBELL + FTH_NVME_PAGE_SIZE)
		return fth_fail(EINVAL, "BAR 0 has %llu bytes, too small for an NVMe controller",
				(unsigned long long)size);
	vfio->bar0_size = size < BAR0_MAX ? size : BAR0_MAX;
	rc = vfio_bar_map(vfio->dma.device, 0, 0, vfio->bar0_size, &bar0);
	if (rc < 0)
		return rc;
	vfio->bar0 = bar0;
	vfio->transport.doorbells = vfio->bar0 + FTH_NVME_REG_DOORBELL;
	vfio->transport.doorbell_bytes = vfio->bar0_size - FTH_NVME_REG_DOORBELL;
	return 0;
}

static int open_irqs(struct vfio *vfio, const struct fth_nvme_vfio_options *opts)
{
	int rc = vfio_irqs_open(&vfio->irqs, vfio->dma.device, opts->vectors);

	if (rc < 0)
		return rc;
	vfio->transport.vectors = vfio->irqs.vectors;
	vfio->transport.sleeps = opts->sleep;
	if (!opts->sleep)
		return 0;
	if (vfio->irqs.vectors == 0)
		return fth_fail(EOPNOTSUPP,
				"the drive has no MSI-X interrupts; use irq=off to poll");
	for (uint32_t i = 0; rc >= 0 && i < vfio->irqs.vectors; i++)
		rc = vfio_irqs_vector(&vfio->irqs, i);
	return rc < 0 ? rc : 0;
}

static int open_device(struct vfio *vfio, const struct fth_nvme_vfio_options *opts)
{
	int device = vfio->dma.device;
	int rc = vfio_device_reset(device);

	/* A function that can not be reset alone: the driver's own reset has to do. */
	if (rc == 0 || rc == -EOPNOTSUPP)
		rc = vfio_device_enable(device);
	if (rc == 0)
		rc = map_registers(vfio);
	return rc < 0 ? rc : open_irqs(vfio, opts);
}

int fth_nvme_vfio_open(const char *bdf, const struct fth_nvme_vfio_options *opts,
		       struct fth_nvme_transport **out)
{
	static const struct fth_nvme_vfio_options defaults = FTH_NVME_VFIO_OPTIONS_INIT;
	struct vfio_pci pci;
	struct vfio *vfio;
	int rc;

	*out = NULL;
	opts = opts ? opts : &defaults;
	rc = fth_options_check("nvme", opts->size, sizeof(*opts));
	if (rc == 0)
		rc = vfio_pci_look("/sys", bdf, &pci);
	if (rc < 0)
		return rc;
	vfio = calloc(1, sizeof(*vfio));
	if (!vfio)
		return -ENOMEM;
	pthread_mutex_init(&vfio->lock, NULL);
	vfio->transport.ops = &vfio_ops;
	vfio->irqs.request = -1;
	vfio->dma = (struct vfio_dma){.device = -1, .container = -1, .group = -1};
	rc = vfio_group_open(&vfio->dma, "/dev", &pci);
	if (rc == 0)
		rc = open_device(vfio, opts);
	if (rc < 0) {
		vfio_close(&vfio->transport);
		return rc;
	}
	*out = &vfio->transport;
	return 0;
}
