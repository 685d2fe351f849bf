/* SPDX-License-Identifier: BSD-2-Clause */
/* Which NVMe functions there are, and what the kernel knows of them. Siblings: pci/sysfs.h. */
#include "sysfs.h"

#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_NVME 0x010802u
#define SECTOR	   512u /* what sysfs counts sizes in, whatever the block size */

/* ---- addresses ---- */

/* `digits` hexadecimal ones at most, then `end`. Returns what follows it, or NULL. */
static const char *take_hex(const char *text, unsigned digits, char end, unsigned *value)
{
	unsigned n = 0;

	*value = 0;
	for (; n < digits && *text; n++, text++) {
		const char *set = "0123456789abcdef";
		const char *at = strchr(set, *text >= 'A' && *text <= 'F' ? *text + 32 : *text);

		if (!at)
			break;
		*value = *value << 4 | (unsigned)(at - set);
	}
	return n > 0 && *text == end ? text + (end != '\0') : NULL;
}

int fth_nvme_pci_bdf(const char *text, char bdf[FTH_NVME_PCI_NAME])
{
	unsigned domain = 0, bus = 0, device = 0, function = 0;
	const char *colon = strchr(text, ':');
	const char *rest = text;

	if (colon && strchr(colon + 1, ':'))
		rest = take_hex(rest, 8, ':', &domain);
	rest = rest ? take_hex(rest, 2, ':', &bus) : NULL;
	rest = rest ? take_hex(rest, 2, '.', &device) : NULL;
	rest = rest ? take_hex(rest, 1, '\0', &function) : NULL;
	if (!rest || device > 0x1f || function > 7)
		return fth_fail(EINVAL, "\"%s\" is not a PCI address such as 0000:01:00.0", text);
	snprintf(bdf, FTH_NVME_PCI_NAME, "%04x:%02x:%02x.%x", domain, bus, device, function);
	return 0;
}

/* ---- block devices ---- */

struct walk {
	const char *root;
	struct fth_nvme_pci *pci;
	const char *disk; /* whose partitions are looked for */
};

static int add_block(struct walk *walk, const char *name, bool partition)
{
	char path[FTH_NVME_PCI_PATH], dev[FTH_NVME_PCI_NAME];
	struct fth_nvme_pci_block *block;
	uint64_t sectors = 0;
	unsigned major, minor;

	pci_path(path, walk->root, "/sys/class/block/%s/dev", name);
	/* A disk that is just going, or is hidden, has no number: nobody can use it by one. */
	if (strlen(name) >= FTH_NVME_PCI_NAME || pci_read_text(path, dev, sizeof(dev)) < 0 ||
	    sscanf(dev, "%u:%u", &major, &minor) != 2)
		return 0;
	block = pci_append(&walk->pci->blocks, &walk->pci->block_count, sizeof(*block));
	if (!block)
		return -ENOMEM;
	snprintf(block->name, sizeof(block->name), "%s", name);
	pci_path(path, walk->root, "/sys/class/block/%s/size", name);
	(void)pci_read_number(path, 10, &sectors);
	block->major = major;
	block->minor = minor;
	block->size = sectors * SECTOR;
	block->partition = partition;
	return 0;
}

static int add_partition(const char *name, void *arg)
{
	struct walk *walk = arg;
	char path[FTH_NVME_PCI_PATH];
	uint64_t number;

	pci_path(path, walk->root, "/sys/class/block/%s/%s/partition", walk->disk, name);
	if (pci_read_number(path, 10, &number) < 0)
		return 0;
	return add_block(walk, name, true);
}

/*
 * The disk that a namespace is used by. With native multipath the controller has a hidden path,
 * nvme0c1n1, of the disk nvme0n1.
 */
static bool disk_name(const char *name, char disk[FTH_NVME_PCI_NAME])
{
	unsigned subsystem, controller, number;
	int end = 0;

	if (sscanf(name, "nvme%uc%un%u%n", &subsystem, &controller, &number, &end) == 3 &&
	    !name[end])
		return snprintf(disk, FTH_NVME_PCI_NAME, "nvme%un%u", subsystem, number) > 0;
	if (sscanf(name, "nvme%un%u%n", &subsystem, &number, &end) != 2 || name[end])
		return false;
	return snprintf(disk, FTH_NVME_PCI_NAME, "nvme%un%u", subsystem, number) > 0;
}

static int add_namespace(const char *name, void *arg)
{
	struct walk *walk = arg;
	char disk[FTH_NVME_PCI_NAME], path[FTH_NVME_PCI_PATH];
	int rc;

	if (!disk_name(name, disk))
		return 0;
	rc = add_block(walk, disk, false);
	if (rc < 0)
		return rc;
	walk->disk = disk;
	pci_path(path, walk->root, "/sys/class/block/%s", disk);
	return pci_each(path, add_partition, walk);
}

/* ---- functions ---- */

static int set_controller(const char *name, void *arg)
{
	struct fth_nvme_pci *pci = arg;

	snprintf(pci->controller, sizeof(pci->controller), "%.*s", FTH_NVME_PCI_NAME - 1, name);
	return 1; /* there is but one */
}

