/* SPDX-License-Identifier: BSD-2-Clause */
/* Admin commands, good and bad. */
#include "fth_test.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include <string.h>

static struct host host;

static int setup(void **state)
{
	(void)state;
	host_up(&host, "mem:1M", 16);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_down(&host);
	return 0;
}

static uint16_t admin(struct fth_nvme_sqe sqe)
{
	return host_run(&host, 0, &sqe, NULL);
}

/* ---- identify ---- */

static uint16_t identify(uint8_t cns, uint32_t nsid, const void *page)
{
	return admin((struct fth_nvme_sqe){.opcode = FTH_NVME_IDENTIFY,
					   .nsid = nsid,
					   .prp1 = host_iova(&host, page),
					   .cdw10 = cns});
}

static void identify_tells_controller_and_namespace(void **state)
{
	struct fth_nvme_id_ctrl *ctrl = host_pages(&host, 1);
	struct fth_nvme_id_ns *ns = host_pages(&host, 1);

	(void)state;
	assert_int_equal(identify(FTH_NVME_CNS_CONTROLLER, 0, ctrl), FTH_NVME_SUCCESS);
	assert_memory_equal(ctrl->sn, "FATHOM-SOFT         ", sizeof(ctrl->sn));
	assert_int_equal(ctrl->ver, 0x00010400);
	assert_int_equal(ctrl->mdts, 8);
	assert_int_equal(ctrl->sqes, 0x66);
	assert_int_equal(ctrl->cqes, 0x44);
	assert_int_equal(ctrl->nn, 1);
	assert_int_equal(ctrl->oncs, 0x1d);
	assert_true(ctrl->vwc & FTH_NVME_VWC_PRESENT);
	assert_int_equal(strncmp(ctrl->subnqn, "nqn.2014-08.org.nvmexpress:uuid:", 32), 0);
	assert_int_equal(strlen(ctrl->subnqn), 32 + 36);

	assert_int_equal(identify(FTH_NVME_CNS_NAMESPACE, 1, ns), FTH_NVME_SUCCESS);
	assert_int_equal(ns->nsze, 2048);
	assert_int_equal(ns->ncap, 2048);
	assert_int_equal(ns->flbas, 0);
	assert_int_equal(ns->nlbaf, 0);
	assert_int_equal(ns->lbaf[0].data_shift, 9);
	assert_int_equal(ns->lbaf[0].metadata, 0);
}

static void identify_lists_namespaces(void **state)
{
	uint32_t *list = host_pages(&host, 1);
	uint8_t *ids = host_pages(&host, 1);

	(void)state;
	assert_int_equal(identify(FTH_NVME_CNS_ACTIVE_NAMESPACES, 0, list), FTH_NVME_SUCCESS);
	assert_int_equal(list[0], 1);
	assert_int_equal(list[1], 0);
	assert_int_equal(identify(FTH_NVME_CNS_ACTIVE_NAMESPACES, 1, list), FTH_NVME_SUCCESS);
	assert_int_equal(list[0], 0);
	assert_int_equal(identify(FTH_NVME_CNS_NAMESPACE_IDS, 1, ids), FTH_NVME_SUCCESS);
	assert_int_equal(ids[0], FTH_NVME_ID_UUID);
	assert_int_equal(ids[1], 16);
	assert_int_equal(ids[20], 0);
}

static void identify_refuses_what_is_not_there(void **state)
{
	char *page = host_pages(&host, 1);

	(void)state;
	assert_int_equal(identify(FTH_NVME_CNS_NAMESPACE, 0, page), FTH_NVME_INVALID_NAMESPACE);
	assert_int_equal(identify(FTH_NVME_CNS_NAMESPACE, 2, page), FTH_NVME_INVALID_NAMESPACE);
	assert_int_equal(identify(FTH_NVME_CNS_NAMESPACE_IDS, 2, page), FTH_NVME_INVALID_NAMESPACE);
	assert_int_equal(identify(FTH_NVME_CNS_ACTIVE_NAMESPACES, FTH_NVME_NSID_ALL, page),
			 FTH_NVME_INVALID_NAMESPACE);
	assert_int_equal(identify(0x10, 0, page), FTH_NVME_INVALID_FIELD);
	for (unsigned i = 0; i < HOST_PAGE; i++)
		assert_int_equal(page[i], 0);
}

