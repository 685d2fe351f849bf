/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller's registers: enabling, disabling, shutting down, and what its status says. */
#include "driver_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <time.h>

#define POLL_SLEEP_NS 20000

static uint32_t read32(struct fth_nvme *nvme, uint32_t offset)
{
	return nvme->transport->ops->read32(nvme->transport, offset);
}

static void write32(struct fth_nvme *nvme, uint32_t offset, uint32_t value)
{
	nvme->transport->ops->write32(nvme->transport, offset, value);
}

static void write64(struct fth_nvme *nvme, uint32_t offset, uint64_t value)
{
	nvme->transport->ops->write64(nvme->transport, offset, value);
}

/* Wait until (CSTS & mask) == value. All ones: the function has left the bus. */
static int wait_status(struct fth_nvme *nvme, uint32_t mask, uint32_t value)
{
	uint64_t deadline = fth_deadline_ns(nvme->ready_timeout_ns);
	const struct timespec pause = {0, POLL_SLEEP_NS};

	for (;;) {
		uint32_t csts = read32(nvme, FTH_NVME_REG_CSTS);

		if (csts == UINT32_MAX)
			return fth_fail(
				ENODEV,
				"the controller does not respond: it was removed or has failed");
		if ((csts & mask) == value)
			return 0;
		if (csts & FTH_NVME_CSTS_FATAL && value != 0)
			return fth_fail(EIO, "the controller reports a fatal status");
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIMEDOUT, "the controller is not %s after %llu ms",
					value ? "ready" : "disabled",
					(unsigned long long)(nvme->ready_timeout_ns / 1000000));
		nanosleep(&pause, NULL);
	}
}

/* One that does not let itself be disabled is reset from outside, if the transport can. */
int nvme_disable(struct fth_nvme *nvme)
{
	struct fth_nvme_transport *transport = nvme->transport;
	uint32_t cc = read32(nvme, FTH_NVME_REG_CC);
	int rc;

	if (cc == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	write32(nvme, FTH_NVME_REG_CC, cc & ~FTH_NVME_CC_ENABLE);
	rc = wait_status(nvme, FTH_NVME_CSTS_READY, 0);
	if (rc == -ETIMEDOUT && transport->ops->reset && transport->ops->reset(transport) == 0)
		rc = wait_status(nvme, FTH_NVME_CSTS_READY, 0);
	return rc;
}

int nvme_enable(struct fth_nvme *nvme)
{
	uint32_t last = fth_ring_mask(nvme->admin.qp.sq_shift);

	write32(nvme, FTH_NVME_REG_AQA, last << FTH_NVME_AQA_ACQS_SHIFT | last);
	write64(nvme, FTH_NVME_REG_ASQ, nvme->admin.sq.iova);
	write64(nvme, FTH_NVME_REG_ACQ, nvme->admin.cq.iova);
	write32(nvme, FTH_NVME_REG_CC,
		FTH_NVME_CC_ENABLE | 6u << FTH_NVME_CC_SQES_SHIFT | 4u << FTH_NVME_CC_CQES_SHIFT);
	return wait_status(nvme, FTH_NVME_CSTS_READY, FTH_NVME_CSTS_READY);
}

int nvme_shut_down(struct fth_nvme *nvme)
{
	uint32_t cc = read32(nvme, FTH_NVME_REG_CC);

	if (cc == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	write32(nvme, FTH_NVME_REG_CC, cc | 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	return wait_status(nvme, FTH_NVME_CSTS_SHUTDOWN_MASK, 2u << FTH_NVME_CSTS_SHUTDOWN_SHIFT);
}

int nvme_health(struct fth_nvme *nvme)
{
	struct fth_nvme_transport *transport = nvme->transport;
	int rc = transport->ops->alive ? transport->ops->alive(transport) : 0;
	uint32_t csts;

	if (rc < 0)
		return rc;
	csts = read32(nvme, FTH_NVME_REG_CSTS);
	if (csts == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	if (csts & FTH_NVME_CSTS_FATAL)
		return fth_fail(EIO, "the controller reports a fatal status");
	if (!(csts & FTH_NVME_CSTS_READY))
		return fth_fail(EIO, "the controller is no longer ready");
	return 0;
}
