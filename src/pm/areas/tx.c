/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions: areas, and checks around the undo logs of fathom/detail/pm/tx.h, which has the
 * invariants.
 */
#include "pm/pm_internal.h"

#include "fathom/base/error.h"
#include "fathom/detail/pm/tx.h"
#include "fathom/pm/tx.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

_Static_assert(sizeof(struct fth_pm_tx_header) == FTH_PM_LINE, "the header is one line");

struct fth_pm_tx {
	struct fth_pm *pm;
	struct fth_pm_tx *next; /* in pm->txs */
	uint64_t at, bytes;	/* of the area */
	uint32_t count;
	uint32_t rolled_back;
	struct fth_pm_undo logs[];
};

uint64_t fth_pm_tx_bytes(uint32_t logs, uint64_t log_bytes)
{
	if (logs == 0 || logs > FTH_PM_TX_LOGS_MAX || log_bytes < 2 * FTH_PM_LINE ||
	    log_bytes > UINT64_C(1) << 40)
		return 0;
	log_bytes = (log_bytes + FTH_PM_LINE - 1) / FTH_PM_LINE * FTH_PM_LINE;
	return sizeof(struct fth_pm_tx_header) + logs * log_bytes;
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
 * An object for the area, whose undo logs are not set up yet. -EBUSY if an open one has a part of
 * it: its transactions may be under way. Other processes cannot map the memory for writing
 * meanwhile.
 */
static int tx_new(struct fth_pm *pm, uint64_t at, uint32_t logs, uint64_t log_bytes,
		  struct fth_pm_tx **out)
{
	int rc = pm_process_check(pm);
	struct fth_pm_tx *tx;
	bool busy;

	if (rc < 0)
		return rc;
	tx = calloc(1, sizeof(*tx) + logs * sizeof(tx->logs[0]));
	if (!tx)
		return -ENOMEM;
	tx->pm = pm;
	tx->at = at;
	tx->count = logs;
	tx->bytes = fth_pm_tx_bytes(logs, log_bytes);
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

static void init_logs(struct fth_pm_tx *tx)
{
	for (uint32_t i = 0; i < tx->count; i++)
		fth_pm_undo_init(&tx->logs[i], &tx->pm->view, tx->pm->view.base + tx->at, i);
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
				"tx: invalid size: expected 1 to %u logs of 128 bytes to 1 TiB",
				FTH_PM_TX_LOGS_MAX);
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
	rc = fth_pm_persist_range(&pm->view, to, sizeof(to->magic));
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < h->logs; i++) {
		uint8_t *line = (uint8_t *)(to + 1) + i * h->log_bytes;

		fth_pm_put(&pm->view, line, &first, sizeof(first));
		fth_pm_flush_range(&pm->view, line, sizeof(first));
	}
	fth_pm_put(&pm->view, &to->version, &h->version, sizeof(*h) - sizeof(h->magic));
	rc = fth_pm_persist_range(&pm->view, to, sizeof(*to));
	if (rc < 0)
		return rc;
	fth_pm_put64(&pm->view, &to->magic, FTH_PM_TX_MAGIC);
	return fth_pm_persist_range(&pm->view, to, sizeof(to->magic));
}

static uint64_t new_salt(const struct fth_pm *pm)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return fth_mix64((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec) ^
	       fth_mix64((uintptr_t)pm);
}

int fth_pm_tx_create(struct fth_pm *pm, uint64_t at, uint32_t logs, uint64_t log_bytes,
		     struct fth_pm_tx **out)
{
	struct fth_pm_tx_header h = {.version = FTH_PM_TX_VERSION, .logs = logs};
	struct fth_pm_tx *tx;
	int rc = check_place(pm, at, fth_pm_tx_bytes(logs, log_bytes));

	*out = NULL;
	if (rc == 0)
		rc = tx_new(pm, at, logs, log_bytes, &tx);
	if (rc < 0)
		return rc;
	h.log_bytes = (log_bytes + FTH_PM_LINE - 1) / FTH_PM_LINE * FTH_PM_LINE;
	h.salt = new_salt(pm);
	h.check = fth_pm_tx_header_check(&h);
	rc = write_area(pm, at, &h);
	if (rc == 0)
		init_logs(tx);
	return tx_finish(tx, rc, out);
}

static int check_header(const struct fth_pm *pm, uint64_t at)
{
	const struct fth_pm_tx_header *h;
	uint64_t bytes;

	int rc = check_range(pm, at, sizeof(*h));

	if (rc < 0)
		return rc;
	h = header_at(pm, at);
	if (h->magic != FTH_PM_TX_MAGIC)
		return pm_area_missing(&pm->view, at, sizeof(*h), "tx: no transaction area");
	if (h->check != fth_pm_tx_header_check(h))
		return fth_fail(EBADMSG, "tx: the header of the area is damaged");
	if (h->version != FTH_PM_TX_VERSION)
		return fth_fail(EBADMSG, "tx: the area has version %" PRIu32 ", expected %u",
				h->version, FTH_PM_TX_VERSION);
	bytes = fth_pm_tx_bytes(h->logs, h->log_bytes);
	if (bytes == 0 || h->log_bytes % FTH_PM_LINE || bytes > pm->view.size - at)
		return fth_fail(EBADMSG,
				"tx: %" PRIu32 " logs of %" PRIu64 " bytes exceed the memory",
				h->logs, h->log_bytes);
	return 0;
}

