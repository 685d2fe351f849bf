/* SPDX-License-Identifier: BSD-2-Clause */
/* The volume, as its source files share it. README.md says who may touch what. */
#ifndef FTH_VOL_INTERNAL_H
#define FTH_VOL_INTERNAL_H

#include "fathom/base/stats.h"
#include "fathom/vol.h"

#include "vol/catalog/catalog.h"
#include "vol/catalog/label.h"

#include <pthread.h>

struct vol_object; /* open_object.h */

struct vol_chan; /* channel.h */

struct vol_worker {
	pthread_t thread;
	bool started; /* under vol->update */
	pthread_mutex_t lock;
	pthread_cond_t wanted; /* there is work, or it is to end */
	pthread_cond_t idle;   /* a piece of work is done */
	bool stop, busy;
	struct vol_chan *chans;	      /* with requests for it, in the order they came */
	struct vol_chan *awaiting;    /* that wait for the end of a repair */
	struct vol_object *repairs;   /* objects with repairs to be tried */
	struct vol_object *repairing; /* the one it is at */
};

struct vol_member {
	struct fth_dev *dev; /* NULL: missing */
	bool owned;
	int lock_fd; /* -1: none */
	struct vol_label label;
	unsigned good_slot;	 /* holds `held`; the other one is written next */
	uint64_t held;		 /* the sequence of the newest catalog on it; 0: none */
	uint64_t held_digest;	 /* of that one */
	uint32_t flush_failures; /* atomic */
	bool hung; /* a write to it timed out and may still happen: it gets no more catalogs */
};

struct fth_vol {
	struct vol_member members[FTH_VOL_DEVICES_MAX]; /* in the order of their labels */
	unsigned count;
	struct vol_space space;
	struct vol_label defaults; /* any of the labels, for what all have in common */
	uint64_t missing;	   /* bit i: device i */
	char warning[384];	   /* of that, room for all numbers; "" if all are here */
	bool readonly;
	uint32_t failed; /* atomic: the errno of an update with unknown end, or 0 */
	struct fth_stats *stats;

	struct vol_worker worker;
	pthread_mutex_t update; /* one change of what follows at a time; held across a commit */
	pthread_mutex_t lock;	/* guards what follows; inside update; not held across I/O */
	struct vol_catalog cat;
	struct vol_object *objects; /* those that are open, committed or not */
};

/* ---- open.c ---- */

/* One without devices, for fth_vol_close(); NULL when memory is short. */
struct fth_vol *vol_new(void);

/* Put the labelled devices of one volume into vol->members and vol->space, or say why not. */
int vol_assemble(struct fth_vol *vol, struct fth_dev *const *devs, unsigned n, unsigned flags);

/* Is the newest update that was acknowledged on one of the devices that are here? */
bool vol_is_sure(const struct fth_vol *vol);

/* The volume takes over its devices and their locks. */
struct vol_opened;
void vol_own(struct fth_vol *vol, const struct vol_opened *opened);

/* ---- worker.c ---- */

void vol_worker_init(struct vol_worker *worker);
void vol_worker_release(struct vol_worker *worker);
/* Start its thread, unless it runs. Under vol->update. */
int vol_worker_start(struct vol_worker *worker);
/* Try to repair what is noted for obj. */
void vol_worker_repair(struct vol_object *obj);
/* Wait for the repairs of obj, but not for ever; then the worker does not touch it any more. */
void vol_worker_withdraw(struct vol_object *obj);
/* A repair of obj has ended: let channels know that wait for it. */
void vol_worker_repair_ended(struct vol_object *obj);

/* ---- catalog_slots.c ---- */

struct vol_slot {
	enum vol_found state;
	char why[96];
	uint64_t sequence, previous, digest, behind;
	char *buf; /* of VOL_FOUND: all of it; to be freed */
	uint64_t bytes;
};

/* Read slot 0 or 1 of member i. -ENOMEM, or 0 with a state. */
int vol_slot_read(const struct fth_vol *vol, unsigned i, unsigned slot, struct vol_slot *out);

/* Read all slots, fill in what each member holds, and take the newest as vol->cat. */
int vol_catalog_load(struct fth_vol *vol);

/* Does what member i holds lead to this catalog? */
bool vol_leads_to(const struct fth_vol *vol, unsigned i, const struct vol_catalog *cat);

/*
 * Make `next` (from vol_catalog_change()) the catalog, durably, and let go of the old list. Under
 * vol->update. On failure next is forgotten and vol->cat as before; -ENOSPC when it does not fit
 * leaves all as it was, another error leaves the volume failed.
 */
int vol_commit(struct fth_vol *vol, struct vol_catalog *next);

/* Put `add` in the place of `drop` and commit; drop is freed, or on failure add. */
int vol_replace_entry(struct fth_vol *vol, struct vol_entry *drop, struct vol_entry *add);

/* 0, or why nothing may be written: failed, or read-only. */
int vol_writable(const struct fth_vol *vol);
int vol_failed(const struct fth_vol *vol);

/* Flush one device, and remember that it failed. */
int vol_flush_member(struct fth_vol *vol, unsigned i);

/* ---- alloc.c ---- */

/* Append segments to entry until it holds `rows` rows. -ENOSPC with a text. Under vol->update. */
int vol_allocate(struct fth_vol *vol, struct vol_entry *entry, uint64_t rows);
uint64_t vol_free_bytes(struct fth_vol *vol);

/* ---- lock.c ---- */

/* Devices opened by URI, locked where they are files. Zero-initialise. */
struct vol_opened {
	struct fth_dev *devs[FTH_VOL_DEVICES_MAX];
	int locks[FTH_VOL_DEVICES_MAX]; /* -1: none */
	unsigned count;
};

/* What the devices are opened for, and whom flock() keeps out meanwhile. */
enum vol_access {
	VOL_ACCESS_WRITE, /* everybody else */
	VOL_ACCESS_CHECK, /* everybody else, but nothing is written */
	VOL_ACCESS_READ,  /* writers */
};

int vol_open_all(const char *const *uris, unsigned n, enum vol_access access,
		 struct vol_opened *out);
void vol_close_all(struct vol_opened *opened);

/* ---- objects.c ---- */

void vol_describe(const struct fth_vol *vol, const struct vol_entry *entry,
		  struct fth_vol_object_info *info);
int vol_zero_rows(struct fth_vol *vol, const struct vol_entry *entry, uint64_t from_row);
/* A new entry with its space. Under vol->update. */
int vol_make_entry(struct fth_vol *vol, const char *name, uint64_t size,
		   const struct fth_vol_object_options *options, struct vol_entry **out);

#endif
