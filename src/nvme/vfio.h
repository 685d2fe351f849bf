/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Real drives: the transport from the host driver to a PCI function through Linux VFIO, and the
 * device scheme
 *
 *	nvme:BDF[/NSID]?queues=N&depth=N&timeout_ms=N&irq=on|off
 *
 *	BDF		PCI address, [DOMAIN:]BUS:DEVICE.FUNCTION in hexadecimal: 0000:03:00.0
 *	NSID		namespace; default 1
 *	queues		I/O queue pairs; default one per CPU, at most 16; the drive may grant fewer
 *	depth		entries per ring, a power of two from 2 to 4096; default 256
 *	timeout_ms	how long a command may take before the controller is reset; default 30000
 *	irq		sleep until an interrupt comes instead of polling; default off. The
 *			descriptor of a channel (fth_dev_chan_fd()) uses the interrupt of its
 *			queue in any case, which is off until the first such call
 *
 * The function must be bound to the kernel's vfio-pci (`fathom nvme bind BDF`), and its IOMMU must
 * be on: the drive reaches mapped memory and nothing else. One process uses a function at a time;
 * a process may use any number of functions. All functions of one IOMMU group belong to whoever
 * opened the first of them, and here that is one device: -EBUSY for the next.
 *
 * A command that gets no answer in time resets the controller, and all that was in flight ends
 * with -ETIMEDOUT (what had completed, with its result): whether it happened is not known, and
 * issuing it again is the caller's decision. The next submit finds a controller that works again.
 * When the drive is pulled, or the kernel wants it back, every wait ends with -ENODEV and so does
 * every later submit; close the device then, the kernel waits for that.
 *
 * Memory that the drive reaches is locked: RLIMIT_MEMLOCK bounds it, and each device counts for
 * itself what is mapped into several.
 */
#ifndef FATHOM_NVME_VFIO_H
#define FATHOM_NVME_VFIO_H

#include "fathom/dev/driver.h"
#include "nvme/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_nvme_vfio_options {
	size_t size;	  /* of this struct; set by the initialiser */
	uint32_t vectors; /* interrupt vectors wanted, the first for the admin queue; 0: none */
	bool sleep;	  /* waits sleep until an interrupt comes: all vectors are turned on */
};

#define FTH_NVME_VFIO_OPTIONS_INIT                              \
	{                                                       \
		sizeof(struct fth_nvme_vfio_options), 0, false, \
	}

/*
 * Open the function at a PCI address, reset it and let it reach memory. opts may be NULL. May
 * block for the second that a reset takes. On failure *out is NULL and the text says what is
 * wrong and what to do:
 *
 *	-EINVAL		no PCI address, or not an NVMe controller's
 *	-ENODEV		no such function
 *	-EBUSY		another driver has it, or another process, or this one
 *	-ENXIO		no driver has it: it must be bound to vfio-pci
 *	-EOPNOTSUPP	no IOMMU, or a feature is missing in kernel or drive
 *	-EACCES		the files below /dev/vfio may not be opened
 *	-ENOENT		they are not there
 */
int fth_nvme_vfio_open(const char *bdf, const struct fth_nvme_vfio_options *opts,
		       struct fth_nvme_transport **out);

#ifdef __cplusplus
}
#endif
#endif
