/* SPDX-License-Identifier: BSD-2-Clause */
/* What a controller can be asked once it is up: registers, identify pages, log pages. */
#include "driver_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

uint32_t fth_nvme_register32(struct fth_nvme *nvme, uint32_t offset)
{
	return nvme->transport->ops->read32(nvme->transport, offset);
}

uint64_t fth_nvme_register64(struct fth_nvme *nvme, uint32_t offset)
{
	return nvme->transport->ops->read64(nvme->transport, offset);
}

/* Execute a command that fills a page, and copy what it filled. The controller lets go of the page
 * in any case: fth_nvme_admin() sees to that. */
static int ask(struct fth_nvme *nvme, struct fth_nvme_sqe *command, void *to, size_t len)
{
	struct fth_nvme_dma page;
	int rc = fth_nvme_dma_alloc(nvme, FTH_NVME_PAGE_SIZE, &page);

	if (rc < 0)
		return rc;
	command->prp1 = page.iova;
	rc = fth_nvme_admin(nvme, command, NULL);
	if (rc == 0)
		memcpy(to, page.ptr, len);
	fth_nvme_dma_free(nvme, &page);
	return rc;
}

int fth_nvme_identify(struct fth_nvme *nvme, uint32_t cns, uint32_t nsid,
		      void *page /* FTH_NVME_IDENTIFY_SIZE bytes */)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_IDENTIFY, .nsid = nsid, .cdw10 = cns};

	return ask(nvme, &command, page, FTH_NVME_IDENTIFY_SIZE);
}

int fth_nvme_log_page(struct fth_nvme *nvme, uint32_t id, uint32_t nsid, void *buf, size_t len)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_GET_LOG_PAGE, .nsid = nsid};

	if (len == 0 || len % 4 || len > FTH_NVME_PAGE_SIZE || id > 0xff)
		return fth_fail(EINVAL, "log page %u: length %zu is not a multiple of 4 up to %u",
				id, len, FTH_NVME_PAGE_SIZE);
	/* Reading a log must not clear the event that somebody else may wait for. */
	command.cdw10 = id | FTH_NVME_LOG_RETAIN_EVENT |
			(uint32_t)(len / 4 - 1) << FTH_NVME_LOG_LENGTH_SHIFT;
	return ask(nvme, &command, buf, len);
}
