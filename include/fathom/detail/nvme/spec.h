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

FTH_HD uint16_t fth_nvme_cqe_sq_id(uint32_t queue)
{
	return (uint16_t)(queue >> 16);
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
	FTH_NVME_FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10f,
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
	FTH_NVME_REG_CMBMSC = 0x50, /* 64 bits */
	FTH_NVME_REG_CMBSTS = 0x58,
	FTH_NVME_REG_PMRCAP = 0xe00,
	FTH_NVME_REG_PMRCTL = 0xe04,
	FTH_NVME_REG_PMRSTS = 0xe08,
	FTH_NVME_REG_PMREBS = 0xe0c,
	FTH_NVME_REG_PMRSWTP = 0xe10,
	FTH_NVME_REG_PMRMSC = 0xe14,   /* 64 bits, at a multiple of 4: two accesses */
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

#define FTH_NVME_CAP_CQR	   (1ull << 16) /* queues must be physically contiguous */
#define FTH_NVME_CAP_TIMEOUT_SHIFT 24
#define FTH_NVME_CAP_CSS_NVM	   (1ull << 37) /* the NVM command set is there */
#define FTH_NVME_CAP_PMRS	   (1ull << 56) /* there is a persistent memory region */
#define FTH_NVME_CAP_CMBS	   (1ull << 57) /* there is a controller memory buffer, and CMBMSC */

#define FTH_NVME_VERSION_1_4 0x00010400u

#define FTH_NVME_CC_ENABLE	   (1u << 0)
#define FTH_NVME_CC_CSS_SHIFT	   4  /* command set; 0: NVM */
#define FTH_NVME_CC_PAGE_SHIFT	   7  /* memory page size: 2^(12 + this) */
#define FTH_NVME_CC_AMS_SHIFT	   11 /* arbitration; 0: round robin */
#define FTH_NVME_CC_SHUTDOWN_SHIFT 14 /* 01 normal, 10 abrupt */
#define FTH_NVME_CC_SHUTDOWN_MASK  (3u << FTH_NVME_CC_SHUTDOWN_SHIFT)
#define FTH_NVME_CC_SQES_SHIFT	   16 /* log2 of the entry sizes: 6 and 4 */
#define FTH_NVME_CC_CQES_SHIFT	   20

#define FTH_NVME_CSTS_READY	     (1u << 0)
#define FTH_NVME_CSTS_FATAL	     (1u << 1)
#define FTH_NVME_CSTS_SHUTDOWN_SHIFT 2 /* 00 normal, 01 occurring, 10 complete */
#define FTH_NVME_CSTS_SHUTDOWN_MASK  (3u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)

#define FTH_NVME_AQA_ACQS_SHIFT 16 /* entries - 1 of the admin CQ, 27:16; of the SQ, 11:0 */
#define FTH_NVME_AQA_SIZE_MASK	0xfffu

/* Where a queue's doorbell is: submission tail or completion head (3.1.24, 3.1.25). */
FTH_HD uint32_t fth_nvme_doorbell_offset(uint32_t qid, bool completion, uint32_t stride)
{
	return FTH_NVME_REG_DOORBELL + (2 * qid + (completion ? 1u : 0u)) * stride;
}

/* ---- the byte-addressable windows: CMB (4.7) and PMR (4.8) ---- */

/* CMBLOC (3.1.11) and CMBSZ (3.1.12). Both read 0 until CMBMSC.CRE is set, if CAP.CMBS is. */
#define FTH_NVME_CMBLOC_BIR_MASK   7u	     /* the BAR: 0 or 2 to 5 */
#define FTH_NVME_CMBLOC_OFST_SHIFT 12	     /* in the BAR, in units of CMBSZ.SZU */
#define FTH_NVME_CMBSZ_SQS	   (1u << 0) /* submission queues may lie there */
#define FTH_NVME_CMBSZ_CQS	   (1u << 1) /* completion queues */
#define FTH_NVME_CMBSZ_LISTS	   (1u << 2) /* PRP and SGL lists */
#define FTH_NVME_CMBSZ_RDS	   (1u << 3) /* data the controller hands to the host */
#define FTH_NVME_CMBSZ_WDS	   (1u << 4) /* data the host hands to the controller */
#define FTH_NVME_CMBSZ_SZU_SHIFT   8	     /* units of 4 KiB << (4 * this), 0 to 6 */
#define FTH_NVME_CMBSZ_SZU_MASK	   0xfu
#define FTH_NVME_CMBSZ_SZU_MAX	   6u
#define FTH_NVME_CMBSZ_SZ_SHIFT	   12

/* CMBMSC (3.1.13); a controller reset by CC.EN leaves it as it is. */
#define FTH_NVME_CMBMSC_CRE  (1u << 0) /* CMBLOC and CMBSZ may be read */
#define FTH_NVME_CMBMSC_CMSE (1u << 1) /* the controller's own address for the CMB is set */

/* PMRCAP (3.1.17) */
#define FTH_NVME_PMRCAP_RDS	    (1u << 3)
#define FTH_NVME_PMRCAP_WDS	    (1u << 4)
#define FTH_NVME_PMRCAP_BIR_SHIFT   5 /* the BAR, 2 to 5; all of it is the region */
#define FTH_NVME_PMRCAP_BIR_MASK    7u
#define FTH_NVME_PMRCAP_PMRTU_SHIFT 8 /* of PMRTO: 0: 500 ms, 1: minutes */
#define FTH_NVME_PMRCAP_PMRTU_MASK  3u
#define FTH_NVME_PMRCAP_WBM_READ    (1u << 10) /* barrier: a read of the region */
#define FTH_NVME_PMRCAP_WBM_STATUS  (1u << 11) /* barrier: a read of PMRSTS */
#define FTH_NVME_PMRCAP_PMRTO_SHIFT 16	       /* how long enabling and disabling may take */
#define FTH_NVME_PMRCAP_PMRTO_MASK  0xffu
#define FTH_NVME_PMRCAP_CMSS	    (1u << 24) /* PMRMSC is there */

#define FTH_NVME_PMRCTL_EN (1u << 0) /* PMRCTL (3.1.18); a reset by CC.EN leaves it as it is */

/* PMRSTS (3.1.19) */
#define FTH_NVME_PMRSTS_ERR_MASK   0xffu /* not 0: writes were lost; until PMRCTL.EN is cleared */
#define FTH_NVME_PMRSTS_NRDY	   (1u << 8)
#define FTH_NVME_PMRSTS_HSTS_SHIFT 9
#define FTH_NVME_PMRSTS_HSTS_MASK  7u
#define FTH_NVME_PMRSTS_CBAI	   (1u << 12)

enum fth_nvme_pmr_health {
	FTH_NVME_PMR_NORMAL = 0,
	FTH_NVME_PMR_RESTORE_ERROR = 1, /* it works; what it held before may be lost */
	FTH_NVME_PMR_READ_ONLY = 2,
	FTH_NVME_PMR_UNRELIABLE = 3
};

/* PMREBS (3.1.20) and PMRSWTP (3.1.21): a number and its unit, 1 B << (10 * unit). */
#define FTH_NVME_PMR_UNIT_MASK	  0xfu /* 0 to 3; the others are reserved */
#define FTH_NVME_PMR_UNIT_MAX	  3u
#define FTH_NVME_PMR_NUMBER_SHIFT 8
#define FTH_NVME_PMREBS_RBB	  (1u << 4) /* reads may overtake writes to other addresses */

/* Bytes, or bytes a second; 0 for a reserved unit, and where nothing is told. */
FTH_HD uint64_t fth_nvme_pmr_bytes(uint32_t reg)
{
	uint32_t unit = reg & FTH_NVME_PMR_UNIT_MASK;

	return unit > FTH_NVME_PMR_UNIT_MAX
		       ? 0
		       : (uint64_t)(reg >> FTH_NVME_PMR_NUMBER_SHIFT) << (10 * unit);
}

/* ---- command fields (4.2, 5, 6) ---- */

#define FTH_NVME_PAGE_SIZE     4096u /* the one memory page size Fathom uses (CC.MPS = 0) */
#define FTH_NVME_NSID_ALL      0xffffffffu
#define FTH_NVME_FLAGS_FUSED   0x03u /* of sqe.flags */
#define FTH_NVME_FLAGS_PSDT    0xc0u
#define FTH_NVME_QUEUES_MAX    65535u /* I/O queues, of each kind */
#define FTH_NVME_CQ_VECTOR_MAX 2047u  /* MSI-X */

/* Read, write, compare, write zeroes: cdw10 and 11 hold the first block, cdw12 the rest. */
#define FTH_NVME_RW_BLOCKS_MASK	  0xffffu      /* blocks - 1 */
#define FTH_NVME_RW_DIRECTIVE	  (0xfu << 20) /* directive type, writes only */
#define FTH_NVME_RW_DEALLOCATE	  (1u << 25)   /* write zeroes only */
#define FTH_NVME_RW_FORCE_ACCESS  (1u << 30)   /* FUA */
#define FTH_NVME_RW_LIMITED_RETRY (1u << 31)

/* Dataset management (6.7): cdw10 7:0 is the number of ranges - 1, cdw11 the attributes. */
#define FTH_NVME_DSM_RANGES_MAX 256u
#define FTH_NVME_DSM_DEALLOCATE (1u << 2)

struct fth_nvme_dsm_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t first;
};
FTH_NVME_SIZE(fth_nvme_dsm_range, 16);
FTH_NVME_OFFSET(fth_nvme_dsm_range, blocks, 4);
FTH_NVME_OFFSET(fth_nvme_dsm_range, first, 8);