static void identify_goes_where_its_prps_say(void **state)
{
	char *page = host_pages(&host, 1), *ids = host_pages(&host, 4);
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_IDENTIFY, .cdw10 = FTH_NVME_CNS_CONTROLLER};

	(void)state;
	assert_int_equal(identify(FTH_NVME_CNS_CONTROLLER, 0, page), FTH_NVME_SUCCESS);
	sqe.prp1 = host_iova(&host, ids) + 0x104;
	sqe.prp2 = host_iova(&host, ids) + 2 * HOST_PAGE;
	assert_int_equal(admin(sqe), FTH_NVME_SUCCESS);
	assert_memory_equal(ids + 0x104, page, HOST_PAGE - 0x104);
	assert_memory_equal(ids + 2 * HOST_PAGE, page + HOST_PAGE - 0x104, 0x104);
	assert_int_equal(ids[0x103], 0);
	assert_int_equal(ids[2 * HOST_PAGE + 0x104], 0);
	sqe.prp2 += 8;
	assert_int_equal(admin(sqe), FTH_NVME_PRP_OFFSET_INVALID);
	sqe.prp2 = 0x1000;
	assert_int_equal(admin(sqe), FTH_NVME_DATA_TRANSFER_ERROR);
	sqe.prp1 = 2;
	assert_int_equal(admin(sqe), FTH_NVME_PRP_OFFSET_INVALID);
}

/* ---- queues ---- */

static struct fth_nvme_sqe create(uint8_t opcode, uint16_t id, uint32_t entries, uint32_t cdw11,
				  uint64_t prp1)
{
	return (struct fth_nvme_sqe){
		.opcode = opcode, .prp1 = prp1, .cdw10 = id | (entries - 1) << 16, .cdw11 = cdw11};
}

static void bad_completion_queues_are_refused(void **state)
{
	uint64_t ring = host_iova(&host, host_pages(&host, 1));
	uint64_t last = HOST_IOVA + (HOST_ARENA_PAGES - 1) * HOST_PAGE;

	(void)state;
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 0, 16, 1, ring)), FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 1, 16, 1, ring)), FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 65, 16, 1, ring)), FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 0xffff, 16, 1, ring)),
			 FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 1, 1, ring)),
			 FTH_NVME_QUEUE_SIZE_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 4097, 1, ring)),
			 FTH_NVME_QUEUE_SIZE_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 16, 0, ring)), FTH_NVME_INVALID_FIELD);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 16, 1, ring + 64)),
			 FTH_NVME_PRP_OFFSET_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 16, 1, 0)), FTH_NVME_INVALID_FIELD);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 257, 1, last)),
			 FTH_NVME_INVALID_FIELD);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 16, 3 | 65 << 16, ring)),
			 FTH_NVME_INTERRUPT_VECTOR_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_CQ, 2, 256, 3 | 64 << 16, last)),
			 FTH_NVME_SUCCESS);
}

static void bad_submission_queues_are_refused(void **state)
{
	uint64_t ring = host_iova(&host, host_pages(&host, 1));
	const uint32_t good = 1 | 1 << 16;

	(void)state;
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 0, 16, good, ring)),
			 FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 1, 16, good, ring)),
			 FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 65, 16, good, ring)),
			 FTH_NVME_QID_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 16, 1, ring)), FTH_NVME_CQ_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 16, 1 | 2 << 16, ring)),
			 FTH_NVME_CQ_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 16, 1 | 0xffffu << 16, ring)),
			 FTH_NVME_CQ_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 1, good, ring)),
			 FTH_NVME_QUEUE_SIZE_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 4097, good, ring)),
			 FTH_NVME_QUEUE_SIZE_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 16, 1 << 16, ring)),
			 FTH_NVME_INVALID_FIELD);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 16, good, ring + 8)),
			 FTH_NVME_PRP_OFFSET_INVALID);
	assert_int_equal(admin(create(FTH_NVME_CREATE_SQ, 2, 16, good, 0x1000)),
			 FTH_NVME_INVALID_FIELD);
}

