/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O commands (6). A command becomes one device request after another:
 *
 *	start -> next -> [submitted] -> settle -> next -> ... -> end
 *
 * Mostly one: as much as the device takes at once goes straight from or to host memory. What the
 * device can not take where it lies (alignment, a block that straddles two pages) and what has to
 * be compared goes through one of the worker's bounce buffers, a part at a time.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include <errno.h>
#include <string.h>

unsigned fth_ctrl_io_stat(uint8_t opcode)
{
	switch (opcode) {
	case FTH_NVME_READ:
		return FTH_NVME_CTRL_STAT_READS;
	case FTH_NVME_WRITE:
		return FTH_NVME_CTRL_STAT_WRITES;
	case FTH_NVME_FLUSH:
		return FTH_NVME_CTRL_STAT_FLUSHES;
	default:
		return FTH_NVME_CTRL_STAT_OTHERS;
	}
}

/* ---- start: what the command asks for ---- */

static uint16_t check_blocks(const struct fth_nvme_ctrl *ctrl, uint64_t first, uint64_t count)
{
	/* In this order nothing overflows. */
	if (count > ctrl->blocks || first > ctrl->blocks - count)
		return FTH_NVME_LBA_RANGE;
	return FTH_NVME_SUCCESS;
}

/* The block range that reads, writes, comparisons and zeroing share. */
static uint16_t parse_range(const struct fth_nvme_ctrl *ctrl, struct ctrl_cmd *cmd)
{
	uint64_t first = cmd->sqe.cdw10 | (uint64_t)cmd->sqe.cdw11 << 32;
	uint64_t count = (uint64_t)(cmd->sqe.cdw12 & FTH_NVME_RW_BLOCKS_MASK) + 1;
	uint16_t status = check_blocks(ctrl, first, count);

	if (status)
		return status;
	cmd->offset = first << ctrl->lba_shift;
	cmd->remaining = count << ctrl->lba_shift;
	return FTH_NVME_SUCCESS;
}

static uint16_t parse_transfer(const struct fth_nvme_ctrl *ctrl, struct ctrl_cmd *cmd)
{
	uint64_t count = (uint64_t)(cmd->sqe.cdw12 & FTH_NVME_RW_BLOCKS_MASK) + 1;

	if (ctrl->transfer_max && count << ctrl->lba_shift > ctrl->transfer_max)
		return FTH_NVME_INVALID_FIELD;
	cmd->stage = CTRL_DATA;
	fth_ctrl_prp_init(&cmd->prp, &cmd->sqe, count << ctrl->lba_shift);
	return parse_range(ctrl, cmd);
}

static bool must_flush(const struct fth_nvme_ctrl *ctrl, const struct ctrl_cmd *cmd)
{
	return ctrl->write_through || (cmd->sqe.cdw12 & FTH_NVME_RW_FORCE_ACCESS);
}

static uint16_t parse_write(const struct fth_nvme_ctrl *ctrl, struct ctrl_cmd *cmd)
{
	if (cmd->sqe.cdw12 & FTH_NVME_RW_DIRECTIVE)
		return FTH_NVME_INVALID_FIELD;
	cmd->flush_after = must_flush(ctrl, cmd);
	return parse_transfer(ctrl, cmd);
}

/* The deallocate bit allows to forget the blocks but they must read as zeroes: zero does both. */
static uint16_t parse_zeroes(const struct fth_nvme_ctrl *ctrl, struct ctrl_cmd *cmd)
{
	cmd->stage = CTRL_ZERO;
	cmd->flush_after = must_flush(ctrl, cmd);
	return parse_range(ctrl, cmd);
}

/* Only deallocation does something; the other attributes are hints. */
static uint16_t parse_dsm(struct ctrl_cmd *cmd)
{
	if (!(cmd->sqe.cdw11 & FTH_NVME_DSM_DEALLOCATE))
		return FTH_NVME_SUCCESS;
	cmd->stage = CTRL_RANGES;
	cmd->range_count = (cmd->sqe.cdw10 & (FTH_NVME_DSM_RANGES_MAX - 1)) + 1;
	return FTH_NVME_SUCCESS;
}

static bool known(uint8_t opcode)
{
	return opcode == FTH_NVME_READ || opcode == FTH_NVME_WRITE || opcode == FTH_NVME_FLUSH ||
	       opcode == FTH_NVME_COMPARE || opcode == FTH_NVME_WRITE_ZEROES ||
	       opcode == FTH_NVME_DSM;
}