/* Create queue (5.3, 5.4): cdw10 15:0 is the queue id, 31:16 its entries - 1. */
#define FTH_NVME_CREATE_SIZE_SHIFT	16
#define FTH_NVME_CREATE_CONTIGUOUS	(1u << 0) /* cdw11, both kinds */
#define FTH_NVME_CREATE_CQ_INTERRUPT	(1u << 1) /* cdw11 of a CQ */
#define FTH_NVME_CREATE_CQ_VECTOR_SHIFT 16
#define FTH_NVME_CREATE_SQ_CQID_SHIFT	16 /* cdw11 of an SQ; 2:1 is its priority */

/* ---- identify (5.15) ---- */

enum fth_nvme_cns {
	FTH_NVME_CNS_NAMESPACE = 0x00,
	FTH_NVME_CNS_CONTROLLER = 0x01,
	FTH_NVME_CNS_ACTIVE_NAMESPACES = 0x02,
	FTH_NVME_CNS_NAMESPACE_IDS = 0x03
};

#define FTH_NVME_IDENTIFY_SIZE 4096u

/* A power state (Figure 251). */
struct fth_nvme_power_state {
	uint16_t max_power; /* centiwatts, unless flags bit 0 says 0.0001 W */
	uint8_t reserved2;
	uint8_t flags;
	uint32_t entry_latency_us;
	uint32_t exit_latency_us;
	uint8_t read_throughput;
	uint8_t read_latency;
	uint8_t write_throughput;
	uint8_t write_latency;
	uint16_t idle_power;
	uint8_t idle_scale;
	uint8_t reserved19;
	uint16_t active_power;
	uint8_t active_scale;
	uint8_t reserved23[9];
};
FTH_NVME_SIZE(fth_nvme_power_state, 32);
FTH_NVME_OFFSET(fth_nvme_power_state, entry_latency_us, 4);
FTH_NVME_OFFSET(fth_nvme_power_state, read_throughput, 12);
FTH_NVME_OFFSET(fth_nvme_power_state, idle_power, 16);
FTH_NVME_OFFSET(fth_nvme_power_state, active_power, 20);

