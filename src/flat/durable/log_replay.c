/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading the log after a crash. The next record is where the last one ended, at the next place
 * where a write can begin, or at the beginning of the ring; its sequence number and checksum say
 * whether it is there. The first that is not ends the log: it was never acknowledged, nor was any
 * behind it.
 */
#include "flat/durable/persist_log.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_MAX (1u << 20)

struct replay {
	struct flat_log *log;
	uint8_t *ring;
	uint64_t position, sequence;
};

static int read_ring(struct replay *r)
{
	uint64_t size = r->log->size;

	r->ring = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	if (!r->ring)
		return fth_fail(ENOMEM, "flat: no memory for %llu bytes of the log",
				(unsigned long long)size);
	for (uint64_t at = 0; at < size; at += READ_MAX) {
		uint64_t part = size - at < READ_MAX ? size - at : READ_MAX;
		int rc = log_read(r->log, r->log->ring_at + at, r->ring + at, part);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static const struct log_record *record_at(const struct replay *r, uint64_t position)
{
	uint64_t size = r->log->size, at = position % size;
	const struct log_record *record = (const void *)(r->ring + at);

	if (size - at < sizeof(*record) || record->sequence != r->sequence ||
	    record->epoch != r->log->header.epoch || record->length == 0 ||
	    record->length > LOG_PIECE || record->length > size - at - sizeof(*record) ||
	    record->sum != log_record_sum(r->log, record))
		return NULL;
	return record;
}

static const struct log_record *next_record(struct replay *r)
{
	uint64_t unit = r->log->unit, size = r->log->size;
	const uint64_t places[] = {r->position, (r->position + unit - 1) / unit * unit,
				   (r->position + size - 1) / size * size};

	for (unsigned i = 0; i < 3; i++) {
		const struct log_record *record = record_at(r, places[i]);

		if (record) {
			r->position = places[i] + sizeof(*record) + (record->length + 7) / 8 * 8;
			r->sequence++;
			return record;
		}
	}
	return NULL;
}

int log_replay(struct flat_log *log, int (*each)(void *user, const struct log_record *record),
	       void *user, struct log_mark *end, void **memory)
{
	struct replay r = {
		.log = log, .position = log->header.tail, .sequence = log->header.sequence};
	const struct log_record *record;
	int rc = read_ring(&r);

	while (rc == 0 && (record = next_record(&r))) {
		if (record->at > log->header.region_size ||
		    record->length > log->header.region_size - record->at)
			rc = fth_fail(EUCLEAN, "flat: the log is damaged: a record lies beyond the "
					       "end of the region");
		else
			rc = each(user, record);
	}
	*end = (struct log_mark){.position = r.position, .sequence = r.sequence, .reset = true};
	*memory = r.ring;
	return rc;
}