static uint16_t check_common(const struct fth_nvme_sqe *sqe)
{
	if (!known(sqe->opcode))
		return FTH_NVME_INVALID_OPCODE;
	if (sqe->flags & (FTH_NVME_FLAGS_FUSED | FTH_NVME_FLAGS_PSDT))
		return FTH_NVME_INVALID_FIELD;
	if (sqe->nsid == 1 || (sqe->opcode == FTH_NVME_FLUSH && sqe->nsid == FTH_NVME_NSID_ALL))
		return FTH_NVME_SUCCESS;
	return FTH_NVME_INVALID_NAMESPACE;
}

static uint16_t parse(const struct fth_nvme_ctrl *ctrl, struct ctrl_cmd *cmd)
{
	uint16_t status = check_common(&cmd->sqe);

	if (status)
		return status;
	switch (cmd->sqe.opcode) {
	case FTH_NVME_READ:
	case FTH_NVME_COMPARE:
		return parse_transfer(ctrl, cmd);
	case FTH_NVME_WRITE:
		return parse_write(ctrl, cmd);
	case FTH_NVME_WRITE_ZEROES:
		return parse_zeroes(ctrl, cmd);
	case FTH_NVME_DSM:
		return parse_dsm(cmd);
	default:
		cmd->flush_after = true;
		return FTH_NVME_SUCCESS;
	}
}

enum ctrl_step fth_ctrl_io_start(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	cmd->status = parse(w->ctrl, cmd);
	return fth_ctrl_io_next(w, cmd);
}

/* ---- next: one more request for the device ---- */

static enum ctrl_step fail(struct ctrl_cmd *cmd, uint16_t status)
{
	cmd->status = status;
	return CTRL_STEP_END;
}

static bool take_bounce(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	if (!cmd->bounce && w->bounce_count > 0)
		cmd->bounce = w->bounces[--w->bounce_count];
	return cmd->bounce != NULL;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The device can take these pieces as they are. */
static bool pieces_fit(const struct fth_dev_info *info, const struct ctrl_cmd *cmd)
{
	for (unsigned i = 0; i < cmd->piece_count; i++)
		if (cmd->pieces[i].iov_len % info->block ||
		    ((uintptr_t)cmd->pieces[i].iov_base & (info->align - 1)))
			return false;
	return true;
}

static void gather(const struct ctrl_cmd *cmd)
{
	char *to = cmd->bounce;

	for (unsigned i = 0; i < cmd->piece_count; i++) {
		memcpy(to, cmd->pieces[i].iov_base, cmd->pieces[i].iov_len);
		to += cmd->pieces[i].iov_len;
	}
}

static void scatter(const struct ctrl_cmd *cmd)
{
	const char *from = cmd->bounce;

	for (unsigned i = 0; i < cmd->piece_count; i++) {
		memcpy(cmd->pieces[i].iov_base, from, cmd->pieces[i].iov_len);
		from += cmd->pieces[i].iov_len;
	}
}

static bool same(const struct ctrl_cmd *cmd)
{
	const char *have = cmd->bounce;

	for (unsigned i = 0; i < cmd->piece_count; i++) {
		if (memcmp(have, cmd->pieces[i].iov_base, cmd->pieces[i].iov_len) != 0)
			return false;
		have += cmd->pieces[i].iov_len;
	}
	return true;
}

static enum ctrl_step bounced_chunk(struct ctrl_worker *w, struct ctrl_cmd *cmd, enum fth_dev_op op)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	uint64_t max = least(least(cmd->remaining, ctrl->bounce_size), ctrl->info->max_length);
	uint16_t status;

	if (!take_bounce(w, cmd))
		return CTRL_STEP_WAIT;
	status = fth_ctrl_prp_pieces(ctrl, &cmd->prp, max, cmd->pieces, CTRL_PIECES,
				     &cmd->piece_count, &cmd->chunk);
	if (status)
		return fail(cmd, status);
	cmd->chunk_bounced = true;
	if (op == FTH_DEV_WRITE)
		gather(cmd);
	fth_dev_req_init(&cmd->req, op, cmd->bounce, cmd->chunk, cmd->offset);
	fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_BOUNCED, 1);
	return CTRL_STEP_SUBMIT;
}

static enum ctrl_step data_chunk(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	enum fth_dev_op op = cmd->sqe.opcode == FTH_NVME_WRITE ? FTH_DEV_WRITE : FTH_DEV_READ;
	uint64_t max = least(cmd->remaining, ctrl->info->max_length);
	struct ctrl_prp before = cmd->prp;
	uint16_t status;

	if (cmd->sqe.opcode == FTH_NVME_COMPARE)
		return bounced_chunk(w, cmd, op);
	status = fth_ctrl_prp_pieces(ctrl, &cmd->prp, max, cmd->pieces, ctrl->piece_max,
				     &cmd->piece_count, &cmd->chunk);
	if (status)
		return fail(cmd, status);
	if (!pieces_fit(ctrl->info, cmd)) {
		cmd->prp = before;
		return bounced_chunk(w, cmd, op);
	}
	cmd->chunk_bounced = false;
	fth_dev_req_init(&cmd->req, op, NULL, cmd->chunk, cmd->offset);
	cmd->req.iov = cmd->pieces;
	cmd->req.iov_count = cmd->piece_count;
	return CTRL_STEP_SUBMIT;
}

