/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open object: one struct vol_object however often it is open, one struct vol_dev (the device
 * that users see) for each opening.
 */
#ifndef FTH_VOL_OPEN_OBJECT_H
#define FTH_VOL_OPEN_OBJECT_H

#include "fathom/dev/driver.h"
#include "fathom/hd/atomic.h"

#include "vol/vol.h"

#define VOL_PIECES_MAX	16u
#define VOL_REPAIRS_MAX 64u

/* A range of the object that one replica could not give. */
struct vol_repair {
	uint64_t offset, length;
	unsigned replica;
	bool sure; /* each block of it is bad; else some are */
};

struct vol_object {
	struct vol_object *next;
	struct fth_vol *vol;
	struct vol_entry *entry; /* a copy; its segments never change while it is open */
	unsigned unit_shift;
	uint64_t *first_row;			  /* [segment] */
	uint64_t used;				  /* bit i: it has strands on device i */
	uint64_t max_piece;			  /* what every device takes in one request */
	uint32_t flush_seen[FTH_VOL_DEVICES_MAX]; /* flush failures before it was opened */

	/* Atomic, read by every request: */
	uint64_t stale;	   /* devices not to be read, nor written, for this object */
	uint32_t unsynced; /* replicas may differ: read the first good one only */
	uint32_t written;  /* since it was opened */
	uint32_t changes;  /* how many are in flight, or REPAIRING: none begins */
	uint32_t repair_count;

	/* Under vol->update: */
	unsigned opens, write_opens;
	bool replace;  /* when it gets into the catalog, what has its name goes */
	bool marked;   /* the catalog says unsynced because of us */
	bool resizing; /* not an open object: keeps others out, and space, until a resize is over */
	bool pending;  /* not in the catalog yet: its space is nobody's else; under vol->lock too */

	pthread_mutex_t repair_lock; /* guards repairs and their count */
	struct vol_repair repairs[VOL_REPAIRS_MAX];
	uint32_t repair_stop; /* atomic: leave it to others */

	/* Under the worker's lock: */
	struct vol_object *next_repair;
	bool repair_queued;
};

struct vol_dev {
	struct fth_dev dev;
	struct vol_object *obj;
	bool readonly;
	bool owns_volume; /* opened by URI: the volume goes with it */
};

/* Where a byte of the object lies. */
struct vol_place {
	unsigned column, segment;
	uint64_t row;
	uint64_t within; /* bytes from the start of the segment on a strand */
	uint64_t run;	 /* bytes that follow each other there */
};

static inline unsigned vol_find_segment(const struct vol_object *obj, uint64_t row)
{
	unsigned low = 0, high = obj->entry->segments - 1;

	while (low < high) {
		unsigned middle = high - (high - low) / 2;

		if (obj->first_row[middle] <= row)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static inline struct vol_place vol_place(const struct vol_object *obj, uint64_t offset)
{
	const struct vol_entry *e = obj->entry;
	/* A unit is a power of two. One column needs no division at all. */
	uint64_t unit = offset >> obj->unit_shift, in_unit = offset & (e->unit - 1);
	struct vol_place p = {.row = unit};

	if (e->width > 1) {
		p.row = unit / e->width;
		p.column = (unsigned)(unit - p.row * e->width);
	}

	p.segment = vol_find_segment(obj, p.row);
	p.within = (p.row - obj->first_row[p.segment]) * e->unit + in_unit;
	/* With one column, rows that follow each other lie behind each other. */
	p.run = e->width > 1 ? e->unit - in_unit : e->rows[p.segment] * e->unit - p.within;
	return p;
}

static inline unsigned vol_place_device(const struct vol_object *obj, const struct vol_place *p,
					unsigned replica)
{
	/* vol_strand_device(), for a sum below three times the number of devices */
	unsigned device = obj->entry->first + p->column + replica, count = obj->vol->count;

	while (device >= count)
		device -= count;
	return device;
}

static inline uint64_t vol_place_offset(const struct vol_object *obj, const struct vol_place *p,
					unsigned replica)
{
	const struct vol_entry *e = obj->entry;

	return e->at[(size_t)p->segment * vol_strands(e) + p->column * e->replicas + replica] +
	       p->within;
}

/* ---- open_object.c ---- */

/* The entry of an open object in the catalog. Under vol->update. */
struct vol_entry *vol_entry_of(const struct fth_vol *vol, uint64_t id);
struct vol_object *vol_object_find(const struct fth_vol *vol, uint64_t id);

/* What several openings share. Takes entry over, also when it fails. Under vol->update. */
int vol_object_new(struct fth_vol *vol, struct vol_entry *entry, bool pending,
		   struct vol_object **out);
void vol_object_drop(struct vol_object *obj);

/* fth_vol_object_open(), but for the common part of the device. */
int vol_object_dev(struct fth_vol *vol, const char *name, unsigned flags, struct vol_dev **out);

/*
 * A new object that has its space, zeroed if need be, but is not in the catalog; `out` is to be
 * dropped. Takes vol->update, and lets it go while zeroing.
 */
int vol_pending_new(struct fth_vol *vol, const char *name, uint64_t size,
		    const struct fth_vol_object_options *options, struct vol_object **out);
/* Put it into the catalog. Under vol->update. */
int vol_pending_commit(struct vol_object *obj, bool open);

/* ---- replicas.c ---- */

/* Begin a change, during which no repair starts. Returns false while a repair runs. */
bool vol_change_begin(struct vol_object *obj);
void vol_change_end(struct vol_object *obj);

/* A range that a replica could not give, for the worker. */
void vol_note_repair(struct vol_object *obj, uint64_t offset, uint64_t length, unsigned replica);
/*
 * Write back what was noted, block by block, as long as nothing that changes replicas is in
 * flight. By the worker, or when it does not touch the object.
 */
void vol_run_repairs(struct vol_object *obj);

/*
 * The devices in `failed` did not take a write or flush. 0 when the other replicas stand for it and
 * the catalog says so, else the error.
 */
int vol_devices_failed(struct vol_object *obj, uint64_t failed, int error);

/* Devices whose flush failed since the object was opened, whoever asked for it. */
uint64_t vol_lost_flushes(const struct vol_object *obj);

/* ---- channel.c ---- */

extern const struct fth_dev_ops vol_object_ops;
int vol_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out);
void vol_chan_close(struct fth_dev_chan *chan);
int vol_chan_submit(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n);
int vol_chan_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max, unsigned min,
		  uint64_t deadline);
int vol_chan_fd(struct fth_dev_chan *chan); /* channel_wait.c */
int vol_chan_prepare(struct fth_dev_chan *chan);

#endif