static void queues_go_in_the_right_order(void **state)
{
	(void)state;
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1),
			 FTH_NVME_QUEUE_DELETION_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 0), FTH_NVME_QID_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 2), FTH_NVME_QID_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 0xffff), FTH_NVME_QID_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 0), FTH_NVME_QID_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 2), FTH_NVME_QID_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 1), FTH_NVME_SUCCESS);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 1), FTH_NVME_QID_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1), FTH_NVME_SUCCESS);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1), FTH_NVME_QID_INVALID);
	for (uint16_t i = 0; i < 4; i++) { /* and come again */
		struct fth_nvme_sqe flush = {.opcode = FTH_NVME_FLUSH, .nsid = 1};

		assert_int_equal(host_create_cq(&host, 1, 4), FTH_NVME_SUCCESS);
		assert_int_equal(host_create_sq(&host, 1, 1, 4), FTH_NVME_SUCCESS);
		assert_int_equal(host_run(&host, 1, &flush, NULL), FTH_NVME_SUCCESS);
		assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 1), FTH_NVME_SUCCESS);
		assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1), FTH_NVME_SUCCESS);
	}
}

/* ---- features ---- */

static uint16_t feature(uint8_t opcode, uint32_t cdw10, uint32_t cdw11, uint32_t *result)
{
	struct fth_nvme_sqe sqe = {.opcode = opcode, .cdw10 = cdw10, .cdw11 = cdw11};

	return host_run(&host, 0, &sqe, result);
}

static uint16_t get(uint32_t cdw10, uint32_t cdw11, uint32_t *result)
{
	return feature(FTH_NVME_GET_FEATURES, cdw10, cdw11, result);
}

static uint16_t set(uint32_t cdw10, uint32_t cdw11)
{
	return feature(FTH_NVME_SET_FEATURES, cdw10, cdw11, NULL);
}

static void features_are_kept(void **state)
{
	static const struct {
		uint32_t id, first, other;
	} plain[] = {
		{FTH_NVME_FEAT_ARBITRATION, 0, 0x01020303},
		{FTH_NVME_FEAT_ERROR_RECOVERY, 0, 100},
		{FTH_NVME_FEAT_WRITE_CACHE, 1, 0},
		{FTH_NVME_FEAT_COALESCING, 0, 0x0102},
		{FTH_NVME_FEAT_ATOMICITY, 0, 1},
		{FTH_NVME_FEAT_ASYNC_EVENTS, 0, 0x1f},
		{FTH_NVME_FEAT_TEMPERATURE, 0xffff, 340},
	};
	uint32_t value;

	(void)state;
	for (unsigned i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		uint32_t id = plain[i].id;

		assert_int_equal(get(id, 0, &value), FTH_NVME_SUCCESS);
		assert_int_equal(value, plain[i].first);
		assert_int_equal(set(id, plain[i].other), FTH_NVME_SUCCESS);
		assert_int_equal(get(id, 0, &value), FTH_NVME_SUCCESS);
		assert_int_equal(value, plain[i].other);
		assert_int_equal(get(id | FTH_NVME_SELECT_DEFAULT << 8, 0, &value), 0);
		assert_int_equal(value, plain[i].first);
		assert_int_equal(get(id | FTH_NVME_SELECT_SAVED << 8, 0, &value), 0);
		assert_int_equal(value, plain[i].first);
		assert_int_equal(get(id | FTH_NVME_SELECT_CAPABILITIES << 8, 0, &value), 0);
		assert_int_equal(value, FTH_NVME_FEATURE_CHANGES);
		assert_int_equal(get(id | 4 << 8, 0, &value), FTH_NVME_INVALID_FIELD);
		assert_int_equal(set(id | FTH_NVME_FEATURE_SAVE, plain[i].other),
				 FTH_NVME_FEATURE_NOT_SAVEABLE);
	}
}

