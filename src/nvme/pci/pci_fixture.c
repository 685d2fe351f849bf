/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvme/pci/pci_fixture.h"

#include "fth_test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH 512

static void full_path(struct tree *tree, char path[PATH], const char *name)
{
	assert_true(snprintf(path, PATH, "%s%s", tree->root, name) < PATH);
}

/* The folders that lead to a path. */
static void make_way(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

void tree_open(struct tree *tree)
{
	memset(tree, 0, sizeof(*tree));
	snprintf(tree->root, sizeof(tree->root), "/tmp/fathom-pci-XXXXXX");
	assert_non_null(mkdtemp(tree->root));
	tree_file(tree, "/sys/bus/pci/drivers_probe", "");
	tree_file(tree, "/sys/bus/pci/drivers/nvme/unbind", "");
	tree_file(tree, "/sys/bus/pci/drivers/vfio-pci/unbind", "");
	tree_file(tree, "/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
	tree_file(tree, "/proc/self/mountinfo", "22 1 0:21 / /proc rw - proc proc rw\n");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

void tree_close(struct tree *tree)
{
	assert_int_equal(nftw(tree->root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void tree_file(struct tree *tree, const char *name, const char *text)
{
	char path[PATH];
	FILE *file;

	full_path(tree, path, name);
	make_way(path);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

void tree_link(struct tree *tree, const char *name, const char *target)
{
	char path[PATH];

	full_path(tree, path, name);
	make_way(path);
	(void)unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

void tree_remove(struct tree *tree, const char *name)
{
	char path[PATH];

	full_path(tree, path, name);
	assert_int_equal(remove(path), 0);
}

const char *tree_read(struct tree *tree, const char *name)
{
	static _Thread_local char text[256];
	char path[PATH];
	FILE *file;
	size_t n;

	full_path(tree, path, name);
	file = fopen(path, "r");
	assert_non_null(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

/* tree_file() below a folder of the function. */
static void attribute(struct tree *tree, const char *bdf, const char *name, const char *text)
{
	char path[PATH];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bdf, name);
	tree_file(tree, path, text);
}

static void link_driver(struct tree *tree, const char *bdf, const char *driver)
{
	char path[PATH], target[PATH];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", bdf);
	snprintf(target, sizeof(target), "../../drivers/%s", driver);
	tree_link(tree, path, target);
}

void tree_function(struct tree *tree, const char *bdf, const char *class, const char *driver,
		   int group)
{
	char path[PATH], target[PATH];

	attribute(tree, bdf, "class", class);
	attribute(tree, bdf, "vendor", "0x1b36\n");
	attribute(tree, bdf, "device", "0x0010\n");
	attribute(tree, bdf, "numa_node", "-1\n");
	attribute(tree, bdf, "driver_override", "(null)\n");
	attribute(tree, bdf, "resource",
		  "0x00000000febd0000 0x00000000febd3fff 0x0000000000140204\n"
		  "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
		  "0x0000000800000000 0x0000000800ffffff 0x000000000014220c\n");
	if (driver[0])
		link_driver(tree, bdf, driver);
	if (group < 0)
		return;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", bdf);
	snprintf(target, sizeof(target), "../../../../kernel/iommu_groups/%d", group);
	tree_link(tree, path, target);
	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%d/devices/%s", group, bdf);
	snprintf(target, sizeof(target), "../../../../bus/pci/devices/%s", bdf);
	tree_link(tree, path, target);
}

/* A folder of /sys/class/block, and a file that stands for the node in /dev. */
static void block(struct tree *tree, const char *name, const char *numbers, const char *sectors)
{
	char path[PATH];

	snprintf(path, sizeof(path), "/sys/class/block/%s/dev", name);
	tree_file(tree, path, numbers);
	snprintf(path, sizeof(path), "/sys/class/block/%s/size", name);
	tree_file(tree, path, sectors);
	snprintf(path, sizeof(path), "/dev/%s", name);
	tree_file(tree, path, "");
}

void tree_drive(struct tree *tree, const char *bdf, unsigned n, int group)
{
	char name[128], numbers[32];

	tree_function(tree, bdf, "0x010802\n", "nvme", group);
	snprintf(name, sizeof(name), "nvme/nvme%u/model", n);
	attribute(tree, bdf, name, "A Drive                                 \n");
	snprintf(name, sizeof(name), "nvme/nvme%u/serial", n);
	attribute(tree, bdf, name, "S-1234              \n");
	snprintf(name, sizeof(name), "nvme/nvme%u/nvme%un1/nsid", n, n);
	attribute(tree, bdf, name, "1\n");
	snprintf(name, sizeof(name), "nvme%un1", n);
	snprintf(numbers, sizeof(numbers), "259:%u\n", 16 * n);
	block(tree, name, numbers, "2048\n");
}

void tree_partition(struct tree *tree, unsigned n, unsigned part)
{
	char name[FTH_NVME_PCI_NAME], path[PATH], numbers[32];

	snprintf(name, sizeof(name), "nvme%un1p%u", n, part);
	snprintf(numbers, sizeof(numbers), "259:%u\n", 16 * n + part);
	block(tree, name, numbers, "1024\n");
	snprintf(path, sizeof(path), "/sys/class/block/nvme%un1/%s/partition", n, name);
	snprintf(numbers, sizeof(numbers), "%u\n", part);
	tree_file(tree, path, numbers);
}

void tree_holder(struct tree *tree, const char *name, const char *numbers, const char *under)
{
	char path[PATH], target[PATH];

	block(tree, name, numbers, "1024\n");
	snprintf(path, sizeof(path), "/sys/class/block/%s/holders/%s", under, name);
	snprintf(target, sizeof(target), "../../%s", name);
	tree_link(tree, path, target);
}

/* ---- the kernel ---- */

/* What a write to drivers_probe does: the driver that the override names, or else nvme. */
static void *kernel(void *arg)
{
	struct tree *tree = arg;
	char path[PATH], text[64], wanted[64];
	int fd;
	ssize_t n;

	full_path(tree, path, "/sys/bus/pci/drivers_probe");
	fd = open(path, O_RDWR); /* for writing too: so that no writer has to wait for us */
	while (fd >= 0 && (n = read(fd, text, sizeof(text) - 1)) > 0) {
		text[n] = '\0';
		if (strstr(text, "stop"))
			break;
		if (tree->deaf || !strstr(text, tree->probed))
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver_override",
			 tree->probed);
		snprintf(wanted, sizeof(wanted), "%.40s", tree_read(tree, path));
		link_driver(tree, tree->probed, strcmp(wanted, "vfio-pci") == 0 ? wanted : "nvme");
	}
	close(fd);
	return NULL;
}

void tree_kernel_start(struct tree *tree, const char *bdf)
{
	char path[PATH];

	full_path(tree, path, "/sys/bus/pci/drivers_probe");
	tree_remove(tree, "/sys/bus/pci/drivers_probe");
	assert_int_equal(mkfifo(path, 0600), 0);
	snprintf(tree->probed, sizeof(tree->probed), "%s", bdf);
	assert_int_equal(pthread_create(&tree->kernel, NULL, kernel, tree), 0);
}

void tree_kernel_stop(struct tree *tree)
{
	char path[PATH];
	int fd;

	full_path(tree, path, "/sys/bus/pci/drivers_probe");
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "stop", 4), 4);
	close(fd);
	pthread_join(tree->kernel, NULL);
	/* A file again: a writer would wait for ever for somebody who reads. */
	tree_remove(tree, "/sys/bus/pci/drivers_probe");
	tree_file(tree, "/sys/bus/pci/drivers_probe", "");
}
