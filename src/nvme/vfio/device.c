/* SPDX-License-Identifier: BSD-2-Clause */
/* A VFIO device however it was opened: BARs, configuration space, reset, interrupts. */
#include "vfio_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- regions ---- */

static int region_info(int device, uint32_t index, struct vfio_region_info *info)
{
	memset(info, 0, sizeof(*info));
	info->argsz = sizeof(*info);
	info->index = index;
	if (ioctl(device, VFIO_DEVICE_GET_REGION_INFO, info) < 0)
		return fth_fail(errno, "region %u of the PCI device: %s", index, strerror(errno));
	return 0;
}

/* An I/O port BAR cannot be mapped and the upper half of a 64-bit one is empty: neither counts. */
static int memory_bar(int device, unsigned bar, struct vfio_region_info *info)
{
	int rc;

	if (bar > 5)
		return fth_fail(ENODEV, "no BAR %u", bar);
	rc = region_info(device, VFIO_PCI_BAR0_REGION_INDEX + bar, info);
	if (rc < 0)
		return rc;
	if (info->size == 0 || !(info->flags & VFIO_REGION_INFO_FLAG_MMAP))
		return fth_fail(ENODEV, "BAR %u %s", bar,
				info->size ? "cannot be mapped" : "does not exist");
	return 0;
}

int vfio_bar_size(int device, unsigned bar, uint64_t *size)
{
	struct vfio_region_info info;
	int rc = memory_bar(device, bar, &info);

	if (rc == 0)
		*size = info.size;
	return rc;
}

int vfio_bar_map(int device, unsigned bar, uint64_t offset, uint64_t size, void **out)
{
	struct vfio_region_info info;
	int rc = memory_bar(device, bar, &info);

	if (rc < 0)
		return rc;
	if (size == 0 || offset > info.size || size > info.size - offset)
		return fth_fail(ERANGE, "BAR %u has %llu bytes", bar,
				(unsigned long long)info.size);
	*out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, device,
		    (off_t)(info.offset + offset));
	if (*out == MAP_FAILED) {
		*out = NULL;
		return fth_fail(errno, "cannot map BAR %u: %s", bar, strerror(errno));
	}
	return 0;
}

/* ---- configuration space, reset ---- */

bool vfio_device_answers(int device)
{
	struct vfio_region_info info;
	uint32_t class;

	/* Class and revision: VFIO keeps no copy of them, unlike of the vendor. */
	return region_info(device, VFIO_PCI_CONFIG_REGION_INDEX, &info) == 0 &&
	       pread(device, &class, sizeof(class), (off_t)info.offset + PCI_CLASS_REVISION) ==
		       sizeof(class) &&
	       class != UINT32_MAX;
}

