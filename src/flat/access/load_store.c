/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies without faults: load, store, gather and scatter. */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

int flat_check_bytes(const struct fth_flat *flat, const void *at, uint64_t length, bool store)
{
	uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)flat->map.user);

	if (offset > flat->size || length > flat->size - offset)
		return fth_fail(ERANGE,
				"flat: %llu bytes at offset %llu exceed the region of %llu bytes",
				(unsigned long long)length, (unsigned long long)offset,
				(unsigned long long)flat->size);
	if (store && flat->options.readonly)
		return fth_fail(EROFS, "flat: the region is read-only");
	return registry_check_owner(flat);
}

/* The part of one page, which is locked and in memory, at `bytes`. */
static int copy_part(struct fth_flat *flat, uint64_t offset, uint8_t *bytes, void *to,
		     const void *from, uint64_t length)
{
	uint8_t *at = bytes + offset % flat->map.page;
	int rc = to ? 0 : move_allow_store(flat, offset / flat->map.page);

	if (rc < 0)
		return rc;
	if (!to)
		mover_note_store(flat, offset, length);
	memcpy(to ? to : at, to ? at : from, length);
	return 0;
}

/* Bring a page that is locked into memory; *bytes: where it is. */
static int ensure(struct fth_flat *flat, uint64_t page, uint8_t **bytes)
{
	enum word_state state = word_state(&flat->words[page]);
	struct flat_slot *slot = NULL;
	int rc = 0;

	if (state == WORD_CACHED)
		slot = directory_find(&flat->directory, page);
	else if (state != WORD_DRAM)
		rc = move_in(flat, page, &slot);
	if (rc == 0 && slot)
		rc = move_as_wanted(flat, page, &slot, state != WORD_CACHED, false, false);
	*bytes = slot ? directory_frame(&flat->directory, slot) : map_at(&flat->map, page);
	return rc;
}

static int copy_bytes(struct fth_flat *flat, uint64_t offset, void *to, const void *from,
		      uint64_t length)
{
	while (length > 0) {
		uint64_t page = offset / flat->map.page;
		uint64_t part = flat->map.page - offset % flat->map.page;
		uint8_t *bytes;
		sigset_t before;
		int rc;

		part = part < length ? part : length;
		fault_block_signals(&before);
		word_lock(&flat->words[page]);
		rc = ensure(flat, page, &bytes);
		if (rc == 0)
			rc = copy_part(flat, offset, bytes, to, from, part);
		word_unlock(&flat->words[page]);
		fault_restore_signals(&before);
		if (rc < 0)
			return rc;
		to = to ? (char *)to + part : NULL;
		from = from ? (const char *)from + part : NULL;
		offset += part;
		length -= part;
	}
	return 0;
}

static uint64_t offset_of(const struct fth_flat *flat, const void *at)
{
	return (uint64_t)((uintptr_t)at - (uintptr_t)flat->map.user);
}

int fth_flat_load(struct fth_flat *flat, const void *at, void *to, uint64_t length)
{
	int rc = flat_check_bytes(flat, at, length, false);

	return rc < 0 ? rc : copy_bytes(flat, offset_of(flat, at), to, NULL, length);
}

int fth_flat_store(struct fth_flat *flat, void *at, const void *from, uint64_t length)
{
	int rc = flat_check_bytes(flat, at, length, true);

	return rc < 0 ? rc : copy_bytes(flat, offset_of(flat, at), NULL, from, length);
}

/* ---- many at once ---- */

#define BATCH FLAT_DEPTH

/* Pages of up to BATCH items, ascending and without duplicates. */
struct batch {
	uint64_t pages[BATCH];
	unsigned n;
};

static void add_page(struct batch *batch, uint64_t page)
{
	unsigned i = batch->n;

	while (i > 0 && batch->pages[i - 1] > page)
		i--;
	if (i > 0 && batch->pages[i - 1] == page)
		return;
	memmove(&batch->pages[i + 1], &batch->pages[i], (batch->n - i) * sizeof(batch->pages[0]));
	batch->pages[i] = page;
	batch->n++;
}

