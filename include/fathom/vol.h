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
 *	object=NAME	the object to open; required
 *	readonly=on|off	writes fail with -EROFS; default off
 *	degraded=on|off	read-only, and devices may be missing; default off
 *	minority=on|off	the same, even if the data may be out of date (see below); default off
 *	create=SIZE	create the object if it does not exist, with unit=, width= and replicas=
 *	format=on|off	create the volume if none of the devices has a label; default off
 *
 * Guarantees:
 *	- create, remove, rename, resize and replace are atomic: they return after they are
 *	  durable, and after a power loss at any moment each of them happened or did not.
 *	- An object made with fth_vol_object_new() appears with all its data or not at all.
 *	- Data written to an object is durable when a flush that was submitted later returned 0.
 *	- A device that fails a write or a flush of a replicated object is out of date for this
 *	  object and is not read for it any more. The catalog records this before the write or flush
 *	  is acknowledged. fth_vol_check() with FTH_VOL_REPAIR copies a good replica to the device.
 *	- A block that cannot be read from one replica is read from another one and written back.
 *	  Each block is handled by itself: its neighbours are read from where they were.
 *	- After a crash the replicas of an object that was open for writing may differ in data that
 *	  was not flushed. Until fth_vol_check() with FTH_VOL_REPAIR has made them equal, each block
 *	  is read from the first replica that can give it, so that repeated reads return the same
 *	  data.
 *
 * Missing devices: an update of the catalog, which also records the devices that are out of date,
 * is acknowledged when it is durable on a quorum of devices. The quorum is a majority of three or
 * more devices, and one of two. FTH_VOL_DEGRADED opens a volume with missing devices if every
 * quorum includes one of the devices that are present: any two of three devices, both of two
 * devices. The volume then knows which of them are out of date, and does not read those. If fewer
 * devices are present, the missing ones may hold newer data, and nothing on the present ones tells.
 * Such a set is refused with -ESTALE unless FTH_VOL_MINORITY is set; fth_vol_warning() then returns
 * a text which says that the data may be out of date.
 *
 * Failed volumes: if an update fails so that the state of the media is unknown, updates and writes
 * return that error until the volume is opened again. Reads still work.
 *
 * Exclusion: fth_vol_open_uris() allows one opener for writing or any number for reading, with
 * flock() on the files inside file: URIs. Other devices are private to a process or exclusive by
 * themselves. fth_vol_open() leaves exclusion to the caller.
 *
 * Threads: all functions on an open volume are thread-safe.
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
	bool force;	   /* overwrite an existing volume */
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
 * Create an empty volume on n devices, 1 to FTH_VOL_DEVICES_MAX. NULL options are the defaults. The
 * data on the devices is lost. A power loss during the call leaves no volume. Blocks. Returns 0 or
 * a negative errno: -EEXIST, with nothing written, when a device has a label and force is not set;
 * -EINVAL for invalid options; -ENOSPC for a device that is too small; -ENOTUNIQ for a device that
 * is given twice.
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
 * Open a volume. The devices may be given in any order: their labels identify them. With
 * fth_vol_open() they stay the caller's, with fth_vol_open_uris() they belong to the volume; either
 * way nothing else may use them while the volume is open. Opening writes nothing, with one
 * exception: opening for writing completes an update that a crash left on fewer devices than a
 * quorum. With any flag fth_vol_open_uris() opens files for reading only, so permission to read is
 * enough. Blocks; each access to a device ends within FTH_DEV_TIMEOUT. Returns 0 or a negative
 * errno:
 *
 *	-EMEDIUMTYPE	a device has no label
 *	-EBADMSG	labels or catalog are damaged beyond use
 *	-EPROTONOSUPPORT	another version of the format
 *	-ERANGE		a device is smaller than its label says
 *	-ENODEV		a device of the volume is missing
 *	-ESTALE		the missing devices may hold newer data (see above)
 *	-EXDEV		devices of different volumes
 *	-ENOTUNIQ	a device is there twice, or two volumes have one uuid
 *	-EBUSY		another opener (fth_vol_open_uris only)
 *
 * or the error of a device. The error text names the devices.
 */
int fth_vol_open(struct fth_dev *const *devs, unsigned n, unsigned flags, struct fth_vol **out);
int fth_vol_open_uris(const char *const *uris, unsigned n, unsigned flags, struct fth_vol **out);

/*
 * Split "URI,URI,..." at the commas outside parentheses. The caller frees *uris, one allocation for
 * the array and its strings, with free(). Returns 0 or -ENOMEM.
 */
int fth_vol_split_uris(const char *list, const char ***uris, unsigned *n);

/* Close the volume. All its objects must be closed before. Accepts NULL. */
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
 * Return a warning about missing devices for the user, which says so if the data may be out of
 * date; "" if no device is missing. The text is valid until the volume is closed. Thread-safe.
 */
const char *fth_vol_warning(const struct fth_vol *vol);

/* Size and state of the volume; a UUID as text, which is returned. Any thread. */
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
	bool zero;	   /* fill with zeroes; unset, an object without replicas is undefined */
	bool whole;	   /* fth_vol_object_new(): the caller writes all of it before the commit */
	bool replace;	   /* remove an object of that name in the same update */
};

#define FTH_VOL_OBJECT_OPTIONS_INIT                                                 \
	{                                                                           \
		sizeof(struct fth_vol_object_options), 0, 0, 0, false, false, false \
	}

