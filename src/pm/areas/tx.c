/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions: areas, and checks around the lanes of fathom/detail/pm/tx.h, which has the invariants. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "fathom/base/error.h"
#include "fathom/detail/pm/tx.h"
#include "fathom/pm/tx.h"
#include "pm/pm_internal.h"

_Static_assert(sizeof(struct fth_pm_tx_header) == FTH_PM_LINE, "the header is one line");

struct fth_pm_tx {
	struct fth_pm *pm;
	struct fth_pm_tx *next; /* in pm->txs */
	uint64_t at, bytes;	/* of the area */
	uint32_t count;
	uint32_t rolled_back;
	struct fth_pm_tx_lane lanes[];
};

uint64_t fth_pm_tx_bytes(uint32_t lanes, uint64_t lane_bytes)
{
	if (lanes == 0 || lanes > FTH_PM_TX_LANES_MAX || lane_bytes < 2 * FTH_PM_LINE ||
	    lane_bytes > UINT64_C(1) << 40)
		return 0;
	lane_bytes = (lane_bytes + FTH_PM_LINE - 1) / FTH_PM_LINE * FTH_PM_LINE;
	return sizeof(struct fth_pm_tx_header) + lanes * lane_bytes;
}

static struct fth_pm_tx_header *header_at(const struct fth_pm *pm, uint64_t at)
{
	return (struct fth_pm_tx_header *)(void *)(pm->view.base + at);
}

static bool overlaps_open(const struct fth_pm *pm, uint64_t at, uint64_t bytes)
{
	for (const struct fth_pm_tx *tx = pm->txs; tx; tx = tx->next)
		if (at < tx->at + tx->bytes && tx->at < at + bytes)
			return true;
	return false;
}

/*
 * An object for the area, whose lanes are not set up yet. -EBUSY if an open one has a part of it: its transactions may be under way. Other
 * processes cannot map the memory for writing meanwhile.
 */
static int tx_new(struct fth_pm *pm, uint64_t at, uint32_t lanes, uint64_t lane_bytes,
		  struct fth_pm_tx **out)
{
	int rc = pm_process_check(pm);
	struct fth_pm_tx *tx;
	bool busy;

	if (rc < 0)
		return rc;
	tx = calloc(1, sizeof *tx + lanes * sizeof tx->lanes[0]);
	if (!tx)
		return -ENOMEM;
	tx->pm = pm;
	tx->at = at;
	tx->count = lanes;
	tx->bytes = fth_pm_tx_bytes(lanes, lane_bytes);
	pthread_mutex_lock(&pm->lock);
	busy = overlaps_open(pm, at, tx->bytes);
	if (!busy) {
		tx->next = pm->txs;
		pm->txs = tx;
	}
	pthread_mutex_unlock(&pm->lock);
	if (busy) {
		free(tx);
		return fth_fail(EBUSY, "tx: the transaction area at offset %" PRIu64 " is open",
				at);
	}
	*out = tx;
	return 0;
}

static void init_lanes(struct fth_pm_tx *tx)
{
	for (uint32_t i = 0; i < tx->count; i++)
		fth_pm_tx_lane_init(&tx->lanes[i], &tx->pm->view, tx->pm->view.base + tx->at, i);
}

/* The result of opening: the object, or nothing. */
static int tx_finish(struct fth_pm_tx *tx, int rc, struct fth_pm_tx **out)
{
	if (rc < 0)
		fth_pm_tx_close(tx);
	else
		*out = tx;
	return rc;
}

static int check_range(const struct fth_pm *pm, uint64_t at, uint64_t bytes)
{
	if (at % FTH_PM_LINE)
		return fth_fail(EINVAL, "tx: offset %" PRIu64 " is not a multiple of 64", at);
	if (at > pm->view.size || bytes > pm->view.size - at)
		return fth_fail(ERANGE,
				"tx: %" PRIu64 " bytes at offset %" PRIu64
				" exceed the memory of %" PRIu64,
				bytes, at, pm->view.size);
	return 0;
}

static int check_place(const struct fth_pm *pm, uint64_t at, uint64_t bytes)
{
	int rc;

	if (bytes == 0)
		return fth_fail(EINVAL,
				"tx: invalid size: expected 1 to %u lanes of 128 bytes to 1 TiB",
				FTH_PM_TX_LANES_MAX);
	rc = check_range(pm, at, bytes);
	if (rc == 0 && pm->readonly)
		rc = fth_fail(EROFS, "tx: the memory is mapped read-only");
	return rc;
}

