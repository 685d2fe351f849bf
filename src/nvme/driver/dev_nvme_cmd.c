/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One command: how a part of a request becomes a submission entry.
 *
 * PRPs (NVMe 1.4, 4.3) name pages. The first may begin anywhere (dword-aligned), every other is
 * a whole page from its start, and only the last may end early. So a command covers the longest
 * run of the request from its position on that lies in mapped memory and has that shape; the
 * rest is for the next command. Where not even one block can be named, a bounce chunk is used.
 */
#include "dev_nvme.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE		   FTH_NVME_PAGE_SIZE
#define LIST_ENTRIES	   (PAGE / sizeof(uint64_t))
#define ZEROES_PER_COMMAND 65536u /* blocks; a 16-bit count less one */

uint64_t nvme_request_bytes(const struct fth_dev_req *req)
{
	return req->op == FTH_DEV_FLUSH ? 1 : req->length; /* a flush is one command */
}

/* ---- mapped memory ---- */

static bool region_holds(const struct nvme_region *region, const char *addr)
{
	return addr >= region->addr && (size_t)(addr - region->addr) < region->len;
}

/* The bus address of addr, and how many of the len bytes there are contiguous; 0: not mapped. */
static size_t look_up(struct chan_nvme *chan, const char *addr, size_t len, uint64_t *iova)
{
	const struct nvme_region *region;
	size_t offset;

	for (unsigned i = 0; i < chan->region_count; i++) {
		unsigned at = (chan->region_hit + i) % chan->region_count;

		region = &chan->regions[at];
		if (!region_holds(region, addr))
			continue;
		chan->region_hit = at;
		offset = (size_t)(addr - region->addr);
		*iova = region->iova + offset;
		return region->len - offset < len ? region->len - offset : len;
	}
	return 0;
}

/* ---- PRPs ---- */

struct prps {
	uint64_t first;
	uint64_t *list;	  /* entries behind the first */
	uint64_t bytes;	  /* named so far */
	uint64_t end;	  /* bus address behind the last byte */
	unsigned entries; /* the first included */
};

/* Add contiguous bytes if the shape allows; returns how many were added. */
static uint64_t prps_add(struct prps *prps, uint64_t iova, uint64_t len)
{
	uint64_t left = len;

	if (prps->entries == 0) {
		if (iova % 4)
			return 0;
		prps->first = iova;
		prps->entries = 1;
		prps->end = iova;
	} else if (iova != prps->end && (iova % PAGE || prps->end % PAGE)) {
		return 0;
	} else if (iova != prps->end) {
		prps->end = iova; /* at a page's start: gets its own entry below */
	}
	while (left > 0) {
		uint64_t room = PAGE - prps->end % PAGE;
		uint64_t n = left < room ? left : room;

		if (prps->end % PAGE == 0 && prps->bytes + (len - left) > 0) {
			if (prps->entries > LIST_ENTRIES)
				break;
			prps->list[prps->entries++ - 1] = prps->end;
		}
		prps->end += n;
		left -= n;
	}
	prps->bytes += len - left;
	return len - left;
}

static void prps_store(const struct prps *prps, uint64_t list_iova, struct fth_nvme_sqe *sqe)
{
	sqe->prp1 = prps->first;
	if (prps->entries == 2)
		sqe->prp2 = prps->list[0];
	else if (prps->entries > 2)
		sqe->prp2 = list_iova;
}

/* Cut to whole blocks and drop the entries that are no longer needed. */
static void prps_cut(struct prps *prps, uint32_t block)
{
	prps->bytes -= prps->bytes % block;
	if (prps->bytes)
		prps->entries = (unsigned)((prps->first % PAGE + prps->bytes + PAGE - 1) / PAGE);
}

