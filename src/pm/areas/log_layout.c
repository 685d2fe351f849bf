/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers and epochs of logs: what they must say before anything behind them is used. */
#include "pm/areas/log_internal.h"
#include "pm/pm_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#define BLOCK_MAX	  1024u
#define PARTITION_LEAST	  256u
#define PARTITION_MOST	  (1u << 30)
#define PARTS_MAX	  (1u << 30)
#define PARTITION_ALIGNED 128u

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + FTH_PM_PAGE - 1) / FTH_PM_PAGE * FTH_PM_PAGE;
}

static uint32_t block_threads(uint32_t threads)
{
	return (threads + FTH_PM_LOG_LANES - 1) / FTH_PM_LOG_LANES * FTH_PM_LOG_LANES;
}

/* ---- sizes ---- */

uint64_t fth_pm_log_hcl_bytes(const struct fth_pm_log_shape *shape)
{
	uint64_t parts = (uint64_t)shape->blocks * block_threads(shape->threads);
	uint64_t slot = (uint64_t)shape->entry_bytes + FTH_PM_LOG_CHUNK, bytes;

	if (shape->threads == 0 || shape->threads > BLOCK_MAX || shape->entry_bytes == 0 ||
	    shape->entry_bytes % FTH_PM_LOG_CHUNK || shape->entry_bytes > FTH_PM_LOG_ENTRY_MAX)
		return 0;
	if (parts == 0 || parts > PARTS_MAX || shape->entries == 0)
		return 0;
	/* parts * slot has 43 bits at most */
	if (__builtin_mul_overflow(parts * slot, (uint64_t)shape->entries, &bytes) ||
	    bytes > UINT64_MAX / 2)
		return 0;
	return whole_pages(FTH_PM_LOG_DATA + bytes);
}

uint64_t fth_pm_log_conv_bytes(uint32_t partitions, uint32_t partition_bytes)
{
	if (partitions == 0 || partitions > PARTS_MAX || partition_bytes < PARTITION_LEAST ||
	    partition_bytes > PARTITION_MOST || partition_bytes % PARTITION_ALIGNED)
		return 0;
	return whole_pages(FTH_PM_LOG_DATA + (uint64_t)partitions * partition_bytes);
}

/* ---- headers ---- */

uint64_t pm_log_header_sum(const struct fth_pm_log_header *header)
{
	const unsigned char *at = (const unsigned char *)header;
	uint64_t sum = FTH_PM_LOG_MAGIC, word;

	for (size_t i = 0; i < offsetof(struct fth_pm_log_header, check); i += sizeof(word)) {
		memcpy(&word, at + i, sizeof(word));
		sum = fth_mix64(sum + word) + i;
	}
	return sum;
}

/* The size that the shape in a header has; 0 if it is invalid. */
static uint64_t header_bytes(const struct fth_pm_log_header *h)
{
	struct fth_pm_log_shape shape = {h->blocks, h->threads, h->entry_bytes, h->entries};

	if (h->kind == FTH_PM_LOG_HCL)
		return fth_pm_log_hcl_bytes(&shape);
	if (h->kind == FTH_PM_LOG_CONV && h->partition_bytes <= PARTITION_MOST)
		return fth_pm_log_conv_bytes(h->partitions, (uint32_t)h->partition_bytes);
	return 0;
}

int pm_log_range_check(const struct fth_pm_view *pm, uint64_t offset, uint64_t bytes)
{
	if (offset % FTH_PM_PAGE)
		return fth_fail(EINVAL, "log: offset %llu is not a multiple of %u",
				(unsigned long long)offset, FTH_PM_PAGE);
	if (offset > pm->size || bytes > pm->size - offset)
		return fth_fail(ERANGE,
				"log: %llu bytes at offset %llu exceed the memory of %llu bytes",
				(unsigned long long)bytes, (unsigned long long)offset,
				(unsigned long long)pm->size);
	return 0;
}

int fth_pm_log_header_read(const struct fth_pm_view *pm, uint64_t offset,
			   struct fth_pm_log_header *h)
{
	int rc = pm_log_range_check(pm, offset, FTH_PM_LOG_DATA);

