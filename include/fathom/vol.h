/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Volumes: one or more devices seen as one space of named objects, striped or replicated.
 *
 *	const char *uris[] = {"file:/data/a", "file:/data/b"};
 *	struct fth_vol *vol;
 *	struct fth_dev *dev;
 *
 *	fth_vol_format_uris(uris, 2, NULL);
 *	fth_vol_open_uris(uris, 2, 0, &vol);
 *	fth_vol_create(vol, "edges", 1 << 30, NULL);
 *	fth_vol_object_open(vol, "edges", 0, &dev);
 *	... dev is a device like any other (fathom/dev.h) ...
 *	fth_dev_close(dev);
 *	fth_vol_close(vol);
 *
 * An open object is a device. The URI vol(URI,URI,...)?object=NAME opens one together with its
 * volume; a comma inside one of the URIs is written %2C. Its options are
 *
 *	object=NAME	which one
 *	readonly=on|off	writes fail with -EROFS; default off
 *	degraded=on|off	read-only, and devices may be missing; default off
 *	minority=on|off	the same, even if the data may be out of date (see below); default off
 *	create=SIZE	make the object if there is none: with unit=, width= and replicas=
 *	format=on|off	make the volume if none of the devices has a label; default off
 *
 * What is promised:
 *	- create, remove, rename, resize and replace are atomic: they return after they are
 *	  durable, and after a power loss at any moment each of them happened or did not.
 *	- An object made with fth_vol_object_new() appears with all its data or not at all.
 *	- Data written to an object is durable when a flush that was submitted later returned 0.
 *	- A device that fails a write or a flush of a replicated object is never again read for this
 *	  object: that is recorded in the catalog before the write or flush is acknowledged, until
 *	  fth_vol_check() with FTH_VOL_REPAIR has copied the good replica over it.
 *	- A block that can not be read from one replica is read from another, and written back;
 *	  that is decided for each block by itself.
 *	- After a crash the replicas of an object that was open for writing may differ in what was
 *	  not flushed. Its reads then all come from the same replica, so that what was read once
 *	  is read again as long as that one works, until they were made equal (fth_vol_check()
 *	  with FTH_VOL_REPAIR).
 *
 * Devices that are missing: an update of the catalog, and so the fact that a device went out of
 * date, is acknowledged when it is durable on a quorum of devices: a majority of three or more, one
 * of two. A volume with devices missing (FTH_VOL_DEGRADED) is opened if the devices that are there
 * must include one of any quorum: of three devices any two, of two devices both. A device that
 * went out of date is then recognised and not read. With fewer devices nobody can tell whether
 * the missing ones hold newer data. Such a set is refused with -ESTALE unless FTH_VOL_MINORITY allows
 * it; fth_vol_warning() then says that what is read may be old.
 *
 * Errors of an update that leave open what is on the media make the volume fail: updates and
 * writes return that error until it is opened anew; reads go on.
 *
 * Exclusion: one opener for writing, or any number for reading. It is kept by flock() on what is
 * inside file: URIs; other devices are private to a process, or exclusive, by themselves. Volumes
 * opened from devices (fth_vol_open()) leave it to the caller.
 *
 * Threads: all functions on an open volume may be called from any thread.
 */
#ifndef FATHOM_VOL_H
#define FATHOM_VOL_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_vol;

#define FTH_VOL_DEVICES_MAX 64u
#define FTH_VOL_NAME_MAX    255u /* bytes of UTF-8, without control characters */
#define FTH_VOL_UNIT_MAX    (64u << 20)
#define FTH_VOL_UUID_TEXT   37 /* bytes, with the 0 at its end */

/* ---- formatting ---- */

/* Start from FTH_VOL_FORMAT_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_vol_format_options {
	size_t size;	   /* of this struct */
	bool force;	   /* also over an existing volume */
	uint32_t block;	   /* of objects, 512 to 4096; default the largest of the devices */
	uint32_t unit;	   /* stripe unit of objects that do not say; default 64 KiB */
	uint32_t replicas; /* of objects that do not say; default 1 */
	uint64_t catalog;  /* bytes for the catalog; default 1/256 of a device, 16 KiB to 4 MiB */
	uint8_t uuid[16];  /* all zero: random */
};

#define FTH_VOL_FORMAT_OPTIONS_INIT                                       \
	{                                                                 \
		sizeof(struct fth_vol_format_options), false, 0, 0, 0, 0, \
		{                                                         \
			0                                                 \
		}                                                         \
	}

/*
 * Make a new, empty volume of n devices, 1 to FTH_VOL_DEVICES_MAX. NULL options are the defaults.
 * What was on the devices is lost. -EEXIST, and nothing written, when one of them carries a label
 * and force is not set. A power loss in between leaves no volume. Blocks.
 */
int fth_vol_format(struct fth_dev *const *devs, unsigned n,
		   const struct fth_vol_format_options *options);
int fth_vol_format_uris(const char *const *uris, unsigned n,
			const struct fth_vol_format_options *options);

/* ---- opening ---- */

