/* SPDX-License-Identifier: BSD-2-Clause */
#include "swap_file.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>
#include <unistd.h>

#define PAGE	4096u
#define CLUSTER "/proc/sys/vm/page-cluster"

/* What mkswap writes: a header behind the first 1024 bytes, and a signature at the end of the page. */
static int write_header(int fd, uint64_t size)
{
	struct {
		uint32_t version, last_page, bad_pages;
	} header = {1, (uint32_t)(size / PAGE - 1), 0};
	static const char signature[] = "SWAPSPACE2";
	uint8_t page[PAGE] = {0};

	memcpy(page + 1024, &header, sizeof(header));
	memcpy(page + PAGE - 10, signature, 10);
	return pwrite(fd, page, PAGE, 0) == PAGE && fsync(fd) == 0 ? 0 : -errno;
}

static int make_file(struct fth_swap_file *swap, const char *folder, uint64_t size)
{
	int fd, rc;

	snprintf(swap->path, sizeof(swap->path), "%.4000s/fathom-swap-XXXXXX", folder);
	fd = mkostemp(swap->path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	swap->made = true;
	rc = -posix_fallocate(fd, 0, (off_t)size);
	if (rc == 0)
		rc = write_header(fd, size);
	close(fd);
	return rc;
}

static void set_cluster(const char *text, char old[32])
{
	FILE *file = fopen(CLUSTER, "r+e");

	if (!file)
		return;
	if (old && fgets(old, 32, file))
		rewind(file);
	fputs(text, file);
	fclose(file);
}

int fth_swap_file_on(struct fth_swap_file *swap, const char *folder, uint64_t size, bool single)
{
	int rc = make_file(swap, folder, size);

	if (rc == 0 && swapon(swap->path, 0) < 0)
		rc = -errno;
	if (rc < 0) {
		fth_swap_file_off(swap);
		return fth_fail(ENOTSUP, "cannot use a swap file in %s: %s", folder, strerror(-rc));
	}
	swap->on = true;
	if (single)
		set_cluster("0", swap->cluster);
	return 0;
}

void fth_swap_file_off(struct fth_swap_file *swap)
{
	if (swap->on)
		swapoff(swap->path);
	if (swap->made)
		unlink(swap->path);
	if (swap->cluster[0])
		set_cluster(swap->cluster, NULL);
	memset(swap, 0, sizeof(*swap));
}
