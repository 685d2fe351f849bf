/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who uses a drive, as far as files tell: mounts, swap, block devices made of it, processes that
 * have it open. What only the kernel knows is asked by an exclusive open, in pci/bind.c.
 */
#include "sysfs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define HOLDERS_DEEP 8 /* dm on md on dm ...: deep enough, and an end */

struct search {
	const char *root;
	struct fth_nvme_pci *pci;
	/* what is looked at now */
	const char *name;
	unsigned major, minor, depth;
	const char *process;
};

static int add_use(struct search *search, const char *name, const char *format, const char *detail)
{
	struct fth_nvme_pci_use *use;

	use = pci_append(&search->pci->uses, &search->pci->use_count, sizeof(*use));
	if (!use)
		return -ENOMEM;
	snprintf(use->name, sizeof(use->name), "%.*s", FTH_NVME_PCI_NAME - 1, name);
	snprintf(use->what, sizeof(use->what), format, detail);
	pci_printable(use->what);
	return 0;
}

/* ---- mounts and swap ---- */

/* Spaces and the like are written as \040 in the tables of proc. */
static void unescape(char *text)
{
	char *to = text;

	while (*text) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && isdigit(text[2]) &&
		    isdigit(text[3])) {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
				       (text[3] - '0'));
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

/* Is the file `source`, a path on the system, our block device? */
static bool is_ours(const struct search *search, const char *source)
{
	char path[FTH_NVME_PCI_PATH];
	struct stat st;

	if (strncmp(source, "/dev/", 5) != 0)
		return false;
	if (strcmp(source + 5, search->name) == 0)
		return true;
	pci_path(path, search->root, "%s", source);
	return stat(path, &st) == 0 && S_ISBLK(st.st_mode) &&
	       st.st_rdev == makedev(search->major, search->minor);
}

/*
 * A line of mountinfo, proc(5): id, parent, device, root, mount point, options, ..., "-", type,
 * source, options. File systems of several devices (btrfs) have a made-up device: look at the
 * source too.
 */
static int check_mount(struct search *search, char *line)
{
	char *fields[5], *word, *rest = line, *source;
	unsigned major, minor;

	for (unsigned i = 0; i < 5; i++) {
		fields[i] = strtok_r(rest, " \n", &rest);
		if (!fields[i])
			return 0;
	}
	do {
		word = strtok_r(rest, " \n", &rest);
	} while (word && strcmp(word, "-") != 0);
	source = word && strtok_r(rest, " \n", &rest) ? strtok_r(rest, " \n", &rest) : NULL;
	if (source)
		unescape(source);
	if (!(sscanf(fields[2], "%u:%u", &major, &minor) == 2 && major == search->major &&
	      minor == search->minor) &&
	    !(source && is_ours(search, source)))
		return 0;
	unescape(fields[4]);
	return add_use(search, search->name, "is mounted at %s", fields[4]);
}

static int check_swap(struct search *search, char *line)
{
	char *rest, *file = strtok_r(line, " \t\n", &rest);

	if (!file)
		return 0;
	unescape(file);
	return is_ours(search, file) ? add_use(search, search->name, "is %s", "swap") : 0;
}

static int each_line(const char *path, int (*fn)(struct search *search, char *line),
		     struct search *search)
{
	FILE *file = pci_fopen(path);
	char *line = NULL;
	size_t size = 0;
	int rc = 0;

	if (!file)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (rc == 0 && getline(&line, &size, file) >= 0)
		rc = fn(search, line);
	free(line);
	fclose(file);
	return rc;
}

/* ---- holders ---- */

static int check_block(struct search *search);

/* `holder` is a block device made of the one that is looked at: look at it as well. */
static int check_holder(const char *holder, void *arg)
{
	struct search *search = arg, above = *search;
	char path[FTH_NVME_PCI_PATH], dev[FTH_NVME_PCI_NAME];
	int rc = add_use(search, search->name, "is part of %s", holder);

	pci_path(path, search->root, "/sys/class/block/%s/dev", holder);
	if (rc < 0 || search->depth == HOLDERS_DEEP || pci_read_text(path, dev, sizeof(dev)) < 0 ||
	    sscanf(dev, "%u:%u", &above.major, &above.minor) != 2)
		return rc;
	above.name = holder;
	above.depth++;
	return check_block(&above);
}

static int check_block(struct search *search)
{
	char path[FTH_NVME_PCI_PATH];
	int rc;

	pci_path(path, search->root, "/proc/self/mountinfo");
	rc = each_line(path, check_mount, search);
	pci_path(path, search->root, "/proc/swaps");
	if (rc == 0)
		rc = each_line(path, check_swap, search);
	pci_path(path, search->root, "/sys/class/block/%s/holders", search->name);
	return rc < 0 ? rc : pci_each(path, check_holder, search);
}

/* ---- processes ---- */

static bool is_ours_open(const struct fth_nvme_pci *pci, const char *target)
{
	if (strncmp(target, "/dev/", 5) != 0)
		return false;
	if (pci->controller[0] && strcmp(target + 5, pci->controller) == 0)
		return true;
	for (unsigned i = 0; i < pci->block_count; i++)
		if (strcmp(target + 5, pci->blocks[i].name) == 0)
			return true;
	return false;
}

static int check_descriptor(const char *number, void *arg)
{
	struct search *search = arg;
	char path[FTH_NVME_PCI_PATH], target[FTH_NVME_PCI_NAME + 8], command[64], who[128];
	ssize_t n;

	pci_path(path, search->root, "/proc/%s/fd/%s", search->process, number);
	n = readlink(path, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	if (!is_ours_open(search->pci, target))
		return 0;
	pci_path(path, search->root, "/proc/%s/comm", search->process);
	(void)pci_read_text(path, command, sizeof(command));
	snprintf(who, sizeof(who), "%.32s (%s)", search->process, command);
	return add_use(search, target + 5, "is open in process %s", who);
}

static int check_process(const char *name, void *arg)
{
	struct search *search = arg;
	char path[FTH_NVME_PCI_PATH];

	if (!isdigit((unsigned char)name[0]))
		return 0;
	search->process = name;
	pci_path(path, search->root, "/proc/%s/fd", name);
	return pci_each(path, check_descriptor, search);
}

int pci_find_uses(const char *root, struct fth_nvme_pci *pci)
{
	struct search search = {.root = root, .pci = pci};
	char path[FTH_NVME_PCI_PATH];
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < pci->block_count; i++) {
		search.name = pci->blocks[i].name;
		search.major = pci->blocks[i].major;
		search.minor = pci->blocks[i].minor;
		rc = check_block(&search);
	}
	if (rc < 0 || !pci->controller[0])
		return rc;
	pci_path(path, root, "/proc");
	return pci_each(path, check_process, &search);
}