/* Identify Controller (Figure 247). Text fields are padded with spaces, not ended by 0. */
struct fth_nvme_id_ctrl {
	uint16_t vid;
	uint16_t ssvid;
	char sn[20];
	char mn[40];
	char fr[8];
	uint8_t rab;
	uint8_t ieee[3];
	uint8_t cmic;
	uint8_t mdts; /* 2^this memory pages of the smallest size; 0: no limit */
	uint16_t cntlid;
	uint32_t ver;
	uint32_t rtd3r;
	uint32_t rtd3e;
	uint32_t oaes;
	uint32_t ctratt;
	uint16_t rrls;
	uint8_t reserved102[9];
	uint8_t cntrltype;
	uint8_t fguid[16];
	uint16_t crdt[3];
	uint8_t reserved134[122];
	uint16_t oacs;
	uint8_t acl;
	uint8_t aerl;
	uint8_t frmw;
	uint8_t lpa;
	uint8_t elpe;
	uint8_t npss;
	uint8_t avscc;
	uint8_t apsta;
	uint16_t wctemp;
	uint16_t cctemp;
	uint16_t mtfa;
	uint32_t hmpre;
	uint32_t hmmin;
	uint8_t tnvmcap[16];
	uint8_t unvmcap[16];
	uint32_t rpmbs;
	uint16_t edstt;
	uint8_t dsto;
	uint8_t fwug;
	uint16_t kas;
	uint16_t hctma;
	uint16_t mntmt;
	uint16_t mxtmt;
	uint32_t sanicap;
	uint32_t hmminds;
	uint16_t hmmaxd;
	uint16_t nsetidmax;
	uint16_t endgidmax;
	uint8_t anatt;
	uint8_t anacap;
	uint32_t anagrpmax;
	uint32_t nanagrpid;
	uint32_t pels;
	uint8_t reserved356[156];
	uint8_t sqes; /* 3:0 required, 7:4 maximum, log2 */
	uint8_t cqes;
	uint16_t maxcmd;
	uint32_t nn;
	uint16_t oncs;
	uint16_t fuses;
	uint8_t fna;
	uint8_t vwc;
	uint16_t awun;
	uint16_t awupf;
	uint8_t nvscc;
	uint8_t nwpc;
	uint16_t acwu;
	uint8_t reserved534[2];
	uint32_t sgls;
	uint32_t mnan;
	uint8_t reserved544[224];
	char subnqn[256];
	uint8_t reserved1024[768];
	uint8_t fabrics[256];
	struct fth_nvme_power_state psd[32];
	uint8_t vendor[1024];
};
FTH_NVME_SIZE(fth_nvme_id_ctrl, 4096);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, sn, 4);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, mn, 24);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, fr, 64);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, rab, 72);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, ieee, 73);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, mdts, 77);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, cntlid, 78);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, ver, 80);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, rtd3r, 84);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, oaes, 92);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, ctratt, 96);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, rrls, 100);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, cntrltype, 111);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, fguid, 112);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, crdt, 128);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, oacs, 256);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, acl, 258);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, aerl, 259);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, frmw, 260);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, lpa, 261);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, elpe, 262);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, npss, 263);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, wctemp, 266);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, cctemp, 268);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, hmpre, 272);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, tnvmcap, 280);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, unvmcap, 296);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, rpmbs, 312);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, kas, 320);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, sanicap, 328);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, anagrpmax, 344);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, pels, 352);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, sqes, 512);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, cqes, 513);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, maxcmd, 514);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, nn, 516);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, oncs, 520);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, fuses, 522);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, fna, 524);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, vwc, 525);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, awun, 526);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, acwu, 532);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, sgls, 536);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, mnan, 540);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, subnqn, 768);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, fabrics, 1792);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, psd, 2048);
FTH_NVME_OFFSET(fth_nvme_id_ctrl, vendor, 3072);

