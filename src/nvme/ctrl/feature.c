/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Get and set features (5.9, 5.21). Nothing is saved over a reset, so that "saved" and "default"
 * are one.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include <string.h>

#define TEMPERATURE_OVER    0xffffu /* by default no temperature is too high */
#define TEMPERATURE_UNDER   0u
#define SENSOR(cdw11)	    ((cdw11) >> 16 & 0xf)
#define SENSOR_COMPOSITE    0u
#define SENSOR_ALL	    0xfu
#define UNDER(cdw11)	    ((cdw11) >> 20 & 3)
#define POWER_STATE_MASK    0x1fu
#define DULBE		    (1u << 16) /* error on deallocated blocks: not offered */
#define VECTOR_UNCOALESCED  (1u << 16)
#define QUEUES_NOT_POSSIBLE 0xffffu

static uint32_t default_value(const struct fth_nvme_ctrl *ctrl, uint32_t id)
{
	switch (id) {
	case FTH_NVME_FEAT_WRITE_CACHE:
		return 1;
	case FTH_NVME_FEAT_QUEUES:
		return (ctrl->io_queues - 1) | (ctrl->io_queues - 1) << 16;
	default:
		return 0;
	}
}

void fth_ctrl_features_reset(struct fth_nvme_ctrl *ctrl)
{
	for (uint32_t id = 0; id < CTRL_FEATURES; id++)
		ctrl->features[id] = default_value(ctrl, id);
	ctrl->temperature_thresholds[0] = TEMPERATURE_OVER;
	ctrl->temperature_thresholds[1] = TEMPERATURE_UNDER;
	memset(ctrl->vectors_uncoalesced, 0, sizeof(ctrl->vectors_uncoalesced));
	ctrl->write_through = false;
}

static bool known(uint32_t id)
{
	return id >= FTH_NVME_FEAT_ARBITRATION && id < CTRL_FEATURES && id != 0x03;
}

/* ---- those that have more than one value ---- */

static bool threshold_exists(uint32_t cdw11)
{
	return UNDER(cdw11) < 2 &&
	       (SENSOR(cdw11) == SENSOR_COMPOSITE || SENSOR(cdw11) == SENSOR_ALL);
}

static uint16_t get_threshold(const struct fth_nvme_ctrl *ctrl, uint32_t cdw11, bool current,
			      uint32_t *result)
{
	static const uint32_t defaults[2] = {TEMPERATURE_OVER, TEMPERATURE_UNDER};

	if (!threshold_exists(cdw11) || SENSOR(cdw11) == SENSOR_ALL)
		return FTH_NVME_INVALID_FIELD;
	*result = current ? ctrl->temperature_thresholds[UNDER(cdw11)] : defaults[UNDER(cdw11)];
	return FTH_NVME_SUCCESS;
}

static uint16_t get_vector(const struct fth_nvme_ctrl *ctrl, uint32_t cdw11, bool current,
			   uint32_t *result)
{
	uint32_t vector = cdw11 & 0xffff;

	if (vector > ctrl->io_queues)
		return FTH_NVME_INVALID_FIELD;
	*result = vector;
	if (current && (ctrl->vectors_uncoalesced[vector / 64] >> vector % 64 & 1))
		*result |= VECTOR_UNCOALESCED;
	return FTH_NVME_SUCCESS;
}

static uint16_t set_vector(struct fth_nvme_ctrl *ctrl, uint32_t cdw11)
{
	uint32_t vector = cdw11 & 0xffff;
	uint64_t bit = (uint64_t)1 << vector % 64;

	if (vector > ctrl->io_queues)
		return FTH_NVME_INVALID_FIELD;
	if (cdw11 & VECTOR_UNCOALESCED)
		ctrl->vectors_uncoalesced[vector / 64] |= bit;
	else
		ctrl->vectors_uncoalesced[vector / 64] &= ~bit;
	return FTH_NVME_SUCCESS;
}

/* ---- get ---- */