/* The magic is taken away first and comes back last: a crash leaves no area, or a whole one. */
static int write_area(struct fth_pm *pm, uint64_t at, const struct fth_pm_tx_header *h)
{
	static const struct fth_pm_tx_line first = {.sequence = FTH_PM_TX_CODE};
	struct fth_pm_tx_header *to = header_at(pm, at);
	int rc;

	fth_pm_put64(&pm->view, &to->magic, PM_AREA_CREATING);
	rc = fth_pm_persist_range(&pm->view, to, sizeof to->magic);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < h->lanes; i++) {
		uint8_t *line = (uint8_t *)(to + 1) + i * h->lane_bytes;

		fth_pm_put(&pm->view, line, &first, sizeof first);
		fth_pm_flush_range(&pm->view, line, sizeof first);
	}
	fth_pm_put(&pm->view, &to->version, &h->version, sizeof *h - sizeof h->magic);
	rc = fth_pm_persist_range(&pm->view, to, sizeof *to);
	if (rc < 0)
		return rc;
	fth_pm_put64(&pm->view, &to->magic, FTH_PM_TX_MAGIC);
	return fth_pm_persist_range(&pm->view, to, sizeof to->magic);
}

static uint64_t new_salt(const struct fth_pm *pm)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return fth_mix64((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec) ^
	       fth_mix64((uintptr_t)pm);
}

int fth_pm_tx_create(struct fth_pm *pm, uint64_t at, uint32_t lanes, uint64_t lane_bytes,
		     struct fth_pm_tx **out)
{
	struct fth_pm_tx_header h = {.version = FTH_PM_TX_VERSION, .lanes = lanes};
	struct fth_pm_tx *tx;
	int rc = check_place(pm, at, fth_pm_tx_bytes(lanes, lane_bytes));

	*out = NULL;
	if (rc == 0)
		rc = tx_new(pm, at, lanes, lane_bytes, &tx);
	if (rc < 0)
		return rc;
	h.lane_bytes = (lane_bytes + FTH_PM_LINE - 1) / FTH_PM_LINE * FTH_PM_LINE;
	h.salt = new_salt(pm);
	h.check = fth_pm_tx_header_check(&h);
	rc = write_area(pm, at, &h);
	if (rc == 0)
		init_lanes(tx);
	return tx_finish(tx, rc, out);
}

static int check_header(const struct fth_pm *pm, uint64_t at)
{
	const struct fth_pm_tx_header *h;
	uint64_t bytes;

	int rc = check_range(pm, at, sizeof *h);

	if (rc < 0)
		return rc;
	h = header_at(pm, at);
	if (h->magic != FTH_PM_TX_MAGIC)
		return pm_area_missing(&pm->view, at, sizeof *h, "tx: no transaction area");
	if (h->check != fth_pm_tx_header_check(h))
		return fth_fail(EBADMSG, "tx: the header of the area is damaged");
	if (h->version != FTH_PM_TX_VERSION)
		return fth_fail(EBADMSG, "tx: the area has version %" PRIu32 ", expected %u",
				h->version, FTH_PM_TX_VERSION);
	bytes = fth_pm_tx_bytes(h->lanes, h->lane_bytes);
	if (bytes == 0 || h->lane_bytes % FTH_PM_LINE || bytes > pm->view.size - at)
		return fth_fail(EBADMSG,
				"tx: %" PRIu32 " lanes of %" PRIu64 " bytes exceed the memory",
				h->lanes, h->lane_bytes);
	return 0;
}

/* The number of lanes with an open transaction, or -EBADMSG. */
static int64_t scan_lanes(struct fth_pm *pm, uint64_t at)
{
	struct fth_pm_tx_lane lane;
	int64_t open = 0;

	for (uint32_t i = 0; i < header_at(pm, at)->lanes; i++) {
		int64_t entries;

		fth_pm_tx_lane_init(&lane, &pm->view, pm->view.base + at, i);
		entries = fth_pm_tx_lane_scan(&lane);
		if (entries < 0)
			return fth_fail(EBADMSG,
					"tx: lane %" PRIu32 " of the area at offset %" PRIu64
					" is damaged at byte %" PRIu64
					": it cannot be rolled back as a whole",
					i, at, lane.sequence ? lane.used : 0);
		open += entries > 0;
	}
	return open;
}

/* All lanes are checked before the first one is rolled back: damage leaves everything as it is. */
static int recover_lanes(struct fth_pm_tx *tx)
{
	if (scan_lanes(tx->pm, tx->at) < 0)
		return -EBADMSG;
	init_lanes(tx);
	for (uint32_t i = 0; i < tx->count; i++) {
		int64_t entries = fth_pm_tx_lane_recover(&tx->lanes[i]);

		if (entries < 0)
			return (int)entries;
		tx->rolled_back += entries > 0;
	}
	return 0;
}

int fth_pm_tx_open(struct fth_pm *pm, uint64_t at, struct fth_pm_tx **out)
{
	const struct fth_pm_tx_header *h;
	struct fth_pm_tx *tx;
	int rc = check_header(pm, at);

	*out = NULL;
	if (rc == 0 && pm->readonly)
		rc = fth_fail(EROFS, "tx: the memory is mapped read-only");
	if (rc < 0)
		return rc;
	h = header_at(pm, at);
	rc = tx_new(pm, at, h->lanes, h->lane_bytes, &tx);
	return rc < 0 ? rc : tx_finish(tx, recover_lanes(tx), out);
}

int fth_pm_tx_open_or_create(struct fth_pm *pm, uint64_t at, uint32_t lanes, uint64_t lane_bytes,
			     struct fth_pm_tx **out)
{
	int rc = fth_pm_tx_open(pm, at, out);