static void features_with_a_choice(void **state)
{
	uint32_t value;

	(void)state;
	assert_int_equal(set(FTH_NVME_FEAT_TEMPERATURE, 270 | 1 << 20), FTH_NVME_SUCCESS);
	assert_int_equal(get(FTH_NVME_FEAT_TEMPERATURE, 1 << 20, &value), FTH_NVME_SUCCESS);
	assert_int_equal(value, 270);
	assert_int_equal(get(FTH_NVME_FEAT_TEMPERATURE, 0, &value), FTH_NVME_SUCCESS);
	assert_int_equal(value, 0xffff);
	assert_int_equal(set(FTH_NVME_FEAT_TEMPERATURE, 2 << 20), FTH_NVME_INVALID_FIELD);
	assert_int_equal(set(FTH_NVME_FEAT_TEMPERATURE, 1 << 16), FTH_NVME_INVALID_FIELD);
	assert_int_equal(get(FTH_NVME_FEAT_TEMPERATURE, 0xf << 16, &value), FTH_NVME_INVALID_FIELD);

	assert_int_equal(set(FTH_NVME_FEAT_VECTOR, 3 | 1 << 16), FTH_NVME_SUCCESS);
	assert_int_equal(get(FTH_NVME_FEAT_VECTOR, 3, &value), FTH_NVME_SUCCESS);
	assert_int_equal(value, 3 | 1 << 16);
	assert_int_equal(set(FTH_NVME_FEAT_VECTOR, 3), FTH_NVME_SUCCESS);
	assert_int_equal(get(FTH_NVME_FEAT_VECTOR, 3, &value), FTH_NVME_SUCCESS);
	assert_int_equal(value, 3);
	assert_int_equal(set(FTH_NVME_FEAT_VECTOR, 0xffff), FTH_NVME_INVALID_FIELD);
	assert_int_equal(get(FTH_NVME_FEAT_VECTOR, 65, &value), FTH_NVME_INVALID_FIELD);
}

static void impossible_features_are_refused(void **state)
{
	(void)state;
	assert_int_equal(set(FTH_NVME_FEAT_POWER, 0), FTH_NVME_SUCCESS);
	assert_int_equal(set(FTH_NVME_FEAT_POWER, 1), FTH_NVME_INVALID_FIELD);
	assert_int_equal(set(FTH_NVME_FEAT_ERROR_RECOVERY, 1 << 16), FTH_NVME_INVALID_FIELD);
	for (uint32_t id = 0; id < 256; id++) {
		if (id >= 1 && id <= 0x0b && id != 3)
			continue;
		assert_int_equal(get(id, 0, NULL), FTH_NVME_INVALID_FIELD);
		assert_int_equal(set(id, 0), FTH_NVME_INVALID_FIELD);
	}
}

static void the_number_of_queues_is_set_before_there_are_any(void **state)
{
	uint32_t value;

	(void)state;
	assert_int_equal(get(FTH_NVME_FEAT_QUEUES, 0, &value), FTH_NVME_SUCCESS);
	assert_int_equal(value, 63 | 63 << 16);
	assert_int_equal(set(FTH_NVME_FEAT_QUEUES, 0), FTH_NVME_COMMAND_SEQUENCE);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 1), FTH_NVME_SUCCESS);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1), FTH_NVME_SUCCESS);
	assert_int_equal(feature(FTH_NVME_SET_FEATURES, FTH_NVME_FEAT_QUEUES, 7 | 7 << 16, &value),
			 FTH_NVME_SUCCESS);
	assert_int_equal(value, 63 | 63 << 16);
	assert_int_equal(set(FTH_NVME_FEAT_QUEUES, 0xffff), FTH_NVME_INVALID_FIELD);
	assert_int_equal(set(FTH_NVME_FEAT_QUEUES, 0xffff0000), FTH_NVME_INVALID_FIELD);
}