#define FTH_NVME_ONCS_COMPARE	   (1u << 0)
#define FTH_NVME_ONCS_DSM	   (1u << 2)
#define FTH_NVME_ONCS_WRITE_ZEROES (1u << 3)
#define FTH_NVME_ONCS_SELECT	   (1u << 4) /* save and select of features */
#define FTH_NVME_VWC_PRESENT	   (1u << 0)
#define FTH_NVME_VWC_FLUSH_ALL	   (3u << 1) /* flush takes nsid 0xffffffff */
#define FTH_NVME_LPA_EXTENDED	   (1u << 2) /* get log page takes offsets and long lengths */
#define FTH_NVME_CNTRLTYPE_IO	   1u

/* An LBA format (Figure 246). */
struct fth_nvme_lba_format {
	uint16_t metadata;   /* bytes per block */
	uint8_t data_shift;  /* log2 of bytes per block; 0: format not available */
	uint8_t performance; /* 1:0; lower is better */
};
FTH_NVME_SIZE(fth_nvme_lba_format, 4);
FTH_NVME_OFFSET(fth_nvme_lba_format, data_shift, 2);

/* Identify Namespace (Figure 245). */
struct fth_nvme_id_ns {
	uint64_t nsze;
	uint64_t ncap;
	uint64_t nuse;
	uint8_t nsfeat;
	uint8_t nlbaf;
	uint8_t flbas; /* 3:0 the format in use, 4: metadata at the end of each block */
	uint8_t mc;
	uint8_t dpc;
	uint8_t dps;
	uint8_t nmic;
	uint8_t rescap;
	uint8_t fpi;
	uint8_t dlfeat;
	uint16_t nawun;
	uint16_t nawupf;
	uint16_t nacwu;
	uint16_t nabsn;
	uint16_t nabo;
	uint16_t nabspf;
	uint16_t noiob;
	uint8_t nvmcap[16];
	uint16_t npwg;
	uint16_t npwa;
	uint16_t npdg;
	uint16_t npda;
	uint16_t nows;
	uint8_t reserved74[18];
	uint32_t anagrpid;
	uint8_t reserved96[3];
	uint8_t nsattr;
	uint16_t nvmsetid;
	uint16_t endgid;
	uint8_t nguid[16];
	uint8_t eui64[8];
	struct fth_nvme_lba_format lbaf[16];
	uint8_t reserved192[192];
	uint8_t vendor[3712];
};
FTH_NVME_SIZE(fth_nvme_id_ns, 4096);
FTH_NVME_OFFSET(fth_nvme_id_ns, ncap, 8);
FTH_NVME_OFFSET(fth_nvme_id_ns, nuse, 16);
FTH_NVME_OFFSET(fth_nvme_id_ns, nsfeat, 24);
FTH_NVME_OFFSET(fth_nvme_id_ns, nlbaf, 25);
FTH_NVME_OFFSET(fth_nvme_id_ns, flbas, 26);
FTH_NVME_OFFSET(fth_nvme_id_ns, mc, 27);
FTH_NVME_OFFSET(fth_nvme_id_ns, dps, 29);
FTH_NVME_OFFSET(fth_nvme_id_ns, dlfeat, 33);
FTH_NVME_OFFSET(fth_nvme_id_ns, nawun, 34);
FTH_NVME_OFFSET(fth_nvme_id_ns, noiob, 46);
FTH_NVME_OFFSET(fth_nvme_id_ns, nvmcap, 48);
FTH_NVME_OFFSET(fth_nvme_id_ns, npwg, 64);
FTH_NVME_OFFSET(fth_nvme_id_ns, anagrpid, 92);
FTH_NVME_OFFSET(fth_nvme_id_ns, nsattr, 99);
FTH_NVME_OFFSET(fth_nvme_id_ns, nvmsetid, 100);
FTH_NVME_OFFSET(fth_nvme_id_ns, nguid, 104);
FTH_NVME_OFFSET(fth_nvme_id_ns, eui64, 120);
FTH_NVME_OFFSET(fth_nvme_id_ns, lbaf, 128);
FTH_NVME_OFFSET(fth_nvme_id_ns, vendor, 384);