/* Name as much of the request as one command can carry, from position on. */
static void name_memory(struct chan_nvme *chan, const struct fth_dev_req *req, uint64_t position,
			uint64_t max, struct prps *prps)
{
	uint64_t skip = position;

	for (unsigned i = 0; i < req->iov_count && prps->bytes < max; i++) {
		char *addr = req->iov[i].iov_base;
		uint64_t len = req->iov[i].iov_len, want, got, iova;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		addr += skip;
		len -= skip;
		skip = 0;
		want = len < max - prps->bytes ? len : max - prps->bytes;
		got = look_up(chan, addr, want, &iova);
		if (got == 0 || prps_add(prps, iova, got) < len)
			break;
	}
	prps_cut(prps, chan->chan.dev->info.block);
}

/* ---- bounce ---- */

static char *chunk_at(struct chan_nvme *chan, uint32_t chunk)
{
	return (char *)chan->bounce.ptr + (size_t)chunk * NVME_BOUNCE_CHUNK;
}

int nvme_bounce_open(struct chan_nvme *chan)
{
	unsigned n = chan->chan.depth < NVME_BOUNCE_MAX ? chan->chan.depth : NVME_BOUNCE_MAX;
	int rc;

	if (chan->bounce.ptr)
		return 0;
	rc = fth_nvme_dma_alloc(chan->owner->nvme, (size_t)n * NVME_BOUNCE_CHUNK, &chan->bounce);
	if (rc < 0)
		return rc;
	while (chan->free_chunks < n) {
		chan->chunks[chan->free_chunks] = chan->free_chunks;
		chan->free_chunks++;
	}
	return 0;
}

static int chunk_take(struct chan_nvme *chan, uint32_t *chunk)
{
	int rc = nvme_bounce_open(chan);

	if (rc < 0)
		return rc;
	if (chan->free_chunks == 0)
		return -EAGAIN;
	*chunk = chan->chunks[--chan->free_chunks];
	return 0;
}

/* Copy between a chunk and the part of the request that begins at position. */
static void copy_part(const struct fth_dev_req *req, uint64_t position, char *chunk, uint64_t bytes,
		      bool to_chunk)
{
	uint64_t skip = position;

	for (unsigned i = 0; i < req->iov_count && bytes > 0; i++) {
		char *addr = req->iov[i].iov_base;
		uint64_t len = req->iov[i].iov_len, n;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		n = len - skip < bytes ? len - skip : bytes;
		if (to_chunk)
			memcpy(chunk, addr + skip, n);
		else
			memcpy(addr + skip, chunk, n);
		chunk += n;
		bytes -= n;
		skip = 0;
	}
}

static int name_chunk(struct chan_nvme *chan, struct nvme_command *command, uint64_t max,
		      struct prps *prps)
{
	const struct fth_dev_req *req = command->req;
	uint64_t left = req->length - command->position;
	uint64_t bytes = left < NVME_BOUNCE_CHUNK ? left : NVME_BOUNCE_CHUNK;
	int rc = chunk_take(chan, &command->chunk);

	if (rc < 0)
		return rc;
	if (bytes > max)
		bytes = max;
	if (req->op == FTH_DEV_WRITE)
		copy_part(req, command->position, chunk_at(chan, command->chunk), bytes, true);
	else if (req->op == FTH_DEV_ZERO)
		memset(chunk_at(chan, command->chunk), 0, bytes);
	prps->entries = 0;
	prps->bytes = 0;
	prps_add(prps, chan->bounce.iova + (uint64_t)command->chunk * NVME_BOUNCE_CHUNK, bytes);
	return 0;
}

void nvme_command_end(struct chan_nvme *chan, const struct nvme_command *command, bool good)
{
	if (command->chunk == NVME_NO_CHUNK)
		return;
	if (good && command->req->op == FTH_DEV_READ)
		copy_part(command->req, command->position, chunk_at(chan, command->chunk),
			  command->bytes, false);
	chan->chunks[chan->free_chunks++] = command->chunk;
}

/* ---- commands ---- */

static void set_blocks(struct fth_nvme_sqe *sqe, uint64_t offset, uint64_t bytes, uint32_t shift)
{
	uint64_t first = offset >> shift;

	sqe->cdw10 = (uint32_t)first;
	sqe->cdw11 = (uint32_t)(first >> 32);
	sqe->cdw12 = (uint32_t)(bytes >> shift) - 1;
}