/* ---- log pages ---- */

static uint16_t get_log(uint8_t id, uint32_t nsid, uint64_t offset, uint32_t bytes, const void *to)
{
	return admin((struct fth_nvme_sqe){.opcode = FTH_NVME_GET_LOG_PAGE,
					   .nsid = nsid,
					   .prp1 = host_iova(&host, to),
					   .cdw10 = id | (bytes / 4 - 1) << 16,
					   .cdw12 = (uint32_t)offset,
					   .cdw13 = (uint32_t)(offset >> 32)});
}

static void the_smart_log_counts(void **state)
{
	struct fth_nvme_smart_log *log = host_pages(&host, 1);
	char *page = host_pages(&host, 1);
	struct fth_nvme_sqe write = host_rw(FTH_NVME_WRITE, 0, 8, host_iova(&host, page), 0);
	struct fth_nvme_sqe read = host_rw(FTH_NVME_READ, 0, 1, host_iova(&host, page), 0);

	(void)state;
	assert_int_equal(host_run(&host, 1, &write, NULL), FTH_NVME_SUCCESS);
	assert_int_equal(host_run(&host, 1, &read, NULL), FTH_NVME_SUCCESS);
	assert_int_equal(host_run(&host, 1, &read, NULL), FTH_NVME_SUCCESS);
	assert_int_equal(get_log(FTH_NVME_LOG_SMART, FTH_NVME_NSID_ALL, 0, 512, log),
			 FTH_NVME_SUCCESS);
	assert_int_equal(log->host_reads[0], 2);
	assert_int_equal(log->host_writes[0], 1);
	assert_int_equal(log->data_units_read[0], 1);
	assert_int_equal(log->data_units_written[0], 1);
	assert_int_equal(log->available_spare, 100);
	assert_int_equal(log->critical_warning, 0);
	assert_int_equal(get_log(FTH_NVME_LOG_SMART, 1, 0, 512, log), FTH_NVME_INVALID_FIELD);
}

static void the_error_log_has_the_newest_first(void **state)
{
	struct fth_nvme_error_entry *log = host_pages(&host, 1);
	struct fth_nvme_sqe bad = host_rw(FTH_NVME_READ, 0x123456789, 1, HOST_IOVA, 0);

	(void)state;
	assert_int_equal(get_log(FTH_NVME_LOG_ERROR, 0, 0, 1024, log), FTH_NVME_SUCCESS);
	assert_int_equal(log[0].count, 0);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(host_run(&host, 1, &bad, NULL), FTH_NVME_LBA_RANGE);
	assert_int_equal(admin((struct fth_nvme_sqe){.opcode = 0xff}), FTH_NVME_INVALID_OPCODE);
	assert_int_equal(get_log(FTH_NVME_LOG_ERROR, 0, 0, 1024, log), FTH_NVME_SUCCESS);
	assert_int_equal(log[0].count, 21);
	assert_int_equal(log[0].sqid, 0);
	assert_int_equal(log[0].status >> 1 & FTH_NVME_STATUS_CODE_MASK, FTH_NVME_INVALID_OPCODE);
	assert_int_equal(log[1].count, 20);
	assert_int_equal(log[1].sqid, 1);
	assert_int_equal(log[1].cid, bad.cid);
	assert_int_equal(log[1].nsid, 1);
	assert_true(log[1].lba == 0x123456789);
	assert_int_equal(log[15].count, 6);
	assert_int_equal(log[16].count, 0);
}

