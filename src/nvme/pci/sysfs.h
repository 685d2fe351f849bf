/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading sysfs and proc, for the files that look at PCI functions:
 *
 *	pci.c		what functions there are
 *	pci/users.c	who uses the blocks of one
 *	pci/bind.c	from one driver to another
 *	pci/sysfs.c	files, links and folders
 */
#ifndef FTH_NVME_PCI_SYSFS_H
#define FTH_NVME_PCI_SYSFS_H

#include "nvme/pci.h"

#include <stdio.h>

/* root and the rest. A path that is too long becomes "", which no file has. */
void pci_path(char path[FTH_NVME_PCI_PATH], const char *root, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* What drives and users have named may hold anything: control characters become '?'. */
void pci_printable(char *text);

/* fopen() for reading; its descriptor is never 0, 1 or 2. */
FILE *pci_fopen(const char *path);

/* The first line of a file without the white space around it, printable; "" and -errno if there is
 * none. */
int pci_read_text(const char *path, char *text, size_t size);

/* A number in a file; base as for strtoull(). 0 or -errno, *value is then unchanged. */
int pci_read_number(const char *path, int base, uint64_t *value);

/* The last part of where a link leads; "" and -errno if it is none. */
int pci_link_name(const char *path, char *name, size_t size);

/*
 * Call fn for each entry of a folder, in the order of names and the numbers in them, until it
 * returns other than 0, and return that. A folder that is not there is empty. -ENOMEM.
 */
int pci_each(const char *folder, int (*fn)(const char *name, void *arg), void *arg);

/*
 * One more element of `size` bytes, zeroed, at the end of the array whose pointer is at `array`;
 * NULL if memory is short.
 */
void *pci_append(void *array, unsigned *count, size_t size);

/* Fill pci->uses. 0 or -ENOMEM. */
int pci_find_uses(const char *root, struct fth_nvme_pci *pci);

#endif
