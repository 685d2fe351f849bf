/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory a controller was granted.
 *
 * Invariants
 * 1. Grants are sorted by bus address and do not overlap.
 * 2. Every pointer into host memory that the controller uses came from fth_ctrl_translate(), and is
 *    used while world is held since, or is listed where revoke looks: a command's pieces, or a
 *    queue's ring.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MASK ((uint64_t)FTH_NVME_PAGE_SIZE - 1)

/* The index of the first grant that ends beyond iova; grant_count when there is none. */
static unsigned find(const struct fth_nvme_ctrl *ctrl, uint64_t iova)
{
	unsigned low = 0, high = ctrl->grant_count;

	while (low < high) {
		unsigned mid = low + (high - low) / 2;
		const struct ctrl_grant *grant = &ctrl->grants[mid];

		/* The last byte: a grant may end at 2^64. */
		if (grant->iova + (grant->len - 1) < iova)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void *fth_ctrl_translate(const struct fth_nvme_ctrl *ctrl, uint64_t iova, uint64_t len)
{
	unsigned i = find(ctrl, iova);
	const struct ctrl_grant *grant = &ctrl->grants[i];

	if (i == ctrl->grant_count || iova < grant->iova)
		return NULL;
	if (len == 0 || len > grant->len - (iova - grant->iova))
		return NULL;
	return grant->addr + (iova - grant->iova);
}

static int insert(struct fth_nvme_ctrl *ctrl, const struct ctrl_grant *grant)
{
	unsigned i = find(ctrl, grant->iova);
	struct ctrl_grant *grants;

	if (i < ctrl->grant_count && ctrl->grants[i].iova <= grant->iova + (grant->len - 1))
		return fth_fail(EEXIST, "bus address 0x%llx is already granted",
				(unsigned long long)ctrl->grants[i].iova);
	grants = realloc(ctrl->grants, (ctrl->grant_count + 1) * sizeof(*grants));
	if (!grants)
		return -ENOMEM;
	memmove(grants + i + 1, grants + i, (ctrl->grant_count - i) * sizeof(*grants));
	grants[i] = *grant;
	ctrl->grants = grants;
	ctrl->grant_count++;
	return 0;
}

int fth_nvme_ctrl_grant(struct fth_nvme_ctrl *ctrl, void *addr, size_t len, uint64_t iova)
{
	struct ctrl_grant grant = {.addr = addr, .iova = iova, .len = len};
	int rc;

	if (!addr || !len || ((uintptr_t)addr | len | iova) & PAGE_MASK)
		return fth_fail(EINVAL, "granted memory is not a multiple of pages of %u bytes",
				FTH_NVME_PAGE_SIZE);
	if (len - 1 > UINT64_MAX - iova)
		return fth_fail(EINVAL, "granted memory goes beyond the last bus address");
	pthread_rwlock_wrlock(&ctrl->world);
	rc = insert(ctrl, &grant);
	pthread_rwlock_unlock(&ctrl->world);
	return rc;
}

/* ---- revoke ---- */

static bool overlaps(const struct ctrl_grant *grant, const void *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr, g = (uintptr_t)grant->addr;

	return a < g + grant->len && g < a + len;
}

static bool used_by_queue(const struct fth_nvme_ctrl *ctrl, const struct ctrl_grant *grant)
{
	for (uint32_t i = 0; i <= ctrl->io_queues; i++) {
		const struct ctrl_sq *sq = &ctrl->sqs[i];
		const struct ctrl_cq *cq = &ctrl->cqs[i];

		if (sq->state != CTRL_SQ_NONE &&
		    overlaps(grant, sq->ring, sq->size * sizeof(*sq->ring)))
			return true;
		if (cq->exists && overlaps(grant, cq->ring, cq->size * sizeof(*cq->ring)))
			return true;
	}
	return false;
}

static bool used_by_worker(const struct ctrl_worker *w, const struct ctrl_grant *grant)
{
	for (unsigned i = 0; i < w->ctrl->depth; i++) {
		const struct ctrl_cmd *cmd = &w->cmds[i];

		if (cmd->state != CTRL_CMD_ON_DEV)
			continue;
		for (unsigned p = 0; p < cmd->piece_count; p++)
			if (overlaps(grant, cmd->pieces[p].iov_base, cmd->pieces[p].iov_len))
				return true;
	}
	return false;
}

static bool in_use(const struct fth_nvme_ctrl *ctrl, const struct ctrl_grant *grant)
{
	if (used_by_queue(ctrl, grant))
		return true;
	for (unsigned i = 0; i < ctrl->worker_count; i++)
		if (used_by_worker(&ctrl->workers[i], grant))
			return true;
	return false;
}

static int take_out(struct fth_nvme_ctrl *ctrl, uint64_t iova, size_t len)
{
	unsigned i = find(ctrl, iova);
	struct ctrl_grant *grant = &ctrl->grants[i];

	if (i == ctrl->grant_count || grant->iova != iova || grant->len != len)
		return fth_fail(ENOENT, "no grant of %zu bytes at bus address 0x%llx", len,
				(unsigned long long)iova);
	if (in_use(ctrl, grant))
		return fth_fail(EBUSY, "the memory at bus address 0x%llx is in use",
				(unsigned long long)iova);
	ctrl->grant_count--;
	memmove(grant, grant + 1, (ctrl->grant_count - i) * sizeof(*grant));
	return 0;
}

int fth_nvme_ctrl_revoke(struct fth_nvme_ctrl *ctrl, uint64_t iova, size_t len)
{
	int rc;

	pthread_rwlock_wrlock(&ctrl->world);
	rc = take_out(ctrl, iova, len);
	pthread_rwlock_unlock(&ctrl->world);
	return rc;
}