#define FTH_VOL_READONLY 1u
#define FTH_VOL_DEGRADED 2u /* read-only, and devices may be missing */
#define FTH_VOL_MINORITY 6u /* as FTH_VOL_DEGRADED, and what is read may be out of date */

/*
 * Open a volume. The devices may be given in any order: their labels say which is which. They
 * stay the caller's (fth_vol_open), or belong to the volume (fth_vol_open_uris), and must not be
 * used by anybody else meanwhile. Writes nothing, except that opening for writing completes an
 * update that was cut short and is on fewer devices than a quorum. With any flag
 * fth_vol_open_uris() opens files for reading only, so permission to read them is enough.
 *
 *	-EMEDIUMTYPE	a device has no label
 *	-EBADMSG	labels or catalog are damaged beyond use
 *	-EPROTONOSUPPORT	another version of the format
 *	-ERANGE		a device is smaller than its label says
 *	-ENODEV		a device of the volume is missing
 *	-ESTALE		so many are missing that they may hold newer data
 *	-EXDEV		devices of different volumes
 *	-ENOTUNIQ	a device is there twice, or two volumes have one uuid
 *	-EBUSY		another opener (fth_vol_open_uris only)
 *
 * or the error of a device; always with a text that names the devices. Blocks.
 */
int fth_vol_open(struct fth_dev *const *devs, unsigned n, unsigned flags, struct fth_vol **out);
int fth_vol_open_uris(const char *const *uris, unsigned n, unsigned flags, struct fth_vol **out);

/* Split "URI,URI,..." at the commas outside parentheses, into one allocation to free(). */
int fth_vol_split_uris(const char *list, const char ***uris, unsigned *n);

/* Close. All its objects must be closed before. Accepts NULL. */
void fth_vol_close(struct fth_vol *vol);

struct fth_vol_info {
	uint8_t uuid[16];
	unsigned devices;
	uint32_t block, unit, replicas; /* defaults of new objects, the last two */
	uint64_t objects;
	uint64_t sequence;    /* grows with every update */
	uint64_t total, free; /* bytes for objects, on all devices; a replica counts as bytes */
	uint64_t catalog, catalog_used; /* bytes of one copy */
	uint64_t behind;		/* bit i: the catalog on device i is older */
	uint64_t missing;		/* bit i: device i is not there */
	uint32_t quorum;		/* devices that hold an update before it is acknowledged */
};

/*
 * What the user of a volume with missing devices should be told, in a sentence; "" if there is
 * nothing. It says so if the data may be out of date. Valid until the volume is closed.
 */
const char *fth_vol_warning(const struct fth_vol *vol);

void fth_vol_info(struct fth_vol *vol, struct fth_vol_info *info);
const char *fth_vol_uuid_text(const uint8_t uuid[16], char text[FTH_VOL_UUID_TEXT]);

/* Device i of the volume, in the order of the labels; NULL when it is missing. */
struct fth_dev *fth_vol_dev(struct fth_vol *vol, unsigned i);

/* ---- objects ---- */

/* Start from FTH_VOL_OBJECT_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_vol_object_options {
	size_t size;	   /* of this struct */
	uint32_t unit;	   /* consecutive bytes on one device: a power of two, from the block on */
	uint32_t replicas; /* 1 to the number of devices */
	uint32_t width;	   /* devices to stripe over; default all */
	bool zero;	   /* reads as zeroes; else, unless replicated, as anything until written */
	bool whole;	   /* fth_vol_object_new(): all of it will be written before the commit */
	bool replace;	   /* an object of that name goes, in the same instant */
};

#define FTH_VOL_OBJECT_OPTIONS_INIT                                                 \
	{                                                                           \
		sizeof(struct fth_vol_object_options), 0, 0, 0, false, false, false \
	}

struct fth_vol_object_info {
	char name[FTH_VOL_NAME_MAX + 1];
	uint64_t id;	    /* never given to another object of this volume */
	uint64_t size;	    /* bytes, as asked for */
	uint64_t allocated; /* bytes on all devices */
	uint32_t unit, replicas, width;
	uint32_t segments; /* runs of consecutive bytes, on each device */
	uint64_t stale;	   /* bit i: what device i holds of it is out of date */
	bool unsynced;	   /* replicas may differ in what was not flushed before a crash */
	bool open;
};

/*
 * Make an object of size bytes (any number; as a device it is whole blocks). -EEXIST, -ENOSPC
 * (space, or room in the catalog), -EINVAL for a bad name or shape. NULL options: the defaults.
 */
int fth_vol_create(struct fth_vol *vol, const char *name, uint64_t size,
		   const struct fth_vol_object_options *options);

/*
 * The same in two steps, for an object that is to appear with its data: *out is a device to write
 * to; fth_vol_object_commit() makes what was written durable and gives the object its name.
 * Closing it without that leaves no trace.
 */
int fth_vol_object_new(struct fth_vol *vol, const char *name, uint64_t size,
		       const struct fth_vol_object_options *options, struct fth_dev **out);
int fth_vol_object_commit(struct fth_dev *object);