struct fth_vol_object_info {
	char name[FTH_VOL_NAME_MAX + 1];
	uint64_t id;	    /* never reused in this volume */
	uint64_t size;	    /* bytes, as requested */
	uint64_t allocated; /* bytes on all devices */
	uint32_t unit, replicas, width;
	uint32_t segments; /* runs of consecutive bytes, on each device */
	uint64_t stale;	   /* bit i: its data on device i is out of date */
	bool unsynced;	   /* replicas may differ in what was not flushed before a crash */
	bool open;
};

/*
 * Create an object of size bytes, any number; as a device its size is rounded up to blocks. NULL
 * options are the defaults. Blocks. Returns 0 or a negative errno: -EEXIST, -ENOSPC (no space, or
 * the catalog is full), -EINVAL for an invalid name or shape, -EBUSY when the object to replace is
 * open.
 */
int fth_vol_create(struct fth_vol *vol, const char *name, uint64_t size,
		   const struct fth_vol_object_options *options);

/*
 * Create an object that appears with its data. fth_vol_object_new() returns a device to write to;
 * fth_vol_object_commit() flushes it and adds the object to the catalog. Closing the device without
 * a commit discards the object. Both block, and return what fth_vol_create() does.
 */
int fth_vol_object_new(struct fth_vol *vol, const char *name, uint64_t size,
		       const struct fth_vol_object_options *options, struct fth_dev **out);
int fth_vol_object_commit(struct fth_dev *object);

/* Remove an object. Blocks. -ENOENT, or -EBUSY while it is open. */
int fth_vol_remove(struct fth_vol *vol, const char *name);
/*
 * Rename an object, which may be open. With replace an object called `to` is removed in the same
 * update. Blocks. -ENOENT; -EEXIST without replace; -EBUSY when the object to replace is open.
 */
int fth_vol_rename(struct fth_vol *vol, const char *from, const char *to, bool replace);
/*
 * Make an object longer or shorter. The bytes that both sizes have keep their value. With zero, or
 * if the object has replicas, the bytes that are added read as zeroes, from the old size on; else
 * they are undefined. Blocks. -EBUSY while the object is open, -ENOENT, -ENOSPC.
 */
int fth_vol_resize(struct fth_vol *vol, const char *name, uint64_t size, bool zero);

/* Size, layout and state of an object. Does not block on I/O. Returns 0 or -ENOENT. */
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
 * A write or flush that fails on some replicas only completes after the catalog records which
 * devices are out of date. A thread of the volume does that, and writes back blocks that could not
 * be read; it is started when the first replicated object is opened for writing. Submit and reap do
 * not wait for it: the request stays in flight. Writes to an object wait in the channel while one
 * of its blocks is written back, which takes one read and one write.
 *
 * A request may have up to 16 iovecs. Discarding a range of a replicated object fills it with
 * zeroes.
 */
int fth_vol_object_open(struct fth_vol *vol, const char *name, unsigned flags,
			struct fth_dev **out);

/* ---- checking ---- */

enum fth_vol_finding_kind {
	FTH_VOL_F_LABEL,   /* a copy of a label is damaged, or differs from the other */
	FTH_VOL_F_DEVICE,  /* a device is missing, foreign, twice, too small or unreadable */
	FTH_VOL_F_SLOT,	   /* a copy of the catalog is damaged, older, or of another volume */
	FTH_VOL_F_CATALOG, /* the catalog contradicts itself */
	FTH_VOL_F_NAME,	   /* a name is invalid or exists twice */
	FTH_VOL_F_OBJECT,  /* size, shape or id of an object is invalid */
	FTH_VOL_F_EXTENT,  /* an extent is outside the device */
	FTH_VOL_F_OVERLAP, /* two objects share bytes */
	FTH_VOL_F_REPLICA, /* a replica is out of date, or differs */
	FTH_VOL_F_DATA,	   /* data cannot be read */
	FTH_VOL_F_KINDS
};

struct fth_vol_finding {
	enum fth_vol_finding_kind kind;
	bool harmless; /* expected after a power loss, and repaired by the next update */
	bool repaired;
	const char *text;
};

/* A short name of a kind of finding. Static. */
const char *fth_vol_finding_name(enum fth_vol_finding_kind kind);

#define FTH_VOL_CHECK_DATA 1u /* read everything, compare replicas */
#define FTH_VOL_REPAIR	   2u /* repair findings that have one correct repair */

/*
 * Check labels, catalogs, extents and names, and with FTH_VOL_CHECK_DATA all data. Safe on devices
 * with any contents. The volume must not be open. Calls report for each finding, and progress with
 * the number of bytes checked while data is read; both may be NULL, and stop the check by returning
 * non-zero.
 *
 * Writes only with FTH_VOL_REPAIR: copies of labels and catalogs that have a good counterpart, and
 * each block of a replica for which the correct data is known: from a replica that is not stale;
 * after a crash from the first readable one; otherwise from the majority of three or more. Without
 * FTH_VOL_REPAIR fth_vol_check_uris() opens files for reading only. Blocks.
 *
 * Returns the number of findings that are neither harmless nor repaired, or a negative errno:
 * -ECANCELED when report or progress stopped it.
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
	FTH_VOL_REPAIRS,	 /* blocks written back after a failed read */
	FTH_VOL_REPAIR_FAILURES, /* blocks that could not be written back */
	FTH_VOL_DEGRADED_WRITES, /* writes and flushes that failed on some replicas only */
	FTH_VOL_SPLIT_REQUESTS,	 /* requests of objects that were split over devices */
	FTH_VOL_COUNTERS
};

/* The value of a counter since the volume was opened. Any thread. */
uint64_t fth_vol_counter(const struct fth_vol *vol, enum fth_vol_counter which);

FTH_END_DECLS
#endif