static void log_pages_can_be_read_in_parts(void **state)
{
	struct fth_nvme_firmware_log *log = host_pages(&host, 1);
	char *part = host_pages(&host, 2);

	(void)state;
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 0, 512, log), FTH_NVME_SUCCESS);
	assert_int_equal(log->active, 1);
	assert_memory_equal(log->revision[0], "1.0     ", 8);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 8, 8, part), FTH_NVME_SUCCESS);
	assert_memory_equal(part, "1.0     \0", 9);
	/* Past the end: what is there is sent, and no more. */
	memset(part, 0x77, HOST_PAGE);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 508, 4096, part), FTH_NVME_SUCCESS);
	assert_int_equal(part[0], 0);
	assert_int_equal(part[4], 0x77);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 512, 4, part), FTH_NVME_SUCCESS);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 516, 4, part), FTH_NVME_INVALID_FIELD);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 2, 4, part), FTH_NVME_INVALID_FIELD);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, UINT64_MAX - 3, 4, part),
			 FTH_NVME_INVALID_FIELD);
	assert_int_equal(get_log(0x00, 0, 0, 4, part), FTH_NVME_LOG_PAGE_INVALID);
	assert_int_equal(get_log(0x81, 0, 0, 4, part), FTH_NVME_LOG_PAGE_INVALID);
	assert_int_equal(get_log(FTH_NVME_LOG_FIRMWARE, 0, 0, 512, host.arena - HOST_PAGE),
			 FTH_NVME_DATA_TRANSFER_ERROR);
}

static void a_log_longer_than_a_transfer_is_refused(void **state)
{
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_GET_LOG_PAGE,
				   .cdw10 = FTH_NVME_LOG_FIRMWARE | 0xffffu << 16,
				   .cdw11 = 0xffff};

	(void)state;
	sqe.prp1 = host_iova(&host, host_pages(&host, 1));
	assert_int_equal(host_run(&host, 0, &sqe, NULL), FTH_NVME_INVALID_FIELD);
}

/* ---- asynchronous events, abort, the rest ---- */

static uint16_t push_event_request(void)
{
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_ASYNC_EVENT, .cid = host.next_cid++};

	host_push(&host, 0, &sqe);
	host_ring(&host, 0);
	host_settle(&host);
	return sqe.cid;
}

static void set_tail(uint16_t qid, uint32_t value)
{
	fth_store_release_sys32(&host.doorbells[2 * qid], value);
	host_settle(&host);
}

static void a_bad_doorbell_value_is_told_once(void **state)
{
	char *page = host_pages(&host, 1);
	uint16_t first = push_event_request(), second = push_event_request();
	struct fth_nvme_cqe cqe;

	(void)state;
	assert_false(host_poll(&host, 0, &cqe));
	set_tail(1, 16);
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), first);
	assert_int_equal(fth_nvme_cqe_status(cqe.info), FTH_NVME_SUCCESS);
	assert_int_equal(cqe.result,
			 fth_nvme_event(FTH_NVME_EVENT_ERROR, FTH_NVME_EVENT_DOORBELL_VALUE,
					FTH_NVME_LOG_ERROR));
	set_tail(1, 0xffffffff); /* masked until the log is read */
	assert_false(host_poll(&host, 0, &cqe));
	assert_int_equal(get_log(FTH_NVME_LOG_ERROR, 0, 0, 64, page), FTH_NVME_SUCCESS);
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), second);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_BAD_DOORBELLS), 2);
	set_tail(1, 0); /* and the queue works on */
	page = host_pages(&host, 1);
	struct fth_nvme_sqe read = host_rw(FTH_NVME_READ, 0, 1, host_iova(&host, page), 0);
	assert_int_equal(host_run(&host, 1, &read, NULL), FTH_NVME_SUCCESS);
}

static void a_doorbell_of_no_queue_is_told(void **state)
{
	struct fth_nvme_cqe cqe;

	(void)state;
	push_event_request();
	set_tail(5, 1);
	cqe = host_wait(&host, 0);
	assert_int_equal(cqe.result,
			 fth_nvme_event(FTH_NVME_EVENT_ERROR, FTH_NVME_EVENT_DOORBELL_REGISTER,
					FTH_NVME_LOG_ERROR));
}