/* What the kernel's driver knows, if it has the function. */
static int read_controller(const char *root, const char *folder, struct fth_nvme_pci *pci)
{
	struct walk walk = {.root = root, .pci = pci};
	char path[FTH_NVME_PCI_PATH];
	int rc;

	pci_path(path, folder, "/nvme");
	rc = pci_each(path, set_controller, pci);
	if (rc <= 0)
		return rc;
	pci_path(path, folder, "/nvme/%s/model", pci->controller);
	(void)pci_read_text(path, pci->model, sizeof(pci->model));
	pci_path(path, folder, "/nvme/%s/serial", pci->controller);
	(void)pci_read_text(path, pci->serial, sizeof(pci->serial));
	pci_path(path, folder, "/nvme/%s", pci->controller);
	return pci_each(path, add_namespace, &walk);
}

/* A line for each BAR: first and last address and flags, all zero where there is none. */
static void read_bars(const char *folder, struct fth_nvme_pci *pci)
{
	char path[FTH_NVME_PCI_PATH], line[128];
	FILE *file;

	pci_path(path, folder, "/resource");
	file = pci_fopen(path);
	if (!file)
		return;
	for (unsigned i = 0; i < FTH_NVME_PCI_BARS && fgets(line, sizeof(line), file); i++) {
		unsigned long long first, last;

		if (sscanf(line, "%llx %llx", &first, &last) == 2 && last > first)
			pci->bar_size[i] = last - first + 1;
	}
	fclose(file);
}

static int read_signed(const char *path, int otherwise)
{
	char text[32], *end;
	long value;

	if (pci_read_text(path, text, sizeof(text)) < 0)
		return otherwise;
	value = strtol(text, &end, 10);
	return end != text && !*end && value >= -1 && value <= INT32_MAX ? (int)value : otherwise;
}

static void read_function(const char *folder, struct fth_nvme_pci *pci)
{
	char path[FTH_NVME_PCI_PATH], group[FTH_NVME_PCI_NAME];
	uint64_t number = 0;

	pci_path(path, folder, "/vendor");
	if (pci_read_number(path, 16, &number) == 0)
		pci->vendor = (uint16_t)number;
	pci_path(path, folder, "/device");
	if (pci_read_number(path, 16, &number) == 0)
		pci->device = (uint16_t)number;
	pci_path(path, folder, "/numa_node");
	pci->numa_node = read_signed(path, -1);
	pci_path(path, folder, "/driver");
	(void)pci_link_name(path, pci->driver, sizeof(pci->driver));
	pci_path(path, folder, "/driver_override");
	(void)pci_read_text(path, pci->driver_override, sizeof(pci->driver_override));
	if (strcmp(pci->driver_override, "(null)") == 0)
		pci->driver_override[0] = '\0';
	pci_path(path, folder, "/iommu_group");
	pci->iommu_group = -1;
	if (pci_link_name(path, group, sizeof(group)) == 0 && isdigit((unsigned char)group[0]))
		pci->iommu_group = atoi(group);
	read_bars(folder, pci);
}

int fth_nvme_pci_get(const char *root, const char *bdf, struct fth_nvme_pci *pci)
{
	char folder[FTH_NVME_PCI_PATH], path[FTH_NVME_PCI_PATH];
	uint64_t class = 0;
	int rc;

	memset(pci, 0, sizeof(*pci));
	rc = fth_nvme_pci_bdf(bdf, pci->bdf);
	if (rc < 0)
		return rc;
	pci_path(folder, root, "/sys/bus/pci/devices/%s", pci->bdf);
	pci_path(path, folder, "/class");
	if (pci_read_number(path, 16, &class) < 0)
		return fth_fail(ENODEV, "no such PCI function");
	if (class != CLASS_NVME)
		return fth_fail(EINVAL, "not an NVMe controller: its class is %06llx",
				(unsigned long long)class);
	read_function(folder, pci);
	rc = read_controller(root, folder, pci);
	if (rc == 0)
		rc = pci_find_uses(root, pci);
	if (rc < 0)
		fth_nvme_pci_release(pci);
	return rc;
}

void fth_nvme_pci_release(struct fth_nvme_pci *pci)
{
	free(pci->blocks);
	free(pci->uses);
	memset(pci, 0, sizeof(*pci));
}

struct listing {
	const char *root;
	struct fth_nvme_pci *list;
	unsigned count;
};

static int add_function(const char *name, void *arg)
{
	struct listing *listing = arg;
	struct fth_nvme_pci pci, *place;
	int rc = fth_nvme_pci_get(listing->root, name, &pci);

	if (rc == -ENOMEM)
		return rc;
	if (rc < 0)
		return 0; /* another kind, or it has just gone */
	place = pci_append(&listing->list, &listing->count, sizeof(*place));
	if (!place) {
		fth_nvme_pci_release(&pci);
		return -ENOMEM;
	}
	*place = pci;
	return 0;
}

int fth_nvme_pci_list(const char *root, struct fth_nvme_pci **list)
{
	struct listing listing = {.root = root};
	char path[FTH_NVME_PCI_PATH];
	int rc;

	*list = NULL;
	pci_path(path, root, "/sys/bus/pci/devices");
	rc = pci_each(path, add_function, &listing);
	if (rc < 0) {
		fth_nvme_pci_list_free(listing.list, (int)listing.count);
		return rc;
	}
	*list = listing.list;
	return (int)listing.count;
}

void fth_nvme_pci_list_free(struct fth_nvme_pci *list, int count)
{
	for (int i = 0; i < count; i++)
		fth_nvme_pci_release(&list[i]);
	free(list);
}
