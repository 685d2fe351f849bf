/* SPDX-License-Identifier: BSD-2-Clause */
/* Get log page (5.14), and the error log that it shows. */
#include "nvme/ctrl/ctrl_internal.h"

#include <string.h>

#define TEMPERATURE_KELVIN 303
#define DATA_UNIT	   512000u /* bytes: a thousand blocks of 512 */
#define SPARE_PERCENT	   100
#define SPARE_THRESHOLD	   10

void fth_ctrl_log_error(struct fth_nvme_ctrl *ctrl, uint16_t sqid, const struct fth_nvme_sqe *sqe,
			uint16_t status)
{
	struct fth_nvme_error_entry *entry;

	fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_ERRORS, 1);
	pthread_mutex_lock(&ctrl->error_lock);
	entry = &ctrl->errors[ctrl->error_count++ % CTRL_ERROR_LOG];
	*entry = (struct fth_nvme_error_entry){
		.count = ctrl->error_count,
		.sqid = sqid,
		.cid = sqe->cid,
		.status = (uint16_t)(fth_ctrl_status_field(status) << 1),
		.location = FTH_NVME_ERROR_LOCATION_NONE,
		.lba = sqid ? sqe->cdw10 | (uint64_t)sqe->cdw11 << 32 : 0,
		.nsid = sqe->nsid,
	};
	pthread_mutex_unlock(&ctrl->error_lock);
}

union log {
	struct fth_nvme_error_entry errors[CTRL_ERROR_LOG];
	struct fth_nvme_smart_log smart;
	struct fth_nvme_firmware_log firmware;
};

/* Newest first. */
static uint64_t fill_errors(struct fth_nvme_ctrl *ctrl, union log *log)
{
	pthread_mutex_lock(&ctrl->error_lock);
	for (uint64_t i = 0; i < CTRL_ERROR_LOG && i < ctrl->error_count; i++)
		log->errors[i] = ctrl->errors[(ctrl->error_count - 1 - i) % CTRL_ERROR_LOG];
	pthread_mutex_unlock(&ctrl->error_lock);
	return sizeof(log->errors);
}

static uint64_t data_units(const struct fth_nvme_ctrl *ctrl, enum fth_nvme_ctrl_stat bytes)
{
	return (fth_nvme_ctrl_stat(ctrl, bytes) + DATA_UNIT - 1) / DATA_UNIT;
}

static uint64_t fill_smart(struct fth_nvme_ctrl *ctrl, struct fth_nvme_smart_log *smart)
{
	const uint16_t kelvin = TEMPERATURE_KELVIN;

	memcpy(smart->temperature, &kelvin, sizeof(kelvin));
	smart->available_spare = SPARE_PERCENT;
	smart->spare_threshold = SPARE_THRESHOLD;
	smart->data_units_read[0] = data_units(ctrl, FTH_NVME_CTRL_STAT_BYTES_READ);
	smart->data_units_written[0] = data_units(ctrl, FTH_NVME_CTRL_STAT_BYTES_WRITTEN);
	smart->host_reads[0] = fth_nvme_ctrl_stat(ctrl, FTH_NVME_CTRL_STAT_READS);
	smart->host_writes[0] = fth_nvme_ctrl_stat(ctrl, FTH_NVME_CTRL_STAT_WRITES);
	smart->power_cycles[0] = 1;
	smart->media_errors[0] = fth_nvme_ctrl_stat(ctrl, FTH_NVME_CTRL_STAT_MEDIA_ERRORS);
	smart->error_entries[0] = fth_nvme_ctrl_stat(ctrl, FTH_NVME_CTRL_STAT_ERRORS);
	return sizeof(*smart);
}

static uint64_t fill_firmware(struct fth_nvme_firmware_log *firmware)
{
	firmware->active = 1;
	memcpy(firmware->revision[0], "1.0     ", sizeof(firmware->revision[0]));
	return sizeof(*firmware);
}

static uint16_t fill(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe, union log *log,
		     uint64_t *size)
{
	switch (sqe->cdw10 & 0xff) {
	case FTH_NVME_LOG_ERROR:
		*size = fill_errors(ctrl, log);
		return FTH_NVME_SUCCESS;
	case FTH_NVME_LOG_SMART: /* of the controller only */
		if (sqe->nsid != 0 && sqe->nsid != FTH_NVME_NSID_ALL)
			return FTH_NVME_INVALID_FIELD;
		*size = fill_smart(ctrl, &log->smart);
		return FTH_NVME_SUCCESS;
	case FTH_NVME_LOG_FIRMWARE:
		*size = fill_firmware(&log->firmware);
		return FTH_NVME_SUCCESS;
	default:
		return FTH_NVME_LOG_PAGE_INVALID;
	}
}

/* What the host asks for beyond the end of the page stays as it is in its memory. */
uint16_t fth_ctrl_get_log_page(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	uint64_t dwords =
		(sqe->cdw10 >> FTH_NVME_LOG_LENGTH_SHIFT) | (uint64_t)(sqe->cdw11 & 0xffff) << 16;
	uint64_t total = (dwords + 1) * 4, offset = sqe->cdw12 | (uint64_t)sqe->cdw13 << 32;
	uint64_t size = 0, bytes;
	union log log;
	uint16_t status;

	memset(&log, 0, sizeof(log));
	status = fill(ctrl, sqe, &log, &size);
	if (status)
		return status;
	if (offset % 4 || offset > size || (ctrl->transfer_max && total > ctrl->transfer_max))
		return FTH_NVME_INVALID_FIELD;
	bytes = total < size - offset ? total : size - offset;
	status = fth_ctrl_prp_to_host(ctrl, sqe, (const char *)&log + offset, bytes, total);
	if (!status && (sqe->cdw10 & 0xff) == FTH_NVME_LOG_ERROR &&
	    !(sqe->cdw10 & FTH_NVME_LOG_RETAIN_EVENT))
		ctrl->events_masked &= ~(1u << FTH_NVME_EVENT_ERROR);
	return status;
}
