/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NVM Express 1.4 as it lies in memory and registers. Section numbers are those of revision 1.4.
 * Everything is little-endian; Fathom runs on little-endian machines only, so fields are plain
 * integers. No bit-fields: their layout is the compiler's choice.
 */
#ifndef FATHOM_NVME_SPEC_H
#define FATHOM_NVME_SPEC_H

#include "fathom/hd/atomic.h"

#include <stddef.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Fathom needs a little-endian machine"
#endif

#ifdef __cplusplus
#define FTH_NVME_ASSERT(condition, text) static_assert(condition, text)
#else
#define FTH_NVME_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define FTH_NVME_SIZE(type, bytes) FTH_NVME_ASSERT(sizeof(struct type) == (bytes), #type)
#define FTH_NVME_OFFSET(type, field, offset) \
	FTH_NVME_ASSERT(offsetof(struct type, field) == (offset), #type "." #field)

/* ---- commands and completions (4.2, 4.6) ---- */

/* A submission queue entry. */
struct fth_nvme_sqe {
	uint8_t opcode;
	uint8_t flags; /* fused operation and PRP or SGL (psdt, bits 7:6; 0 is PRP) */
	uint16_t cid;
	uint32_t nsid;
	uint32_t cdw2;
	uint32_t cdw3;
	uint64_t metadata;
	uint64_t prp1;
	uint64_t prp2;
	uint32_t cdw10;
	uint32_t cdw11;
	uint32_t cdw12;
	uint32_t cdw13;
	uint32_t cdw14;
	uint32_t cdw15;
};
FTH_NVME_SIZE(fth_nvme_sqe, 64);
FTH_NVME_OFFSET(fth_nvme_sqe, cid, 2);
FTH_NVME_OFFSET(fth_nvme_sqe, prp1, 24);
FTH_NVME_OFFSET(fth_nvme_sqe, prp2, 32);
FTH_NVME_OFFSET(fth_nvme_sqe, cdw10, 40);

/*
 * A completion queue entry. Its last two double words are read and written whole: the phase bit
 * in `info` is what says that all of the entry is there.
 */
struct fth_nvme_cqe {
	uint32_t result; /* command specific */
	uint32_t reserved;
	uint32_t queue; /* 15:0 SQ head pointer, 31:16 SQ identifier */
	uint32_t info;	/* 15:0 command id, 16 phase, 31:17 status field */
};
FTH_NVME_SIZE(fth_nvme_cqe, 16);
FTH_NVME_OFFSET(fth_nvme_cqe, info, 12);

FTH_HD uint16_t fth_nvme_cqe_cid(uint32_t info)
{
	return (uint16_t)info;
}

FTH_HD uint32_t fth_nvme_cqe_phase(uint32_t info)
{
	return (info >> 16) & 1;
}

/* The 15-bit status field: status code, status code type, more, do not retry. */
FTH_HD uint16_t fth_nvme_cqe_status(uint32_t info)
{
	return (uint16_t)(info >> 17);
}

FTH_HD uint16_t fth_nvme_cqe_sq_head(uint32_t queue)
{
	return (uint16_t)queue;
}

FTH_HD uint32_t fth_nvme_cqe_info(uint16_t cid, uint32_t phase, uint16_t status)
{
	return (uint32_t)cid | phase << 16 | (uint32_t)status << 17;
}

/* Opcodes (5, 6). */
enum fth_nvme_admin_opcode {
	FTH_NVME_DELETE_SQ = 0x00,
	FTH_NVME_CREATE_SQ = 0x01,
	FTH_NVME_GET_LOG_PAGE = 0x02,
	FTH_NVME_DELETE_CQ = 0x04,
	FTH_NVME_CREATE_CQ = 0x05,
	FTH_NVME_IDENTIFY = 0x06,
	FTH_NVME_ABORT = 0x08,
	FTH_NVME_SET_FEATURES = 0x09,
	FTH_NVME_GET_FEATURES = 0x0a,
	FTH_NVME_ASYNC_EVENT = 0x0c
};

enum fth_nvme_io_opcode {
	FTH_NVME_FLUSH = 0x00,
	FTH_NVME_WRITE = 0x01,
	FTH_NVME_READ = 0x02,
	FTH_NVME_COMPARE = 0x05,
	FTH_NVME_WRITE_ZEROES = 0x08,
	FTH_NVME_DSM = 0x09
};

/* Status (4.6.1): status code type in bits 10:8 and status code in 7:0 of the status field. */
enum fth_nvme_status {
	/* generic */
	FTH_NVME_SUCCESS = 0x000,
	FTH_NVME_INVALID_OPCODE = 0x001,
	FTH_NVME_INVALID_FIELD = 0x002,
	FTH_NVME_CID_CONFLICT = 0x003,
	FTH_NVME_DATA_TRANSFER_ERROR = 0x004,
	FTH_NVME_POWER_LOSS_ABORT = 0x005,
	FTH_NVME_INTERNAL_ERROR = 0x006,
	FTH_NVME_ABORT_REQUESTED = 0x007,
	FTH_NVME_ABORT_SQ_DELETED = 0x008,
	FTH_NVME_INVALID_NAMESPACE = 0x00b,
	FTH_NVME_COMMAND_SEQUENCE = 0x00c,
	FTH_NVME_PRP_OFFSET_INVALID = 0x013,
	FTH_NVME_LBA_RANGE = 0x080,
	FTH_NVME_CAPACITY_EXCEEDED = 0x081,
	FTH_NVME_NAMESPACE_NOT_READY = 0x082,
	/* command specific */
	FTH_NVME_CQ_INVALID = 0x100,
	FTH_NVME_QID_INVALID = 0x101,
	FTH_NVME_QUEUE_SIZE_INVALID = 0x102,
	FTH_NVME_ABORT_LIMIT = 0x103,
	FTH_NVME_ASYNC_EVENT_LIMIT = 0x105,
	FTH_NVME_INTERRUPT_VECTOR_INVALID = 0x108,
	FTH_NVME_LOG_PAGE_INVALID = 0x109,
	FTH_NVME_QUEUE_DELETION_INVALID = 0x10c,
	FTH_NVME_FEATURE_NOT_SAVEABLE = 0x10d,
	FTH_NVME_FEATURE_NOT_CHANGEABLE = 0x10e,
	/* media and data integrity */
	FTH_NVME_WRITE_FAULT = 0x280,
	FTH_NVME_READ_ERROR = 0x281,
	FTH_NVME_COMPARE_FAILURE = 0x285,
	FTH_NVME_ACCESS_DENIED = 0x286,
	FTH_NVME_DEALLOCATED_BLOCK = 0x287
};

#define FTH_NVME_STATUS_CODE_MASK    0x7ffu  /* type and code */
#define FTH_NVME_STATUS_DO_NOT_RETRY 0x4000u /* DNR, bit 14 of the status field */

/* ---- controller registers (3.1) ---- */

enum fth_nvme_register {
	FTH_NVME_REG_CAP = 0x00,
	FTH_NVME_REG_VS = 0x08,
	FTH_NVME_REG_INTMS = 0x0c,
	FTH_NVME_REG_INTMC = 0x10,
	FTH_NVME_REG_CC = 0x14,
	FTH_NVME_REG_CSTS = 0x1c,
	FTH_NVME_REG_NSSR = 0x20,
	FTH_NVME_REG_AQA = 0x24,
	FTH_NVME_REG_ASQ = 0x28,
	FTH_NVME_REG_ACQ = 0x30,
	FTH_NVME_REG_CMBLOC = 0x38,
	FTH_NVME_REG_CMBSZ = 0x3c,
	FTH_NVME_REG_CMBMSC = 0x50,
	FTH_NVME_REG_PMRCAP = 0xe00,
	FTH_NVME_REG_PMRCTL = 0xe04,
	FTH_NVME_REG_PMRSTS = 0xe08,
	FTH_NVME_REG_PMREBS = 0xe0c,
	FTH_NVME_REG_PMRSWTP = 0xe10,
	FTH_NVME_REG_PMRMSC = 0xe14,
	FTH_NVME_REG_DOORBELL = 0x1000 /* of queue 0; the stride is in CAP.DSTRD */
};

FTH_HD uint32_t fth_nvme_cap_mqes(uint64_t cap)
{
	return (uint32_t)(cap & 0xffff); /* entries - 1 */
}

FTH_HD uint32_t fth_nvme_cap_timeout(uint64_t cap)
{
	return (uint32_t)(cap >> 24) & 0xff; /* in units of 500 ms */
}

FTH_HD uint32_t fth_nvme_cap_stride(uint64_t cap)
{
	return (uint32_t)4 << ((cap >> 32) & 0xf); /* bytes from one doorbell to the next */
}

FTH_HD uint32_t fth_nvme_cap_page_min(uint64_t cap)
{
	return (uint32_t)(cap >> 48) & 0xf; /* pages of 2^(12 + this) bytes are the smallest */
}

FTH_HD uint32_t fth_nvme_cap_page_max(uint64_t cap)
{
	return (uint32_t)(cap >> 52) & 0xf;
}

#define FTH_NVME_CAP_CSS_NVM (1ull << 37) /* the NVM command set is there */

#define FTH_NVME_CC_ENABLE	   (1u << 0)
#define FTH_NVME_CC_PAGE_SHIFT	   7  /* memory page size: 2^(12 + this) */
#define FTH_NVME_CC_SHUTDOWN_SHIFT 14 /* 01 normal, 10 abrupt */
#define FTH_NVME_CC_SHUTDOWN_MASK  (3u << FTH_NVME_CC_SHUTDOWN_SHIFT)
#define FTH_NVME_CC_SQES_SHIFT	   16 /* log2 of the entry sizes: 6 and 4 */
#define FTH_NVME_CC_CQES_SHIFT	   20

#define FTH_NVME_CSTS_READY	     (1u << 0)
#define FTH_NVME_CSTS_FATAL	     (1u << 1)
#define FTH_NVME_CSTS_SHUTDOWN_SHIFT 2 /* 00 normal, 01 occurring, 10 complete */
#define FTH_NVME_CSTS_SHUTDOWN_MASK  (3u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)

/* Where a queue's doorbell is: submission tail or completion head (3.1.24, 3.1.25). */
FTH_HD uint32_t fth_nvme_doorbell_offset(uint32_t qid, bool completion, uint32_t stride)
{
	return FTH_NVME_REG_DOORBELL + (2 * qid + (completion ? 1u : 0u)) * stride;
}

#endif