static uint16_t get_value(const struct fth_nvme_ctrl *ctrl, uint32_t id, uint32_t cdw11,
			  bool current, uint32_t *result)
{
	if (id == FTH_NVME_FEAT_TEMPERATURE)
		return get_threshold(ctrl, cdw11, current, result);
	if (id == FTH_NVME_FEAT_VECTOR)
		return get_vector(ctrl, cdw11, current, result);
	*result = current ? ctrl->features[id] : default_value(ctrl, id);
	return FTH_NVME_SUCCESS;
}

uint16_t fth_ctrl_get_features(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			       uint32_t *result)
{
	uint32_t id = sqe->cdw10 & 0xff;

	if (!known(id))
		return FTH_NVME_INVALID_FIELD;
	switch (sqe->cdw10 >> FTH_NVME_SELECT_SHIFT & 7) {
	case FTH_NVME_SELECT_CURRENT:
		return get_value(ctrl, id, sqe->cdw11, true, result);
	case FTH_NVME_SELECT_DEFAULT:
	case FTH_NVME_SELECT_SAVED:
		return get_value(ctrl, id, sqe->cdw11, false, result);
	case FTH_NVME_SELECT_CAPABILITIES:
		*result = FTH_NVME_FEATURE_CHANGES;
		return FTH_NVME_SUCCESS;
	default:
		return FTH_NVME_INVALID_FIELD;
	}
}

/* ---- set ---- */

static bool has_io_queues(const struct fth_nvme_ctrl *ctrl)
{
	for (uint32_t id = 1; id <= ctrl->io_queues; id++)
		if (ctrl->cqs[id].exists)
			return true;
	return false;
}

/* The host asks for a number; it gets all there are, as it may by the specification. */
static uint16_t set_queues(struct fth_nvme_ctrl *ctrl, uint32_t cdw11, uint32_t *result)
{
	if (has_io_queues(ctrl))
		return FTH_NVME_COMMAND_SEQUENCE;
	if ((cdw11 & 0xffff) == QUEUES_NOT_POSSIBLE || cdw11 >> 16 == QUEUES_NOT_POSSIBLE)
		return FTH_NVME_INVALID_FIELD;
	*result = default_value(ctrl, FTH_NVME_FEAT_QUEUES);
	return FTH_NVME_SUCCESS;
}

static uint16_t set_threshold(struct fth_nvme_ctrl *ctrl, uint32_t cdw11)
{
	if (!threshold_exists(cdw11))
		return FTH_NVME_INVALID_FIELD;
	ctrl->temperature_thresholds[UNDER(cdw11)] = cdw11 & 0xffff;
	return FTH_NVME_SUCCESS;
}

uint16_t fth_ctrl_set_features(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			       uint32_t *result)
{
	uint32_t id = sqe->cdw10 & 0xff, value = sqe->cdw11;

	if (!known(id))
		return FTH_NVME_INVALID_FIELD;
	if (sqe->cdw10 & FTH_NVME_FEATURE_SAVE)
		return FTH_NVME_FEATURE_NOT_SAVEABLE;
	switch (id) {
	case FTH_NVME_FEAT_QUEUES:
		return set_queues(ctrl, value, result);
	case FTH_NVME_FEAT_TEMPERATURE:
		return set_threshold(ctrl, value);
	case FTH_NVME_FEAT_VECTOR:
		return set_vector(ctrl, value);
	case FTH_NVME_FEAT_POWER: /* there is one state */
		if (value & POWER_STATE_MASK)
			return FTH_NVME_INVALID_FIELD;
		break;
	case FTH_NVME_FEAT_ERROR_RECOVERY:
		if (value & DULBE)
			return FTH_NVME_INVALID_FIELD;
		break;
	case FTH_NVME_FEAT_WRITE_CACHE: /* off: every write is flushed before it completes */
		value &= 1;
		ctrl->write_through = !value;
		break;
	default:
		break;
	}
	ctrl->features[id] = value;
	return FTH_NVME_SUCCESS;
}