static char *list_page(struct chan_nvme *chan, uint32_t id)
{
	return (char *)chan->share->lists.ptr + (size_t)id * PAGE;
}

static uint64_t list_iova(struct chan_nvme *chan, uint32_t id)
{
	return chan->share->lists.iova + (uint64_t)id * PAGE;
}

static int build_transfer(struct chan_nvme *chan, struct nvme_command *command,
			  struct fth_nvme_sqe *sqe)
{
	const struct fth_nvme_info *info = &chan->owner->nvme->info;
	const struct fth_dev_req *req = command->req;
	uint64_t max = info->max_transfer, blocks_max = (uint64_t)65536 << info->lba_shift;
	struct prps prps = {.list = (uint64_t *)(void *)list_page(chan, command->id)};
	int rc;

	if (max > blocks_max)
		max = blocks_max;
	if (req->op != FTH_DEV_ZERO)
		name_memory(chan, req, command->position, max, &prps);
	if (prps.bytes == 0) {
		rc = name_chunk(chan, command, max, &prps);
		if (rc < 0)
			return rc;
	}
	command->bytes = prps.bytes;
	sqe->opcode = req->op == FTH_DEV_READ ? FTH_NVME_READ : FTH_NVME_WRITE;
	set_blocks(sqe, req->offset + command->position, command->bytes, info->lba_shift);
	if (req->flags & FTH_DEV_FUA)
		sqe->cdw12 |= FTH_NVME_RW_FORCE_ACCESS;
	prps_store(&prps, list_iova(chan, command->id), sqe);
	return 0;
}

static void build_zeroes(struct chan_nvme *chan, struct nvme_command *command,
			 struct fth_nvme_sqe *sqe)
{
	const struct fth_dev_req *req = command->req;
	uint32_t shift = chan->owner->nvme->info.lba_shift;
	uint64_t left = req->length - command->position;
	uint64_t max = (uint64_t)ZEROES_PER_COMMAND << shift;

	command->bytes = left < max ? left : max;
	sqe->opcode = FTH_NVME_WRITE_ZEROES;
	set_blocks(sqe, req->offset + command->position, command->bytes, shift);
}

/* One range per command, in the command's own list page. */
static void build_discard(struct chan_nvme *chan, struct nvme_command *command,
			  struct fth_nvme_sqe *sqe)
{
	const struct fth_dev_req *req = command->req;
	struct fth_nvme_dsm_range *range = (void *)list_page(chan, command->id);
	uint32_t shift = chan->owner->nvme->info.lba_shift;
	uint64_t left = req->length - command->position, max = (uint64_t)UINT32_MAX << shift;

	command->bytes = left < max ? left : max;
	range->attributes = 0;
	range->blocks = (uint32_t)(command->bytes >> shift);
	range->first = (req->offset + command->position) >> shift;
	sqe->opcode = FTH_NVME_DSM;
	sqe->prp1 = list_iova(chan, command->id);
	sqe->cdw10 = 0; /* ranges - 1 */
	sqe->cdw11 = FTH_NVME_DSM_DEALLOCATE;
}

int nvme_command_build(struct chan_nvme *chan, struct nvme_command *command,
		       struct fth_nvme_sqe *sqe)
{
	const struct fth_nvme_info *info = &chan->owner->nvme->info;
	struct fth_dev_req *req = command->req;

	memset(sqe, 0, sizeof(*sqe));
	sqe->nsid = info->nsid;
	command->position = nvme_progress(req)->issued;
	command->chunk = NVME_NO_CHUNK;
	if (req->op == FTH_DEV_FLUSH) {
		sqe->opcode = FTH_NVME_FLUSH;
		command->bytes = 1;
	} else if (req->op == FTH_DEV_DISCARD) {
		build_discard(chan, command, sqe);
	} else if (req->op == FTH_DEV_ZERO && info->has_write_zeroes) {
		build_zeroes(chan, command, sqe);
	} else {
		return build_transfer(chan, command, sqe);
	}
	return 0;
}
