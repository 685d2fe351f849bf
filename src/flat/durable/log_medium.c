/* SPDX-License-Identifier: BSD-2-Clause */
/* The log on its medium: the window or blocks of the device, headers, checksums. */
#include "flat/durable/persist_log.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

#define HEADER_MAGIC   0x474f4c54414c4646u /* "FFLATLOG" */
#define HEADER_VERSION 1u
#define HEADER_SEED    0x666c61742d6c6f67u

int log_read(struct flat_log *log, uint64_t at, void *to, uint64_t length)
{
	return log->window ? fth_dev_window_load(log->window, at, to, length)
			   : fth_dev_read(log->dev, to, length, at, FTH_DEV_TIMEOUT);
}

int log_write(struct flat_log *log, uint64_t at, const void *from, uint64_t length,
	      uint64_t deadline)
{
	return log->window ? fth_dev_window_store(log->window, at, from, length)
			   : fth_dev_write(log->dev, from, length, at, deadline);
}

int log_flush(struct flat_log *log, uint64_t at, uint64_t length, uint64_t deadline)
{
	return log->window ? fth_dev_window_persist(log->window, at, length, deadline)
			   : fth_dev_flush(log->dev, deadline);
}

uint64_t log_record_sum(const struct flat_log *log, const struct log_record *record)
{
	return fth_checksum(&record->at, sizeof(*record) - sizeof(record->sum) + record->length,
			    log->id);
}

/* ---- headers ---- */

static uint64_t header_sum(const struct log_header *header)
{
	return fth_checksum(&header->generation,
			    sizeof(*header) - offsetof(struct log_header, generation), HEADER_SEED);
}

/*
 * In a window a header may be torn by lines: the magic is stored last, when the rest is durable. On
 * blocks it is in one sector.
 */
static int write_slot(struct flat_log *log, uint64_t at, const struct log_header *header,
		      uint64_t deadline)
{
	_Alignas(4096) uint8_t block[LOG_SLOT] = {0};
	int rc;

	memcpy(block, header, sizeof(*header));
	if (log->window) {
		memset(block, 0, sizeof(header->magic));
		rc = log_write(log, at, block, sizeof(header->magic), deadline);
		if (rc == 0)
			rc = log_flush(log, at, sizeof(header->magic), deadline);
		if (rc == 0)
			rc = log_write(log, at + 8, block + 8, sizeof(*header) - 8, deadline);
		if (rc == 0)
			rc = log_flush(log, at, log->slot, deadline);
		memcpy(block, header, sizeof(*header));
		if (rc == 0)
			rc = log_write(log, at, block, sizeof(header->magic), deadline);
	} else {
		rc = log_write(log, at, block, log->slot, deadline);
	}
	return rc < 0 ? rc : log_flush(log, at, log->slot, deadline);
}

int log_write_header(struct flat_log *log, struct log_header *header, uint64_t deadline)
{
	unsigned slot = log->fresh ? 0 : 1 - log->good;
	int rc;

	header->magic = HEADER_MAGIC;
	header->version = HEADER_VERSION;
	/* also after a failure: the slot may hold one of the last number */
	header->generation = ++log->header.generation;
	header->sum = header_sum(header);
	rc = write_slot(log, log->headers_at + (uint64_t)slot * log->slot, header, deadline);
	if (rc < 0)
		return rc;
	log->header = *header;
	log->good = slot;
	log->fresh = false;
	return 0;
}

/* ---- finding ---- */

static bool all_zero(const uint8_t *bytes, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static bool header_is_ours(const struct log_header *header)
{
	return header->magic == HEADER_MAGIC && header->sum == header_sum(header);
}

static int read_headers(struct flat_log *log, enum log_found *found)
{
	bool damaged = false, torn = false, zero = true;

	for (unsigned slot = 0; slot < 2; slot++) {
		_Alignas(4096) uint8_t block[LOG_SLOT];
		struct log_header header;
		int rc = log_read(log, log->headers_at + (uint64_t)slot * log->slot, block,
				  log->slot);

		if (rc < 0)
			return rc;
		memcpy(&header, block, sizeof(header));
		zero &= all_zero(block, log->slot);
		if (header_is_ours(&header)) {
			if (*found != LOG_OURS || header.generation > log->header.generation) {
				log->header = header;
				log->good = slot;
			}
			*found = LOG_OURS;
		} else if (!all_zero(block, log->slot)) {
			damaged |= header.magic == HEADER_MAGIC;
			torn = true;
		}
	}
	/*
	 * What is not valid may have been the newest header, and records of its epoch may be there.
	 * The next epoch is one that was never used, so that they do not come to life again.
	 */
	if (torn)
		log->epoch_step = 2 + (uint32_t)(fth_mix64(fth_now_ns()) % (1u << 24));
	if (*found == LOG_OURS)
		return 0;
	if (damaged)
		return fth_fail(EUCLEAN, "flat: both headers of the log are damaged");
	*found = zero ? LOG_NOTHING : LOG_FOREIGN;
	return 0;
}

int log_find(struct flat_log *log, struct fth_dev *dev, struct fth_dev_window *window, uint64_t at,
	     uint64_t size, enum log_found *found)
{
	uint32_t block = fth_dev_info(dev)->block;
	int rc;

	*log = (struct flat_log){.dev = dev, .window = window, .fresh = true, .epoch_step = 1};
	*found = LOG_FOREIGN;
	log->slot = window ? LOG_SLOT_LINE : LOG_SLOT;
	log->unit = window ? 8 : block < 512 ? 512 : block;
	log->ring_at = window ? at + 2 * log->slot : at;
	log->headers_at = window ? at : at + size - 2 * log->slot;
	rc = read_headers(log, found);
	if (rc < 0 || *found != LOG_OURS) {
		log->size = (size - 2 * log->slot) / log->unit * log->unit;
		return rc;
	}
	log->size = log->header.size;
	log->id = log->header.id;
	log->fresh = false;
	if (log->header.version != HEADER_VERSION)
		return fth_fail(EUCLEAN, "flat: the log has version %u, expected %u",
				log->header.version, HEADER_VERSION);
	if (log->size == 0 || log->size > LOG_SIZE_MAX || log->size % log->unit != 0 ||
	    log->header.tail > UINT64_MAX / 2 || log->header.tail % 8 != 0)
		return fth_fail(EUCLEAN, "flat: the log header is damaged: size %llu, tail %llu",
				(unsigned long long)log->size,
				(unsigned long long)log->header.tail);
	if (!window) /* the caller may not know how long it is */
		log->ring_at = log->headers_at - log->size;
	return 0;
}
