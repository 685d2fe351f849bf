/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log at open: what it holds is written in place, page by page, then the device is flushed,
 * then the log is emptied. A crash in between changes nothing: the next open does the same again.
 */
#include "flat/flat_internal.h"
#include "flat/durable/persist_log.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The part of a record that lies in one page. */
struct change {
	uint64_t page, order;
	const uint8_t *from;
	uint32_t at, length;
};

struct changes {
	uint64_t page; /* bytes */
	struct change *list;
	uint64_t n, room;
};

static int add_change(struct changes *c, const struct change *change)
{
	if (c->n == c->room) {
		uint64_t room = c->room ? 2 * c->room : 64;
		struct change *list = realloc(c->list, room * sizeof(*list));

		if (!list)
			return fth_fail(ENOMEM, "flat: no memory for the records of the log");
		c->list = list;
		c->room = room;
	}
	c->list[c->n] = *change;
	c->list[c->n].order = c->n;
	c->n++;
	return 0;
}

static int note_record(void *user, const struct log_record *record)
{
	struct changes *c = user;
	const uint8_t *from = (const uint8_t *)(record + 1);
	uint64_t at = record->at, left = record->length;
	int rc = 0;

	while (left > 0 && rc == 0) {
		uint64_t part = c->page - at % c->page;

		part = part < left ? part : left;
		rc = add_change(c, &(struct change){.page = at / c->page,
						    .from = from,
						    .at = (uint32_t)(at % c->page),
						    .length = (uint32_t)part});
		at += part;
		from += part;
		left -= part;
	}
	return rc;
}

static int refuse_record(void *user, const struct log_record *record)
{
	(void)record;
	*(bool *)user = true;
	return 0;
}

static int by_page(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->page != y->page)
		return x->page < y->page ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int apply(struct fth_flat *flat, struct changes *c)
{
	uint8_t *bytes = aligned_alloc(4096, flat->map.page);
	int rc = bytes ? 0 : fth_fail(ENOMEM, "flat: no memory for a page");

	if (c->n > 0)
		qsort(c->list, c->n, sizeof(*c->list), by_page);
	for (uint64_t i = 0; i < c->n && rc == 0;) {
		uint64_t page = c->list[i].page;

		rc = io_read(flat, page, bytes);
		for (; i < c->n && c->list[i].page == page; i++)
			memcpy(bytes + c->list[i].at, c->list[i].from, c->list[i].length);
		if (rc == 0)
			rc = io_write(flat, page, bytes);
	}
	free(bytes);
	return rc;
}

static int replay(struct fth_flat *flat, struct flat_log *log)
{
	uint64_t deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	struct changes changes = {.page = flat->map.page};
	struct log_mark end;
	void *memory = NULL;
	int rc = log_replay(log, note_record, &changes, &end, &memory);

	if (rc == 0)
		rc = apply(flat, &changes);
	if (rc == 0 && changes.n > 0)
		rc = fth_dev_flush(flat->dev, deadline);
	free(changes.list);
	free(memory);
	/*
	 * also without records: what a crash left of a write must not be taken for what is appended
	 * from now on
	 */
	return rc < 0 ? rc : log_trim(log, &end, deadline);
}

int recover_has_records(struct flat_log *log, bool *has)
{
	struct log_mark end;
	void *memory = NULL;
	int rc;

	*has = false;
	rc = log_replay(log, refuse_record, has, &end, &memory);
	free(memory);
	return rc;
}

static int check_owner(const struct fth_flat *flat, const struct flat_log *log)
{
	const struct log_header *h = &log->header;

	if (h->region_at == flat->options.offset && h->region_size == flat->size)
		return 0;
	return fth_fail(EINVAL, "flat: the log belongs to a region of %llu bytes at offset %llu",
			(unsigned long long)h->region_size, (unsigned long long)h->region_at);
}

static int begin(struct fth_flat *flat, struct flat_log *log, enum log_found found)
{
	bool has;
	int rc;

	if (found == LOG_OURS) {
		rc = check_owner(flat, log);
		if (rc < 0)
			return rc;
	}
	if (flat->options.readonly) {
		rc = found == LOG_OURS ? recover_has_records(log, &has) : 0;
		if (rc == 0 && found == LOG_OURS && has)
			rc = fth_fail(EROFS, "flat: the log has changes that are not applied yet; "
					     "open the region for writing once");
		return rc;
	}
	rc = found == LOG_OURS ? 0 : log_format(log, flat->options.offset, flat->size);
	if (rc == 0)
		rc = log_begin(log);
	return rc < 0 ? rc : replay(flat, log);
}

int recover_open(struct fth_flat *flat, bool window, uint64_t at, uint64_t size,
		 struct flat_log **out)
{
	struct flat_log *log = calloc(1, sizeof(*log));
	enum log_found found;
	int rc = log ? log_find(log, flat->dev, window ? flat->window : NULL, at, size, &found)
		     : fth_fail(ENOMEM, "flat: no memory for the log");

	if (rc == 0 && found == LOG_OURS && !window && log->size + 2 * log->slot != size)
		rc = fth_fail(
			EINVAL, "flat: the log on the device has %llu bytes, options.log is %llu",
			(unsigned long long)(log->size + 2 * log->slot), (unsigned long long)size);
	if (rc == 0)
		rc = begin(flat, log, found);
	if (rc == 0 && !flat->options.readonly) {
		*out = log;
		return 0;
	}
	if (log && log->pending.bytes)
		log_close(log);
	free(log);
	return rc;
}

int recover_guard(struct fth_flat *flat)
{
	uint64_t end = flat->options.offset + flat->size;
	struct flat_log log;
	enum log_found found;
	bool has = false;
	int rc;

	if (flat->size < LOG_SIZE_MIN || fth_dev_info(flat->dev)->block > LOG_SLOT)
		return 0;
	rc = log_find(&log, flat->dev, NULL, end - LOG_SIZE_MIN, LOG_SIZE_MIN, &found);
	if (rc < 0 || found != LOG_OURS || log.header.region_at != flat->options.offset ||
	    log.header.region_size + log.size + 2 * log.slot != flat->size)
		return 0; /* data, or an error that the first access to it will show */
	rc = recover_has_records(&log, &has);
	if (rc == 0 && has)
		rc = fth_fail(EBUSY,
			      "flat: the region ends with a log of %llu bytes that has changes not "
			      "applied yet: open the region with options.log",
			      (unsigned long long)(log.size + 2 * log.slot));
	return rc;
}
