/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the crash device has accepted and not yet brought to the device inside: a list of
 * operations in the order of their submission, and an index from each sector to the newest of
 * them that touches it. Not thread-safe: the crash device's lock guards it. Its memory is not
 * malloc()'s, since a request may be made in a signal handler.
 */
#ifndef FTH_DEV_CRASH_LOG_H
#define FTH_DEV_CRASH_LOG_H

#include "dev/wrap/memory.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/driver.h"

#define FTH_CRASH_SECTOR 512u

struct fth_crash_record {
	struct fth_crash_record *older, *newer;
	enum fth_dev_op op; /* write, zero or discard */
	uint64_t offset, length;
	char *data; /* of a write */
	/* The caller's pointer to this record, cleared when the record goes; NULL: completed. */
	struct fth_crash_record **in_flight;
};

struct fth_crash_place {
	uint64_t sector;
	struct fth_crash_record *record; /* NULL: a free place */
};

struct fth_crash_log {
	struct fth_crash_record *oldest, *newest;
	uint64_t count;
	uint64_t bytes; /* memory taken, about */

	struct fth_crash_place *places; /* the index: open addressing, at most half full */
	uint64_t place_count;		/* a power of two, or 0 */
	uint64_t used;

	struct fth_dev_memory memory; /* of all this */
};

/* The device inside, and until when to wait for it: -ETIMEDOUT then. */
struct fth_crash_inside {
	struct fth_dev *dev;
	uint64_t deadline;
};

/* What became of the operations in a power loss. */
struct fth_crash_toll {
	uint64_t survived, vanished, torn;
};

/* Memory that a request will take. */
uint64_t fth_crash_log_cost(const struct fth_dev_req *req);

/*
 * Append an operation; its data is copied. *owner is set to the record and cleared when the
 * record goes, until fth_crash_log_complete(). 0 or -ENOMEM.
 */
int fth_crash_log_add(struct fth_crash_log *log, const struct fth_dev_req *req,
		      struct fth_crash_record **owner);
void fth_crash_log_complete(struct fth_crash_record *record);

/* The newest pending contents of a sector, or NULL when it has none. Discarded reads as zero. */
const char *fth_crash_log_find(const struct fth_crash_log *log, uint64_t sector);

/*
 * Bring operations to the device inside, oldest first, and forget them: all, or those that have
 * completed, and older ones that must not come after them. At an error the rest stays.
 */
int fth_crash_log_write_back(struct fth_crash_log *log, const struct fth_crash_inside *inside,
			     bool completed_only);
int fth_crash_log_write_back_oldest(struct fth_crash_log *log,
				    const struct fth_crash_inside *inside);
/*
 * Bring one operation to the device inside, and all older ones first if any of them touches its
 * sectors.
 */
int fth_crash_log_write_back_one(struct fth_crash_log *log, const struct fth_crash_inside *inside,
				 struct fth_crash_record *record);

/* Lose the power: bring what survives to the device inside. The log is empty after it. */
int fth_crash_log_power_loss(struct fth_crash_log *log, const struct fth_crash_inside *inside,
			     uint64_t seed, struct fth_crash_toll *toll);

void fth_crash_log_release(struct fth_crash_log *log);

#endif