	if (rc == -ENOENT)
		return fth_pm_tx_create(pm, at, lanes, lane_bytes, out);
	if (rc < 0 ||
	    ((*out)->count == lanes && (*out)->bytes == fth_pm_tx_bytes(lanes, lane_bytes)))
		return rc;
	rc = fth_fail(EINVAL,
		      "tx: the area at offset %" PRIu64 " has %" PRIu32 " lanes of %" PRIu64
		      " bytes, requested are %" PRIu32 " of %" PRIu64,
		      at, (*out)->count, (*out)->lanes[0].capacity, lanes, lane_bytes);
	fth_pm_tx_close(*out);
	*out = NULL;
	return rc;
}

int64_t fth_pm_tx_check(struct fth_pm *pm, uint64_t at, uint32_t *lanes)
{
	int rc = check_header(pm, at);

	if (rc < 0)
		return rc;
	if (lanes)
		*lanes = header_at(pm, at)->lanes;
	return scan_lanes(pm, at);
}

uint64_t pm_tx_area_bytes(const struct fth_pm *pm, uint64_t at)
{
	const struct fth_pm_tx_header *h = header_at(pm, at);

	return fth_pm_tx_bytes(h->lanes, h->lane_bytes);
}

void fth_pm_tx_close(struct fth_pm_tx *tx)
{
	struct fth_pm_tx **link;

	if (!tx)
		return;
	pthread_mutex_lock(&tx->pm->lock);
	for (link = &tx->pm->txs; *link != tx;)
		link = &(*link)->next;
	*link = tx->next;
	pthread_mutex_unlock(&tx->pm->lock);
	free(tx);
}

uint32_t fth_pm_tx_lanes(const struct fth_pm_tx *tx)
{
	return tx->count;
}

uint32_t fth_pm_tx_rolled_back(const struct fth_pm_tx *tx)
{
	return tx->rolled_back;
}

static int check_lane(const struct fth_pm_tx *tx, uint32_t lane, bool open)
{
	if (lane >= tx->count)
		return fth_fail(EINVAL, "tx: lane %" PRIu32 " does not exist, there are %" PRIu32,
				lane, tx->count);
	if (open && !tx->lanes[lane].used)
		return fth_fail(EINVAL, "tx: lane %" PRIu32 " has no open transaction", lane);
	return pm_process_check(tx->pm);
}

int fth_pm_tx_begin(struct fth_pm_tx *tx, uint32_t lane)
{
	int rc = check_lane(tx, lane, false);

	if (rc < 0)
		return rc;
	rc = fth_pm_tx_lane_begin(&tx->lanes[lane]);
	return rc < 0 ? fth_fail(-rc, "tx: lane %" PRIu32 " already has an open transaction", lane)
		      : 0;
}

/* Inside the memory, and not inside the log. */
static int check_added(const struct fth_pm_tx *tx, const void *ptr, uint64_t length)
{
	const struct fth_pm_view *view = &tx->pm->view;
	uint64_t at = (uint64_t)((uintptr_t)ptr - (uintptr_t)view->base);

	if (at > view->size || length > view->size - at)
		return fth_fail(ERANGE, "tx: %" PRIu64 " bytes at %p are outside the mapped memory",
				length, ptr);
	if (at < tx->at + tx->bytes && at + length > tx->at)
		return fth_fail(ERANGE, "tx: the range overlaps the transaction log");
	return 0;
}

int fth_pm_tx_add_all(struct fth_pm_tx *tx, uint32_t lane, const struct fth_pm_range *ranges,
		      unsigned n)
{
	int rc = check_lane(tx, lane, true);

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = check_added(tx, ranges[i].ptr, ranges[i].length);
	for (unsigned i = 0; i < n && rc == 0; i++) {
		rc = fth_pm_tx_lane_log(&tx->lanes[lane], ranges[i].ptr, ranges[i].length);
		if (rc == -ENOSPC)
			return fth_fail(ENOSPC,
					"tx: lane %" PRIu32 " has %" PRIu64
					" bytes left; a range of %" PRIu64
					" bytes also needs 40 bytes of header",
					lane, tx->lanes[lane].capacity - tx->lanes[lane].used,
					ranges[i].length);
	}
	return rc < 0 ? rc : fth_pm_tx_lane_fence(&tx->lanes[lane]);
}

int fth_pm_tx_add(struct fth_pm_tx *tx, uint32_t lane, const void *ptr, uint64_t length)
{
	return fth_pm_tx_add_all(tx, lane, &(struct fth_pm_range){.ptr = ptr, .length = length}, 1);
}

int fth_pm_tx_commit(struct fth_pm_tx *tx, uint32_t lane)
{
	int rc = check_lane(tx, lane, true);

	return rc < 0 ? rc : fth_pm_tx_lane_commit(&tx->lanes[lane]);
}

int fth_pm_tx_abort(struct fth_pm_tx *tx, uint32_t lane)
{
	int rc = check_lane(tx, lane, true);

	return rc < 0 ? rc : fth_pm_tx_lane_abort(&tx->lanes[lane]);
}