#define FTH_NVME_DLFEAT_READS_ZERO 1u /* 2:0; what a deallocated block reads as: 0 is unsaid */

/* Namespace identification descriptor (Figure 249): this head, then `length` bytes of id. */
enum fth_nvme_id_type { FTH_NVME_ID_EUI64 = 1, FTH_NVME_ID_NGUID = 2, FTH_NVME_ID_UUID = 3 };

struct fth_nvme_id_descriptor {
	uint8_t type;
	uint8_t length;
	uint8_t reserved[2];
};
FTH_NVME_SIZE(fth_nvme_id_descriptor, 4);

/* ---- features (5.21) ---- */

enum fth_nvme_feature {
	FTH_NVME_FEAT_ARBITRATION = 0x01,
	FTH_NVME_FEAT_POWER = 0x02,
	FTH_NVME_FEAT_TEMPERATURE = 0x04,
	FTH_NVME_FEAT_ERROR_RECOVERY = 0x05,
	FTH_NVME_FEAT_WRITE_CACHE = 0x06,
	FTH_NVME_FEAT_QUEUES = 0x07, /* 15:0 submission, 31:16 completion queues, each - 1 */
	FTH_NVME_FEAT_COALESCING = 0x08,
	FTH_NVME_FEAT_VECTOR = 0x09,
	FTH_NVME_FEAT_ATOMICITY = 0x0a,
	FTH_NVME_FEAT_ASYNC_EVENTS = 0x0b
};

