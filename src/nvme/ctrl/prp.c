/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Physical region pages (4.3): from a command's two entries and their lists to pieces of host
 * memory.
 *
 *	PRP1	any dword-aligned address: data up to the end of its page
 *	PRP2	nothing, or the one further page, or a qword-aligned pointer into a list
 *	list	page addresses up to the end of the list's page; the last entry there is instead a
 *		pointer to the next list, page-aligned, if more than one page is still to come
 *
 * Invariants
 * 1. Every entry is read once, and only if its own address was granted.
 * 2. A walk ends: each list page hands out data, save a first one that begins at its last entry.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include <string.h>

#define PAGE	  ((uint64_t)FTH_NVME_PAGE_SIZE)
#define PAGE_MASK (PAGE - 1)

void fth_ctrl_prp_init(struct ctrl_prp *prp, const struct fth_nvme_sqe *sqe, uint64_t length)
{
	*prp = (struct ctrl_prp){.prp1 = sqe->prp1, .prp2 = sqe->prp2, .remaining = length};
}

static uint16_t read_entry(const struct fth_nvme_ctrl *ctrl, uint64_t at, uint64_t *entry)
{
	const uint64_t *place = fth_ctrl_translate(ctrl, at, sizeof(*entry));

	if (!place)
		return FTH_NVME_DATA_TRANSFER_ERROR;
	/* An atomic load, so that the compiler can not read what the host may change twice. */
	*entry = fth_load_relaxed_sys64(place);
	return FTH_NVME_SUCCESS;
}

/* The next entry of the list that names a page of data. */
static uint16_t list_entry(const struct fth_nvme_ctrl *ctrl, struct ctrl_prp *prp, uint64_t *entry)
{
	bool last = (prp->list & PAGE_MASK) == PAGE - sizeof(*entry);
	uint16_t status;

	if (last && prp->remaining > PAGE) {
		status = read_entry(ctrl, prp->list, &prp->list);
		if (status)
			return status;
		if (prp->list & PAGE_MASK)
			return FTH_NVME_PRP_OFFSET_INVALID;
	}
	status = read_entry(ctrl, prp->list, entry);
	prp->list += sizeof(*entry);
	return status;
}

static uint16_t following_page(const struct fth_nvme_ctrl *ctrl, struct ctrl_prp *prp,
			       uint64_t *entry)
{
	uint16_t status = FTH_NVME_SUCCESS;

	if (!prp->in_list && prp->remaining > PAGE) {
		if (prp->prp2 & 7)
			return FTH_NVME_PRP_OFFSET_INVALID;
		prp->list = prp->prp2;
		prp->in_list = true;
	}
	if (prp->in_list)
		status = list_entry(ctrl, prp, entry);
	else
		*entry = prp->prp2;
	if (!status && (*entry & PAGE_MASK))
		status = FTH_NVME_PRP_OFFSET_INVALID;
	return status;
}

/* Load the entry of the next page of the transfer; its data may still be not granted. */
static uint16_t load_page(const struct fth_nvme_ctrl *ctrl, struct ctrl_prp *prp)
{
	uint64_t entry = prp->prp1, room = PAGE;
	uint16_t status = FTH_NVME_SUCCESS;

	if (prp->begun)
		status = following_page(ctrl, prp, &entry);
	else if (entry & 3)
		status = FTH_NVME_PRP_OFFSET_INVALID;
	else
		room = PAGE - (entry & PAGE_MASK);
	if (status)
		return status;
	prp->begun = true;
	prp->at = entry;
	prp->left = prp->remaining < room ? prp->remaining : room;
	prp->remaining -= prp->left;
	return FTH_NVME_SUCCESS;
}

/* Append memory to the list, to its last piece where it follows that one. */
static bool append(struct iovec *pieces, unsigned piece_max, unsigned *count, char *addr,
		   uint64_t len)
{
	struct iovec *last = *count > 0 ? &pieces[*count - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == addr) {
		last->iov_len += len;
		return true;
	}
	if (*count == piece_max)
		return false;
	pieces[(*count)++] = (struct iovec){.iov_base = addr, .iov_len = len};
	return true;
}

/*
 * Hand out the next pieces: up to `max` bytes, fewer if they need more than piece_max pieces or
 * the transfer ends. On an error what was handed out so far is not to be used.
 */
uint16_t fth_ctrl_prp_pieces(const struct fth_nvme_ctrl *ctrl, struct ctrl_prp *prp, uint64_t max,
			     struct iovec *pieces, unsigned piece_max, unsigned *count,
			     uint64_t *bytes)
{
	*count = 0;
	*bytes = 0;
	while (*bytes < max && (prp->left || prp->remaining)) {
		uint64_t take = max - *bytes;
		uint16_t status = prp->left ? FTH_NVME_SUCCESS : load_page(ctrl, prp);
		char *addr;

		if (status)
			return status;
		if (take > prp->left)
			take = prp->left;
		addr = fth_ctrl_translate(ctrl, prp->at, take);
		if (!addr)
			return FTH_NVME_DATA_TRANSFER_ERROR;
		if (!append(pieces, piece_max, count, addr, take))
			break;
		*bytes += take;
		prp->at += take;
		prp->left -= take;
	}
	return FTH_NVME_SUCCESS;
}

/* ---- small transfers of admin commands and ranges, copied at once ---- */

#define COPY_PIECES 8

/*
 * Send `bytes` bytes to the host, of a transfer that is `total` bytes long: the meaning of PRP2
 * depends on the latter.
 */
uint16_t fth_ctrl_prp_to_host(const struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			      const void *from, uint64_t bytes, uint64_t total)
{
	struct iovec pieces[COPY_PIECES];
	struct ctrl_prp prp;
	uint64_t done = 0, part;
	unsigned count;

	fth_ctrl_prp_init(&prp, sqe, total);
	while (done < bytes) {
		uint16_t status = fth_ctrl_prp_pieces(ctrl, &prp, bytes - done, pieces, COPY_PIECES,
						      &count, &part);

		if (status)
			return status;
		for (unsigned i = 0; i < count; i++) {
			memcpy(pieces[i].iov_base, (const char *)from + done, pieces[i].iov_len);
			done += pieces[i].iov_len;
		}
	}
	return FTH_NVME_SUCCESS;
}

uint16_t fth_ctrl_prp_from_host(const struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
				void *to, uint64_t length)
{
	struct iovec pieces[COPY_PIECES];
	struct ctrl_prp prp;
	uint64_t done = 0, bytes;
	unsigned count;

	fth_ctrl_prp_init(&prp, sqe, length);
	while (done < length) {
		uint16_t status = fth_ctrl_prp_pieces(ctrl, &prp, length - done, pieces,
						      COPY_PIECES, &count, &bytes);

		if (status)
			return status;
		for (unsigned i = 0; i < count; i++) {
			memcpy((char *)to + done, pieces[i].iov_base, pieces[i].iov_len);
			done += pieces[i].iov_len;
		}
	}
	return FTH_NVME_SUCCESS;
}
