/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs.h"

#include "fathom/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void pci_path(char path[FTH_NVME_PCI_PATH], const char *root, const char *format, ...)
{
	int n = snprintf(path, FTH_NVME_PCI_PATH, "%s", root), more;
	va_list args;

	if (n >= 0 && n < FTH_NVME_PCI_PATH) {
		va_start(args, format);
		more = vsnprintf(path + n, (size_t)(FTH_NVME_PCI_PATH - n), format, args);
		va_end(args);
		if (more >= 0 && more < FTH_NVME_PCI_PATH - n)
			return;
	}
	path[0] = '\0';
}

void pci_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

FILE *pci_fopen(const char *path)
{
	FILE *file;

	fth_fd_reserve();
	file = fopen(path, "re");
	fth_fd_release();
	return file;
}

int pci_read_text(const char *path, char *text, size_t size)
{
	int fd = fth_fd_open(path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t n;
	size_t start;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	if (n < 0)
		return (int)n;
	n = (ssize_t)strcspn(text, "\n");
	while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	text[n] = '\0';
	start = strspn(text, " \t");
	memmove(text, text + start, (size_t)n - start + 1);
	pci_printable(text);
	return 0;
}

int pci_read_number(const char *path, int base, uint64_t *value)
{
	char text[64], *end;
	unsigned long long number;
	int rc = pci_read_text(path, text, sizeof(text));

	if (rc < 0)
		return rc;
	errno = 0;
	number = strtoull(text, &end, base);
	if (errno || end == text || *end)
		return -EINVAL;
	*value = number;
	return 0;
}

int pci_link_name(const char *path, char *name, size_t size)
{
	char target[FTH_NVME_PCI_PATH];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *last;

	name[0] = '\0';
	if (n < 0)
		return -errno;
	target[n] = '\0';
	last = strrchr(target, '/');
	last = last ? last + 1 : target;
	if (strlen(last) >= size)
		return -ENAMETOOLONG;
	memcpy(name, last, strlen(last) + 1);
	return 0;
}

int pci_each(const char *folder, int (*fn)(const char *name, void *arg), void *arg)
{
	struct dirent **names;
	int n, rc = 0;

	fth_fd_reserve();
	n = scandir(folder, &names, NULL, versionsort);
	fth_fd_release();
	if (n < 0)
		return errno == ENOMEM ? -ENOMEM : 0;
	for (int i = 0; i < n; i++) {
		if (rc == 0 && names[i]->d_name[0] != '.')
			rc = fn(names[i]->d_name, arg);
		free(names[i]);
	}
	free(names);
	return rc;
}

void *pci_append(void *array, unsigned *count, size_t size)
{
	char *grown;

	/* Copied, since pointers of different types may not alias. */
	memcpy(&grown, array, sizeof(grown));
	grown = realloc(grown, (*count + (size_t)1) * size);
	if (!grown)
		return NULL;
	memcpy(array, &grown, sizeof(grown));
	grown += *count * size;
	memset(grown, 0, size);
	(*count)++;
	return grown;
}