/* -ENOENT, -EBUSY while it is open. */
int fth_vol_remove(struct fth_vol *vol, const char *name);
/* Also while it is open. -EEXIST unless replace, then the object called `to` goes. */
int fth_vol_rename(struct fth_vol *vol, const char *from, const char *to, bool replace);
/*
 * Make an object longer or shorter. The bytes that both sizes have keep their value. With zero, or
 * if the object has replicas, the bytes that are added read as zeroes, from the old size on; else
 * they are undefined. Blocks. -EBUSY while the object is open, -ENOENT, -ENOSPC.
 */
int fth_vol_resize(struct fth_vol *vol, const char *name, uint64_t size, bool zero);

int fth_vol_stat(struct fth_vol *vol, const char *name, struct fth_vol_object_info *info);

/*
 * Call visit for every object, in the order of their names, as they were when the call began; stop
 * when it returns something else than 0, and return that. visit may use the volume.
 */
int fth_vol_list(struct fth_vol *vol,
		 int (*visit)(const struct fth_vol_object_info *info, void *user), void *user);

/*
 * Open an object as a device, to be closed with fth_dev_close() before the volume is. Flags:
 * FTH_VOL_READONLY. May be opened several times. Opening a replicated one for writing, and closing
 * it, updates the catalog, and closing it flushes it.
 *
 * A write or flush that only some replicas took completes once the catalog says which devices are
 * out of date. The volume has a thread for that and for writing back blocks that could not be read,
 * started with the first replicated object that is opened for writing: submit and reap wait for
 * neither of the two, but the request stays in flight meanwhile. While one block is being written
 * back, which takes a read and a write, changes of the object wait in the channel.
 *
 * Requests of up to 16 pieces. A discard of a replicated object zeroes.
 */
int fth_vol_object_open(struct fth_vol *vol, const char *name, unsigned flags,
			struct fth_dev **out);

/* ---- checking ---- */

enum fth_vol_finding_kind {
	FTH_VOL_F_LABEL,   /* a copy of a label is damaged, or differs from the other */
	FTH_VOL_F_DEVICE,  /* a device is missing, foreign, twice, too small or unreadable */
	FTH_VOL_F_SLOT,	   /* a copy of the catalog is damaged, older, or of another volume */
	FTH_VOL_F_CATALOG, /* the catalog contradicts itself */
	FTH_VOL_F_NAME,	   /* a name is no name, or there twice */
	FTH_VOL_F_OBJECT,  /* size, shape or id of an object can not be */
	FTH_VOL_F_EXTENT,  /* beyond the device */
	FTH_VOL_F_OVERLAP, /* two objects share bytes */
	FTH_VOL_F_REPLICA, /* a replica is out of date, or differs */
	FTH_VOL_F_DATA,	   /* data that can not be read */
	FTH_VOL_F_KINDS
};

struct fth_vol_finding {
	enum fth_vol_finding_kind kind;
	bool harmless; /* to be expected after a power loss, and healed by the next update */
	bool repaired;
	const char *text;
};

const char *fth_vol_finding_name(enum fth_vol_finding_kind kind);

#define FTH_VOL_CHECK_DATA 1u /* read everything, compare replicas */
#define FTH_VOL_REPAIR	   2u /* mend what has one right answer */

/*
 * Look at everything: labels, catalogs, extents, names, and with FTH_VOL_CHECK_DATA the data. Tells
 * report of each finding. Works on any bytes. Returns how many findings there were that are
 * neither harmless nor repaired, or an error when it could not be finished. The volume must not be
 * open. While data is read progress is told how many bytes of objects are done. Both may be NULL,
 * and may return non-zero to stop: -ECANCELED. Writes only with FTH_VOL_REPAIR: label
 * copies and catalog slots that have a good counterpart, and replicas where the right one is
 * known: the one that is not marked stale; the first one after a crash; the majority of three or
 * more. Without it fth_vol_check_uris() opens files for reading only. Blocks.
 */
typedef int (*fth_vol_report)(const struct fth_vol_finding *finding, void *user);
typedef int (*fth_vol_progress)(uint64_t done, uint64_t total, void *user);
int fth_vol_check(struct fth_dev *const *devs, unsigned n, unsigned flags, fth_vol_report report,
		  fth_vol_progress progress, void *user);
int fth_vol_check_uris(const char *const *uris, unsigned n, unsigned flags, fth_vol_report report,
		       fth_vol_progress progress, void *user);

/* ---- statistics ---- */

enum fth_vol_counter {
	FTH_VOL_COMMITS,	 /* updates of the catalog */
	FTH_VOL_COMMIT_FAILURES, /* devices that did not take one */
	FTH_VOL_FAILOVERS,	 /* reads that another replica served */
	FTH_VOL_REPAIRS,	 /* blocks written back after that */
	FTH_VOL_REPAIR_FAILURES, /* and those that could not be */
	FTH_VOL_DEGRADED_WRITES, /* writes and flushes that some replicas did not take */
	FTH_VOL_SPLIT_REQUESTS,	 /* requests of objects that became more than one */
	FTH_VOL_COUNTERS
};

uint64_t fth_vol_counter(const struct fth_vol *vol, enum fth_vol_counter which);
const char *fth_vol_counter_name(enum fth_vol_counter which);

FTH_END_DECLS
#endif
