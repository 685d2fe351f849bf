/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the VFIO transport share. From a PCI address to a transport:
 *
 *	vfio_pci.c	what sysfs says: is it an NVMe controller, who has it, its IOMMU group
 *	group.c		DMA through an IOMMU group: container, group, device
 *	iova.c		which bus addresses are free
 *	device.c	BARs, configuration space, reset, interrupts
 *	vfio.c		the transport made of these
 *	scheme.c	nvme:BDF
 */
#ifndef FTH_NVME_VFIO_INTERNAL_H
#define FTH_NVME_VFIO_INTERNAL_H

#include "nvme/pci.h"
#include "nvme/vfio.h"
#include "iova.h"

#define VFIO_NAME_MAX 64
#define VFIO_PATH_MAX 512

/* ---- sysfs ---- */

struct vfio_pci {
	char bdf[FTH_NVME_PCI_NAME]; /* as sysfs spells it */
	char group[VFIO_NAME_MAX];   /* a number */
};

/* Look at a function below `sysfs` ("/sys"); 0 if it can be opened, or why not. */
int vfio_pci_look(const char *sysfs, const char *bdf, struct vfio_pci *pci);

/* ---- DMA ---- */

struct vfio_dma {
	int device; /* the VFIO device; all three -1 while closed */
	int container;
	int group;
	struct iova_space space; /* guarded by the transport's lock */
};

/* Files below `devfs` ("/dev"). Sets dma->device and the address space. 0 or a negative errno. */
int vfio_group_open(struct vfio_dma *dma, const char *devfs, const struct vfio_pci *pci);
void vfio_group_close(struct vfio_dma *dma);
int vfio_group_map(struct vfio_dma *dma, void *addr, uint64_t len, uint64_t iova);
int vfio_group_unmap(struct vfio_dma *dma, uint64_t iova, uint64_t len);

/* A range the IOMMU allows: add what of it we use. 0 or what iova_add() returns. */
int vfio_dma_allow(struct vfio_dma *dma, uint64_t start, uint64_t last);

/* Explain why mapping failed with `err`; returns -err, or what fits better. */
int vfio_dma_why(int err, uint64_t len);

/* Take the address ranges out of what VFIO_IOMMU_GET_INFO returned, `size` bytes. */
int vfio_group_ranges(struct vfio_dma *dma, const void *info, uint32_t size);

/* ---- the device ---- */

#define VFIO_VECTORS_MAX 65 /* 64 queue pairs and the admin queue */

struct vfio_irqs {
	int request; /* an event here: the kernel wants the device back; -1: not offered */
	int device;
	uint32_t vectors;	      /* that there are */
	int vector[VFIO_VECTORS_MAX]; /* eventfds of those that are on; -1: masked */
};

/* Size of a memory BAR, and whether it can be mapped. 0, -ENODEV for none. */
int vfio_bar_size(int device, unsigned bar, uint64_t *size);

/* Map part of a BAR. 0, -ENODEV, -ERANGE, or why not. */
int vfio_bar_map(int device, unsigned bar, uint64_t offset, uint64_t size, void **out);

/* Reset the function, where it can be reset at all. 0, -EOPNOTSUPP or -errno. */
int vfio_device_reset(int device);

/* Whether the function still answers for its configuration space, as memory reads may not tell. */
bool vfio_device_answers(int device);

/* Let it decode memory and be a bus master, without a legacy interrupt. */
int vfio_device_enable(int device);

/* Ask to be told when the kernel wants the device back; and look for up to `want` vectors. */
int vfio_irqs_open(struct vfio_irqs *irqs, int device, uint32_t want);

/* The eventfd of a vector, which is turned on by the first call; or an error. Not thread-safe. */
int vfio_irqs_vector(struct vfio_irqs *irqs, uint32_t vector);

void vfio_irqs_close(struct vfio_irqs *irqs);

#endif