/* Read those that are on flash, together. All are locked. */
static int read_missing(struct fth_flat *flat, const struct batch *batch)
{
	uint64_t missing[BATCH];
	struct flat_slot *slots[BATCH];
	void *frames[BATCH];
	int results[BATCH], rc = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < batch->n && rc == 0; i++) {
		if (word_state(&flat->words[batch->pages[i]]) == WORD_BROKEN)
			rc = -ETIMEDOUT;
		if (word_state(&flat->words[batch->pages[i]]) != WORD_FLASH || rc < 0)
			continue;
		rc = move_find_slot(flat, batch->pages[i], true, &slots[n]);
		if (rc == 0) {
			missing[n] = batch->pages[i];
			frames[n] = directory_frame(&flat->directory, slots[n]);
			n++;
		}
	}
	if (n > 0) {
		int read = io_many(flat, FTH_DEV_READ, missing, frames, n, results,
				   fth_deadline_ns(FLAT_TIMEOUT));

		rc = rc < 0 ? rc : read;
	}
	for (unsigned i = 0; i < n; i++)
		move_in_end(flat, missing[i], slots[i], results[i]);
	return rc;
}

static int prepare_batch(struct fth_flat *flat, const struct batch *batch)
{
	uint8_t *bytes;
	int rc = read_missing(flat, batch);

	for (unsigned i = 0; i < batch->n && rc == 0; i++)
		rc = ensure(flat, batch->pages[i], &bytes);
	return rc;
}

/* One batch of items, each in one page. */
static int copy_batch(struct fth_flat *flat, void *const *at, unsigned n, uint32_t width, char *to,
		      const char *from)
{
	struct batch batch = {.n = 0};
	sigset_t before;
	int rc;

	for (unsigned i = 0; i < n; i++)
		add_page(&batch, offset_of(flat, at[i]) / flat->map.page);
	fault_block_signals(&before);
	for (unsigned i = 0; i < batch.n; i++)
		word_lock(&flat->words[batch.pages[i]]);
	rc = prepare_batch(flat, &batch);
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = copy_part(flat, offset_of(flat, at[i]),
			       move_find(flat, offset_of(flat, at[i]) / flat->map.page),
			       to ? to + (size_t)i * width : NULL,
			       from ? from + (size_t)i * width : NULL, width);
	for (unsigned i = 0; i < batch.n; i++)
		word_unlock(&flat->words[batch.pages[i]]);
	fault_restore_signals(&before);
	return rc;
}

static bool in_one_page(const struct fth_flat *flat, const void *at, uint32_t width)
{
	return offset_of(flat, at) % flat->map.page + width <= flat->map.page;
}

/* A set of the SSD-cache must not be full of the batch's own pages: half of the ways at most. */
static unsigned batch_size(const struct fth_flat *flat)
{
	uint64_t slots = flat->directory.sets * flat->directory.ways / 8;

	return slots < 1 ? 1 : slots > BATCH ? BATCH : (unsigned)slots;
}

static int copy_many(struct fth_flat *flat, void *const *at, uint64_t n, uint32_t width, char *to,
		     const char *from)
{
	unsigned most = batch_size(flat);
	uint64_t done = 0;
	int rc = 0;

	for (uint64_t i = 0; i < n && rc == 0; i++)
		rc = flat_check_bytes(flat, at[i], width, from != NULL);
	while (done < n && rc == 0) {
		unsigned part = 0;

		while (part < most && done + part < n && in_one_page(flat, at[done + part], width))
			part++;
		if (part == 0) {
			rc = copy_bytes(flat, offset_of(flat, at[done]),
					to ? to + done * width : NULL,
					from ? from + done * width : NULL, width);
			part = 1;
		} else {
			rc = copy_batch(flat, at + done, part, width, to ? to + done * width : NULL,
					from ? from + done * width : NULL);
		}
		done += part;
	}
	return rc;
}

int fth_flat_gather(struct fth_flat *flat, const void *const *at, uint64_t n, uint32_t width,
		    void *to)
{
	return copy_many(flat, (void *const *)at, n, width, to, NULL);
}

int fth_flat_scatter(struct fth_flat *flat, void *const *at, uint64_t n, uint32_t width,
		     const void *from)
{
	return copy_many(flat, at, n, width, NULL, from);
}
