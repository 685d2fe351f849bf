/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the controller reaches. */
#include "driver_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static size_t round_up(size_t len, size_t unit)
{
	return (len + unit - 1) / unit * unit;
}

/*
 * Large memory has pages of its own, huge ones if the system has set any aside: fewer entries for
 * the IOMMU to look up. Without them mmap() fails at once, as it reserves them.
 */
static void *map_large(size_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);

	if (ptr == MAP_FAILED)
		ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	return ptr == MAP_FAILED ? NULL : ptr;
}

static void *allocate(size_t bytes)
{
	void *ptr;

	if (bytes >= HUGE_PAGE)
		return map_large(bytes);
	if (posix_memalign(&ptr, FTH_NVME_PAGE_SIZE, bytes) != 0)
		return NULL;
	memset(ptr, 0, bytes);
	return ptr;
}

static void release(void *ptr, size_t bytes)
{
	if (bytes >= HUGE_PAGE)
		munmap(ptr, bytes);
	else
		free(ptr);
}

int fth_nvme_dma_alloc(struct fth_nvme *nvme, size_t len, struct fth_nvme_dma *dma)
{
	size_t bytes = round_up(len, len >= HUGE_PAGE ? HUGE_PAGE : FTH_NVME_PAGE_SIZE);
	int rc;

	memset(dma, 0, sizeof(*dma));
	dma->ptr = allocate(bytes);
	if (!dma->ptr)
		return -ENOMEM;
	rc = nvme->transport->ops->map(nvme->transport, dma->ptr, bytes, &dma->iova);
	if (rc < 0) {
		release(dma->ptr, bytes);
		dma->ptr = NULL;
		return rc;
	}
	dma->len = bytes;
	return 0;
}

void fth_nvme_dma_free(struct fth_nvme *nvme, struct fth_nvme_dma *dma)
{
	if (!dma->ptr)
		return;
	nvme->transport->ops->unmap(nvme->transport, dma->ptr, dma->len, dma->iova);
	release(dma->ptr, dma->len);
	memset(dma, 0, sizeof(*dma));
}