static void event_requests_have_a_limit(void **state)
{
	struct fth_nvme_sqe more = {.opcode = FTH_NVME_ASYNC_EVENT};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		push_event_request();
	assert_int_equal(host_run(&host, 0, &more, NULL), FTH_NVME_ASYNC_EVENT_LIMIT);
}

static void an_event_request_can_be_aborted(void **state)
{
	uint16_t cid = push_event_request();
	struct fth_nvme_sqe abort = {.opcode = FTH_NVME_ABORT, .cdw10 = (uint32_t)cid << 16};
	struct fth_nvme_cqe cqe;

	(void)state;
	abort.cid = host.next_cid++;
	host_push(&host, 0, &abort);
	host_ring(&host, 0);
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), cid);
	assert_int_equal(fth_nvme_cqe_status(cqe.info), FTH_NVME_ABORT_REQUESTED);
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), abort.cid);
	assert_int_equal(cqe.result, 0);
}

static void what_is_not_there_is_not_aborted(void **state)
{
	struct fth_nvme_sqe abort = {.opcode = FTH_NVME_ABORT, .cdw10 = 1 | 77u << 16};
	uint32_t result;

	(void)state;
	assert_int_equal(host_run(&host, 0, &abort, &result), FTH_NVME_SUCCESS);
	assert_int_equal(result, 1);
	abort.cdw10 = 9;
	assert_int_equal(host_run(&host, 0, &abort, &result), FTH_NVME_SUCCESS);
	assert_int_equal(result, 1);
}

static void a_command_id_in_use_conflicts(void **state)
{
	uint16_t cid = push_event_request();
	struct fth_nvme_sqe again = {.opcode = FTH_NVME_GET_FEATURES, .cdw10 = FTH_NVME_FEAT_POWER};

	(void)state;
	host.next_cid = cid;
	assert_int_equal(host_run(&host, 0, &again, NULL), FTH_NVME_CID_CONFLICT);
	assert_int_equal(host_run(&host, 0, &again, NULL), FTH_NVME_SUCCESS);
}

static void unknown_commands_are_refused(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		if (opcode <= 2 || (opcode >= 4 && opcode <= 6) || (opcode >= 8 && opcode <= 10) ||
		    opcode == 12)
			continue;
		assert_int_equal(admin((struct fth_nvme_sqe){.opcode = (uint8_t)opcode}),
				 FTH_NVME_INVALID_OPCODE);
	}
	assert_int_equal(admin((struct fth_nvme_sqe){.opcode = FTH_NVME_IDENTIFY, .flags = 0x40}),
			 FTH_NVME_INVALID_FIELD);
	assert_int_equal(admin((struct fth_nvme_sqe){.opcode = FTH_NVME_IDENTIFY, .flags = 1}),
			 FTH_NVME_INVALID_FIELD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(identify_tells_controller_and_namespace),
		TEST(identify_lists_namespaces),
		TEST(identify_refuses_what_is_not_there),
		TEST(identify_goes_where_its_prps_say),
		TEST(bad_completion_queues_are_refused),
		TEST(bad_submission_queues_are_refused),
		TEST(queues_go_in_the_right_order),
		TEST(features_are_kept),
		TEST(features_with_a_choice),
		TEST(impossible_features_are_refused),
		TEST(the_number_of_queues_is_set_before_there_are_any),
		TEST(the_smart_log_counts),
		TEST(the_error_log_has_the_newest_first),
		TEST(log_pages_can_be_read_in_parts),
		TEST(a_log_longer_than_a_transfer_is_refused),
		TEST(a_bad_doorbell_value_is_told_once),
		TEST(a_doorbell_of_no_queue_is_told),
		TEST(event_requests_have_a_limit),
		TEST(an_event_request_can_be_aborted),
		TEST(what_is_not_there_is_not_aborted),
		TEST(a_command_id_in_use_conflicts),
		TEST(unknown_commands_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