/* The ranges are copied into a bounce buffer, all checked, and only then used. */
static uint16_t load_ranges(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	const struct fth_nvme_dsm_range *ranges = (const void *)cmd->bounce;
	uint16_t status = fth_ctrl_prp_from_host(w->ctrl, &cmd->sqe, cmd->bounce,
						 cmd->range_count * sizeof(*ranges));

	for (uint32_t i = 0; !status && i < cmd->range_count; i++)
		status = check_blocks(w->ctrl, ranges[i].first, ranges[i].blocks);
	return status;
}

static enum ctrl_step next_range(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	const struct fth_nvme_dsm_range *ranges;

	if (!cmd->bounce) {
		if (!take_bounce(w, cmd))
			return CTRL_STEP_WAIT;
		cmd->status = load_ranges(w, cmd);
		if (cmd->status)
			return CTRL_STEP_END;
	}
	ranges = (const void *)cmd->bounce;
	while (cmd->range < cmd->range_count && ranges[cmd->range].blocks == 0)
		cmd->range++;
	if (cmd->range == cmd->range_count)
		return CTRL_STEP_END;
	fth_dev_req_init(&cmd->req, FTH_DEV_DISCARD, NULL,
			 (uint64_t)ranges[cmd->range].blocks << w->ctrl->lba_shift,
			 ranges[cmd->range].first << w->ctrl->lba_shift);
	cmd->range++;
	return CTRL_STEP_SUBMIT;
}

enum ctrl_step fth_ctrl_io_next(struct ctrl_worker *w, struct ctrl_cmd *cmd)
{
	bool more = cmd->remaining > 0 || cmd->range < cmd->range_count || cmd->flush_after;

	cmd->piece_count = 0;
	if (cmd->status || !more)
		return CTRL_STEP_END;
	if (cmd->abort_wanted)
		return fail(cmd, FTH_NVME_ABORT_REQUESTED);
	if (cmd->stage == CTRL_RANGES)
		return next_range(w, cmd);
	if (cmd->remaining > 0 && cmd->stage == CTRL_DATA)
		return data_chunk(w, cmd);
	if (cmd->remaining > 0) {
		fth_dev_req_init(&cmd->req, FTH_DEV_ZERO, NULL, cmd->remaining, cmd->offset);
		cmd->chunk = cmd->remaining;
		return CTRL_STEP_SUBMIT;
	}
	cmd->flush_after = false;
	cmd->chunk = 0;
	fth_dev_req_init(&cmd->req, FTH_DEV_FLUSH, NULL, 0, 0);
	return CTRL_STEP_SUBMIT;
}

/* ---- settle: a request came back ---- */

static uint16_t media_status(enum fth_dev_op op, int result)
{
	switch (-result) {
	case EIO:
		return op == FTH_DEV_READ ? FTH_NVME_READ_ERROR : FTH_NVME_WRITE_FAULT;
	case ENOSPC:
		return FTH_NVME_CAPACITY_EXCEEDED;
	default:
		return FTH_NVME_INTERNAL_ERROR;
	}
}

static void settle_data(struct ctrl_cmd *cmd, struct fth_nvme_ctrl *ctrl)
{
	if (cmd->sqe.opcode == FTH_NVME_COMPARE) {
		if (!same(cmd))
			cmd->status = FTH_NVME_COMPARE_FAILURE;
	} else if (cmd->sqe.opcode == FTH_NVME_READ) {
		if (cmd->chunk_bounced)
			scatter(cmd);
		fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_BYTES_READ, cmd->chunk);
	} else {
		fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_BYTES_WRITTEN, cmd->chunk);
	}
}

void fth_ctrl_io_settle(struct ctrl_cmd *cmd, struct fth_nvme_ctrl *ctrl)
{
	enum fth_dev_op op = cmd->req.op;

	if (cmd->req.result < 0) {
		cmd->status = media_status(op, cmd->req.result);
		fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_MEDIA_ERRORS, 1);
		return;
	}
	if (op == FTH_DEV_READ || op == FTH_DEV_WRITE)
		settle_data(cmd, ctrl);
	if (cmd->stage != CTRL_RANGES) {
		cmd->offset += cmd->chunk;
		cmd->remaining -= cmd->chunk;
	}
}