enum fth_nvme_select { /* cdw10 10:8 of get features */
		       FTH_NVME_SELECT_CURRENT = 0,
		       FTH_NVME_SELECT_DEFAULT = 1,
		       FTH_NVME_SELECT_SAVED = 2,
		       FTH_NVME_SELECT_CAPABILITIES = 3
};
#define FTH_NVME_SELECT_SHIFT	   8
#define FTH_NVME_FEATURE_SAVE	   (1u << 31) /* cdw10 of set features */
#define FTH_NVME_FEATURE_NAMESPACE (1u << 1)  /* capabilities: belongs to a namespace */
#define FTH_NVME_FEATURE_CHANGES   (1u << 2)  /* capabilities: can be set */

/* ---- asynchronous events (5.2): type 2:0, information 15:8, log page 23:16 of the result ---- */

enum fth_nvme_event_type {
	FTH_NVME_EVENT_ERROR = 0,
	FTH_NVME_EVENT_HEALTH = 1,
	FTH_NVME_EVENT_NOTICE = 2
};

enum fth_nvme_event_error {
	FTH_NVME_EVENT_DOORBELL_REGISTER = 0, /* of a queue that is not there */
	FTH_NVME_EVENT_DOORBELL_VALUE = 1
};

FTH_HD uint32_t fth_nvme_event(uint32_t type, uint32_t information, uint32_t log_page)
{
	return type | information << 8 | log_page << 16;
}

/* ---- log pages (5.14) ---- */

enum fth_nvme_log_page {
	FTH_NVME_LOG_ERROR = 0x01,
	FTH_NVME_LOG_SMART = 0x02,
	FTH_NVME_LOG_FIRMWARE = 0x03
};

#define FTH_NVME_LOG_RETAIN_EVENT (1u << 15) /* cdw10: leave the event masked */
#define FTH_NVME_LOG_LENGTH_SHIFT 16	     /* cdw10 31:16, cdw11 15:0: dwords - 1 */