	if (rc < 0)
		return rc;
	memcpy(h, pm->base + offset, sizeof(*h));
	if (h->magic != FTH_PM_LOG_MAGIC)
		return pm_area_missing(pm, offset, sizeof(*h), "log: no log");
	if (h->version != FTH_PM_LOG_VERSION)
		return fth_fail(EBADMSG, "log: version %u, expected %u", h->version,
				FTH_PM_LOG_VERSION);
	if (h->check != pm_log_header_sum(h))
		return fth_fail(EBADMSG, "log: the header at offset %llu is damaged",
				(unsigned long long)offset);
	if (header_bytes(h) == 0 || header_bytes(h) != h->bytes)
		return fth_fail(EBADMSG, "log: the header at offset %llu has an invalid shape",
				(unsigned long long)offset);
	if (h->bytes > pm->size - offset)
		return fth_fail(EBADMSG,
				"log: %llu bytes at offset %llu exceed the memory of %llu bytes",
				(unsigned long long)h->bytes, (unsigned long long)offset,
				(unsigned long long)pm->size);
	return 0;
}

/* ---- views ---- */

static uint64_t *epoch_of(const struct fth_pm_log_view *view)
{
	return (uint64_t *)(void *)(view->data - FTH_PM_LOG_DATA + FTH_PM_LOG_EPOCH);
}

int fth_pm_log_view_of(const struct fth_pm_view *pm, uint64_t offset,
		       const struct fth_pm_log_header *h, struct fth_pm_log_view *view)
{
	memset(view, 0, sizeof(*view));
	view->pm = *pm;
	view->data = pm->base + offset + FTH_PM_LOG_DATA;
	view->kind = h->kind;
	view->salt = (uint32_t)fth_mix64(h->salt);
	if (h->kind == FTH_PM_LOG_CONV) {
		view->parts = h->partitions;
		view->partition_bytes = (uint32_t)h->partition_bytes;
		return 0;
	}
	view->block_threads = block_threads(h->threads);
	view->parts = h->blocks * view->block_threads;
	view->entry_bytes = h->entry_bytes;
	view->entries = h->entries;
	view->epoch = fth_pm_log_epoch_of(fth_load_relaxed_sys64(epoch_of(view)), view->salt, 0);
	if (view->epoch == 0)
		return fth_fail(EBADMSG, "log: the epoch at offset %llu is damaged",
				(unsigned long long)(offset + FTH_PM_LOG_EPOCH));
	return 0;
}

/* ---- epochs ---- */

/* Zeroes in place of the check words of all threads in one slot. */
static void wipe_slot(const struct fth_pm_log_view *view, uint32_t slot)
{
	static const uint32_t zeroes[FTH_PM_LOG_LANES];
	uint32_t chunks = view->entry_bytes / FTH_PM_LOG_CHUNK;

	for (uint32_t t = 0; t < view->parts; t += FTH_PM_LOG_LANES) {
		uint32_t *stripe = fth_pm_hcl_slot(view, t, slot) + chunks * FTH_PM_LOG_LANES;

		fth_pm_put(&view->pm, stripe, zeroes, sizeof(zeroes));
		fth_pm_flush_range(&view->pm, stripe, sizeof(zeroes));
	}
}

int pm_log_wipe_hcl(const struct fth_pm_log_view *view)
{
	int rc = 0;

	/* From the newest: a crash leaves prefixes. */
	for (uint32_t slot = view->entries; rc == 0 && slot > 0; slot--) {
		wipe_slot(view, slot - 1);
		rc = fth_pm_fence(&view->pm);
	}
	return rc;
}

int pm_log_set_epoch(struct fth_pm_log_view *view, uint32_t epoch)
{
	uint64_t *word = epoch_of(view);
	int rc;

	fth_pm_put64(&view->pm, word, fth_pm_log_epoch_word(epoch, view->salt, 0));
	rc = fth_pm_persist_range(&view->pm, word, sizeof(*word));
	if (rc == 0)
		view->epoch = epoch;
	return rc;
}

int fth_pm_log_next_epoch(struct fth_pm_log_view *view)
{
	int rc = 0;

	if (view->epoch < FTH_PM_LOG_EPOCH_MAX)
		return pm_log_set_epoch(view, view->epoch + 1);
	/* Epochs begin anew: entries of the first ones would come back. */
	rc = pm_log_wipe_hcl(view);
	return rc < 0 ? rc : pm_log_set_epoch(view, 1);
}
