/* SPDX-License-Identifier: BSD-2-Clause */
/* From an NVMe status field to an errno: the one place, for host and device. */
#ifndef FATHOM_NVME_STATUS_H
#define FATHOM_NVME_STATUS_H

#include "fathom/detail/nvme/spec.h"

#include <errno.h>

/* 0 for success, else a negative errno. Codes not named here are -EIO: never success. */
FTH_HD int fth_nvme_status_errno(uint32_t status)
{
	switch (status & FTH_NVME_STATUS_CODE_MASK) {
	case FTH_NVME_SUCCESS:
		return 0;
	case FTH_NVME_INVALID_OPCODE:
		return -EOPNOTSUPP;
	case FTH_NVME_INVALID_FIELD:
	case FTH_NVME_PRP_OFFSET_INVALID:
	case FTH_NVME_QID_INVALID:
	case FTH_NVME_CQ_INVALID:
	case FTH_NVME_QUEUE_SIZE_INVALID:
	case FTH_NVME_INTERRUPT_VECTOR_INVALID:
	case FTH_NVME_LOG_PAGE_INVALID:
	case FTH_NVME_QUEUE_DELETION_INVALID:
	case FTH_NVME_COMMAND_SEQUENCE:
		return -EINVAL;
	case FTH_NVME_INVALID_NAMESPACE:
		return -ENODEV;
	case FTH_NVME_LBA_RANGE:
		return -ERANGE;
	case FTH_NVME_CAPACITY_EXCEEDED:
		return -ENOSPC;
	case FTH_NVME_DATA_TRANSFER_ERROR:
		return -EFAULT;
	case FTH_NVME_ABORT_REQUESTED:
	case FTH_NVME_ABORT_SQ_DELETED:
	case FTH_NVME_POWER_LOSS_ABORT:
		return -ECANCELED;
	case FTH_NVME_CID_CONFLICT:
		return -EPROTO;
	case FTH_NVME_NAMESPACE_NOT_READY:
	case FTH_NVME_ABORT_LIMIT:
	case FTH_NVME_ASYNC_EVENT_LIMIT:
		return -EBUSY;
	case FTH_NVME_ACCESS_DENIED:
		return -EACCES;
	case FTH_NVME_READ_ERROR:
	case FTH_NVME_DEALLOCATED_BLOCK:
		return -ENODATA;
	case FTH_NVME_COMPARE_FAILURE:
		return -EILSEQ;
	case FTH_NVME_FEATURE_NOT_SAVEABLE:
	case FTH_NVME_FEATURE_NOT_CHANGEABLE:
		return -EPERM;
	default:
		return -EIO;
	}
}

#endif
