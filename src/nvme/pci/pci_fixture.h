/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: a folder that looks like a system's /sys, /proc and /dev with NVMe drives in it. */
#ifndef FTH_NVME_PCI_FIXTURE_H
#define FTH_NVME_PCI_FIXTURE_H

#include "nvme/pci.h"

#include <pthread.h>

struct tree {
	char root[64];
	/* the kernel, as far as it answers drivers_probe */
	pthread_t kernel;
	char probed[FTH_NVME_PCI_NAME]; /* the function it gives to its drivers */
	bool deaf;			/* it takes no notice */
};

void tree_open(struct tree *tree);
void tree_close(struct tree *tree);

/* Write a file, and the folders on the way to it; paths are as on a system, "/sys/...". */
void tree_file(struct tree *tree, const char *path, const char *text);
void tree_link(struct tree *tree, const char *path, const char *target);
void tree_remove(struct tree *tree, const char *path);

/* What a file holds; into a buffer that the thread's next call overwrites. */
const char *tree_read(struct tree *tree, const char *path);

/* A PCI function of some class with that driver ("" for none), in an IOMMU group or none. */
void tree_function(struct tree *tree, const char *bdf, const char *class, const char *driver,
		   int group);

/* An NVMe drive that the kernel has as nvmeN with the namespace nvmeNn1, block device 259:16*N. */
void tree_drive(struct tree *tree, const char *bdf, unsigned n, int group);

/* Its partition `part`, block device 259:16*N+part. */
void tree_partition(struct tree *tree, unsigned n, unsigned part);

/* A block device made of the block device `under`: device mapper or md. */
void tree_holder(struct tree *tree, const char *name, const char *numbers, const char *under);

/* From now on a thread answers drivers_probe for one function, as the kernel does. */
void tree_kernel_start(struct tree *tree, const char *bdf);
void tree_kernel_stop(struct tree *tree);

#endif