int vfio_device_enable(int device)
{
	const uint16_t want = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE;
	struct vfio_region_info info;
	uint16_t command;
	off_t at;
	int rc = region_info(device, VFIO_PCI_CONFIG_REGION_INDEX, &info);

	if (rc < 0)
		return rc;
	at = (off_t)info.offset + PCI_COMMAND;
	if (pread(device, &command, sizeof(command), at) != sizeof(command))
		return fth_fail(EIO, "cannot read the PCI command register");
	command |= want;
	if (pwrite(device, &command, sizeof(command), at) != sizeof(command))
		return fth_fail(EIO, "cannot write the PCI command register");
	if (pread(device, &command, sizeof(command), at) != sizeof(command))
		return fth_fail(EIO, "cannot read the PCI command register");
	if (command == UINT16_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	if ((command & want & ~PCI_COMMAND_INTX_DISABLE) != (want & ~PCI_COMMAND_INTX_DISABLE))
		return fth_fail(EIO, "cannot enable bus mastering on the PCI function");
	return 0;
}

int vfio_device_reset(int device)
{
	struct vfio_device_info info = {.argsz = sizeof(info)};

	if (ioctl(device, VFIO_DEVICE_GET_INFO, &info) < 0)
		return fth_fail(errno, "cannot read the description of the PCI device: %s",
				strerror(errno));
	if (!(info.flags & VFIO_DEVICE_FLAGS_RESET))
		return fth_fail(EOPNOTSUPP, "the PCI device does not support a reset of its own");
	if (ioctl(device, VFIO_DEVICE_RESET) < 0)
		return fth_fail(errno, "cannot reset the PCI device: %s", strerror(errno));
	return 0;
}

/* ---- interrupts ---- */

/* How many vectors an interrupt index has that can signal an eventfd; 0 for none. */
static uint32_t vector_count(int device, uint32_t index)
{
	struct vfio_irq_info info = {.argsz = sizeof(info), .index = index};

	if (ioctl(device, VFIO_DEVICE_GET_IRQ_INFO, &info) < 0)
		return 0; /* an index this kernel does not know */
	return info.flags & VFIO_IRQ_INFO_EVENTFD ? info.count : 0;
}

/* Signal fds[i] when vector first + i of the index fires; -1: nothing. */
static int set_trigger(int device, uint32_t index, uint32_t first, const int *fds, uint32_t n)
{
	union {
		struct vfio_irq_set set;
		char bytes[sizeof(struct vfio_irq_set) + VFIO_VECTORS_MAX * sizeof(int)];
	} arg;

	memset(&arg, 0, sizeof(arg));
	arg.set.argsz = (uint32_t)(sizeof(arg.set) + n * sizeof(int));
	arg.set.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
	arg.set.index = index;
	arg.set.start = first;
	arg.set.count = n;
	memcpy(arg.set.data, fds, n * sizeof(int));
	if (ioctl(device, VFIO_DEVICE_SET_IRQS, &arg) < 0)
		return fth_fail(errno, "cannot configure the interrupts of the PCI device: %s",
				strerror(errno));
	return 0;
}

static int new_eventfd(int *fd)
{
	*fd = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return *fd < 0 ? fth_fail(errno, "eventfd: %s", strerror(errno)) : 0;
}

static int open_request(struct vfio_irqs *irqs, int device)
{
	int rc;

	if (vector_count(device, VFIO_PCI_REQ_IRQ_INDEX) == 0)
		return 0;
	rc = new_eventfd(&irqs->request);
	return rc < 0 ? rc : set_trigger(device, VFIO_PCI_REQ_IRQ_INDEX, 0, &irqs->request, 1);
}

/*
 * MSI-X is enabled with every vector masked: a controller refuses a queue with a vector of its own
 * while only its pin could interrupt, and not every kernel adds vectors later. Without MSI-X, or if
 * this fails, there are no vectors.
 */
static void enable_vectors(struct vfio_irqs *irqs, int device, uint32_t want)
{
	uint32_t have = vector_count(device, VFIO_PCI_MSIX_IRQ_INDEX);
	uint32_t n = want < have ? want : have;

	if (n > VFIO_VECTORS_MAX)
		n = VFIO_VECTORS_MAX;
	if (n > 0 && set_trigger(device, VFIO_PCI_MSIX_IRQ_INDEX, 0, irqs->vector, n) == 0)
		irqs->vectors = n;
}

int vfio_irqs_open(struct vfio_irqs *irqs, int device, uint32_t want)
{
	int rc;

	*irqs = (struct vfio_irqs){.request = -1, .device = device};
	for (unsigned i = 0; i < VFIO_VECTORS_MAX; i++)
		irqs->vector[i] = -1;
	rc = open_request(irqs, device);
	if (rc < 0) {
		vfio_irqs_close(irqs);
		return rc;
	}
	enable_vectors(irqs, device, want);
	return 0;
}

int vfio_irqs_vector(struct vfio_irqs *irqs, uint32_t vector)
{
	int rc;

	if (vector >= irqs->vectors)
		return fth_fail(EOPNOTSUPP, "the drive has %u MSI-X interrupts", irqs->vectors);
	if (irqs->vector[vector] >= 0)
		return irqs->vector[vector];
	rc = new_eventfd(&irqs->vector[vector]);
	if (rc == 0)
		rc = set_trigger(irqs->device, VFIO_PCI_MSIX_IRQ_INDEX, vector,
				 &irqs->vector[vector], 1);
	if (rc < 0 && irqs->vector[vector] >= 0) {
		close(irqs->vector[vector]);
		irqs->vector[vector] = -1;
	}
	return rc < 0 ? rc : irqs->vector[vector];
}

/* The device is closed after this, which ends its interrupts: they have nothing to signal now. */
void vfio_irqs_close(struct vfio_irqs *irqs)
{
	if (irqs->request >= 0)
		close(irqs->request);
	irqs->request = -1;
	for (uint32_t i = 0; i < irqs->vectors; i++)
		if (irqs->vector[i] >= 0)
			close(irqs->vector[i]);
	irqs->vectors = 0;
}