/* The number of logs with an open transaction, or -EBADMSG. */
static int64_t scan_logs(struct fth_pm *pm, uint64_t at)
{
	struct fth_pm_undo log;
	int64_t open = 0;

	for (uint32_t i = 0; i < header_at(pm, at)->logs; i++) {
		int64_t entries;

		fth_pm_undo_init(&log, &pm->view, pm->view.base + at, i);
		entries = fth_pm_undo_scan(&log);
		if (entries < 0)
			return fth_fail(EBADMSG,
					"tx: undo log %" PRIu32 " of the area at offset %" PRIu64
					" is damaged at byte %" PRIu64
					": it cannot be rolled back as a whole",
					i, at, log.sequence ? log.used : 0);
		open += entries > 0;
	}
	return open;
}

/* All logs are checked before the first one is rolled back: damage leaves everything as it is. */
static int recover_logs(struct fth_pm_tx *tx)
{
	if (scan_logs(tx->pm, tx->at) < 0)
		return -EBADMSG;
	init_logs(tx);
	for (uint32_t i = 0; i < tx->count; i++) {
		int64_t entries = fth_pm_undo_recover(&tx->logs[i]);

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
	rc = tx_new(pm, at, h->logs, h->log_bytes, &tx);
	return rc < 0 ? rc : tx_finish(tx, recover_logs(tx), out);
}

int fth_pm_tx_open_or_create(struct fth_pm *pm, uint64_t at, uint32_t logs, uint64_t log_bytes,
			     struct fth_pm_tx **out)
{
	int rc = fth_pm_tx_open(pm, at, out);

	if (rc == -ENOENT)
		return fth_pm_tx_create(pm, at, logs, log_bytes, out);
	if (rc < 0 || ((*out)->count == logs && (*out)->bytes == fth_pm_tx_bytes(logs, log_bytes)))
		return rc;
	rc = fth_fail(EINVAL,
		      "tx: the area at offset %" PRIu64 " has %" PRIu32 " logs of %" PRIu64
		      " bytes, requested are %" PRIu32 " of %" PRIu64,
		      at, (*out)->count, (*out)->logs[0].capacity, logs, log_bytes);
	fth_pm_tx_close(*out);
	*out = NULL;
	return rc;
}

int64_t fth_pm_tx_check(struct fth_pm *pm, uint64_t at, uint32_t *logs)
{
	int rc = check_header(pm, at);

	if (rc < 0)
		return rc;
	if (logs)
		*logs = header_at(pm, at)->logs;
	return scan_logs(pm, at);
}

uint64_t pm_tx_area_bytes(const struct fth_pm *pm, uint64_t at)
{
	const struct fth_pm_tx_header *h = header_at(pm, at);

	return fth_pm_tx_bytes(h->logs, h->log_bytes);
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

uint32_t fth_pm_tx_logs(const struct fth_pm_tx *tx)
{
	return tx->count;
}

uint32_t fth_pm_tx_rolled_back(const struct fth_pm_tx *tx)
{
	return tx->rolled_back;
}

static int check_log(const struct fth_pm_tx *tx, uint32_t log, bool open)
{
	if (log >= tx->count)
		return fth_fail(EINVAL,
				"tx: undo log %" PRIu32 " does not exist, there are %" PRIu32, log,
				tx->count);
	if (open && !tx->logs[log].used)
		return fth_fail(EINVAL, "tx: undo log %" PRIu32 " has no open transaction", log);
	return pm_process_check(tx->pm);
}

int fth_pm_tx_begin(struct fth_pm_tx *tx, uint32_t log)
{
	int rc = check_log(tx, log, false);

	if (rc < 0)
		return rc;
	rc = fth_pm_undo_begin(&tx->logs[log]);
	return rc < 0 ? fth_fail(-rc, "tx: undo log %" PRIu32 " already has an open transaction",
				 log)
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
		return fth_fail(ERANGE, "tx: the range overlaps the undo logs");
	return 0;
}

int fth_pm_tx_add_all(struct fth_pm_tx *tx, uint32_t log, const struct fth_pm_range *ranges,
		      unsigned n)
{
	int rc = check_log(tx, log, true);

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = check_added(tx, ranges[i].ptr, ranges[i].length);
	for (unsigned i = 0; i < n && rc == 0; i++) {
		rc = fth_pm_undo_append(&tx->logs[log], ranges[i].ptr, ranges[i].length);
		if (rc == -ENOSPC)
			return fth_fail(ENOSPC,
					"tx: undo log %" PRIu32 " has %" PRIu64
					" bytes left; a range of %" PRIu64
					" bytes also needs 40 bytes of header",
					log, tx->logs[log].capacity - tx->logs[log].used,
					ranges[i].length);
	}
	return rc < 0 ? rc : fth_pm_undo_fence(&tx->logs[log]);
}

int fth_pm_tx_add(struct fth_pm_tx *tx, uint32_t log, const void *ptr, uint64_t length)
{
	return fth_pm_tx_add_all(tx, log, &(struct fth_pm_range){.ptr = ptr, .length = length}, 1);
}

int fth_pm_tx_commit(struct fth_pm_tx *tx, uint32_t log)
{
	int rc = check_log(tx, log, true);

	return rc < 0 ? rc : fth_pm_undo_commit(&tx->logs[log]);
}

int fth_pm_tx_abort(struct fth_pm_tx *tx, uint32_t log)
{
	int rc = check_log(tx, log, true);

	return rc < 0 ? rc : fth_pm_undo_abort(&tx->logs[log]);
}