/* Error information, newest first (Figure 196). */
struct fth_nvme_error_entry {
	uint64_t count; /* from 1, over the controller's life; 0: entry not in use */
	uint16_t sqid;
	uint16_t cid;
	uint16_t status;   /* status field in 15:1, phase in 0 */
	uint16_t location; /* byte and bit of the wrong parameter; 0xffff: not one parameter */
	uint64_t lba;
	uint32_t nsid;
	uint8_t vendor;
	uint8_t trtype;
	uint8_t reserved30[2];
	uint64_t command_specific;
	uint16_t transport_specific;
	uint8_t reserved42[22];
};
FTH_NVME_SIZE(fth_nvme_error_entry, 64);
FTH_NVME_OFFSET(fth_nvme_error_entry, sqid, 8);
FTH_NVME_OFFSET(fth_nvme_error_entry, cid, 10);
FTH_NVME_OFFSET(fth_nvme_error_entry, status, 12);
FTH_NVME_OFFSET(fth_nvme_error_entry, location, 14);
FTH_NVME_OFFSET(fth_nvme_error_entry, lba, 16);
FTH_NVME_OFFSET(fth_nvme_error_entry, nsid, 24);
FTH_NVME_OFFSET(fth_nvme_error_entry, vendor, 28);
FTH_NVME_OFFSET(fth_nvme_error_entry, command_specific, 32);
FTH_NVME_OFFSET(fth_nvme_error_entry, transport_specific, 40);

#define FTH_NVME_ERROR_LOCATION_NONE 0xffffu

/* SMART and health (Figure 197). 128-bit counters are two words, low one first. */
struct fth_nvme_smart_log {
	uint8_t critical_warning;
	uint8_t temperature[2]; /* kelvin; not aligned in the page */
	uint8_t available_spare;
	uint8_t spare_threshold;
	uint8_t percentage_used;
	uint8_t endurance_critical;
	uint8_t reserved7[25];
	uint64_t data_units_read[2]; /* thousands of 512 bytes, rounded up */
	uint64_t data_units_written[2];
	uint64_t host_reads[2];
	uint64_t host_writes[2];
	uint64_t busy_minutes[2];
	uint64_t power_cycles[2];
	uint64_t power_on_hours[2];
	uint64_t unsafe_shutdowns[2];
	uint64_t media_errors[2];
	uint64_t error_entries[2];
	uint32_t warning_minutes;
	uint32_t critical_minutes;
	uint16_t sensors[8];
	uint32_t throttle_count[2];
	uint32_t throttle_seconds[2];
	uint8_t reserved232[280];
};
FTH_NVME_SIZE(fth_nvme_smart_log, 512);
FTH_NVME_OFFSET(fth_nvme_smart_log, temperature, 1);
FTH_NVME_OFFSET(fth_nvme_smart_log, available_spare, 3);
FTH_NVME_OFFSET(fth_nvme_smart_log, data_units_read, 32);
FTH_NVME_OFFSET(fth_nvme_smart_log, data_units_written, 48);
FTH_NVME_OFFSET(fth_nvme_smart_log, host_reads, 64);
FTH_NVME_OFFSET(fth_nvme_smart_log, host_writes, 80);
FTH_NVME_OFFSET(fth_nvme_smart_log, busy_minutes, 96);
FTH_NVME_OFFSET(fth_nvme_smart_log, power_cycles, 112);
FTH_NVME_OFFSET(fth_nvme_smart_log, power_on_hours, 128);
FTH_NVME_OFFSET(fth_nvme_smart_log, unsafe_shutdowns, 144);
FTH_NVME_OFFSET(fth_nvme_smart_log, media_errors, 160);
FTH_NVME_OFFSET(fth_nvme_smart_log, error_entries, 176);
FTH_NVME_OFFSET(fth_nvme_smart_log, warning_minutes, 192);
FTH_NVME_OFFSET(fth_nvme_smart_log, critical_minutes, 196);
FTH_NVME_OFFSET(fth_nvme_smart_log, sensors, 200);
FTH_NVME_OFFSET(fth_nvme_smart_log, throttle_count, 216);
FTH_NVME_OFFSET(fth_nvme_smart_log, throttle_seconds, 224);

/* Firmware slots (Figure 198). */
struct fth_nvme_firmware_log {
	uint8_t active; /* 2:0 the slot in use */
	uint8_t reserved1[7];
	char revision[7][8];
	uint8_t reserved64[448];
};
FTH_NVME_SIZE(fth_nvme_firmware_log, 512);
FTH_NVME_OFFSET(fth_nvme_firmware_log, revision, 8);

#endif
