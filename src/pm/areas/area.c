/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding and verifying logs, checkpoints and transactions in persistent memory. */
#include "pm/areas/wal_internal.h"
#include "pm/pm_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/detail/pm/checkpoint.h"
#include "fathom/detail/pm/tx.h"
#include "fathom/pm/area.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define STEP 4096u

int pm_area_missing(const struct fth_pm_view *pm, uint64_t offset, uint64_t header_bytes,
		    const char *what)
{
	const uint8_t *header = pm->base + offset;
	uint64_t magic = *(const volatile uint64_t *)(const void *)header;

	if (magic == PM_AREA_CREATING || pm_all_zero(header, header_bytes))
		return fth_fail(ENOENT, "%s at offset %" PRIu64, what, offset);
	return fth_fail(EBADMSG,
			"%s at offset %" PRIu64
			", or a damaged one: the magic number is %016" PRIx64,
			what, offset, magic);
}

uint64_t pm_area_salt(void)
{
	uint64_t salt = 0;

	/* It need not be a secret: any number that other areas do not have. */
	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != (ssize_t)sizeof(salt))
		salt = fth_mix64(fth_now_ns() ^ (uint64_t)getpid() << 40);
	return salt;
}

int pm_area_put_magic(const struct fth_pm_view *pm, uint64_t offset, uint64_t magic)
{
	uint64_t *word = (uint64_t *)(void *)(pm->base + offset);

	fth_pm_put64(pm, word, magic);
	return fth_pm_persist_range(pm, word, sizeof(*word));
}

/* Each fills the area; a negative errno is its damage, or -ENOMEM. */
static int look_at_log(struct fth_pm *pm, struct fth_pm_area *area)
{
	struct fth_pm_log_info info;
	struct fth_pm_log *log;
	int rc = fth_pm_log_open(pm, area->offset, &log);

	if (rc < 0)
		return rc;
	fth_pm_log_info(log, &info);
	area->kind = info.kind == FTH_PM_LOG_HCL ? FTH_PM_AREA_HCL : FTH_PM_AREA_CONV;
	area->bytes = info.bytes;
	area->parts = info.parts;
	area->items = info.entries;
	fth_pm_log_close(log);
	return 0;
}

static int look_at_wal(struct fth_pm *pm, struct fth_pm_area *area)
{
	struct fth_pm_wal_info info;
	struct fth_pm_wal *wal;
	int rc = pm_wal_open_view(&pm->view, area->offset, false, &wal);

	if (rc < 0)
		return rc;
	fth_pm_wal_info(wal, &info);
	area->bytes = info.bytes;
	area->parts = 1;
	area->items = info.entries;
	fth_pm_wal_close(wal);
	return 0;
}

static int look_at_checkpoints(struct fth_pm *pm, struct fth_pm_area *area)
{
	struct fth_pm_checkpoint *cp;
	int rc = fth_pm_checkpoint_open(pm, area->offset, &cp);

	if (rc < 0)
		return rc;
	area->bytes = pm_checkpoint_area_bytes(cp);
	area->parts = fth_pm_checkpoint_groups(cp);
	for (uint32_t g = 0; g < area->parts && rc == 0; g++) {
		rc = fth_pm_checkpoint_verify(cp, g);
		area->items += rc >= 0;
		rc = rc == -ENODATA || rc > 0 ? 0 : rc;
	}
	fth_pm_checkpoint_close(cp);
	return rc;
}

static int look_at_transactions(struct fth_pm *pm, struct fth_pm_area *area)
{
	uint32_t logs = 0;
	int64_t open = fth_pm_tx_check(pm, area->offset, &logs);

	if (open < 0)
		return (int)open;
	area->parts = logs;
	area->items = (uint64_t)open;
	area->bytes = pm_tx_area_bytes(pm, area->offset);
	return 0;
}

static const struct {
	uint64_t magic;
	enum fth_pm_area_kind kind;
	int (*look)(struct fth_pm *pm, struct fth_pm_area *area);
} formats[] = {
	{FTH_PM_LOG_MAGIC, FTH_PM_AREA_CONV, look_at_log},
	{FTH_PM_CP_MAGIC, FTH_PM_AREA_CHECKPOINT, look_at_checkpoints},
	{FTH_PM_TX_MAGIC, FTH_PM_AREA_TX, look_at_transactions},
	{WAL_MAGIC, FTH_PM_AREA_WAL, look_at_wal},
};

/* Behind the area, or the next place to look at. */
static uint64_t next_after(const struct fth_pm_area *area)
{
	return area->offset + (area->bytes ? (area->bytes + STEP - 1) / STEP * STEP : STEP);
}

static int look_at(struct fth_pm *pm, uint64_t *offset,
		   int (*found)(const struct fth_pm_area *area, void *user), void *user)
{
	uint64_t magic = *(const volatile uint64_t *)(const void *)(pm->view.base + *offset);

	for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct fth_pm_area area = {.kind = formats[i].kind, .offset = *offset};

		if (magic != formats[i].magic)
			continue;
		area.damage = formats[i].look(pm, &area);
		if (area.damage == -ENOMEM)
			return -ENOMEM;
		area.text = area.damage ? fth_error_text(area.damage) : "";
		*offset = next_after(&area);
		return found(&area, user);
	}
	*offset += STEP;
	return 0;
}

int fth_pm_areas(struct fth_pm *pm, int (*found)(const struct fth_pm_area *area, void *user),
		 void *user)
{
	int rc = 0;

	for (uint64_t offset = 0; offset < pm->view.size && rc == 0;)
		rc = look_at(pm, &offset, found, user);
	return rc;
}

const char *fth_pm_area_kind_name(enum fth_pm_area_kind kind)
{
	static const char *const names[FTH_PM_AREA_KINDS] = {"hcl log", "log", "checkpoints",
							     "transactions", "wal"};

	return (unsigned)kind < FTH_PM_AREA_KINDS ? names[kind] : "unknown";
}
